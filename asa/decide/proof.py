# SPDX-License-Identifier: GPL-2.0-only
"""What was found on this machine, for its user: for each use what was tried, what is better and by how much. Pure.

It is made of what trials came to (`asa.decide.learning`) and of what a mapping table says was measured here. Nothing is
computed anew: effects and intervals are those that the agent decides by. What is of another kernel, of other files or
of another machine is listed and counts for nothing.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from asa.config import Learn
from asa.core import kinds
from asa.core.decision import DEFAULT_MODE, EEVDF, SchedulerName, Workload
from asa.core.regime import REGIMES
from asa.decide import learning, trial_budget
from asa.decide.grounds import Ground
from asa.decide.learning import Learning, Lessons
from asa.decide.table import MappingTable
from asa.decide.trial_budget import Asked, Stand
from asa.decide.trial_pairs import Verdict

_DAY_NS = 86_400 * 1_000_000_000
_NUMBERS = re.compile(r"\d+(\.\d+)*")
_TRIAL = "trial"


class Answer(StrEnum):
    """What is known, of one use or of all."""

    BETTER = "better"
    NO_DIFFERENCE = "no difference"
    NOT_YET = "not yet known"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one scheduler against another one in a use."""

    scheduler: str
    than: str
    by: str  # trial or calibration
    verdict: str  # better, worse or alike; "": not known yet
    of: str  # what the effect is of: the share of the wait that is saved, or points of a score (0 to 1)
    effect: float | None
    low: float | None
    high: float | None
    runs: int | None  # pairs of a trial, or runs of a calibration
    kernel: str = ""
    versions: tuple[str, str] = ("", "")  # of the files of `scheduler` and `than`; "": unknown, or the kernel's own
    tried_s: float | None = None  # under it, in all runs; None: a calibration does not say
    switches: int | None = None
    at_ns: int | None = None  # CLOCK_REALTIME, when it was tried last
    aged: str = ""  # why it is of another time and counts for nothing; "": it counts


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """One use: what is known of it, who serves it by that, and who is to be tried next."""

    use: str
    answer: Answer
    serves: str
    found: tuple[Found, ...]
    following: str = ""  # "": nobody


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, and what it cost. The agent measures no energy, so that of trials is not known."""

    answer: Answer
    sentence: str
    asa_version: str
    machine: str  # the CPU's model
    kernel: str
    learn: str  # policy.learn
    since_ns: int | None  # CLOCK_REALTIME, of the first watched second; None: nothing was, or nobody noted it
    watched_s: float
    tried_s: float  # of these, under a candidate
    switches: int  # of the trials that are listed
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The machine as it is now."""

    asa_version: str
    machine: str
    learn: Learn
    stand: Stand  # its files: of nobody else is it said that they are next


def of(kept: Learning, table: MappingTable | None, here: Here) -> Proof:
    """What is known on this machine. `table` None: of what trials came to alone, as of a journal."""
    lessons = learning.begin(kept, here.stand)
    names = dict.fromkeys(one.use for one in kept.asked)
    if table is not None:
        names |= dict.fromkeys(name for name in table.listed if any(_calibrated(table, name)))
    uses = tuple(_use(name, kept, lessons, table, here) for name in kinds.distinct(names))
    account = kept.account
    answer, sentence = _answer(uses)
    return Proof(
        answer=answer,
        sentence=sentence,
        asa_version=here.asa_version,
        machine=here.machine,
        kernel=here.stand.kernel,
        learn=here.learn,
        since_ns=account.since_ns,
        watched_s=account.watched_s,
        tried_s=account.tried_s,
        switches=sum(one.switches for one in kept.asked),
        uses=uses,
    )


def redacted(proof: Proof, known: Mapping[str, Collection[str]]) -> Proof:
    """To be given to strangers: days, kernels' numbers, the CPU's model, and no names but `known` ones and kinds.

    `known`: the modes of each shipped scheduler. One of one's own, and such a use, has a number in place of its name.
    """
    schedulers, labels = _Numbers("scheduler"), _Numbers("use")

    def scheduler(name: str) -> str:
        if name in ("", EEVDF):
            return name
        one = SchedulerName(name)
        shipped = one.bare in known and (one.mode == DEFAULT_MODE or one.mode in known[one.bare])
        return name if shipped else schedulers.of(name)

    def label(name: str) -> str:
        common = name in REGIMES or name in (kinds.IDLE, kinds.OTHER) or any(kinds.halves(name))
        return name if common else labels.of(name)

    def found(one: Found) -> Found:
        return msgspec.structs.replace(
            one,
            scheduler=scheduler(one.scheduler),
            than=scheduler(one.than),
            kernel=_numbers(one.kernel),
            at_ns=_day(one.at_ns),
            aged="of another time" if one.aged else "",
        )

    uses = tuple(
        msgspec.structs.replace(
            one,
            use=label(one.use),
            serves=scheduler(one.serves),
            following=scheduler(one.following),
            found=tuple(map(found, one.found)),
        )
        for one in proof.uses
    )
    return msgspec.structs.replace(
        proof, uses=uses, kernel=_numbers(proof.kernel), since_ns=_day(proof.since_ns), sentence=_answer(uses)[1]
    )


