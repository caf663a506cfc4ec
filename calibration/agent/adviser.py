# SPDX-License-Identifier: GPL-2.0-only
"""What advice is worth and costs, on the kept sequences, by the agent's own adviser and votes.

The sequences are of programs that no base knows here: a fresh installation, where an adviser is asked the most. Who
answers is made up: one that knows the truth is the bound of what advice is worth, those that draw lots or lie are the
bound of what it harms. Answers, weights and their record are the product's. Nothing is booted, nobody is asked.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

from asa import paths, wire
from asa.adviser import child, record
from asa.adviser.asking import Asker, Child, Question
from asa.adviser.record import Record
from asa.adviser.settings import Settings, Table, Use
from asa.adviser.source import Adviser
from asa.core.kinds import BACKGROUND, INTERACTIVE, OF_APPLICATION, Kind
from asa.core.sample import Advice, RawSample
from asa.decide import knowledge
from asa.decide.knowledge import Knowledge
from calibration.knowledge import play
from calibration.knowledge.costs import least_us
from calibration.knowledge.courses import Course, Tick, number_of, read
from calibration.voting import score
from models.runtime import Ensemble

Word = tuple[str, str]
"""A kind or `none`, and how sure."""
Answers = Callable[[str], Word]
"""What is said of a program, by its name here: that of the paper's application."""

LOTS = 20
"""Advisers that draw lots: the worst of so many counts."""
PROVEN = (0.01,) * record.MOST_JUDGED
"""The record of an adviser that was always right, with `high`."""

_NAMES = {number_of(name): name for name in OF_APPLICATION}
_STARTS = 20
_ROUNDS = 9
_APART_NS = 3600 * 10**9  # between two sequences of one life


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One agent's life through all sequences: with what was advised in each tick, and the record at the end."""

    courses: Sequence[Course]
    record: Record


@cache
def kept() -> Sequence[Course]:
    """The sequences that are kept, as the shipped model sees them: some seconds of work. Raises JournalError."""
    folder = paths.base_model().parents[1] / "recordings/sequences"
    return read(sorted(folder.glob("*.journal.xz")), Ensemble.load(paths.base_model()))


def truth(name: str) -> Word:
    """The adviser that knows."""
    return OF_APPLICATION[name], "high"


def liar(shift: int) -> Answers:
    """The adviser that is sure of another kind of the same half, so many places further."""

    def answer(name: str) -> Word:
        kind = OF_APPLICATION[name]
        half = INTERACTIVE if kind in INTERACTIVE else BACKGROUND
        return half[(half.index(kind) + shift) % len(half)], "high"

    return answer


def lots(seed: int) -> Answers:
    """The adviser that draws an answer, the same one each time."""
    drawn = random.Random(seed)  # noqa: S311  # no secret
    words = {name: (drawn.choice([*Kind, child.NONE]), drawn.choice(child.SURE)) for name in OF_APPLICATION}
    return words.__getitem__


def lived(courses: Sequence[Course], answers: Answers, server: Sequence[float] = ()) -> Life:
    """The sequences one after the other, with an adviser whose record so far is `server`.

    It is judged by what the model recognises of them, as the product's is. It passed its examination before.
    """
    with tempfile.TemporaryDirectory() as folder:
        stage = _Stage(Path(folder) / record.NAME, answers, server)
        advised = []
        known = Knowledge()
        for course in courses:
            stage.moved(course)
            ticks = []
            for tick in course.ticks:
                ticks.append(stage.tick(tick))
                if tick.judged is not None:
                    known = knowledge.take(known, ticks[-1].sample, tick.judged)
                stage.adviser.heard(known, unknown=tick.judged is not None and not tick.judged.known)
            known = knowledge.ended(known, course.ticks[-1].sample.wall_ns)
            stage.adviser.heard(known, unknown=False)
            advised.append(replace(course, ticks=tuple(ticks)))
        return Life(courses=advised, record=stage.adviser.record)


def right_pct(courses: Sequence[Course], way: play.Way = play.SHIPPED) -> float:
    """Ticks whose class stands after voting, of all, where no program was seen before."""
    found = score.score(play.tally(one, play.played(one, {}, way).standing) for one in courses)
    assert found.wrong_pct is not None  # noqa: S101  # sequences have ticks
    return 100.0 - found.wrong_pct


def less_pct(before: float, after: float) -> float:
    """How much less, in per cent of before."""
    return 100.0 * (before - after) / before


def oracle_gain_pct(courses: Sequence[Course]) -> tuple[float, str]:
    """What an adviser that knows the truth, and has proved it, gains of the ticks that are right without; and words."""
    before = right_pct(courses)
    proven, new = (right_pct(lived(courses, truth, server).courses) for server in (PROVEN, ()))
    words = f"{before:.1f} % of the ticks right without, {proven:.1f} with; from its first word on {new:.1f}"
    return -less_pct(before, proven), words


