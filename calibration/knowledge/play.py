# SPDX-License-Identifier: GPL-2.0-only
"""Sequences played through the votes by the agent's own functions, with or without a base and change points.

The order of the steps is `asa.pipeline`'s: the base takes the model's own word, then speaks beside it, then ticks vote.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from asa.config import Voting
from asa.core.decision import Judgement, Order, OrderKind, Vote, Workload
from asa.core.evidence import SURE
from asa.core.kinds import BACKGROUND, INTERACTIVE, Kind, halves, label_of
from asa.decide import evidence, knowledge, told, voting
from asa.decide.knowledge import Knowledge, Known
from asa.decide.told import Told
from calibration.knowledge import changes
from calibration.knowledge.courses import Course, Tick
from calibration.voting import score
from calibration.voting.filters import Memory
from calibration.voting.score import Tally
from calibration.voting.streams import Stream

LATE_S = 6.0
"""A class that is wrong for longer is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What is beside the model. `weight` of the base's evidence; `empties` and `freezes` say at which ticks, by place,
    the votes are forgotten, and the class in force stays. `says`: what a client says of a span, by its class."""

    weight: float = knowledge.WEIGHT
    by_programs: bool = True  # known programs that come and go empty the votes
    empties: Callable[[Course, Sequence[Judgement | None]], frozenset[int]] = lambda _course, _words: frozenset()
    freezes: Callable[[Course], frozenset[int]] = lambda _: frozenset()
    says: Callable[[Workload], Workload] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """By tick. A class stands until the votes name another one."""

    named: Sequence[Workload | None]
    standing: Sequence[Workload | None]


SHIPPED = Way()
VOTES_ALONE = Way(by_programs=False)


def by_rates(course: Course, _words: Sequence[Judgement | None] = ()) -> frozenset[int]:
    """Ticks with a change of wakeups or forks."""
    found = [changes.of_rates(rates) for rates in _rates(course)]
    return frozenset(place for place, both in enumerate(zip(*found, strict=True)) if any(one[0] for one in both))


def by_classes(_course: Course, words: Sequence[Judgement | None], bound: float = changes.BOUND) -> frozenset[int]:
    """Ticks with a change of the classes' probabilities."""
    ticks = [None if one is None else voting.open_world(one.probabilities, fits=one.known) for one in words]
    return frozenset(place for place, changed in enumerate(changes.of_classes(ticks, bound)) if changed)


def in_bursts(course: Course) -> frozenset[int]:
    """Ticks in a burst of forks."""
    _, forks = _rates(course)
    return frozenset(place for place, (_, burst) in enumerate(changes.of_rates(forks)) if burst)


def learn(courses: Sequence[Course]) -> Mapping[int, Known]:
    """A base of these alone, one after the other, each as a run of the agent."""
    known: Mapping[int, Known] = {}
    for course in courses:
        held = Knowledge(known=known)
        for tick in course.ticks:
            if tick.judged is not None:
                held = knowledge.take(held, tick.sample, tick.judged)
        known = knowledge.ended(held, course.ticks[-1].sample.wall_ns).known
    return known


def played(course: Course, known: Mapping[int, Known], way: Way = SHIPPED) -> Played:
    """What comes of the votes of each tick."""
    words, came = _words(course, known, way)
    empties = way.empties(course, words) | (came if way.by_programs else frozenset())
    frozen = way.freezes(course)
    state, current = voting.FilterState(), None
    named, standing = list[Workload | None](), list[Workload | None]()
    for place, (tick, word) in enumerate(zip(course.ticks, words, strict=True)):
        if place in empties:
            state = voting.emptied(state)
        state = voting.take(state, Voting(), tick.sample.monotonic_ns, word, current=current)
        current = current if place in frozen else state.vote.workload or current
        named.append(state.vote.workload)
        standing.append(current)
    return Played(named=named, standing=standing)


def tally(course: Course, standing: Sequence[Workload | None]) -> Tally:
    """As votings are judged (`calibration.voting.score`)."""
    at_ns = [tick.sample.monotonic_ns for tick in course.ticks]
    stream = Stream(name=course.name, group=course.name, ticks=tuple((one, None) for one in at_ns), spans=course.spans)
    return score.tally(_Given(dict(zip(at_ns, standing, strict=True))), stream)


