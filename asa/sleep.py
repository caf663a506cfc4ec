# SPDX-License-Identifier: GPL-2.0-only
"""Hears from logind that the machine is about to sleep, and that it woke, and has it wait until we are ready.

Reads the signal `PrepareForSleep` of org.freedesktop.login1 and holds a delay lock for it (its `Inhibit`; "Inhibitor
Locks" in systemd's documentation: logind waits for us for InhibitDelayMaxSec, 5 s, at most). What is to be done before
and after is the caller's. A sleep ends with the signal's `false`, or with the end of logind or of the connection. The
`false` may never come (systemd issue 30666, hibernation): then it ends a while after CLOCK_BOOTTIME has left
CLOCK_MONOTONIC behind, or when no sleep has been seen for long. Without logind nothing is heard: `say` gets one line,
and a suspend is then noticed by the clocks alone (`RawSample.suspended_ns`).
"""

from collections.abc import Callable
from typing import Any

from jeepney.fds import FileDescriptor

from asa.bus import Bus, CallError, Incoming, Rule
from asa.core.ports import Clock

LOGIND, PATH, MANAGER = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_SLEPT_NS = 100_000_000  # more than the two clocks are apart while nobody sleeps
_GRACE_S = 10.0  # after a jump: between a suspend and the hibernation that follows it there is one without a `false`
_LONGEST_S = 180.0  # awake since the announcement: hooks before a sleep may take a minute and a half, and it may fail
_LOCK_AGAIN_S = 600.0
_LOCK = ("sleep", "ASA", "lets go of the schedulers that stand by", "delay")  # what, who, why, mode


class SleepWatch:
    """`before` is run when the machine is about to sleep, and the lock is held until it has returned; then `after`.

    One for each connection: when that has gone, close this and make another with the next. `asleep` is true from before
    `before` until `after`. `tick` is to be called each second or so.
    """

    def __init__(
        self,
        bus: Bus,
        before: Callable[[], None],
        after: Callable[[], None],
        clock: Clock,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Begin to listen. Raises BusError."""
        self.asleep = False
        self._bus = bus
        self._before, self._after, self._say = before, after, say
        self._clock = clock
        self._since_ns = 0  # of the announcement, or of the jump after it, CLOCK_MONOTONIC
        self._suspended_ns: int | None = None  # as the sleep was announced, or at the last jump since
        self._jumped = False
        self._there = False  # logind
        self._lock_again_ns = 0
        self._lock: FileDescriptor | None = None
        self._asked: int | None = None  # serial of a call for the lock that is under way
        self._told: set[str] = set()
        self._closed = False
        bus.watch(Rule(sender=LOGIND, path=PATH, interface=MANAGER, member="PrepareForSleep"), self._prepare)
        bus.watch_name(LOGIND, self._owned)

    @property
    def locked(self) -> bool:
        """Does logind wait for us before it lets the machine sleep?"""
        return self._lock is not None

    def tick(self) -> None:
        """End a sleep whose end nobody tells, and ask again for a lock that was not given."""
        now_ns = self._clock.monotonic_ns()
        if not self.asleep:
            if self._there and self._lock is None and self._asked is None and now_ns >= self._lock_again_ns:
                self._ask()
            return
        suspended_ns = self._clock.suspended_ns()
        before_ns = self._suspended_ns
        if suspended_ns is not None and before_ns is not None and suspended_ns - before_ns > _SLEPT_NS:
            self._suspended_ns, self._since_ns, self._jumped = suspended_ns, now_ns, True
        limit_s = _GRACE_S if self._jumped else _LONGEST_S
        if now_ns - self._since_ns > int(limit_s * 1e9):
            self._woken()

    def close(self) -> None:
        """Give the lock back and listen no more. One who was told of a sleep is told of its end."""
        self._closed = True
        self._forget()
        self._wake()

    def _owned(self, owner: str) -> None:
        if self._closed:
            return
        self._forget()
        self._wake()  # the next logind knows nothing of a sleep that the last one began
        self._there = bool(owner)
        if owner:
            self._ask()
        else:
            self._say_once("no logind on the bus: nothing is done before a suspend")

    def _prepare(self, signal: Incoming) -> None:
        if self._closed or signal.signature != "b":
            return
        (sleeping,) = signal.body
        if not sleeping:
            self._woken()
            return
        self._jumped = False  # said again while asleep, the `false` between was lost: this is the next sleep
        self._since_ns, self._suspended_ns = self._clock.monotonic_ns(), self._clock.suspended_ns()
        if not self.asleep:
            self.asleep = True
            try:
                self._before()
            finally:
                self._forget()

    def _woken(self) -> None:
        self._wake()
        if self._lock is None and self._asked is None:
            self._ask()

    def _wake(self) -> None:
        if self.asleep:
            self.asleep = False
            self._after()

    def _ask(self) -> None:
        self._lock_again_ns = self._clock.monotonic_ns() + int(_LOCK_AGAIN_S * 1e9)
        self._asked = self._bus.send(LOGIND, PATH, MANAGER, "Inhibit", "ssss", _LOCK, then=self._answered)

    def _answered(self, answer: tuple[Any, ...] | CallError) -> None:
        self._asked = None
        if isinstance(answer, CallError):
            self._say_once(f"logind does not wait for us before a suspend: {answer}")
            return
        if len(answer) != 1 or not isinstance(answer[0], FileDescriptor):
            self._say_once("logind does not wait for us before a suspend: it gave no lock")
            return
        self._lock = answer[0]

    def _forget(self) -> None:
        if self._asked is not None:
            self._bus.forget(self._asked)  # a lock that still comes is closed unseen
            self._asked = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _say_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._say(line)