def worst_loss_pct(courses: Sequence[Course]) -> tuple[float, str]:
    """What the worst of many bad advisers loses of the ticks that are right without; and words.

    All begin without a record. The words have the same of advisers that had been right a hundred times before.
    """
    before = right_pct(courses)
    bad: Mapping[str, Answers] = {
        **{f"lots {seed}": lots(seed) for seed in range(LOTS)},
        **{f"liar {shift}": liar(shift) for shift in range(1, len(INTERACTIVE))},
    }
    losses = {name: less_pct(before, right_pct(lived(courses, one).courses)) for name, one in bad.items()}
    turned = [less_pct(before, right_pct(lived(courses, one, PROVEN).courses)) for one in bad.values()]
    worst = max(losses, key=lambda name: losses[name])
    mean = sum(losses.values()) / len(losses)
    words = f"{worst}, of {len(bad)}; mean {mean:.2f}; if it had been right before, at worst {max(turned):.2f}"
    return losses[worst], words


def tick_us(courses: Sequence[Course]) -> tuple[float, str]:
    """Microseconds of processor time that a tick pays for a server that is on, the mean, questions with it; and words.

    The adviser's source, and what its word adds to the evidence; and the start of a child, so many an hour as may be.
    """
    life = lived(courses, truth)
    with tempfile.TemporaryDirectory() as folder:
        stage = _Stage(Path(folder) / record.NAME, truth, ())
        stage.adviser.record = life.record
        ticks = [tick for course in courses for tick in course.ticks]
        asked = [({"programs": tick.sample.programs}, Knowledge()) for tick in ticks]

        def source() -> None:
            for fields, known in asked:
                stage.adviser.follow(fields)
                stage.adviser.read()
                stage.adviser.heard(known, unknown=False)

        read_us = least_us(source, _ROUNDS) / len(ticks)
    pure_us = [_evidence_us(one) for one in (life.courses, courses)]
    begun_us = _child_us()
    per_hour = Settings().per_hour
    words = (
        f"{read_us:.1f} to look up, {pure_us[0] - pure_us[1]:.1f} of the evidence; a question {begun_us / 1e3:.1f} ms, "
        f"{per_hour} an hour at most"
    )
    return read_us + max(0.0, pure_us[0] - pure_us[1]) + begun_us * per_hour / 3600.0, words


class _Answered:
    """A question that is answered at once."""

    def __init__(self, sent: bytes, answers: Answers) -> None:
        kind, sure = answers(wire.from_json(sent, Question).program)
        self._text = wire.json_bytes({"kind": kind, "sure": sure, "way": child.WAYS[0], "model": "made up"})

    def poll(self) -> bytes | None:
        return self._text

    def end(self) -> None:
        return


class _Stage:
    """The product's adviser with somebody made up behind it, in the time of recordings."""

    def __init__(self, kept: Path, answers: Answers, server: Sequence[float]) -> None:
        settings = Settings(use=Use.SERVER, per_hour=60)
        record.save(kept, Record(url=settings.url, model="made up", server=tuple(server)))
        self._now_ns = self._offset_ns = self._wall_ns = 0
        self.adviser = Adviser(
            settings,
            Table(kinds={}),
            _NAMES,
            kept,
            lambda _: None,
            asker=Asker(settings.per_hour, lambda sent: _Answered(sent, answers)),
            clock=lambda: (self._now_ns, self._wall_ns),
        )
        self.adviser.open()

    def moved(self, course: Course) -> None:
        """A sequence begins an hour after the last one."""
        self._offset_ns = self._now_ns + _APART_NS - course.ticks[0].sample.monotonic_ns

    def tick(self, tick: Tick) -> Tick:
        """With what is advised."""
        sample = tick.sample
        self._now_ns, self._wall_ns = sample.monotonic_ns + self._offset_ns, sample.wall_ns
        self.adviser.follow({"programs": sample.programs})
        advice = self.adviser.read().get("advice")
        return replace(tick, sample=replace(sample, advice=cast("tuple[Advice, ...] | None", advice)))


def _evidence_us(courses: Sequence[Course]) -> float:
    held = list(_held(courses))

    def once() -> None:
        for known, sample in held:
            knowledge.evidence(known, sample)

    return least_us(once, _ROUNDS) / len(held)


def _held(courses: Sequence[Course]) -> Iterator[tuple[Knowledge, RawSample]]:
    known = Knowledge()
    for course in courses:
        for tick in course.ticks:
            if tick.judged is not None:
                known = knowledge.take(known, tick.sample, tick.judged)
                yield known, tick.sample


def _child_us() -> float:
    # of the agent's time alone: the child is given up as soon as it is there
    question = Question(url="http://127.0.0.1:9/v1", model="", way="", remote=False, program="made-up")
    spent = []
    for _ in range(_STARTS):
        start_ns = time.thread_time_ns()
        begun = Child(wire.json_bytes(question))
        spent.append(time.thread_time_ns() - start_ns)
        begun.end()
    return sorted(spent)[_STARTS // 2] / 1e3
