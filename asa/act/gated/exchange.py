# SPDX-License-Identifier: GPL-2.0-only
"""The exchange's parts: an order and its event, the steps and their times, taking out the scheduler in force."""

from collections.abc import Callable
from contextlib import suppress

from asa.act.gate import Gated, links
from asa.act.undo import UndoJournal
from asa.core.decision import EEVDF, LoadCost, SchedulerExit, SchedulerName, SwitchEvent, SwitchOutcome, SwitchStep, Way
from asa.core.errors import AsaError
from asa.core.ports import Clock

# Looks take time from the exchange. After the kernel's word `enable_seq` follows at once, and not before.
_LOOK_S, _HEARD_LOOK_S, _UNHEARD_LOOK_S = 0.002, 0.0005, 0.02
_LONGEST_GAP_NS = 100_000_000


class Steps:
    """The steps of one switch and their times; `on_step` hears of each when it is done."""

    def __init__(self, clock: Clock, on_step: Callable[[str], None]) -> None:
        self._clock = clock
        self._on_step = on_step
        self.ordered_ns = clock.monotonic_ns()
        self._done: list[SwitchStep] = []

    def done(self, name: str) -> None:
        """`name` is done."""
        self._done.append(SwitchStep(name=name, at_ns=self._clock.monotonic_ns() - self.ordered_ns))
        self._on_step(name)

    def all(self) -> tuple[SwitchStep, ...]:
        """In the order in which they were done."""
        return tuple(self._done)

    def age_s(self) -> float:
        """Since the order."""
        return (self._clock.monotonic_ns() - self.ordered_ns) / 1e9


class Order:
    """One switch, from `begin` to its event."""

    def __init__(self, target: SchedulerName, old: SchedulerName, why: str, steps: Steps) -> None:
        self.target = target
        self.old = old
        self.why = why
        self.steps = steps
        self.way = Way.GATED
        self.load: LoadCost | None = None
        self.sequence = 0
        self.out_ns: int | None = None  # when the old one was about to be taken out
        self.released_ns: int | None = None
        self.missed_ns: int | None = None  # when the new one was found not to wait at its attach, though it had
        self.tries = 0

    def attaches(self, now_ns: int) -> bool:
        """It was released just now: nothing else is looked after."""
        return self.released_ns is not None and now_ns - self.released_ns < _LONGEST_GAP_NS

    def look_in_s(self, stirred_ns: int, *, hears: bool) -> float:
        """When to look at sysfs again, once the old one is out; `stirred_ns`: the kernel's last word on schedulers."""
        if self.released_ns is None or not hears:
            return _LOOK_S
        return _HEARD_LOOK_S if stirred_ns > self.released_ns else _UNHEARD_LOOK_S

    def event(
        self, outcome: SwitchOutcome, detail: str, *, now_ns: int, undo: str, left: SchedulerExit | None
    ) -> SwitchEvent:
        """What became of it."""
        return SwitchEvent(
            monotonic_ns=now_ns,
            outcome=outcome,
            old=self.old,
            new=self.target,
            elapsed_ns=now_ns - self.steps.ordered_ns,
            detail=detail,
            undo=undo,
            why=self.why,
            way=self.way,
            gap_ns=None if self.out_ns is None or self.target == EEVDF else now_ns - self.out_ns,
            steps=self.steps.all(),
            exit=left,
            load=self.load,
        )


def notice(
    outcome: SwitchOutcome,
    old: SchedulerName,
    new: SchedulerName,
    detail: str,
    *,
    clock: Clock,
    since_ns: int | None = None,
    left: SchedulerExit | None = None,
) -> SwitchEvent:
    """The event for what nobody ordered."""
    now_ns = clock.monotonic_ns()
    return SwitchEvent(
        monotonic_ns=now_ns,
        outcome=outcome,
        old=old,
        new=new,
        elapsed_ns=0 if since_ns is None else now_ns - since_ns,
        detail=detail,
        undo="nothing to undo",
        way=Way.GATED,
        exit=left,
    )


def expedite(undo: UndoJournal) -> None:
    """Make RCU grace periods short: most of an exchange is the kernel waiting for them."""
    with suppress(AsaError):  # it cannot be noted, so it is not done: the switch takes longer
        undo.expedite()


def take_out(gated: Gated, link: int | None) -> bool:
    """Detach the scheduler of a process that is ours, and let it attach no more.

    True: the kernel's own is back. False: it has to be asked to end, because it is about to load itself anew, or the
    kernel cannot detach it (before 6.10). `link` is its link as last known: one that loaded itself anew has another.
    """
    gated.deny()
    if link is not None and _detached(link):
        return True
    other = links.struct_ops_link(gated.process.pid)
    return other is not None and other != link and _detached(other)


def _detached(link: int) -> bool:
    try:
        links.detach(link)
    except OSError:
        return False
    return True
