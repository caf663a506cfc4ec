# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers that failed: out for a while, then for longer, and off after too many failures. Pure.

It reads what became of switches and keeps the memory of one run; that one is off is for the caller to keep for longer
(`asa.decide.penalties`). It does not know the table, and it does not choose what serves instead.
"""

from dataclasses import dataclass, replace

from asa.core.decision import EEVDF, ExitKind, SchedulerName, SwitchEvent, SwitchOutcome

LONGEST_S = 3600.0
"""The longest that one is out. A first choice."""
FAILURES = 3
"""After so many within `WITHIN_S` it is off, until `asa resume` or a new version of its file. A first choice."""
WITHIN_S = 3600.0
_CALM_NS = 24 * 3600 * 10**9  # a day without a failure: the next one is a first one again
_BLAMELESS = frozenset({ExitKind.UNREGISTERED, ExitKind.HOTPLUG})
_BAD = frozenset({SwitchOutcome.FAILED, SwitchOutcome.LOST, SwitchOutcome.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Out:
    """One scheduler that failed. Times are CLOCK_MONOTONIC in ns."""

    scheduler: SchedulerName
    failed_ns: tuple[int, ...] = ()  # the latest failures
    excused_ns: tuple[int, ...] = ()  # ends it is not blamed for
    untried_ns: tuple[int, ...] = ()  # orders that the helper did not take
    level: int = 0  # failures without a calm day between them
    until_ns: int = 0
    why: str = ""  # of the last failure, one line

    @property
    def words(self) -> str:
        """Why it is out, for people."""
        if self.untried_ns and self.untried_ns[-1] > max(self.failed_ns, default=-1):
            return f"not started: {self.why}"
        times = "once" if self.level == 1 else f"{self.level} times"
        return f"failed {times}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """All that failed in this run."""

    outs: tuple[Out, ...] = ()

    def out(self, now_ns: int) -> frozenset[SchedulerName]:
        """Who may not be started now."""
        return frozenset(one.scheduler for one in self.outs if now_ns < one.until_ns) if self.outs else frozenset()


def take_note(quarantine: Quarantine, event: SwitchEvent, backoff_s: float) -> tuple[Quarantine, SchedulerName | None]:
    """Judge one event. The second value is a scheduler that is off from now on, whose record then begins anew.

    One that let go in order is not blamed, until it has done so as often as it may fail: whoever ends it again and
    again does not want it. Nor is one that the helper did not try to start (not approved any more, say): it is asked
    for again later and later, and never off.
    """
    name = event.new
    refused = event.outcome is SwitchOutcome.REFUSED
    if event.outcome not in _BAD or name == EEVDF or (event.withdrawn and not refused):
        return quarantine, None
    now_ns, within_ns = event.monotonic_ns, int(WITHIN_S * 1e9)
    known = next((one for one in quarantine.outs if one.scheduler == name), Out(scheduler=name))
    others = tuple(one for one in quarantine.outs if one.scheduler != name)
    why = event.exit.reason if event.exit is not None else event.detail
    if event.withdrawn:
        untried = _lately(known.untried_ns, now_ns, within_ns)
        out = replace(known, untried_ns=untried, until_ns=_until_ns(now_ns, len(untried), backoff_s), why=why)
        return Quarantine(outs=(*others, out)), None
    if event.outcome is SwitchOutcome.LOST and event.exit is not None and event.exit.kind in _BLAMELESS:
        excused = _lately(known.excused_ns, now_ns, within_ns)
        if len(excused) <= FAILURES:
            return Quarantine(outs=(*others, replace(known, excused_ns=excused))), None
    failed = _lately(known.failed_ns, now_ns, within_ns)
    if len(failed) >= FAILURES:
        return Quarantine(outs=others), name
    calm = bool(known.failed_ns) and now_ns - known.failed_ns[-1] >= _CALM_NS
    level = 1 if calm else known.level + 1
    out = replace(
        known,
        failed_ns=(*known.failed_ns, now_ns)[-FAILURES:],
        level=level,
        until_ns=_until_ns(now_ns, level, backoff_s),
        why=why,
    )
    return Quarantine(outs=(*others, out)), None


def lift(quarantine: Quarantine, scheduler: SchedulerName | None = None) -> Quarantine:
    """Forget what failed: everything, or one scheduler; named without a mode, all its modes."""
    if scheduler is None:
        return Quarantine()
    return Quarantine(outs=tuple(one for one in quarantine.outs if not one.scheduler.answers_to(scheduler)))


def _until_ns(now_ns: int, level: int, backoff_s: float) -> int:
    return now_ns + int(min(LONGEST_S, backoff_s * 2.0 ** min(level - 1, 32)) * 1e9)


def _lately(times_ns: tuple[int, ...], now_ns: int, within_ns: int) -> tuple[int, ...]:
    return (*(at_ns for at_ns in times_ns if now_ns - at_ns < within_ns), now_ns)
