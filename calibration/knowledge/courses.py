# SPDX-License-Identifier: GPL-2.0-only
"""Recorded sequences as an agent with a base of programs sees them: the model's word, tick by tick, and who works.

Recordings have no names of programs, but marks of when each application began to come and when it had gone, and the
busiest processes with when they began. A process belongs to the application that began last before it. So each
application is one program here, at work when its processes are, as `collectors.programs` tells of a live machine.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

from asa.core.decision import Judgement, Workload
from asa.core.kinds import among
from asa.core.mark import Mark
from asa.core.sample import ProgramsAtWork, ProgramUse, RawSample
from calibration.voting.recorded import Judging
from calibration.voting.streams import Span, spans
from collectors.procfs.work import LEAST_CORES, Process, Work
from models import features
from models.train import recorded

_TICKS_A_SECOND = 100  # USER_HZ of all recordings


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One sample: it has the programs at work, and nothing else that is not needed."""

    sample: RawSample
    judged: Judgement | None
    forks_per_s: float | None
    wakeups_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One recorded sequence. `played` has the programs of each span."""

    name: str
    ticks: tuple[Tick, ...]
    spans: tuple[Span, ...]
    played: tuple[frozenset[int], ...]


def number_of(application: str) -> int:
    """The number of a program in a base."""
    return int.from_bytes(blake2b(application.encode(), digest_size=8).digest(), "big")


def read(paths: Iterable[Path], model: Judging) -> list[Course]:
    """All sequences of these journals, by name. Raises JournalError."""
    found = [_course(session, model) for path in paths for session in recorded.read(path)]
    return sorted(found, key=lambda one: one.name)


def _course(session: recorded.Recorded, model: Judging) -> Course:
    samples, marks = session.samples, session.marks
    whole = spans(marks, samples[-1].monotonic_ns + 1)
    programs = _programs(samples, marks)
    words = {
        tick.at_ns: None if tick.window is None else model.judge(features.frame(tick.window))
        for tick in features.ticks(samples)
    }
    ticks = []
    for before, sample in pairwise((None, *samples)):
        assert sample is not None  # noqa: S101  # the first alone is None
        there = programs.get(sample.monotonic_ns, ())
        bare = RawSample(
            monotonic_ns=sample.monotonic_ns, wall_ns=sample.wall_ns, programs=ProgramsAtWork(programs=there)
        )
        ticks.append(
            Tick(
                sample=bare,
                judged=words.get(sample.monotonic_ns),
                forks_per_s=_rate(before, sample, "forks"),
                wakeups_per_s=_rate(before, sample, "wakeups"),
            )
        )
    return Course(
        name=session.id,
        ticks=tuple(ticks),
        spans=tuple(replace(one, workload=Workload(among(one.workload, model.classes))) for one in whole),
        played=tuple(frozenset(map(number_of, _applications(_mark(marks, one.start_ns)))) for one in whole),
    )


def _programs(samples: Sequence[RawSample], marks: Sequence[Mark]) -> Mapping[int, tuple[ProgramUse, ...]]:
    # by the time of the sample, those of which a process is there and has worked
    begun = _begun(marks)
    work, worked, found = Work(), dict[Process, str](), dict[int, tuple[ProgramUse, ...]]()
    for sample in samples:
        if sample.busiest is None:
            continue
        shares = work.cores(sample.busiest.processes, sample.monotonic_ns)
        there = set(_applications(_mark(marks, sample.monotonic_ns)))
        for process, share in shares.items():
            # the clock tick that it began in is told by its start, so a mark just before may lie in it
            began_ns = (process[1] + 1) * 1_000_000_000 // _TICKS_A_SECOND - (sample.suspended_ns or 0)
            owner = _owner(begun, began_ns)
            if share >= LEAST_CORES and owner:
                worked[process] = owner
        cores: dict[int, float] = {}
        for process, owner in worked.items():
            if work.there(process) and owner in there:
                number = number_of(owner)
                cores[number] = cores.get(number, 0.0) + shares.get(process, 0.0)
        found[sample.monotonic_ns] = tuple(ProgramUse(program=one, cores=cores[one]) for one in sorted(cores))
    return found


def _begun(marks: Sequence[Mark]) -> list[tuple[int, str]]:
    # when each application began to come, in order of time
    found, last = list[tuple[int, str]](), set[str]()
    for mark in marks:
        now = set(_applications(mark))
        found += [(mark.monotonic_ns, name) for name in sorted(now - last)]
        last = now
    return found


def _owner(begun: Sequence[tuple[int, str]], began_ns: int) -> str:
    place = bisect_right([at_ns for at_ns, _ in begun], began_ns)
    return begun[place - 1][1] if place else ""


def _mark(marks: Sequence[Mark], at_ns: int) -> Mark:
    return marks[max(0, bisect_right([one.monotonic_ns for one in marks], at_ns) - 1)]


def _applications(mark: Mark) -> tuple[str, ...]:
    return tuple(name for name in (mark.interactive, mark.background) if name)


def _rate(before: RawSample | None, sample: RawSample, name: str) -> float | None:
    old, new = (None if one is None else getattr(one.probes, name, None) for one in (before, sample))
    if before is None or old is None or new is None or new < old:
        return None
    return float(new - old) * 1e9 / (sample.monotonic_ns - before.monotonic_ns)
