# SPDX-License-Identifier: GPL-2.0-only
"""Rates of who uses the machine: the focused window's processes, the person's input, the GPU, and control groups."""

from asa.core.sample import DesktopState, GroupUsage
from collectors.rates.arithmetic import Fields, growth, level, rate, ratio, share

BUSY_GROUP_CORES = 0.01
"""A control group is busy above this part of one core; what timers and housekeeping take stays below."""

_CPU_SKEW = 1.5  # each process's clock ticks in 10 ms; beyond this it is no skew but wrong


def desktop_levels(fields: Fields, state: DesktopState, memory_bytes: int | None) -> None:
    """What is on the screen now; `memory_bytes` is all of the machine's."""
    focus = state.focus
    if focus is not None:
        fields["focus_memory_share"] = share(focus.memory_bytes, memory_bytes)
        fields["focus_processes"] = level(focus.processes)
    fields["focus_fullscreen"] = level(state.fullscreen)
    fields["desktop_overview"] = level(state.overview)
    fields["input_idle_s"] = None if state.idle_ms is None else state.idle_ms / 1e3


def desktop(fields: Fields, old: DesktopState, new: DesktopState, elapsed_s: float, cores: int) -> None:
    """The focused processes' CPU time on a machine of so many online cores, and input events."""
    if old.source == new.source:
        fields["input_events_per_s"] = rate(old.input_events, new.input_events, elapsed_s)
    if old.focus is not None and new.focus is not None and old.focus.group == new.focus.group:
        used(fields, "focus", old.focus.cpu_ns, new.focus.cpu_ns, elapsed_s, cores)


def used(fields: Fields, name: str, old_ns: int | None, new_ns: int | None, elapsed_s: float, cores: int) -> None:
    """CPU time of some processes in cores, and of all online cores, where it is known."""
    # a process that is found late brings along all it ever used: more than all cores can do is no use but that
    busy = rate(old_ns, new_ns, elapsed_s * 1e9)
    if busy is not None and cores and busy <= _CPU_SKEW * cores:
        busy = min(float(cores), busy)
        fields[f"{name}_cpu_cores"] = busy
        fields[f"{name}_cpu_share"] = busy / cores


def groups(fields: Fields, old: GroupUsage, new: GroupUsage, elapsed_s: float) -> None:
    """How CPU time is spread over control groups. One that came, or came again by the same name, is left out."""
    before = dict(old.cpu_us)
    grown = [growth(before.get(path), used_us) for path, used_us in new.cpu_us]
    known = [used_us for used_us in grown if used_us is not None]
    if known:
        busy_us = BUSY_GROUP_CORES * elapsed_s * 1e6
        fields["group_top_share"] = ratio(max(known), sum(known))
        fields["groups_busy"] = float(sum(used_us > busy_us for used_us in known))
