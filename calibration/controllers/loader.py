# SPDX-License-Identifier: GPL-2.0-only
"""The rule of `scx_loader --auto`, to compare the agent with: scx_lavd while a processor has been busy for long.

Written anew after `monitor_cpu_util` of crates/scx_loader/src/main.rs in sched-ext/scx-loader (commit d8fbceed60db):
once a second, any CPU above 90 % for more than 5 s starts scx_lavd without arguments; all of them below for more than
30 s ends it. A short rise does not begin these 30 s anew, and a scx_lavd that could not be started, or has died, is not
started again while it is wanted. It differs in how it acts alone: the start is read back from sysfs, the end is SIGINT,
not SIGKILL, and for its first start scx_lavd waits loaded from the beginning, since its load takes an emulated guest
longer than a trial. That favours the rule.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from asa.act.forcing import Check
from asa.core.decision import EEVDF, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, SchedulerError
from asa.core.ports import Switcher
from asa.core.sample import CpuTicks
from calibration.controllers.course import Course
from collectors.procfs.cpu import parse_stat

LAVD = SchedulerName("scx_lavd")

_HIGH_PCT = 90.0
_HIGH_FOR_S = 5.0
_LOW_FOR_S = 30.0
_LOOK_S = 1.0
_LOAD_LIMIT_S = 300.0  # vm120 took 93 s: by calibration/results/fleet/seed-2, `took_s` of loader-auto less eevdf's
_BUSY_LOOK_S = 0.02
_IDLE, _IOWAIT = 3, 4  # places in CpuTicks


class Rule:
    """When scx_lavd is wanted."""

    def __init__(self) -> None:
        self._above_since_s: float | None = None
        self._below_since_s: float | None = None
        self._wanted = False

    def step(self, now_s: float, busiest_pct: float) -> bool:
        """A look at the busiest CPU. `now_s` is of a clock that only goes on."""
        if busiest_pct > _HIGH_PCT:
            if self._above_since_s is None:
                self._above_since_s = now_s
            if now_s - self._above_since_s > _HIGH_FOR_S:
                self._wanted, self._below_since_s = True, None
            return self._wanted
        self._above_since_s = None
        if self._below_since_s is None:
            self._below_since_s = now_s
        if now_s - self._below_since_s > _LOW_FOR_S:
            self._wanted = False
        return self._wanted


class Busiest:
    """How busy the busiest CPU was since the last look, in per cent."""

    def __init__(self, proc: Path) -> None:
        self._stat = proc / "stat"
        self._before = self._read()

    def __call__(self) -> float:
        """0.0 where nothing has passed. Raises OSError, SourceError."""
        now, before = self._read(), self._before
        self._before = now
        return max((_busy_pct(before[cpu], now[cpu]) for cpu in now if cpu in before), default=0.0)

    def _read(self) -> dict[int, CpuTicks]:
        return dict(parse_stat(self._stat.read_bytes()).cores)


@contextmanager
def running(switcher: Switcher, proc: Path, course: Course) -> Iterator[Check]:
    """The rule at work, in a thread of its own: what is measured meanwhile may keep the caller. First scx_lavd loads.

    Raises SchedulerError when that fails, OSError and SourceError when /proc cannot be read. The check raises AsaError
    when the rule cannot go on. Afterwards nothing is loaded, and the kernel's own scheduler is in force; raises
    SchedulerError when it is not.
    """
    monitor = _Monitor(switcher, Busiest(proc), course)
    try:
        _load(switcher)
        thread = threading.Thread(target=monitor.run, name=LAVD)
        thread.start()
        try:
            yield monitor.check
        finally:
            monitor.stop.set()
            thread.join()
    finally:
        left = not switcher.rest()
    if left:
        raise SchedulerError(scheduler=LAVD, reason="does not let go of the kernel")


def _load(switcher: Switcher) -> None:
    end_s = time.monotonic() + _LOAD_LIMIT_S
    switcher.keep_ready((LAVD,))
    while not any(standby.ready for standby in switcher.standbys()):
        event = switcher.poll()
        if event is not None or not switcher.standbys():
            raise SchedulerError(scheduler=LAVD, reason=event.detail if event is not None else "cannot wait, loaded")
        if time.monotonic() > end_s:
            raise SchedulerError(scheduler=LAVD, reason=f"was not loaded within {_LOAD_LIMIT_S:.0f} s")
        time.sleep(_BUSY_LOOK_S)


class _Monitor:
    """The loop. What it has in force ends with it."""

    def __init__(self, switcher: Switcher, busiest: Callable[[], float], course: Course) -> None:
        self.stop = threading.Event()
        self._switcher = switcher
        self._busiest = busiest
        self._course = course
        self._trouble: Exception | None = None

    def check(self) -> None:
        if self._trouble is not None:
            raise AsaError(f"the rule of scx_loader ended: {self._trouble}") from self._trouble

    def run(self) -> None:
        try:
            self._follow()
        except (AsaError, OSError) as error:
            self._trouble = error
        finally:
            self._switcher.rest()  # at once, also when the trial goes on: it fails by the check

    def _follow(self) -> None:
        rule, ordered, due_s = Rule(), EEVDF, time.monotonic()
        while not self.stop.wait(_BUSY_LOOK_S if self._switcher.busy() else max(0.0, due_s - time.monotonic())):
            event = self._switcher.poll()
            if event is not None:
                self._heard(event)
            now_s = time.monotonic()
            if now_s < due_s:
                continue
            due_s = now_s + _LOOK_S
            wanted = LAVD if rule.step(now_s, self._busiest()) else EEVDF
            if wanted != ordered and not self._switcher.busy():
                ordered = wanted
                self._switcher.begin(wanted, "the rule of scx_loader --auto")

    def _heard(self, event: SwitchEvent) -> None:
        confirmed = event.outcome is SwitchOutcome.CONFIRMED
        self._course.held.append((event.monotonic_ns, event.new if confirmed else EEVDF))
        if not confirmed:
            self._course.facts["trouble"] = event.detail


def _busy_pct(before: CpuTicks, now: CpuTicks) -> float:
    passed = [max(0, later - earlier) for earlier, later in zip(before, now, strict=True)]
    total = sum(passed)
    return 100.0 * (total - passed[_IDLE] - passed[_IOWAIT]) / total if total else 0.0
