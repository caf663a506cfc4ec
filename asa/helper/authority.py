# SPDX-License-Identifier: GPL-2.0-only
"""Whether a caller may do something: root may, everybody else may what polkit says.

What is not a clear yes is a no, with a line that says what to do. Does not know sessions and seats: polkit's rules and
`asa.helper.seats` do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asa.bus import NO_REPLY, Bus, CallError
from asa.core.helper_api import Action
from asa.helper.callers import Callers

_NAME = "org.freedesktop.PolicyKit1"
_PATH = "/org/freedesktop/PolicyKit1/Authority"
_INTERFACE = "org.freedesktop.PolicyKit1.Authority"
_ALLOW_USER_INTERACTION = 1
_LIMIT_S = 5.0
_INTERACTIVE_LIMIT_S = 120.0  # a person looks for a password


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether it is allowed; `reason` is one line, "" when there is nothing to say."""

    allowed: bool
    reason: str


@dataclass(slots=True, kw_only=True)
class _Question:
    """One that polkit, or the bus before it, has not answered yet."""

    action: Action
    limit_s: float
    then: Callable[[Verdict], None]
    serial: int | None = None  # of the call to polkit, once it is made


class Authority:
    """polkit on `bus`, asked about connections of `callers`. The limits are for tests.

    A caller that has left gets no answer any more: its questions are taken back from polkit and forgotten.
    """

    def __init__(
        self, bus: Bus, callers: Callers, limit_s: float = _LIMIT_S, interactive_limit_s: float = _INTERACTIVE_LIMIT_S
    ) -> None:
        self._bus = bus
        self._callers = callers
        self._limits_s = (limit_s, interactive_limit_s)
        self._open: dict[str, dict[int, _Question]] = {}  # by caller and number; a caller is there until it leaves
        self._number = 0

    def __len__(self) -> int:
        """How many questions are open."""
        return sum(map(len, self._open.values()))

    def ask(self, sender: str, action: Action, *, interactive: bool, then: Callable[[Verdict], None]) -> None:
        """Tell `then` whether the connection `sender` may: at once where it is known to be root's, else later.

        `interactive`: a person may be asked for a password, which may take two minutes. Raises BusError.
        """
        if sender not in self._open:
            self._open[sender] = {}
            self._callers.on_gone(sender, lambda: self._gone(sender))
        self._number += 1
        number = self._number
        self._open[sender][number] = _Question(action=action, limit_s=self._limits_s[interactive], then=then)
        self._callers.uid_of(sender, lambda uid: self._known(sender, number, uid, interactive=interactive))

    def forget(self, sender: str) -> None:
        """Nobody wants that caller's answers any more. Raises BusError."""
        questions = self._open.get(sender, {})
        for number, question in list(questions.items()):
            del questions[number]
            if question.serial is not None:
                self._bus.forget(question.serial)
                self._cancel(number)

    def _known(self, sender: str, number: int, uid: int | None, *, interactive: bool) -> None:
        question = self._open.get(sender, {}).get(number)
        if question is None:
            return
        if uid is None:
            self._settle(sender, number, Verdict(allowed=False, reason="the bus does not say whose call this is"))
        elif uid == 0:
            self._settle(sender, number, Verdict(allowed=True, reason=""))
        else:
            subject = ("system-bus-name", {"name": ("s", sender)})
            flags = _ALLOW_USER_INTERACTION if interactive else 0
            question.serial = self._bus.send(
                _NAME, _PATH, _INTERFACE, "CheckAuthorization", "(sa{sv})sa{ss}us",
                (subject, str(question.action), {}, flags, _cancellation(number)),
                then=lambda answer: self._answered(sender, number, answer), limit_s=question.limit_s,
            )  # fmt: skip

    def _answered(self, sender: str, number: int, answer: tuple[Any, ...] | CallError) -> None:
        question = self._open.get(sender, {}).get(number)
        if question is None:
            return
        if isinstance(answer, CallError) and answer.name == NO_REPLY:
            self._cancel(number)  # no dialogue is left on a screen that nobody listens to
        self._settle(sender, number, _verdict(question, answer))

    def _settle(self, sender: str, number: int, verdict: Verdict) -> None:
        self._open[sender].pop(number).then(verdict)

    def _cancel(self, number: int) -> None:
        self._bus.send(_NAME, _PATH, _INTERFACE, "CancelCheckAuthorization", "s", (_cancellation(number),))

    def _gone(self, sender: str) -> None:
        self.forget(sender)
        self._open.pop(sender, None)


def _cancellation(number: int) -> str:
    return f"asa-{number}"  # polkit tells those of different connections apart


def _verdict(question: _Question, answer: tuple[Any, ...] | CallError) -> Verdict:
    if isinstance(answer, CallError):
        return Verdict(allowed=False, reason=_why_not(question, answer))
    match answer:
        case ((bool() as allowed, bool() as challenge, dict() as details),):
            pass
        case _:
            return Verdict(allowed=False, reason="polkit's answer cannot be read; run this as root")
    if allowed:
        return Verdict(allowed=True, reason="")
    if details.get("polkit.dismissed"):
        return Verdict(allowed=False, reason=f"{question.action}: the password dialogue was closed")
    if challenge:
        reason = f"{question.action}: needs an administrator's password; run this in your session, or as root"
        return Verdict(allowed=False, reason=reason)
    return Verdict(allowed=False, reason=f"{question.action}: polkit does not allow it to this user; run this as root")


def _why_not(question: _Question, error: CallError) -> str:
    if error.by_nobody:
        return "polkit does not run on this machine: root alone may do this"
    if error.name == NO_REPLY:
        return f"{question.action}: polkit did not answer in time, so it is not allowed; try again"
    said = " ".join(str(error).split())[:200]
    return f"{question.action}: polkit cannot say, so it is not allowed: {said}"
