# SPDX-License-Identifier: GPL-2.0-only
"""What the base costs: memory of a full one, and time in a tick, of the collector and of the pure part."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from asa import procstat
from asa.core.decision import Workload
from asa.core.errors import AsaError
from asa.core.kinds import BACKGROUND, INTERACTIVE, label_of
from asa.core.sample import BusiestProcesses, ProcessUsage
from asa.decide import evidence, knowledge
from asa.decide.knowledge import Knowledge, Known
from calibration.knowledge.courses import Course
from collectors.procfs.work import Work
from collectors.programs import KEY_BYTES, ProgramCollector
from models.train import recorded

_ROUNDS = 25
_LOADS = "import sys; from pathlib import Path; from asa.decide import knowledge\n"
_RESIDENT = """
from asa.decide import kept_file
def resident(): return int(open("/proc/self/statm").read().split()[1])
small = knowledge.load(Path(sys.argv[1])); before = resident()
full = knowledge.load(Path(sys.argv[2])); print(resident() - before)
"""


def full() -> dict[int, Known]:
    """As many programs as a base holds, each with all sightings that are kept, of many labels."""
    labels = [Workload(label_of(front, back)) for front in (None, *INTERACTIVE) for back in (None, *BACKGROUND)]
    last = knowledge.MOST_PAST
    return {
        number * 0x9E3779B97F4A7C15 % 2**64: Known(
            day=20_000 + number % 400,
            past=tuple(labels[(number + step * (number % 3)) % len(labels)] for step in range(last)),
        )
        for number in range(1, knowledge.MOST_PROGRAMS + 1)
    }


def resident_mb() -> float:
    """How much a process grows that reads a full base, with what reading it leaves behind; one that has read an empty
    one before. Raises AsaError."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("empty.json", "full.json")]
        for file, known in zip(files, ({}, full()), strict=True):
            knowledge.save(file, known, bytes(KEY_BYTES))
        command = [sys.executable, "-P", "-c", _LOADS + _RESIDENT, *map(str, files)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": _here()}, check=False
        )
    if done.returncode:
        raise AsaError(f"the process that reads a full base failed: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout) * os.sysconf("SC_PAGE_SIZE") / 1e6


def pure_us(courses: Sequence[Course], known: Mapping[int, Known]) -> float:
    """Microseconds of processor time of a tick, the mean: what is learnt and said, and the model's word beside it."""
    ticks = [(tick.sample, tick.judged) for course in courses for tick in course.ticks if tick.judged is not None]

    def once() -> None:
        held = Knowledge(known=known)
        for sample, judged in ticks:
            held = knowledge.take(held, sample, judged)
            said = knowledge.evidence(held, sample)
            evidence.pooled(judged, said, knowledge.WEIGHT)

    return least_us(once) / len(ticks)


def collector_us(journals: Iterable[Path]) -> tuple[float, float]:
    """Microseconds of processor time of a reading, the mean, and of finding out who used the CPU.

    The second is no part of the first: whoever asks for the packages of programs, which comes first, has done it for
    both. As many processes work as were recorded. Each is asked of this machine's /proc as this process, the only one
    that is there for sure.
    """
    sessions = [_seen(session) for path in journals for session in recorded.read(path)]
    readings = sum(map(len, sessions))
    if not readings:
        raise AsaError("no sequence tells of processes; record some by `asa lab record --sequence`")

    def look() -> None:
        for seen in sessions:
            work = Work()
            for at_ns, there in seen:
                work.cores(there.processes, at_ns)

    def once() -> None:
        for seen in sessions:
            times, work = iter([at_ns for at_ns, _ in seen]), Work()
            collector = ProgramCollector(Path("/proc"), Path("/sys"), now_ns=times.__next__, work=work)
            for at_ns, there in seen:
                work.cores(there.processes, at_ns)
                collector.follow({"busiest": there})
                collector.read()

    looking_us = least_us(look)
    return (least_us(once) - looking_us) / readings, looking_us / readings


def _seen(session: recorded.Recorded) -> list[tuple[int, BusiestProcesses]]:
    # the number of a process and when it began stand for it: the second alone is another one each
    pid = os.getpid()
    return [
        (sample.monotonic_ns, BusiestProcesses(processes=tuple(_as(one, pid) for one in there.processes)))
        for sample in session.samples
        if (there := sample.busiest) is not None
    ]


def least_us(call: Callable[[], None], rounds: int = _ROUNDS) -> float:
    """CPU time of this thread, of several rounds that of the one that others on this machine disturbed the least."""
    spent = []
    for _ in range(rounds):
        start_ns = time.thread_time_ns()
        call()
        spent.append(time.thread_time_ns() - start_ns)
    return min(spent) / 1e3


def _as(one: ProcessUsage, pid: int) -> ProcessUsage:
    return one._replace(pid=pid, started_ticks=one.pid)


def _here() -> str:
    return str(Path(procstat.__file__).parents[1])
