# SPDX-License-Identifier: GPL-2.0-only
"""Sequences with a base: what is learnt of others, how soon a known program is recognised, and what a lie costs."""

from dataclasses import replace

import pytest

from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.sample import ProgramsAtWork, ProgramUse, RawSample
from asa.decide import knowledge
from calibration.knowledge import play
from calibration.knowledge.courses import Course, Tick
from calibration.voting.streams import Span

S = 10**9
CLASSES = tuple(map(Workload, ("compress", "idle", "infer", "render")))
ZIP, RAY = 1, 2
DOES = {ZIP: "compress", RAY: "render"}


def tick(second, number, *, known):
    programs = () if number is None else (ProgramUse(number, 1.0),)
    name = "idle" if number is None else DOES[number]
    values = tuple(0.7 if one == name else 0.1 for one in CLASSES)
    judged = Judgement(probabilities=Probabilities(classes=CLASSES, values=values), score=None, known=known)
    sample = RawSample(monotonic_ns=second * S, wall_ns=second * S, programs=ProgramsAtWork(programs=programs))
    return Tick(sample=sample, judged=judged, forks_per_s=1.0, wakeups_per_s=100.0)


def course(name, *, known=True):
    """Rest, then a zip for ten seconds, then a ray-tracer for ten; rest is always known."""
    order = [None] * 10 + [ZIP] * 10 + [RAY] * 10
    spans = tuple(
        Span(workload=Workload(label), changes_ns=start * S, start_ns=start * S, end_ns=(start + 10) * S)
        for start, label in ((0, "idle"), (10, "compress"), (20, "render"))
    )
    return Course(
        name=name,
        ticks=tuple(tick(second, one, known=known or one is None) for second, one in enumerate(order)),
        spans=spans,
        played=(frozenset(), frozenset({ZIP}), frozenset({RAY})),
    )


@pytest.fixture(scope="module")
def base():
    return play.learn([course(name) for name in "abc"])


def test_each_course_is_one_sighting_of_each_program(base):
    assert {number: one.past for number, one in base.items()} == {
        ZIP: (Workload("compress"),) * 3,
        RAY: (Workload("render"),) * 3,
    }
    assert play.learn([course("a", known=False)]) == {}


def test_known_programs_are_recognised_at_once_though_the_model_refuses_every_tick(base):
    strange = course("d", known=False)
    alone = play.played(strange, {}, play.VOTES_ALONE)
    assert set(alone.standing) == {"idle"}
    assert list(play.known_delays(strange, alone.standing, base)) == [10.0, 10.0]
    with_base = play.played(strange, base)
    assert list(play.known_delays(strange, with_base.standing, base)) == [0.0, 0.0]
    assert list(play.known_delays(strange, with_base.standing, {})) == [], "nobody is known"


def test_without_change_points_the_votes_of_before_have_to_be_outvoted(base):
    strange = course("d", known=False)
    slow = play.played(strange, base, replace(play.SHIPPED, by_programs=False))
    assert sum(play.known_delays(strange, slow.standing, base)) >= 2.0


def test_a_base_that_lies_moves_no_model_that_is_sure(base):
    wrong = play.lied(base, 1)
    assert wrong[ZIP].past == (Workload("render"),) * 3
    assert play.lied(wrong, len(knowledge.BACKGROUND) - 1) == base
    told = play.played(course("d"), wrong)
    assert play.wrong_for_long(course("d"), told.named, {ZIP, RAY}) == (0, 20)


def test_ticks_are_wrong_for_long_after_six_seconds_and_of_these_programs_alone():
    some = course("d")
    named = [Workload("infer")] * 30
    assert play.wrong_for_long(some, named, {ZIP}) == (3, 10)
    assert play.wrong_for_long(some, [None] * 30, {ZIP, RAY}) == (0, 20)


def test_a_class_that_is_frozen_stays(base):
    way = replace(play.SHIPPED, freezes=lambda _: frozenset(range(10, 30)))
    assert set(play.played(course("d"), base, way).standing) == {"idle"}
