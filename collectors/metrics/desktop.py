# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of the desktop, of GPUs, of control groups, of sched_ext itself and of a timer's lateness. Data only."""

from collectors.metrics.kinds import Backend, Group, Row, Unit

_FOCUS = "Window-Focused Process"

GROUPS: tuple[Group, ...] = (
    Group(
        Backend.DESKTOP,
        "desktop",
        "focused window",
        (
            Row("focus_cpu_cores", Unit.CORES, "", "CPU time of the focused window's processes, in cores.", "focus"),
            Row(
                "focus_cpu_share",
                Unit.SHARE,
                f"{_FOCUS} CPU Utilization",
                "CPU time of the focused window's processes, of all cores.",
                "focus",
            ),
            Row(
                "focus_memory_share",
                Unit.SHARE,
                f"{_FOCUS} Memory Utilization",
                "Resident memory of the focused window's processes, of all memory.",
                "focus",
            ),
            Row("focus_processes", Unit.COUNT, "", "Processes behind the focused window.", "focus"),
            Row("focus_fullscreen", Unit.FLAG, "", "The focused window fills the screen.", "fullscreen"),
            Row("desktop_overview", Unit.FLAG, "", "The shell shows its overview instead of windows.", "overview"),
        ),
    ),
    Group(
        Backend.DESKTOP,
        "desktop",
        "desktop idle time",
        (Row("input_idle_s", Unit.S, "", "Time since the last input.", "idle_ms"),),
    ),
    Group(
        Backend.DESKTOP,
        "desktop",
        "desktop input events",
        (
            Row(
                "input_events_per_s",
                Unit.PER_S,
                "Input Event",
                "Input events seen by the desktop, some 50 at most.",
                "input_events",
            ),
        ),
    ),
    Group(
        Backend.DRM,
        "gpu",
        "PID/fdinfo",
        (
            Row("gpu_processes", Unit.COUNT, "GPU-Using Process Count", "Processes that hold a GPU open."),
            Row(
                "gpu_process_cpu_cores",
                Unit.CORES,
                "",
                "CPU time of processes that hold a GPU open, in cores.",
                "cpu_ns",
            ),
            Row(
                "gpu_process_cpu_share",
                Unit.SHARE,
                "GPU-Using Process CPU Utilization",
                "CPU time of processes that hold a GPU open, of all cores.",
                "cpu_ns",
            ),
            Row("gpu_busy_engines", Unit.COUNT, "", "Mean number of GPU engines at work.", "engine_ns"),
            Row("gpu_memory_bytes", Unit.BYTES, "", "GPU memory in use by all processes.", "memory_bytes"),
        ),
    ),
    Group(
        Backend.CGROUP,
        "groups",
        "cpu.stat",
        (
            Row("group_top_share", Unit.SHARE, "", "The busiest application's or service's part of what all used."),
            Row("groups_busy", Unit.COUNT, "", "Applications and services that used over 1 % of a core."),
        ),
    ),
    Group(
        Backend.SCHED_EXT,
        "sched_ext",
        "sched_ext",
        (
            Row("sched_ext_attached", Unit.FLAG, "", "A sched_ext scheduler decides."),
            Row("sched_ext_enables_per_s", Unit.PER_S, "", "Schedulers that were attached."),
        ),
    ),
    Group(
        Backend.TIMER,
        "timer",
        "own child process",
        (
            Row("timer_late_mean_us", Unit.US, "", "How late an ordinary task wakes from a timed sleep, the mean."),
            Row("timer_late_p99_us", Unit.US, "", "How late it wakes, 99 % stay below; in one tick about the worst."),
        ),
    ),
)
"""By source."""
