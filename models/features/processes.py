# SPDX-License-Identifier: GPL-2.0-only
"""Values of a tick that tell single processes apart: what the busiest do, and over what kinds the CPU time is spread.

Sums over the machine mix a program in front with one that works behind; these do not. Sizes of processes are a
program's own; numbers of threads, and of processes at work, may follow the number of cores: they are marked as suspect.
A process that is not there, or did too little to be told, is unknown.
"""

from models.features.column import BUSY, Source, Sum, Value, logged, plain

_MIB = 1 / 2**20
_PLACES = {"top1": "busiest process", "top2": "second busiest process", "top3": "third busiest process"}
_DESCRIBED = ("top1", "top2")
_EXTREMES = {"longest": "busy process with the longest turns", "shortest": "busy process with the shortest turns"}
_THREADS = {"1": "one thread", "2_to_4": "2 to 4", "5_to_16": "5 to 16", "more": "more"}
_RESIDENT = {
    "to_16mib": "up to 16 MiB",
    "to_64mib": "up to 64 MiB",
    "to_256mib": "up to 256 MiB",
    "to_1gib": "up to 1 GiB",
    "larger": "more",
}
_AGE = {"to_2s": "up to 2 s"}  # older ones tell how long ago a recording began
_TURNS = {
    "to_65us": "up to 65 µs",
    "to_262us": "up to 262 µs",
    "to_1ms": "up to 1 ms",
    "to_4ms": "up to 4 ms",
    "longer": "longer",
}


def _spread(
    prefix: str, what: str, parts: dict[str, str], source: Source, *, suspect: bool = False
) -> tuple[Value, ...]:
    sentence = f"part of processes' CPU time by {what}"
    return tuple(
        plain(f"{prefix}_{part}", f"{sentence}: {words}", source, f"{prefix}_{part}_share", suspect=suspect)
        for part, words in parts.items()
    )


SHARES: tuple[Value, ...] = (
    *(
        plain(f"process_{top}_cpu", f"CPU time of the {which}, of all", Source.PROCESSES, f"process_{top}_cpu_share")
        for top, which in _PLACES.items()
    ),
    *(
        plain(
            f"process_{top}_of_busy",
            f"the {which}'s part of the time at work",
            Source.PROCESSES,
            f"process_{top}_cpu_share",
            BUSY,
        )
        for top, which in _PLACES.items()
    ),
    plain(
        "process_rest_of_busy",
        "part of the time at work beside them all",
        Source.PROCESSES,
        "process_rest_cpu_share",
        BUSY,
    ),
    *(
        plain(
            f"process_{top}_system",
            f"the kernel's part of the {_PLACES[top]}'s time",
            Source.PROCESSES,
            f"process_{top}_system_share",
        )
        for top in _DESCRIBED
    ),
    *_spread("process_cpu_threads", "number of threads", _THREADS, Source.PROCESSES, suspect=True),
    *_spread("process_cpu_resident", "resident memory", _RESIDENT, Source.PROCESSES),
    *_spread("process_cpu_age", "age", _AGE, Source.PROCESSES),
    *(
        plain(
            f"turns_{top}_involuntary",
            f"switches from the {which} when it was able to go on, of all its switches",
            Source.PROBES,
            f"turns_{top}_involuntary_share",
        )
        for top, which in _PLACES.items()
    ),
    *_spread("turns", "the mean of their turns on the CPU", _TURNS, Source.PROBES),
    plain(
        "turns_forced",
        "part of processes' CPU time in those that mostly leave when able to go on",
        Source.PROBES,
        "turns_forced_share",
    ),
    *(
        value
        for end, which in _EXTREMES.items()
        for value in (
            plain(
                f"turns_{end}_of_busy",
                f"the {which}: its part of the time at work",
                Source.PROBES,
                f"turns_{end}_cpu_share",
                BUSY,
            ),
            plain(
                f"turns_{end}_system",
                f"the {which}: the kernel's part of its time",
                Source.PROBES,
                f"turns_{end}_system_share",
            ),
            plain(
                f"turns_{end}_involuntary",
                f"the {which}: switches from it when it was able to go on, of all its switches",
                Source.PROBES,
                f"turns_{end}_involuntary_share",
            ),
        )
    ),
)
"""Shares of time or of switches, as they are."""

LOGS: tuple[Value, ...] = (
    logged(
        "processes_busy",
        "processes that use over a twentieth of a core",
        Source.PROCESSES,
        "processes_busy",
        suspect=True,
    ),
    logged("processes_hot", "processes that use over half a core", Source.PROCESSES, "processes_hot", suspect=True),
    *(
        logged(
            f"process_{top}_threads",
            f"threads of the {_PLACES[top]}",
            Source.PROCESSES,
            f"process_{top}_threads",
            suspect=True,
        )
        for top in _DESCRIBED
    ),
    *(
        logged(
            f"process_{top}_resident",
            f"resident MiB of the {_PLACES[top]}",
            Source.PROCESSES,
            Sum((f"process_{top}_resident_bytes",), (_MIB,)),
        )
        for top in _DESCRIBED
    ),
    *(
        logged(
            f"process_{top}_faults",
            f"page faults a second of the {_PLACES[top]}'s CPU time",
            Source.PROCESSES,
            f"process_{top}_faults_per_cpu_s",
        )
        for top in _DESCRIBED
    ),
    *(
        logged(
            f"turns_{top}_mean",
            f"the mean turn on the CPU of the {which}, in µs",
            Source.PROBES,
            f"turns_{top}_mean_us",
        )
        for top, which in _PLACES.items()
    ),
    *(
        value
        for end, which in _EXTREMES.items()
        for value in (
            logged(f"turns_{end}_mean", f"the mean turn of the {which}, in µs", Source.PROBES, f"turns_{end}_mean_us"),
            logged(
                f"turns_{end}_threads", f"threads of the {which}", Source.PROBES, f"turns_{end}_threads", suspect=True
            ),
            logged(
                f"turns_{end}_resident",
                f"resident MiB of the {which}",
                Source.PROBES,
                Sum((f"turns_{end}_resident_bytes",), (_MIB,)),
            ),
            logged(
                f"turns_{end}_faults",
                f"page faults a second of CPU time of the {which}",
                Source.PROBES,
                f"turns_{end}_faults_per_cpu_s",
            ),
        )
    ),
)
"""Through log1p."""

FOLLOWED: tuple[str, ...] = (
    "process_top1_of_busy",
    "process_top2_of_busy",
    "process_rest_of_busy",
    "process_cpu_age_to_2s",
    "turns_forced",
)
"""Of which the last seconds matter too."""