def words(found: Found) -> str:
    """One of what was found, for people."""
    told = [f"{found.scheduler} against {found.than}: {found.verdict or Answer.NOT_YET}"]
    if found.effect is not None:
        figure = "{:+.0%}" if found.of == "wait" else "{:+.3f}"
        ends = ""
        if found.low is not None and found.high is not None:
            ends = f" ({figure.format(found.low)} to {figure.format(found.high)})"
        effect = f"{figure.format(found.effect)}"
        told.append(f"saves {effect} of the wait{ends}" if found.of == "wait" else f"{effect} score{ends}")
    trial = found.by == _TRIAL
    if found.runs:
        told.append(f"{found.runs} {'pair' if trial else 'run'}{'' if found.runs == 1 else 's'}")
    if found.tried_s is not None:
        told.append(f"{found.tried_s:.0f} s under it, {found.switches} switches")
    if not trial:
        told.append(f"by {found.by}")
    if found.aged:
        told.append(f"does not count: {found.aged}")
    return ", ".join(told)


def _use(use: Workload, kept: Learning, lessons: Lessons, table: MappingTable | None, here: Here) -> Use:
    found = [_tried(one, here.stand) for one in kept.asked if kinds.same(one.use, use)]
    if table is not None:
        found += _calibrated(table, use)
    serves, following = EEVDF, None
    if table is not None:
        first = table.wanted(use, ()) or EEVDF
        proved = learning.proved(lessons, use, first) if here.learn is not Learn.OFF else ()
        serves = table.wanted(use, (), proved=proved) or EEVDF
        following = _following(use, serves, lessons, table, here)
    else:
        serves = next(iter(learning.proved(lessons, use, EEVDF)), EEVDF)
    counts = [one.verdict for one in found if not one.aged]
    if Verdict.BETTER in counts:
        answer = Answer.BETTER
    elif all(counts) and counts and following is None:
        answer = Answer.NO_DIFFERENCE
    else:
        answer = Answer.NOT_YET
    return Use(
        use=use, answer=answer, serves=str(serves), found=tuple(found), following="" if following is None else following
    )


def _following(
    use: Workload, serves: SchedulerName, lessons: Lessons, table: MappingTable, here: Here
) -> SchedulerName | None:
    """Who is to be tried next, as the agent has it; None: all that may be tried was."""
    files = here.stand.versions
    offers = [
        one
        for one in table.offers(use)
        if (one.name == EEVDF or one.name.bare in files) and learning.said(lessons, use, one.name) is not False
    ]
    choice = trial_budget.following(use, serves, offers, lessons.kept.asked, here.stand)
    return None if choice is None else choice.candidate


def _tried(one: Asked, stand: Stand) -> Found:
    effect = one.effect
    return Found(
        scheduler=str(one.candidate),
        than=str(one.in_force),
        by=_TRIAL,
        verdict=one.verdict or "",
        of="wait",
        effect=None if effect is None else effect.share,
        low=None if effect is None else effect.low,
        high=None if effect is None else effect.high,
        runs=one.count,
        kernel=one.kernel,
        versions=(one.versions[1][: trial_budget.HASH_SHOWN], one.versions[0][: trial_budget.HASH_SHOWN]),
        tried_s=one.tried_s,
        switches=one.switches,
        at_ns=one.at_ns or None,
        aged=one.aged(stand),
    )


def _calibrated(table: MappingTable, use: Workload) -> Iterator[Found]:
    """What a table says was measured on this machine."""
    source, _, ranking = table.source(use)
    for entry in ranking:
        evidence = entry.evidence
        if evidence is None or evidence.effect is None or source.ground(entry) is not Ground.HERE:
            continue
        yield Found(
            scheduler=str(entry.name),
            than=evidence.than,
            by="calibration",
            verdict=_said_by(evidence.low, evidence.high),
            of=evidence.of,
            effect=evidence.effect,
            low=evidence.low,
            high=evidence.high,
            runs=evidence.runs,
            kernel=evidence.kernel or (source.measured.kernel if source.measured is not None else ""),
            aged=source.aged(entry),
        )


def _said_by(low: float | None, high: float | None) -> str:
    """By an interval alone; without one nothing is known."""
    if low is None or high is None:
        return ""
    return str(Verdict.BETTER if low > 0.0 else Verdict.WORSE if high < 0.0 else Verdict.ALIKE)


def _answer(uses: tuple[Use, ...]) -> tuple[Answer, str]:
    """The one word, and the sentence that says it."""
    counts = {answer: sum(one.answer is answer for one in uses) for answer in Answer}
    better, alike, open_ = (counts[answer] for answer in Answer)
    if not uses:
        return Answer.NOT_YET, "not yet known: nothing was tried on this machine so far"
    answer = Answer.BETTER if better else Answer.NOT_YET if open_ else Answer.NO_DIFFERENCE
    parts = [f"for {better} of {_uses(len(uses))} another scheduler is better here"] if better else []
    parts += [f"for {alike} all that may be tried was tried, and nothing is better"] if alike else []
    parts += [f"for {open_} it is not known yet"] if open_ else []
    return answer, f"{answer}: {'; '.join(parts)}"


def _uses(count: int) -> str:
    return f"{count} use{'' if count == 1 else 's'}"


class _Numbers:
    """A number for each name, by when it came first."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> str:
        return f"{self._what} {self._numbers.setdefault(name, len(self._numbers) + 1)}"


def _numbers(text: str) -> str:
    """A kernel's release without what its maker added."""
    found = _NUMBERS.match(text)
    return found.group() if found else ""


def _day(at_ns: int | None) -> int | None:
    return None if at_ns is None else at_ns // _DAY_NS * _DAY_NS
