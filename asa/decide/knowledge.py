# SPDX-License-Identifier: GPL-2.0-only
"""What programs did when they were at work before, and what that says of the ones at work now. Pure but `load`, `save`.

A program is a number (`collectors.programs`): no name comes here. From its first work until it has rested for a minute
is one sighting, and the class that the model named most often meanwhile is what it did. The model's own word counts,
not what it became with this knowledge beside it, or a mistake would prove itself.

What a program is known for is evidence beside the model's word, as hints are (`asa.decide.evidence`): one weight bounds
what it can change. Its confidence is agreement x (0.5 + 0.5 x stability) over its last sightings, and fades with days.
Where a known program comes or goes, what was voted on before is of another use. The figures: docs/knowledge.md.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from sys import intern
from typing import Annotated, Literal, NamedTuple

import msgspec

from asa.core.decision import Judgement, Workload
from asa.core.errors import InputError
from asa.core.evidence import Evidence
from asa.core.kinds import BACKGROUND, INTERACTIVE, Kind, halves, label_of
from asa.core.sample import RawSample
from asa.decide import kept_file
from asa.decide.evidence import HOLD_NS, LEAST_CORES

NAME = "programs.json"
"""The file's name in the agent's state folder."""
MOST_PROGRAMS = 5000
"""The ones seen longest ago are forgotten, of those of one day the ones seen least often."""
MOST_FIRM = 4000
"""Of these, that have been seen often enough to be known. However many new programs come, so many stay."""
AT_A_TIME = 250
"""With one too many so many are forgotten: to put all in order takes milliseconds."""
MOST_PAST = 6
"""Sightings that are kept of a program."""
FEWEST_PAST = 3
"""With fewer a program is not known. As in PANDEMONIUM 5.3.1, and the next one too."""
LEAST = 0.6
"""Confidence below which nothing is said."""
WEIGHT = 1.5
"""Of this evidence against the model: the odds of two labels change by exp(1.5) at most, for each half of a label.
docs/knowledge.md has others beside it."""
MOST_ADVISED = 0.9
"""What an adviser's word is evidence for at most, of 1. A first choice: what was seen here goes before it."""
HALF_LIFE_DAYS = 90.0
"""A first choice: after so long without a sighting the confidence is half of what it was."""
FEWEST_TICKS = 3
"""Of a sighting in which the model named a class; with fewer it tells nothing."""
QUIET_NS = 60_000_000_000
"""A program that has rested for so long begins another sighting when it works again."""
GONE_NS = 1_500_000_000
"""A program of which no process was there for so long has gone. Between two ticks one may end and the next begin."""
MOST_AT_ONCE = 64
"""Sightings that go on at a time; with one more, that of the program that worked longest ago is over."""

_KINDS: Mapping[str, Kind] = {str(one): one for one in Kind}
_halves = lru_cache(maxsize=256)(halves)  # asked in each tick
_DAY_NS = 86_400_000_000_000
_WHAT = "a base of programs"
_OWN = 0o600  # who has the key can tell a program by its number

Told = tuple[Kind, float]
"""The kind that a program is known for, and how surely, 0..1."""


class Known(NamedTuple):
    """What is kept of one program."""

    day: int  # of the last sighting, since 1970 by CLOCK_REALTIME
    past: tuple[Workload, ...]  # what it did, a label of kinds each sighting, the newest last


class Sighting(NamedTuple):
    """A program that works, or has a moment ago. Times are CLOCK_MONOTONIC in ns."""

    worked_ns: int
    there_ns: int  # when a process of it was there last
    told: Told | None  # what it was known for when it began
    said: Mapping[Workload, int]  # ticks in which the model named a class


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """`known` outlives the agent; it is another object only when it changed."""

    known: Mapping[int, Known] = field(default_factory=dict)
    now: Mapping[int, Sighting] = field(default_factory=dict)
    present: frozenset[int] = frozenset()  # of `now`, known ones that have not gone


_Number = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
_Line = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}( [^ ]+)*$")]


class KnowledgeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. Without `key` nobody can tell by a program's number what program it is."""

    version: Literal[1] = 1
    key: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""
    programs: Annotated[dict[_Number, _Line], msgspec.Meta(max_length=MOST_PROGRAMS)] = {}
    """By number: the day and the labels, with spaces between."""


