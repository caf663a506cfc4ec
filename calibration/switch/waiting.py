# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers that wait behind the gate: what they cost while they wait, and the kernel's own part of a switch.

Their maps are attached by a C program that knows nothing of ours; they themselves never come to run.
"""

import select
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from asa.act.gate import Gated, Stage, launch
from asa.act.portfolio import Portfolio
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from calibration.switch.programs import Floor, struct_ops_map
from calibration.switch.samples import Parked, Swap

_EXPEDITED = Path("/sys/kernel/rcu_expedited")
_LOAD_LIMIT_S = 180.0  # emulated, on a host that others use
_END_LIMIT_S = 60.0
_SETTLE_S = 2.0  # threads that only helped to start end some time after it
_IDLE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    name: SchedulerName
    gated: Gated
    map_id: int


class Waiting:
    """Schedulers that are loaded and wait. A context manager: leaving it ends them."""

    def __init__(self, names: Sequence[SchedulerName], portfolio: Portfolio, run: Path) -> None:
        """Start and load them, one after another. Raises AsaError; then all have ended."""
        self._gated: list[Gated] = []
        try:
            self._all = [self._load(name, portfolio, run) for name in names]
        except BaseException:
            self._end()
            raise

    def cost(self) -> list[Parked]:
        """Memory, and processor time over ten seconds in which they wait."""
        time.sleep(_SETTLE_S)
        before = [_cpu_ns(one.gated.process.pid) for one in self._all]
        start_ns = time.monotonic_ns()
        time.sleep(_IDLE_S)
        found = []
        for one, spent_ns in zip(self._all, before, strict=True):
            pid = one.gated.process.pid
            assert one.gated.load is not None  # noqa: S101  # it is parked
            rss_bytes, pss_bytes = _memory(pid)
            found.append(
                Parked(
                    scheduler=one.name,
                    load_ns=one.gated.load.wall_ns,
                    rss_bytes=rss_bytes,
                    pss_bytes=pss_bytes,
                    cpu_ns=_cpu_ns(pid) - spent_ns,
                    idle_ns=time.monotonic_ns() - start_ns,
                )
            )
        return found

    def swaps(self, floor: Floor, times: int) -> list[Swap]:
        """`times` exchanges, each for the one after it and the last for the first; the first has an EEVDF to replace.

        More than one round is for schedulers whose maps can be attached again (scx_simple; not scx_p2dq, whose own
        memory is still there: "failed to create LLC cpumask"). Grace periods are expedited, as in a switch.
        """
        before = _EXPEDITED.read_text()
        _EXPEDITED.write_text("1")
        try:
            order = [self._all[number % len(self._all)] for number in range(times + 1)]
            found = [floor.swap(one.name, one.map_id) for one in order]
            floor.leave()
        finally:
            _EXPEDITED.write_text(before)
        return found[1:]  # the first one had nothing to detach

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _load(self, name: SchedulerName, portfolio: Portfolio, run: Path) -> _One:
        opened = portfolio.open(name.bare)
        gated = launch(opened, run / f"waiting-{time.monotonic_ns()}.log", run)
        self._gated.append(gated)
        deadline_s = time.monotonic() + _LOAD_LIMIT_S
        while gated.stage is Stage.LOADING:
            if not _told(gated, deadline_s) or gated.process.exit_code() is not None:
                raise AsaError(f"{name} did not load: {gated.process.last_words()!r}")
            gated.advance()
        gated.process.settle()
        return _One(name=name, gated=gated, map_id=struct_ops_map(gated.process.pid))

    def _end(self) -> None:
        for gated in self._gated:
            gated.deny()
            if gated.load is None:
                gated.process.interrupt()
        for gated in self._gated:
            if not _ended(gated):
                gated.process.kill()
                gated.process.wait(_END_LIMIT_S)
            gated.close()
            gated.process.forget()


def _ended(gated: Gated) -> bool:
    """Wait for the end of a process that tries its attach again and again, and is denied it each time."""
    deadline_s = time.monotonic() + _END_LIMIT_S
    while gated.process.exit_code() is None:
        if not _told(gated, deadline_s):
            return False
        gated.advance()
    return True


def _told(gated: Gated, deadline_s: float) -> bool:
    """Wait until there is something to answer, or it has ended. False at the deadline."""
    descriptors = [one for one in (gated.fileno(), gated.process.fileno()) if one >= 0]
    return bool(select.select(descriptors, [], [], max(0.0, deadline_s - time.monotonic()))[0])


def _cpu_ns(pid: int) -> int:
    """Processor time of all its threads, also of those that have ended (clock_getcpuclockid(3), which is this)."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # CPUCLOCK_SCHED of a process


def _memory(pid: int) -> tuple[int, int]:
    """Resident, and proportional share of it, in bytes (proc_pid_smaps_rollup)."""
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    sizes = {words[0]: int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}
    return sizes["Rss:"], sizes["Pss:"]
