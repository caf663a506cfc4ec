# SPDX-License-Identifier: GPL-2.0-only
"""How soon a change that somebody else makes is seen: by the kernel's event, and by looking at sysfs each 50 ms.

Starts scx_simple by hand, has the kernel evict it (SysRq-S) or kills it, and measures until each way shows it, and what
waiting costs either way. Needs root and sched_ext with nothing attached: run it in the lab,
`asa lab run --clock parallel -- python -P -m calibration.switch.external_change 20`.
"""

import json
import os
import re
import select
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import cycle
from pathlib import Path
from statistics import median

from asa import paths
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.priority import go_first
from asa.act.process import SchedulerProcess
from asa.act.watch import KernelWatch
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError

POLL_S = 0.05
_SCHEDULER = SchedulerName("scx_simple")
_OPS = "simple"
_LIMIT_S = 60.0  # emulated, on a shared host
_COST_S = 5.0
_phases = cycle([number * 0.618 % 1 for number in range(100)])  # spread evenly, however many are taken
_ENABLED = re.compile(rb'^\d+,\d+,(\d+),[^;]*;sched_ext: BPF scheduler "simple" enabled')


class Change(StrEnum):
    """What was done to the kernel."""

    ATTACHED = "attached"  # from the kernel's own line about it; sysfs may show it a little before
    EVICTED = "evicted"  # SysRq-S
    KILLED = "killed"  # SIGKILL to its process


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One change, and how long after it each way showed it, in ms."""

    change: Change
    event_ms: float  # the uevent had come and its reader had been woken
    poll_ms: float  # a look at sysfs, one each 50 ms, saw the other state


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Processor time of this process for an hour of waiting, in s: looks at sysfs, or for the event."""

    poll_s: float
    event_s: float


def measure(runs: int, *, portfolio: Portfolio | None = None, sys_root: Path = Path("/sys")) -> list[Seen]:
    """Four changes a run: attached, evicted, attached, killed. Raises AsaError where this cannot be measured."""
    watch = KernelWatch()
    if watch.lacking:
        raise AsaError(f"the time to see a change cannot be measured: {watch.lacking}")
    portfolio = portfolio or _portfolio()
    if _attached(sys_root):
        raise AsaError("the time to see a change cannot be measured: a scheduler is attached")
    seen = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(runs):
                for change in (Change.EVICTED, Change.KILLED):
                    log = _LogClock()
                    process = SchedulerProcess(portfolio.open(_SCHEDULER), Path(folder) / "log")
                    try:
                        seen.append(_attach(watch, log, sys_root))
                        seen.append(_end(change, process, watch, sys_root))
                    finally:
                        process.kill()
                        process.wait(_LIMIT_S)
                        process.forget()
                        log.close()
                    _settle(sys_root)
                    watch.drain()
    finally:
        watch.close()
    return seen


def cost(sys_root: Path = Path("/sys")) -> Cost:
    """What it costs to wait while nothing happens."""
    watch = KernelWatch()
    listener = watch.fileno()
    if listener is None:
        raise AsaError(f"the cost of waiting cannot be measured: {watch.lacking}")
    try:
        before_s, start_s = time.process_time(), time.monotonic()
        while time.monotonic() - start_s < _COST_S:
            sched_ext_state(sys_root)
            select.select([listener], [], [], POLL_S)
        between_s = time.process_time()
        select.select([listener], [], [], _COST_S)
        after_s = time.process_time()
    finally:
        watch.close()
    hours = _COST_S / 3600
    return Cost(poll_s=(between_s - before_s) / hours, event_s=(after_s - between_s) / hours)


