# SPDX-License-Identifier: GPL-2.0-only
"""Rates of the busiest processes: how CPU time is spread over them, and over kinds of them.

A process is the same in both samples by its number and its start. One that is in the newer sample only counts from its
start if that was after the older sample; one found late, whose use until then is unknown, does not count.
"""

from bisect import bisect_left
from operator import attrgetter
from typing import NamedTuple

from asa.core.sample import BusiestProcesses, ProcessUsage, RawSample
from collectors.rates.arithmetic import Fields

BUSY_PROCESS_CORES = 0.05
"""A process is busy from this part of one core on: above what a player of music or a panel takes."""

HOT_PROCESS_CORES = 0.5
"""And hot from this on: it would fill a core, were it not kept waiting."""

SEEN_CORES = 0.01
"""What kind a process is, is told from here on: a clock tick in a second."""

USER_HZ = 100
"""On every architecture we build for."""

TICK_NS = 1_000_000_000 // USER_HZ
_CPU_SKEW = 1.5  # each process's counters are read some time after the clock; beyond this it is no skew but wrong

_MIB = 1 << 20
_TOPS = ("process_top1_cpu_share", "process_top2_cpu_share", "process_top3_cpu_share")
# greatest values of all kinds but the last one, and the field of each
_THREADS = (
    (1, 4, 16),
    (
        "process_cpu_threads_1_share",
        "process_cpu_threads_2_to_4_share",
        "process_cpu_threads_5_to_16_share",
        "process_cpu_threads_more_share",
    ),
)
_RESIDENT = (
    (16 * _MIB, 64 * _MIB, 256 * _MIB, 1024 * _MIB),
    (
        "process_cpu_resident_to_16mib_share",
        "process_cpu_resident_to_64mib_share",
        "process_cpu_resident_to_256mib_share",
        "process_cpu_resident_to_1gib_share",
        "process_cpu_resident_larger_share",
    ),
)
_AGE = (
    (2 * USER_HZ, 30 * USER_HZ),
    ("process_cpu_age_to_2s_share", "process_cpu_age_to_30s_share", "process_cpu_age_older_share"),
)


class Use(NamedTuple):
    """What a process did between the samples, and what it is in the newer one."""

    ticks: int  # USER_HZ, as the next one
    system_ticks: int
    faults: int
    now: ProcessUsage


def used(previous: RawSample, current: RawSample, elapsed_s: float) -> list[Use] | None:
    """Of each process whose use is known and not nothing, the busiest first; None where nothing is known."""
    if previous.busiest is None or current.busiest is None or current.cpu is None or not current.cpu.cores:
        return None
    most_ticks = _CPU_SKEW * len(current.cpu.cores) * elapsed_s * USER_HZ
    uses, known = _uses(previous.busiest, current.busiest, boot_ticks(previous), most_ticks)
    if not known and current.busiest.processes:
        return None  # all of them were found just now
    return sorted(uses, key=attrgetter("ticks"), reverse=True)


def busiest(
    fields: Fields, uses: list[Use], elapsed_s: float, cores: int, busy_share: float | None, now_ticks: int | None
) -> None:
    """All of them, of `used` processes on a machine of so many online cores; `busy_share` is the part of all cores'
    time in which the machine was at work, `now_ticks` is when (`boot_ticks`)."""
    core_ticks = elapsed_s * USER_HZ
    capacity_ticks = cores * core_ticks
    used_ticks = [use.ticks for use in uses]
    whole = sum(used_ticks)
    fields["processes_busy"] = _count(used_ticks, BUSY_PROCESS_CORES * core_ticks)
    fields["processes_hot"] = _count(used_ticks, HOT_PROCESS_CORES * core_ticks)
    for place, name in enumerate(_TOPS):
        ticks = used_ticks[place] if place < len(used_ticks) else 0
        fields[name] = min(1.0, ticks / capacity_ticks)
    seen_ticks = round(SEEN_CORES * core_ticks)
    for kinds, use in zip(_DESCRIBED, uses, strict=False):
        if use.ticks >= seen_ticks:
            kind(fields, kinds, use)
    if busy_share is not None:
        rest = busy_share - whole / capacity_ticks
        fields["process_rest_cpu_share"] = min(1.0, max(0.0, rest))
    if uses:
        threads, resident, ages = ([0] * len(names) for _, names in (_THREADS, _RESIDENT, _AGE))
        for ticks, _, _, now in uses:
            threads[bisect_left(_THREADS[0], now.threads)] += ticks
            resident[bisect_left(_RESIDENT[0], now.resident_bytes)] += ticks
            if now_ticks is not None:
                ages[bisect_left(_AGE[0], now_ticks - now.started_ticks)] += ticks
        _spread(fields, _THREADS[1], threads, whole)
        _spread(fields, _RESIDENT[1], resident, whole)
        if now_ticks is not None:
            _spread(fields, _AGE[1], ages, whole)


def boot_ticks(sample: RawSample) -> int | None:
    """When it was taken, as starts of processes are counted: proc_pid_stat(5), starttime."""
    return None if sample.suspended_ns is None else (sample.monotonic_ns + sample.suspended_ns) // TICK_NS


def _uses(
    old: BusiestProcesses, new: BusiestProcesses, since_ticks: int | None, most_ticks: float
) -> tuple[list[Use], bool]:
    # of processes that used something, and whether of any it is known what it used; what went back is no use
    before = {process[0]: process for process in old.processes}
    uses, known = [], False
    for now in new.processes:
        pid, started_ticks, user, system, minor, major, _, _ = now
        was = before.get(pid)
        if was == now:  # most of them
            known = True
            continue
        if was is not None and was[1] == started_ticks:
            _, _, was_user, was_system, was_minor, was_major, _, _ = was
            user, system, minor, major = user - was_user, system - was_system, minor - was_minor, major - was_major
        elif since_ticks is None or started_ticks < since_ticks:  # both are cut to whole ticks
            continue
        ticks = user + system
        if user >= 0 and system >= 0 and minor >= 0 and major >= 0 and ticks <= most_ticks:
            known = True
            if ticks:
                uses.append(Use(ticks, system, minor + major, now))
    return uses, known


def _count(ticks: list[int], least_ticks: float) -> float:
    # Of at least so many whole ticks: a second is seldom one to the millisecond.
    least = round(least_ticks)
    return float(len([one for one in ticks if one >= least]))


def kinds_of(name: str) -> tuple[str, str, str, str]:
    """The fields that `kind` tells of the process that is called so."""
    return f"{name}_threads", f"{name}_resident_bytes", f"{name}_system_share", f"{name}_faults_per_cpu_s"


def kind(fields: Fields, kinds: tuple[str, str, str, str], use: Use) -> None:
    """What a process that did something is, and how it works; `kinds` as `kinds_of` gives them."""
    threads, resident_bytes, system_share, faults_per_cpu_s = kinds
    fields[threads] = float(use.now.threads)
    fields[resident_bytes] = float(use.now.resident_bytes)
    fields[system_share] = use.system_ticks / use.ticks
    fields[faults_per_cpu_s] = use.faults * USER_HZ / use.ticks


_DESCRIBED = tuple(kinds_of(name) for name in ("process_top1", "process_top2"))


def _spread(fields: Fields, names: tuple[str, ...], parts: list[int], whole: int) -> None:
    # how the CPU time is spread over kinds of processes
    for name, part in zip(names, parts, strict=True):
        fields[name] = part / whole
