# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of the busiest processes: who uses the CPU, what kinds they are, how long their turns are. Data only."""

from collectors.metrics.kinds import Backend, Group, Row, Unit


def _described(name: str, which: str) -> tuple[Row, ...]:
    # of one process, where it used 1 % of a core
    return (
        Row(f"{name}_threads", Unit.COUNT, "", f"Threads of the {which}."),
        Row(f"{name}_resident_bytes", Unit.BYTES, "", f"Resident memory of the {which}, shared pages too."),
        Row(f"{name}_system_share", Unit.SHARE, "", f"Part of the own CPU time of the {which} in the kernel."),
        Row(
            f"{name}_faults_per_cpu_s",
            Unit.PER_CPU_S,
            "",
            f"Page faults of the {which}, a second of its own CPU time.",
        ),
    )


def _kinds(name: str, kinds: tuple[tuple[str, str], ...]) -> tuple[Row, ...]:
    return tuple(
        Row(f"process_cpu_{name}_{kind}_share", Unit.SHARE, "", f"Part of the busiest processes' CPU time {words}.")
        for kind, words in kinds
    )


def _extreme(name: str, which: str) -> tuple[Row, ...]:
    return (
        Row(f"{name}_mean_us", Unit.US, "", f"A turn on the CPU of the {which}, the mean."),
        Row(f"{name}_involuntary_share", Unit.SHARE, "", f"Turns of the {which} after which it could have gone on."),
        Row(f"{name}_cpu_share", Unit.SHARE, "", f"CPU time of the {which}, of all cores."),
        *_described(name, which),
    )


GROUPS: tuple[Group, ...] = (
    Group(
        Backend.PROCFS,
        "busiest",
        "PID/stat",
        (
            Row("process_top1_cpu_share", Unit.SHARE, "", "CPU time of the busiest process, of all cores."),
            Row("process_top2_cpu_share", Unit.SHARE, "", "CPU time of the second busiest process, of all cores."),
            Row("process_top3_cpu_share", Unit.SHARE, "", "CPU time of the third busiest process, of all cores."),
            *_described("process_top1", "busiest process"),
            *_described("process_top2", "second busiest process"),
            Row("processes_busy", Unit.COUNT, "", "Processes that used 5 % of a core or more."),
            Row("processes_hot", Unit.COUNT, "", "Processes that used 50 % of a core or more."),
            Row(
                "process_rest_cpu_share",
                Unit.SHARE,
                "",
                "CPU time, of all cores, beside the busiest processes: of the kernel, of other and of short processes.",
            ),
            *_kinds(
                "threads",
                (
                    ("1", "in those with one thread"),
                    ("2_to_4", "in those with 2 to 4 threads"),
                    ("5_to_16", "in those with 5 to 16 threads"),
                    ("more", "in those with more than 16 threads"),
                ),
            ),
            *_kinds(
                "resident",
                (
                    ("to_16mib", "in those with up to 16 MiB of resident memory"),
                    ("to_64mib", "in those with 16 to 64 MiB of resident memory"),
                    ("to_256mib", "in those with 64 to 256 MiB of resident memory"),
                    ("to_1gib", "in those with 256 MiB to 1 GiB of resident memory"),
                    ("larger", "in those with more than 1 GiB of resident memory"),
                ),
            ),
            *_kinds(
                "age",
                (
                    ("to_2s", "in those that began within the last 2 s"),
                    ("to_30s", "in those that began 2 to 30 s ago"),
                    ("older", "in those that began more than 30 s ago"),
                ),
            ),
        ),
    ),
    Group(
        Backend.EBPF,
        "process_bursts",
        "sched_switch",
        (
            *(
                row
                for name, which in (("top1", "used the most"), ("top2", "came second"), ("top3", "came third"))
                for row in (
                    Row(
                        f"turns_{name}_mean_us",
                        Unit.US,
                        "",
                        f"A turn on the CPU of the process that {which}, the mean.",
                    ),
                    Row(
                        f"turns_{name}_involuntary_share",
                        Unit.SHARE,
                        "",
                        f"Turns of the process that {which} after which it could have gone on.",
                    ),
                )
            ),
            *(
                Row(
                    f"turns_{kind}_share",
                    Unit.SHARE,
                    "",
                    f"Part of the CPU time of processes whose turns are {words} on average.",
                )
                for kind, words in (
                    ("to_65us", "up to 65 µs"),
                    ("to_262us", "65 to 262 µs"),
                    ("to_1ms", "262 µs to 1 ms"),
                    ("to_4ms", "1 to 4 ms"),
                    ("longer", "more than 4 ms"),
                )
            ),
            Row(
                "turns_forced_share",
                Unit.SHARE,
                "",
                "Part of the CPU time of processes that could mostly have gone on when their turns ended.",
            ),
            *_extreme("turns_longest", "busy process with the longest turns"),
            *_extreme("turns_shortest", "busy process with the shortest turns"),
        ),
    ),
)
"""By source."""