class _LogClock:
    """The kernel's log, read for when it said something, in CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/dev/kmsg", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise AsaError(f"the time to see a change cannot be measured: /dev/kmsg: {error.strerror}") from error
        os.lseek(self._fd, 0, os.SEEK_END)
        mark = f"asa: marks the time {time.monotonic_ns()}"
        before_ns = time.monotonic_ns()
        os.write(self._fd, f"<15>{mark}\n".encode())
        after_ns = time.monotonic_ns()
        stamp_us = self._find(re.compile(rb"^\d+,\d+,(\d+),[^;]*;" + mark.encode()))
        self._offset_ns = (before_ns + after_ns) // 2 - stamp_us * 1000

    def attached_ns(self) -> int:
        """When the scheduler was attached; the line must be there already."""
        return self._find(_ENABLED) * 1000 + self._offset_ns

    def close(self) -> None:
        os.close(self._fd)

    def _find(self, pattern: re.Pattern[bytes]) -> int:
        while True:
            try:
                found = pattern.match(os.read(self._fd, 16384))
            except OSError as error:  # EAGAIN at its end
                reason = f"the kernel's log does not say when the scheduler was attached: {error.strerror}"
                raise AsaError(reason) from error
            if found:
                return int(found[1])


def _attach(watch: KernelWatch, log: _LogClock, sys_root: Path) -> Seen:
    event_ns, poll_ns = _wait(watch, lambda: _attached(sys_root) == _OPS)
    since_ns = log.attached_ns()
    return Seen(change=Change.ATTACHED, event_ms=(event_ns - since_ns) / 1e6, poll_ms=(poll_ns - since_ns) / 1e6)


def _end(change: Change, process: SchedulerProcess, watch: KernelWatch, sys_root: Path) -> Seen:
    select.select([], [], [], 2 * POLL_S)  # the last change is over
    watch.drain()
    since_ns = time.monotonic_ns()
    if change is Change.EVICTED:
        Path("/proc/sysrq-trigger").write_text("S")
    else:
        process.kill()
    event_ns, poll_ns = _wait(watch, lambda: _attached(sys_root) == "")
    return Seen(change=change, event_ms=(event_ns - since_ns) / 1e6, poll_ms=(poll_ns - since_ns) / 1e6)


def _wait(watch: KernelWatch, changed: Callable[[], bool]) -> tuple[int, int]:
    """When the event came, and when sysfs was seen to have changed; the looks begin at another phase each time."""
    event_ns = poll_ns = 0
    start_s = time.monotonic()
    look_s = start_s + next(_phases) * POLL_S
    listener = watch.fileno()
    while not (event_ns and poll_ns):
        select.select([] if event_ns or listener is None else [listener], [], [], max(0.0, look_s - time.monotonic()))
        if not event_ns and watch.drain():
            event_ns = time.monotonic_ns()
        if time.monotonic() >= look_s:
            look_s += POLL_S
            if not poll_ns and changed():
                poll_ns = time.monotonic_ns()
        if time.monotonic() - start_s > _LIMIT_S:
            raise AsaError(f"a change was not seen within {_LIMIT_S:g} s")
    return event_ns, poll_ns


def _settle(sys_root: Path) -> None:
    end_s = time.monotonic() + _LIMIT_S
    while (state := sched_ext_state(sys_root)) is None or state.state != "disabled":
        if time.monotonic() > end_s:
            raise AsaError(f"sched_ext stays {state.state if state else 'away'!r}")
        select.select([], [], [], 0.02)


def _attached(sys_root: Path) -> str:
    state = sched_ext_state(sys_root)
    return state.ops if state is not None and state.state == "enabled" else ""


def _portfolio() -> Portfolio:
    places = paths.default()
    return Portfolio.load(paths.manifest(), places.schedulers, owners=[places.cache.stat().st_uid])


def main(words: list[str]) -> int:
    """Print each change as a JSON line, then a summary. Exit code 1 with one line on stderr where it cannot be done."""
    go_first()  # as the agent does
    try:
        seen = measure(int(words[0]) if words else 10)
        spent = cost()
    except AsaError as error:
        print(error, file=sys.stderr)
        return 1
    for one in seen:
        print(json.dumps(asdict(one)))
    for change in Change:
        of = [one for one in seen if one.change is change]
        for way, values in (("event", [one.event_ms for one in of]), ("poll", [one.poll_ms for one in of])):
            print(json.dumps({"change": change, "way": way, "median_ms": median(values), "worst_ms": max(values)}))
    print(json.dumps(asdict(spent)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
