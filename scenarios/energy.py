# SPDX-License-Identifier: GPL-2.0-only
"""What a measured window took of energy: by the time that each CPU was busy, and by the machine's description.

Reads stat below `proc`. A core draws its power while a thread of it is busy, the package what it draws idle all the
time. Left out: what a core draws less at a lower frequency or voltage, or more at heavy instructions; what its second
thread adds; memory, disks, graphics and screen. A stand-in's instructions are not its program's, either.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Self

import msgspec

from collectors.procfs.cpu import parse_stat

_IDLE, _IOWAIT, _STEAL = 3, 4, 7  # of a CPU's ticks: in which it does nothing of ours


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """Its CPUs by Linux numbers, and what it draws while busy, beside the package."""

    cpus: tuple[int, ...]
    busy_w: float


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Of a machine. `idle_w` is the whole package's."""

    idle_w: float
    cores: tuple[Core, ...]


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """Of a window. `busy_s` by Linux CPU number, 0 of one that is offline; the others None where no power is known."""

    busy_s: list[float]
    joules: float | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Idling:
    """What each CPU has done nothing for, in ticks, at a moment. The kernel counts it exactly, not tick by tick."""

    at_ns: int
    ticks: Mapping[int, int]

    @classmethod
    def take(cls, proc: Path = Path("/proc")) -> Self:
        """Now. Raises OSError, SourceError."""
        text = (proc / "stat").read_bytes()
        at_ns = time.monotonic_ns()
        found = {cpu: ticks[_IDLE] + ticks[_IOWAIT] + ticks[_STEAL] for cpu, ticks in parse_stat(text).cores}
        return cls(at_ns=at_ns, ticks=found)


def between(before: Idling, after: Idling, power: Power | None, user_hz: int = os.sysconf("SC_CLK_TCK")) -> Energy:
    """What was taken meanwhile."""
    elapsed_s = max((after.at_ns - before.at_ns) / 1e9, 1e-9)
    last = max((*before.ticks, *after.ticks), default=-1)
    busy_s = [0.0] * (last + 1)
    for cpu in before.ticks.keys() & after.ticks.keys():
        idle_s = (after.ticks[cpu] - before.ticks[cpu]) / user_hz
        busy_s[cpu] = round(min(max(elapsed_s - idle_s, 0.0), elapsed_s), 3)
    if power is None:
        return Energy(busy_s=busy_s)
    watts = drawn_w(busy_s, elapsed_s, power)
    return Energy(busy_s=busy_s, joules=round(watts * elapsed_s, 3), watts=round(watts, 3))


def drawn_w(busy_s: Sequence[float], elapsed_s: float, power: Power) -> float:
    """Watts of the machine, the mean of a time in which each CPU was busy for so long, by its Linux number."""
    return power.idle_w + sum(one.busy_w * _share(one.cpus, busy_s, elapsed_s) for one in power.cores)


def _share(cpus: Sequence[int], busy_s: Sequence[float], elapsed_s: float) -> float:
    """Of the time, in which a core had a busy thread, as if its threads were busy independently of each other."""
    return 1.0 - prod(1.0 - busy_s[cpu] / elapsed_s for cpu in cpus if cpu < len(busy_s))
