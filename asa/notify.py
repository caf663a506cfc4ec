# SPDX-License-Identifier: GPL-2.0-only
"""Desktop notifications (org.freedesktop.Notifications 1.2) of what a user should know at once, and of nothing else.

Told are: a scheduler that was set aside, a hold that the user has not ordered, a switch that the guard took back, a
trial that waits for their word. What is told follows from two statuses, one after the other (`tell`, pure). `Notifier`
sends it: it waits for nothing, never raises, and keeps silent where there is no bus or nobody who shows notifications.
"""

import html
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from asa.bus import Bus, BusError, CallError
from asa.core.decision import EEVDF, ExitKind, Reason, SwitchOutcome
from asa.decide.policy_news import STRANGER
from asa.status import Status, Switched

_NAME, _PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
_SIGNATURE = "susssasa{sv}i"
_ICON = "utilities-system-monitor"
_HINTS = {"urgency": ("y", 1)}  # normal
_SERVERS_CHOICE = -1  # how long it stays
_REST_S = 60.0
_MOST_CHARACTERS = 160  # of what others have said
_FAILED = frozenset({SwitchOutcome.REFUSED, SwitchOutcome.FAILED, SwitchOutcome.LOST})


class Kind(StrEnum):
    """What is told."""

    QUARANTINE = "quarantine"
    HOLD = "hold"
    REVERT = "revert"
    QUESTION = "question"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One notification, in plain text."""

    kind: Kind
    summary: str
    body: str


def tell(before: Status | None, after: Status) -> tuple[Note, ...]:
    """What has happened from one status to the next. Nothing on the first: it may be old."""
    if before is None or (before.pid, before.started_ns) != (after.pid, after.started_ns):
        return ()
    found = (_quarantine(before, after), _hold(before, after), _revert(before, after), _question(before, after))
    return tuple(note for note in found if note is not None)


def _quarantine(before: Status, after: Status) -> Note | None:
    fresh = [name for name in after.set_aside if name not in before.set_aside]
    if not fresh:
        return None
    event = next((one for one in reversed(after.lately) if one.new in fresh and one.outcome in _FAILED), None)
    if event is not None and event.ended.startswith(
        ExitKind.WITHDRAWN
    ):  # not tried: nothing that a user could do about
        return None
    said = f"{_sentence(_words(event))} " if event is not None and _words(event) else ""
    serves = f"{after.scheduler} goes on. " if after.scheduler is not None else ""
    return Note(
        kind=Kind.QUARANTINE,
        summary=f"{', '.join(fresh)} set aside",
        body=f"{said}{serves}`asa explain` says more, `asa resume` gives it another chance.",
    )


def _hold(before: Status, after: Status) -> Note | None:
    if before.mode != "switching" or after.mode != "hold" or after.held:
        return None
    until = "that ends" if after.mode_reason.endswith(STRANGER) else "`asa resume`"
    return Note(
        kind=Kind.HOLD,
        summary="ASA is on hold",
        body=f"{_sentence(after.mode_reason)} Nothing is switched until {until}.",
    )


def _revert(before: Status, after: Status) -> Note | None:
    if after.reason != Reason.REVERTED or before.reason == Reason.REVERTED:
        return None
    why = after.sentence.partition(" (medians of ")[0]  # the statistics are for `asa explain`
    return Note(
        kind=Kind.REVERT,
        summary=f"{'A scheduler' if after.scheduler == EEVDF else after.scheduler} taken back",
        body=f"{_sentence(why)} `asa explain` says more.",
    )


def _question(before: Status, after: Status) -> Note | None:
    asked, trial = before.trial, after.trial
    if trial is None or not trial.question:
        return None
    if asked is not None and asked.question and (asked.use, asked.candidate) == (trial.use, trial.candidate):
        return None
    what = f"May {trial.candidate} be tried against {trial.in_force} for {trial.use}?"
    return Note(
        kind=Kind.QUESTION,
        summary="A trial waits for your word",
        body=f"{what} They take turns of some seconds. `asa trial yes`, or `asa trial no`.",
    )


def _words(event: Switched) -> str:
    return event.detail or event.ended


def _sentence(text: str) -> str:
    """One line that begins with a capital unless a name does, and ends with a stop."""
    line = " ".join(text.split())
    line = line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
    return line if line.endswith((".", "…")) else f"{line}."


class Notifier:
    """Tells the user by `bus`; None: tells nobody. `now_s` is a clock that does not jump."""

    def __init__(self, bus: Bus | None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._bus = bus
        self._now_s = now_s
        self._told_s: dict[Kind, float] = {}
        self._asked: set[str] = set()  # bounded: uses times schedulers
        self._shown = 0  # the server's number of the last one, which the next replaces
        self._server = ""
        if bus is not None:
            with suppress(BusError):
                bus.watch_name(_NAME, self._owner)

    def news(self, before: Status | None, after: Status) -> None:
        """Tell what has happened between these two statuses; one of a kind in a minute at most."""
        now_s = self._now_s()
        for note in tell(before, after):
            if note.kind is Kind.QUESTION and note.body in self._asked:
                continue  # once is enough: `asa status` shows it
            if now_s - self._told_s.get(note.kind, float("-inf")) >= _REST_S:
                if note.kind is Kind.QUESTION:
                    self._asked.add(note.body)
                self._told_s[note.kind] = now_s
                self._send(note)

    def _send(self, note: Note) -> None:
        if self._bus is None:
            return
        body = ("ASA", self._shown, _ICON, _plain(note.summary), html.escape(_plain(note.body), quote=False))
        try:
            self._bus.send(
                _NAME, _PATH, _NAME, "Notify", _SIGNATURE, (*body, [], _HINTS, _SERVERS_CHOICE), then=self._answered
            )
        except BusError:
            self._bus = None  # it has gone, and with it who would show anything

    def _answered(self, answer: tuple[Any, ...] | CallError) -> None:
        if not isinstance(answer, CallError) and len(answer) == 1 and isinstance(answer[0], int):
            self._shown = answer[0]

    def _owner(self, unique: str) -> None:
        if unique != self._server:  # another server's numbers are other notifications
            self._server, self._shown = unique, 0


def _plain(text: str) -> str:
    # the bus takes valid UTF-8 without NUL only, and ends the connection of who sends anything else
    return text.replace("\0", "").encode("utf-8", "replace").decode()
