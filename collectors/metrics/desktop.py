# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of the desktop, of GPUs, of control groups, of sched_ext itself and of a timer's lateness. Declared only."""

from dataclasses import dataclass

from collectors.metrics.kinds import Origin, Unit, counter, state

_FOCUS = Origin("desktop", "focused window")
_IDLE = Origin("desktop", "desktop idle time")
_INPUT = Origin("desktop", "desktop input events")
_FDINFO = Origin("gpu", "PID/fdinfo")
_CPU_STAT = Origin("groups", "cpu.stat")
_SCHED_EXT = Origin("sched_ext", "sched_ext")
_CHILD = Origin("timer", "own child process")


@dataclass(frozen=True, kw_only=True)
class DesktopRates:
    """Who uses the machine, and what decides."""

    focus_cpu_cores: float | None = _FOCUS.metric(
        Unit.CORES, "CPU time of the focused window's processes, in cores.", inputs="focus"
    )
    focus_cpu_share: float | None = _FOCUS.metric(
        Unit.SHARE,
        "CPU time of the focused window's processes, of all cores.",
        paper="Window-Focused Process CPU Utilization",
        inputs="focus",
    )
    focus_memory_share: float | None = _FOCUS.metric(
        Unit.SHARE,
        "Resident memory of the focused window's processes, of all memory.",
        paper="Window-Focused Process Memory Utilization",
        inputs="focus",
    )
    focus_processes: float | None = _FOCUS.metric(Unit.COUNT, "Processes behind the focused window.", inputs="focus")
    focus_fullscreen: float | None = _FOCUS.metric(
        Unit.FLAG, "The focused window fills the screen.", inputs="fullscreen"
    )
    desktop_overview: float | None = _FOCUS.metric(
        Unit.FLAG, "The shell shows its overview instead of windows.", inputs="overview"
    )
    input_idle_s: float | None = _IDLE.metric(Unit.S, "Time since the last input.", inputs="idle_ms")
    input_events_per_s: float | None = _INPUT.metric(
        Unit.PER_S, "Input events seen by the desktop, some 50 at most.", paper="Input Event", inputs="input_events"
    )
    gpu_processes: float | None = _FDINFO.metric(
        Unit.COUNT, "Processes that hold a GPU open.", paper="GPU-Using Process Count", of=state("processes")
    )
    gpu_process_cpu_cores: float | None = _FDINFO.metric(
        Unit.CORES, "CPU time of processes that hold a GPU open, in cores.", inputs="cpu_ns"
    )
    gpu_process_cpu_share: float | None = _FDINFO.metric(
        Unit.SHARE,
        "CPU time of processes that hold a GPU open, of all cores.",
        paper="GPU-Using Process CPU Utilization",
        inputs="cpu_ns",
    )
    gpu_busy_engines: float | None = _FDINFO.metric(
        Unit.COUNT, "Mean number of GPU engines at work.", of=counter("engine_ns", per=1e9)
    )
    gpu_memory_bytes: float | None = _FDINFO.metric(
        Unit.BYTES, "GPU memory in use by all processes.", of=state("memory_bytes")
    )
    group_top_share: float | None = _CPU_STAT.metric(
        Unit.SHARE, "The busiest application's or service's part of what all used."
    )
    groups_busy: float | None = _CPU_STAT.metric(Unit.COUNT, "Applications and services that used over 1 % of a core.")
    sched_ext_attached: float | None = _SCHED_EXT.metric(Unit.FLAG, "A sched_ext scheduler decides.")
    sched_ext_enables_per_s: float | None = _SCHED_EXT.metric(
        Unit.PER_S, "Schedulers that were attached.", of=counter("enable_seq")
    )
    timer_late_mean_us: float | None = _CHILD.metric(
        Unit.US, "How late an ordinary task wakes from a timed sleep, the mean."
    )
    timer_late_p99_us: float | None = _CHILD.metric(
        Unit.US,
        "How late it wakes, 99 % stay below; in one tick about the worst. Without a wake: how long one has been due.",
    )
