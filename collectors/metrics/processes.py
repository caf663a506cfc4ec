# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of the busiest processes: who uses the CPU, what kinds they are, how long their turns are. Declared only."""

from dataclasses import dataclass

from collectors.metrics.kinds import Origin, Unit, state

_PID_STAT = Origin("busiest", "PID/stat")
_REALTIME = Origin("realtime", "PID/task/TID/stat")
_TURNS = Origin("process_bursts", "sched_switch")


@dataclass(frozen=True, kw_only=True)
class ProcessRates:
    """What single processes do."""

    process_top1_cpu_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "CPU time of the busiest process, of all cores."
    )
    process_top2_cpu_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "CPU time of the second busiest process, of all cores."
    )
    process_top3_cpu_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "CPU time of the third busiest process, of all cores."
    )
    process_top1_threads: float | None = _PID_STAT.metric(Unit.COUNT, "Threads of the busiest process.")
    process_top1_resident_bytes: float | None = _PID_STAT.metric(
        Unit.BYTES, "Resident memory of the busiest process, shared pages too."
    )
    process_top1_system_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the own CPU time of the busiest process in the kernel."
    )
    process_top1_faults_per_cpu_s: float | None = _PID_STAT.metric(
        Unit.PER_CPU_S, "Page faults of the busiest process, a second of its own CPU time."
    )
    process_top2_threads: float | None = _PID_STAT.metric(Unit.COUNT, "Threads of the second busiest process.")
    process_top2_resident_bytes: float | None = _PID_STAT.metric(
        Unit.BYTES, "Resident memory of the second busiest process, shared pages too."
    )
    process_top2_system_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the own CPU time of the second busiest process in the kernel."
    )
    process_top2_faults_per_cpu_s: float | None = _PID_STAT.metric(
        Unit.PER_CPU_S, "Page faults of the second busiest process, a second of its own CPU time."
    )
    processes_busy: float | None = _PID_STAT.metric(Unit.COUNT, "Processes that used 5 % of a core or more.")
    processes_hot: float | None = _PID_STAT.metric(Unit.COUNT, "Processes that used 50 % of a core or more.")
    process_rest_cpu_share: float | None = _PID_STAT.metric(
        Unit.SHARE,
        "CPU time, of all cores, beside the busiest processes: of the kernel, of other and of short processes.",
    )
    process_cpu_threads_1_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with one thread."
    )
    process_cpu_threads_2_to_4_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with 2 to 4 threads."
    )
    process_cpu_threads_5_to_16_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with 5 to 16 threads."
    )
    process_cpu_threads_more_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with more than 16 threads."
    )
    process_cpu_resident_to_16mib_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with up to 16 MiB of resident memory."
    )
    process_cpu_resident_to_64mib_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with 16 to 64 MiB of resident memory."
    )
    process_cpu_resident_to_256mib_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with 64 to 256 MiB of resident memory."
    )
    process_cpu_resident_to_1gib_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with 256 MiB to 1 GiB of resident memory."
    )
    process_cpu_resident_larger_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those with more than 1 GiB of resident memory."
    )
    process_cpu_age_to_2s_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those that began within the last 2 s."
    )
    process_cpu_age_to_30s_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those that began 2 to 30 s ago."
    )
    process_cpu_age_older_share: float | None = _PID_STAT.metric(
        Unit.SHARE, "Part of the busiest processes' CPU time in those that began more than 30 s ago."
    )
    turns_top1_mean_us: float | None = _TURNS.metric(
        Unit.US, "A turn on the CPU of the process that used the most, the mean."
    )
    turns_top1_involuntary_share: float | None = _TURNS.metric(
        Unit.SHARE, "Turns of the process that used the most after which it could have gone on."
    )
    turns_top2_mean_us: float | None = _TURNS.metric(
        Unit.US, "A turn on the CPU of the process that came second, the mean."
    )
    turns_top2_involuntary_share: float | None = _TURNS.metric(
        Unit.SHARE, "Turns of the process that came second after which it could have gone on."
    )
    turns_top3_mean_us: float | None = _TURNS.metric(
        Unit.US, "A turn on the CPU of the process that came third, the mean."
    )
    turns_top3_involuntary_share: float | None = _TURNS.metric(
        Unit.SHARE, "Turns of the process that came third after which it could have gone on."
    )
    turns_to_65us_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the CPU time of processes whose turns are up to 65 µs on average."
    )
    turns_to_262us_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the CPU time of processes whose turns are 65 to 262 µs on average."
    )
    turns_to_1ms_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the CPU time of processes whose turns are 262 µs to 1 ms on average."
    )
    turns_to_4ms_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the CPU time of processes whose turns are 1 to 4 ms on average."
    )
    turns_longer_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the CPU time of processes whose turns are more than 4 ms on average."
    )
    turns_forced_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the CPU time of processes that could mostly have gone on when their turns ended."
    )
    turns_longest_mean_us: float | None = _TURNS.metric(
        Unit.US, "A turn on the CPU of the busy process with the longest turns, the mean."
    )
    turns_longest_involuntary_share: float | None = _TURNS.metric(
        Unit.SHARE, "Turns of the busy process with the longest turns after which it could have gone on."
    )
    turns_longest_cpu_share: float | None = _TURNS.metric(
        Unit.SHARE, "CPU time of the busy process with the longest turns, of all cores."
    )
    turns_longest_threads: float | None = _TURNS.metric(
        Unit.COUNT, "Threads of the busy process with the longest turns."
    )
    turns_longest_resident_bytes: float | None = _TURNS.metric(
        Unit.BYTES, "Resident memory of the busy process with the longest turns, shared pages too."
    )
    turns_longest_system_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the own CPU time of the busy process with the longest turns in the kernel."
    )
    turns_longest_faults_per_cpu_s: float | None = _TURNS.metric(
        Unit.PER_CPU_S, "Page faults of the busy process with the longest turns, a second of its own CPU time."
    )
    turns_shortest_mean_us: float | None = _TURNS.metric(
        Unit.US, "A turn on the CPU of the busy process with the shortest turns, the mean."
    )
    turns_shortest_involuntary_share: float | None = _TURNS.metric(
        Unit.SHARE, "Turns of the busy process with the shortest turns after which it could have gone on."
    )
    turns_shortest_cpu_share: float | None = _TURNS.metric(
        Unit.SHARE, "CPU time of the busy process with the shortest turns, of all cores."
    )
    turns_shortest_threads: float | None = _TURNS.metric(
        Unit.COUNT, "Threads of the busy process with the shortest turns."
    )
    turns_shortest_resident_bytes: float | None = _TURNS.metric(
        Unit.BYTES, "Resident memory of the busy process with the shortest turns, shared pages too."
    )
    turns_shortest_system_share: float | None = _TURNS.metric(
        Unit.SHARE, "Part of the own CPU time of the busy process with the shortest turns in the kernel."
    )
    turns_shortest_faults_per_cpu_s: float | None = _TURNS.metric(
        Unit.PER_CPU_S, "Page faults of the busy process with the shortest turns, a second of its own CPU time."
    )
    realtime_threads: float | None = _REALTIME.metric(
        Unit.COUNT, "Threads of real-time classes, without the kernel's own.", of=state("threads")
    )
    realtime_cpu_cores: float | None = _REALTIME.metric(Unit.CORES, "CPU time of those threads, in cores.")
    realtime_cpu_share: float | None = _REALTIME.metric(Unit.SHARE, "CPU time of those threads, of all cores.")
