# SPDX-License-Identifier: GPL-2.0-only
"""The probes of the behaviour stage: each plays one situation for seconds, and gives numbers by name.

Each has an answer that is known under the kernel's own scheduler, with which a guest begins. What the numbers mean is
`calibration.verify.lab.judge`'s. Stdlib alone: it runs in guests, as root.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from calibration.verify.lab import gang
from calibration.verify.lab.gang import forker, hog, meter, wanderer

Values: TypeAlias = Mapping[str, float | None]

_PLAY_S = 3.0
_FORKS = 150
_CGROUP = Path("/sys/fs/cgroup")


def floating(cpus: int) -> Values:
    """Two hogs for each CPU, bound to none."""
    return _shares(gang.play([hog() for _ in range(2 * cpus)], _PLAY_S))


def pinned(cpus: int) -> Values:
    """Two hogs bound to each CPU."""
    return _shares(gang.play([hog(cpus=(cpu,)) for cpu in range(cpus) for _ in range(2)], _PLAY_S))


def nice(_: int) -> Values:
    """On one CPU one of nice 0 and one of nice 10."""
    plain, kind = _cpu_s(gang.play([hog(cpus=(0,)), hog(cpus=(0,), nice=10)], _PLAY_S))
    return {"ratio": _ratio(plain, kind), "share": _ratio(kind, _PLAY_S), "missing": _missing((plain, kind))}


def starvation(cpus: int) -> Values:
    """Sleepers beside two hogs for each CPU: one bound to each CPU, and two that are not."""
    sleepers = [*(meter(cpus=(cpu,)) for cpu in range(cpus)), meter(), meter()]
    told = gang.play([*(hog() for _ in range(2 * cpus)), *sleepers], _PLAY_S)
    late = told[2 * cpus :]
    return {
        "longest_s": _longest(late),
        "p99_s": max((one[0] for one in late if one), default=None),
        "missing": _missing(told),
    }


def forks(cpus: int) -> Values:
    """Two that fork beside a hog for each CPU."""
    told = gang.play([*(hog() for _ in range(cpus)), forker(_FORKS), forker(_FORKS)], _PLAY_S)
    took = told[cpus:]
    slowest_s = None if None in took else max(took)
    return {"per_s": None if slowest_s is None else 2 * _FORKS / slowest_s, "missing": _missing(told)}


def pipe(cpus: int) -> Values:
    """Two that wake each other by pipes, beside a hog for each CPU."""
    return _rounds(gang.pipes(), cpus)


def futex(cpus: int) -> Values:
    """Two that wake each other by semaphores, beside a hog for each CPU."""
    return _rounds(gang.futexes(), cpus)


def affinity(cpus: int) -> Values:
    """Those that bind themselves to another CPU all the time."""
    told = gang.play([wanderer(cpus, seed) for seed in range(2 * cpus)], _PLAY_S)
    moved = [one for one in told if one]
    return {
        "moves": float(min((moves for moves, _ in moved), default=0)),
        "astray": float(sum(astray for _, astray in moved)),
        "missing": _missing(told),
    }


def groups(_: int) -> Values:
    """On one CPU one of a control group of weight 100 and one of weight 400."""
    light, heavy = _CGROUP / "asa-light", _CGROUP / "asa-heavy"
    try:
        with suppress(OSError):
            (_CGROUP / "cgroup.subtree_control").write_text("+cpu")
        for folder, weight in ((light, 100), (heavy, 400)):
            folder.mkdir(exist_ok=True)
            (folder / "cpu.weight").write_text(str(weight))
        told = gang.play([hog(cpus=(0,), group=str(light)), hog(cpus=(0,), group=str(heavy))], _PLAY_S)
    finally:
        for folder in (light, heavy):
            with suppress(OSError):
                folder.rmdir()
    less, more = _cpu_s(told)
    return {"ratio": _ratio(more, less), "missing": _missing(told)}


def realtime(cpus: int) -> Values:
    """A SCHED_FIFO hog on CPU 0, and ordinary ones that may run elsewhere."""

    def fifo(end_s: float) -> int:
        os.sched_setaffinity(0, {0})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        while time.monotonic() < end_s:
            pass
        return 0

    told = gang.play([fifo, *(hog() for _ in range(cpus)), meter(), meter()], _PLAY_S)
    seconds = [one[0] for one in told[1 : cpus + 1] if one]
    return {
        "least_s": min(seconds, default=0.0),
        "longest_s": _longest(told[cpus + 1 :]),
        "missing": _missing(told[1:]),
    }


def soak(cpus: int, seconds: float) -> Values:
    """A hog for each second CPU, sleepers, pairs and forks, for long; in turns of at most 20 s."""
    end_s, longest_s, missing = time.monotonic() + seconds, 0.0, 0.0
    while (left_s := end_s - time.monotonic()) > 0:
        work = [*(hog() for _ in range(max(1, cpus // 2))), meter(), meter(cpus=(cpus - 1,)), *gang.pipes(), forker(20)]
        told = gang.play(work, min(20.0, left_s))
        late = told[max(1, cpus // 2) :][:2]
        longest_s, missing = max(longest_s, _longest(late) or 0.0), missing + (_missing(told) or 0.0)
        if missing:
            break
    return {"longest_s": longest_s, "missing": missing}


EACH: Mapping[str, Callable[[int], Values]] = {
    "fair-floating": floating,
    "fair-pinned": pinned,
    "nice": nice,
    "starvation": starvation,
    "forks": forks,
    "pipe": pipe,
    "futex": futex,
    "affinity": affinity,
    "groups": groups,
    "realtime": realtime,
}
"""By name, in the order in which they are played; each is given the number of CPUs."""


def _rounds(pair: Sequence[gang.Work], cpus: int) -> Values:
    told = gang.play([*(hog() for _ in range(cpus)), *pair], _PLAY_S)
    first = told[cpus]
    return {
        "per_s": first[0] / _PLAY_S if first else None,
        "longest_s": first[1] if first else None,
        "missing": _missing(told),
    }


def _shares(told: Sequence[Any]) -> Values:
    seconds = sorted(one[0] if one else 0.0 for one in told)
    mean = sum(seconds) / len(seconds)
    return {
        "p10": seconds[int(len(seconds) * 0.1)] / mean if mean else 0.0,
        "work_per_s": sum(one[1] for one in told if one) / _PLAY_S,
        "missing": _missing(told),
    }


def _cpu_s(told: Sequence[Any]) -> list[float | None]:
    return [one[0] if one else None for one in told]


def _longest(late: Sequence[Any]) -> float | None:
    return None if None in late else max(one[1] for one in late)


def _missing(told: Sequence[Any]) -> float:
    return float(sum(one is None for one in told))


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other
