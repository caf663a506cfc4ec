# SPDX-License-Identifier: GPL-2.0-only
"""Rates out of two raw samples: a pure function, shared by the live agent, the journal's replay and training.

It reads nothing and keeps nothing. Whatever cannot be known is None: a source that is missing in one of the samples, a
counter that went back (a reboot, a 32-bit wrap, a disk or an interface that left), a share of nothing, and the use of
processors across a change of which are online.
"""

import dataclasses

from asa.core.sample import RawSample
from collectors.rates import bursts, declared, desktop, extremes, felt, processes, procfs
from collectors.rates.arithmetic import Fields, level
from collectors.rates.desktop import BUSY_GROUP_CORES
from collectors.rates.fields import Rates
from collectors.rates.plan import EVERYTHING, Plan
from collectors.rates.procfs import HOT_SHARE

__all__ = [
    "BUSY_GROUP_CORES",
    "EVERYTHING",
    "HOT_SHARE",
    "LONGEST_GAP_S",
    "LONGEST_SUSPEND_S",
    "Plan",
    "Rates",
    "derive",
]

LONGEST_GAP_S = 10.0
"""Two samples further apart give no rates: the machine was suspended, or the agent was stopped."""

LONGEST_SUSPEND_S = 0.5
"""A suspend of more than this between two samples: half a tick of it is no longer what the machine did."""


def derive(previous: RawSample, current: RawSample, plan: Plan = EVERYTHING) -> Rates | None:
    """Rates between two samples of one machine, those of the plan at least.

    None when time stood still or went back (another boot), when the gap is longer than LONGEST_GAP_S, and when the
    machine was suspended in between.
    """
    elapsed_s = (current.monotonic_ns - previous.monotonic_ns) / 1e9
    if not 0.0 < elapsed_s <= LONGEST_GAP_S or _was_suspended(previous.suspended_ns, current.suspended_ns):
        return None
    fields = _UNKNOWN.copy()
    declared.levels(fields, plan.declared, current)
    declared.rates(fields, plan.declared, previous, current, elapsed_s)
    for part, run, _ in plan.steps:
        old, new = part(previous), part(current)
        if old is not None and new is not None:
            run(fields, old, new, elapsed_s)
    _add_levels(fields, current)
    felt.silence(fields, current.hints)
    _add_users(fields, previous, current, elapsed_s)
    if plan.processes or plan.turns:
        _add_processes(fields, plan, previous, current, elapsed_s)
    return _made(fields)


_UNKNOWN: Fields = {field.name: None for field in dataclasses.fields(Rates)}


def _made(fields: Fields) -> Rates:
    # `Rates(**fields)` of a frozen class takes 50 us, a fifth of all that happens between a sample and its
    # probabilities: it sets one attribute after the other
    if len(fields) != len(_UNKNOWN):
        return Rates(**fields)  # raises TypeError with the name that is no field's
    made: Rates = object.__new__(Rates)
    object.__setattr__(made, "__dict__", fields)
    return made


def _was_suspended(old_ns: int | None, new_ns: int | None) -> bool:
    # less than before is another boot
    return old_ns is not None and new_ns is not None and abs(new_ns - old_ns) > LONGEST_SUSPEND_S * 1e9


def _busy(fields: Fields) -> float | None:
    # the part of all cores' time in which they worked for us
    parts = [fields.get(name) for name in procfs.AT_WORK]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _add_users(fields: Fields, previous: RawSample, current: RawSample, elapsed_s: float) -> None:
    cores = 0 if current.cpu is None else len(current.cpu.cores)
    if current.desktop is not None and previous.desktop is not None:
        desktop.desktop(fields, previous.desktop, current.desktop, elapsed_s, cores)
    if current.realtime is not None and previous.realtime is not None:
        desktop.used(fields, "realtime", previous.realtime.cpu_ns, current.realtime.cpu_ns, elapsed_s, cores)
    if current.gpu is not None and previous.gpu is not None:
        desktop.used(fields, "gpu_process", previous.gpu.cpu_ns, current.gpu.cpu_ns, elapsed_s, cores)


def _add_processes(fields: Fields, plan: Plan, previous: RawSample, current: RawSample, elapsed_s: float) -> None:
    cores = 0 if current.cpu is None else len(current.cpu.cores)
    uses = processes.used(previous, current, elapsed_s)
    if uses is not None and plan.processes:
        processes.busiest(fields, uses, elapsed_s, cores, _busy(fields), processes.boot_ticks(current))
    if plan.turns and current.process_bursts is not None and previous.process_bursts is not None:
        turns = bursts.turned(previous.process_bursts, current.process_bursts)
        bursts.bursts(fields, turns, elapsed_s)
        extremes.extremes(fields, turns, uses, elapsed_s, cores)


def _add_levels(fields: Fields, state: RawSample) -> None:
    if state.memory is not None:
        procfs.memory_levels(fields, state.memory)
    if state.desktop is not None:
        memory_bytes = None if state.memory is None else state.memory.total_bytes
        desktop.desktop_levels(fields, state.desktop, memory_bytes)
    if state.sched_ext is not None:
        fields["sched_ext_attached"] = level(state.sched_ext.state == "enabled")