def take(knowledge: Knowledge, sample: RawSample, judged: Judgement) -> Knowledge:
    """With one tick. `judged` is the model's own word on it."""
    programs = sample.programs
    now_ns, at_work = sample.monotonic_ns, () if programs is None else programs.programs
    if not at_work and not knowledge.now:
        return knowledge
    now, over = dict(knowledge.now), list[tuple[int, Sighting]]()
    word = _word(judged)
    for number, cores in at_work:
        one, works = now.get(number), cores >= LEAST_CORES
        if one is None:
            if not works:
                continue
            if len(now) >= MOST_AT_ONCE:
                oldest = min(now, key=lambda other: now[other].worked_ns)
                over.append((oldest, now.pop(oldest)))
            one = Sighting(now_ns, now_ns, told(knowledge.known.get(number), sample.wall_ns), {})
        worked_ns, _, kind, said = one
        if works and word is not None:
            said = {**said, word: said.get(word, 0) + 1}
        now[number] = Sighting(now_ns if works else worked_ns, now_ns, kind, said)
    quiet = [number for number, one in now.items() if now_ns - one.worked_ns >= QUIET_NS]
    over += [(number, now.pop(number)) for number in quiet]
    known = _with(knowledge.known, over, sample.wall_ns) if over else knowledge.known
    present = frozenset(
        [number for number, one in now.items() if one.told is not None and now_ns - one.there_ns < GONE_NS]
    )
    return Knowledge(known=known, now=now, present=present)


def evidence(knowledge: Knowledge, sample: RawSample) -> Evidence | None:
    """What the programs at work speak for: those that are known, and others by what is advised; None for nothing.

    One that the model contradicts in this sighting, more often than not, does not speak.
    """
    found: dict[Kind, float] = {}
    now_ns = sample.monotonic_ns
    for number in knowledge.present:
        one = knowledge.now[number]
        if one.told is None or now_ns - one.worked_ns >= HOLD_NS or contradicted(one.said, one.told[0]):
            continue
        kind, sure = one.told
        found[kind] = max(sure, found.get(kind, 0.0))
    for number, name, sure in sample.advice or ():
        works, advised = knowledge.now.get(number), _KINDS.get(name)  # None: of another version
        if works is None or works.told is not None or advised is None:
            continue
        if now_ns - works.worked_ns < HOLD_NS and not contradicted(works.said, advised):
            found[advised] = max(min(sure, MOST_ADVISED), found.get(advised, 0.0))
    return _said(tuple(found.items())) if found else None