def wrong_for_long(course: Course, named: Sequence[Workload | None], programs: Collection[int]) -> tuple[int, int]:
    """Ticks in which a wrong class was named for longer than `LATE_S`, and all, of spans of one of these programs."""
    wrong = total = 0
    for span, played in zip(course.spans, course.played, strict=True):
        if played.isdisjoint(programs):
            continue
        began_ns: int | None = None
        for tick, name in zip(course.ticks, named, strict=True):
            at_ns = tick.sample.monotonic_ns
            if not span.start_ns <= at_ns < span.end_ns:
                continue
            total += 1
            right = name in (None, span.workload)
            began_ns = None if right else at_ns if began_ns is None else began_ns
            wrong += began_ns is not None and at_ns - began_ns > LATE_S * 1e9
    return wrong, total


def known_delays(course: Course, standing: Sequence[Workload | None], seen: Mapping[int, Known]) -> Iterator[float]:
    """Seconds from when all of a span works until its class stands for good, of spans in which a program is new and all
    were seen `knowledge.FEWEST_PAST` times before."""
    delays = iter(tally(course, standing).delays_s)
    last: tuple[Workload, frozenset[int]] | None = None
    for span, played in zip(course.spans, course.played, strict=True):
        if last is not None and span.workload != last[0] and _judged(course, span.start_ns, span.end_ns):
            delay = next(delays)
            often = [len(seen[one].past) if one in seen else 0 for one in played]
            if played - last[1] and min(often) >= knowledge.FEWEST_PAST:
                yield delay
        last = span.workload, played


def lied(known: Mapping[int, Known], shift: int) -> dict[int, Known]:
    """The base as it were if each program had done another kind of its half, so many places further, each time."""
    return {
        number: one._replace(past=tuple(shifted(name, shift) for name in one.past)) for number, one in known.items()
    }


def shifted(label: Workload, shift: int) -> Workload:
    """Another kind in each half that it has, so many places further."""
    front, back = halves(label)
    return Workload(label_of(_next(front, INTERACTIVE, shift), _next(back, BACKGROUND, shift)))


@dataclass(frozen=True, slots=True)
class _Given:
    """A filter whose result is known."""

    by_time: Mapping[int, Workload | None]

    def push(self, memory: Memory, now_ns: int, probabilities: object, standing: Workload | None) -> Memory:  # noqa: ARG002  # what the protocol asks for
        """See `Filter`."""
        return replace(memory, vote=Vote(workload=self.by_time[now_ns], confidence=1.0))


def _words(course: Course, known: Mapping[int, Known], way: Way) -> tuple[list[Judgement | None], frozenset[int]]:
    # what the model, the base and a client say of each tick, and the ticks at which known programs came or went
    held, word = Knowledge(known=known), None
    words, came = list[Judgement | None](), set[int]()
    for place, tick in enumerate(course.ticks):
        if tick.judged is None:
            words.append(None)
            continue
        before, held = held.present, knowledge.take(held, tick.sample, tick.judged)
        word = told.heard(_said(course, tick, way, word), tick.judged, tick.sample.wall_ns)
        judged = tick.judged
        for said in (knowledge.evidence(held, tick.sample), told.evidence(word)):
            judged = evidence.pooled(judged, said, way.weight)
        words.append(judged)
        if held.present != before:
            came.add(place)
    return words, frozenset(came)


def _said(course: Course, tick: Tick, way: Way, before: Told | None) -> Told | None:
    # a client's word on the span of this tick: a new one as the span begins
    span = next((one for one in course.spans if one.start_ns <= tick.sample.monotonic_ns < one.end_ns), None)
    if way.says is None or span is None:
        return None
    lease = str(span.start_ns)
    if before is not None and before.lease == lease:
        return before
    use = way.says(span.workload)
    return told.of_order(Order(kind=OrderKind.HINT, use=use, sure=max(SURE.values()), client="made up", lease=lease))


def _rates(course: Course) -> tuple[list[float | None], list[float | None]]:
    return [tick.wakeups_per_s for tick in course.ticks], [tick.forks_per_s for tick in course.ticks]


def _judged(course: Course, start_ns: int, end_ns: int) -> bool:
    return any(start_ns <= tick.sample.monotonic_ns < end_ns for tick in course.ticks)


def _next(kind: Kind | None, half: Sequence[Kind], shift: int) -> Kind | None:
    return None if kind is None else half[(half.index(kind) + shift) % len(half)]
