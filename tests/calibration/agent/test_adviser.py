# SPDX-License-Identifier: GPL-2.0-only
"""What advice is worth on made-up sequences: who knows gains once it has proved it, who does not know costs nothing."""

import pytest

from asa.adviser import record
from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.kinds import Kind
from asa.core.sample import ProgramsAtWork, ProgramUse, RawSample
from calibration.agent import adviser, hint
from calibration.knowledge.courses import Course, Tick, number_of
from calibration.voting.streams import Span

S = 10**9
CLASSES = tuple(map(Workload, ("compress", "idle", "infer", "render")))
SECONDS = 30


def tick(second, label, application, *, known):
    values = tuple(0.7 if one == label else 0.1 for one in CLASSES)
    judged = Judgement(probabilities=Probabilities(classes=CLASSES, values=values), score=None, known=known)
    programs = ProgramsAtWork(programs=(ProgramUse(number_of(application), 1.0),))
    sample = RawSample(monotonic_ns=second * S, wall_ns=second * S, programs=programs)
    return Tick(sample=sample, judged=judged, forks_per_s=None, wakeups_per_s=None)


def course(label, application):
    """The model knows the second half of its ticks, and refuses the first with the right label on top."""
    ticks = tuple(tick(second, label, application, known=second >= SECONDS // 2) for second in range(SECONDS))
    span = Span(workload=Workload(label), changes_ns=0, start_ns=0, end_ns=SECONDS * S)
    return Course(name=label, ticks=ticks, spans=(span,), played=(frozenset({number_of(application)}),))


@pytest.fixture
def courses():
    return [course("compress", "archive"), course("render", "blender")]


def test_who_knows_is_asked_once_for_each_program_and_judged_by_the_model(courses):
    life = adviser.lived(courses, adviser.truth)
    assert {one.kind for one in life.record.answers.values()} == {Kind.COMPRESS, Kind.RENDER}
    assert life.record.server == pytest.approx((0.01, 0.01))
    last = life.courses[0].ticks[-1].sample.advice
    assert last == ((number_of("archive"), "compress", 0.45),)
    assert life.courses[0].ticks[0].sample.advice is None


def test_the_proven_oracle_gains_and_the_unproven_one_does_not(courses):
    before = adviser.right_pct(courses)
    gain, words = adviser.oracle_gain_pct(courses)
    assert gain > 10.0
    assert words.startswith(f"{before:.1f} % of the ticks right without")
    assert adviser.right_pct(adviser.lived(courses, adviser.truth).courses) == before


def test_bad_advisers_cost_nothing_and_lose_their_weight(courses, monkeypatch):
    monkeypatch.setattr(adviser, "LOTS", 1)
    loss, words = adviser.worst_loss_pct(courses)
    assert loss <= 0.5
    assert "of 6; " in words
    life = adviser.lived(courses, adviser.liar(1))
    assert record.weight(life.record.server) == 0.0


def test_lots_stay_as_they_fell_and_a_lie_is_of_the_same_half():
    assert [adviser.lots(3)(name) for name in ("web", "disk")] == [adviser.lots(3)(name) for name in ("web", "disk")]
    assert adviser.liar(1)("web") == ("play", "high")
    assert adviser.liar(1)("video") == ("compress", "high")


def test_what_a_tick_pays_is_told_by_its_parts(courses, monkeypatch):
    monkeypatch.setattr(adviser, "_STARTS", 1)
    monkeypatch.setattr(adviser, "_ROUNDS", 1)
    value, words = adviser.tick_us(courses)
    assert value > 0.0
    assert "20 an hour at most" in words


def test_a_hint_of_the_truth_gains_and_no_lie_costs_as_much(courses):
    gain, words = hint.gain_pct(courses)
    loss, worst = hint.loss_pct(courses)
    assert gain > 10.0
    assert words.endswith("with")
    assert loss < gain
    assert ", of 18; mean " in worst