def told(known: Known | None, wall_ns: int) -> Told | None:
    """What a program is known for on the day of `wall_ns` (CLOCK_REALTIME), None for nothing.

    It is one kind: a program is at work in front or behind. Where both halves of its labels are as sure it was always
    beside the same other one, and nobody knows which of the two kinds is whose.
    """
    if known is None or len(known.past) < FEWEST_PAST:
        return None
    age_days = max(0, wall_ns // _DAY_NS - known.day)  # of a clock that was set back nothing is old
    fresh = 0.5 ** (age_days / HALF_LIFE_DAYS)
    both = [halves(label) for label in known.past]
    front, back = (_sure([one[side] for one in both]) for side in (0, 1))
    if front is None or back is None:
        kind, sure = front or back or (None, 0.0)
    else:
        kind, sure = max(front, back, key=lambda one: one[1]) if front[1] != back[1] else (None, 0.0)
    return (kind, sure * fresh) if kind is not None and sure * fresh >= LEAST else None


def contradicted(said: Mapping[Workload, int], kind: Kind) -> bool:
    """Does the model's own word speak against it? `said` counts the ticks in which it named a class."""
    for_it = against = 0
    side = 0 if kind in INTERACTIVE else 1
    for label, count in said.items():
        other = _halves(label)[side]
        if other == kind:
            for_it += count
        elif other is not None:
            against += count
    return against >= FEWEST_TICKS and against > for_it


def ended(knowledge: Knowledge, wall_ns: int) -> Knowledge:
    """The agent ends: what goes on is over."""
    return Knowledge(known=_with(knowledge.known, knowledge.now.items(), wall_ns))


def merged(ours: Mapping[int, Known], theirs: Mapping[int, Known]) -> dict[int, Known]:
    """Both; of a program in both what is of the later day, else what has more sightings, else ours."""
    both = dict(theirs)
    for number, one in ours.items():
        other = theirs.get(number)
        if other is None or (other.day, len(other.past)) <= (one.day, len(one.past)):
            both[number] = one
    return _bounded(both, max((one.day for one in ours.values()), default=0))


def load(path: Path) -> tuple[Mapping[int, Known], bytes]:
    """What `save` wrote, and the key; nothing and b"" for a missing file. Raises InputError for a damaged one."""
    body = kept_file.load(path, KnowledgeFile, _WHAT)
    return of_file(body), bytes.fromhex(body.key)


def save(path: Path, known: Mapping[int, Known], key: bytes) -> None:
    """With what another agent of the same key has written since. Raises AsaError."""
    try:
        theirs, its_key = load(path)
    except InputError:
        theirs, its_key = {}, b""
    body = as_file(merged(known, theirs) if its_key == key else known)
    kept_file.save(path, msgspec.structs.replace(body, key=key.hex()), _WHAT, mode=_OWN)


def as_file(known: Mapping[int, Known]) -> KnowledgeFile:
    """Without the key: as a journal has it."""
    return KnowledgeFile(
        programs={f"{number:016x}": " ".join((str(one.day), *one.past)) for number, one in known.items()}
    )


def of_file(body: KnowledgeFile) -> dict[int, Known]:
    """What `as_file` made, which is empty then: of thousands each takes the room of what it was read from.

    Programs that did the same share it.
    """
    pasts: dict[str, tuple[Workload, ...]] = {}
    found = {}
    while body.programs:
        number, text = body.programs.popitem()
        day, _, labels = text.partition(" ")
        past = pasts.get(labels)
        if past is None:
            past = pasts[labels] = tuple([Workload(intern(label)) for label in labels.split()])
        found[int(number, 16)] = Known(day=int(day), past=past)
    return dict(reversed(found.items()))


@lru_cache(maxsize=64)  # the same in each tick while the same programs work
def _said(found: tuple[Told, ...]) -> Evidence:
    return Evidence(
        interactive={kind: sure for kind, sure in found if kind in INTERACTIVE},
        background={kind: sure for kind, sure in found if kind in BACKGROUND},
    )


def _word(judged: Judgement) -> Workload | None:
    # the class that the model names, None where the tick fits none
    if not judged.known:
        return None
    return judged.probabilities.likeliest


def _sure(kinds: Sequence[Kind | None]) -> Told | None:
    # the kind that was there the most, of equals the newest, and the confidence; None: mostly none
    kind, count = Counter(reversed(kinds)).most_common(1)[0]
    stable = sum(one == other for one, other in pairwise(kinds)) / (len(kinds) - 1)
    return None if kind is None else (kind, count / len(kinds) * (0.5 + 0.5 * stable))


def _with(known: Mapping[int, Known], over: Iterable[tuple[int, Sighting]], wall_ns: int) -> Mapping[int, Known]:
    new = dict(_done(known, over, wall_ns))
    return _bounded({**known, **new}, wall_ns // _DAY_NS) if new else known


def _done(
    known: Mapping[int, Known], over: Iterable[tuple[int, Sighting]], wall_ns: int
) -> Iterator[tuple[int, Known]]:
    # those of these sightings that tell something
    for number, one in over:
        if sum(one.said.values()) < FEWEST_TICKS:
            continue
        did = Workload(label_of(*halves(max(one.said, key=lambda name: one.said[name]))))
        before = known.get(number, Known(0, ()))
        # no earlier than before, when the clock was set back: or what is kept in the file would seem to be newer
        yield number, Known(day=max(before.day, wall_ns // _DAY_NS), past=(*before.past, did)[-MOST_PAST:])


def _bounded(known: dict[int, Known], today: int) -> dict[int, Known]:
    # a day that is still to come, from before the clock was set back, is no newer than today
    if len(known) <= MOST_PROGRAMS:
        return known

    def newest(number: int) -> tuple[int, int]:
        return min(known[number].day, today), len(known[number].past)

    order = sorted(known, key=newest)[::-1]  # of equals the one that came last is the newest
    firm = dict.fromkeys([number for number in order if len(known[number].past) >= FEWEST_PAST][:MOST_FIRM])
    kept = set([*firm, *(number for number in order if number not in firm)][: MOST_PROGRAMS - AT_A_TIME])
    return {number: one for number, one in known.items() if number in kept}
