# SPDX-License-Identifier: GPL-2.0-only
"""Hints in the step: they are seen whatever they count, and move a vote by their weight alone."""

from dataclasses import replace

import pytest
from pipeline_machine import processors

from asa.config import PolicySettings, Voting
from asa.core.decision import Judgement, Permit, Probabilities, Reason, SchedulerName, Workload
from asa.core.evidence import Evidence
from asa.core.kinds import Kind
from asa.core.sample import DesktopEntry, HintState, RawSample
from asa.decide.hints import Hints
from asa.decide.table import Entry, MappingTable
from asa.pipeline import Setup, State, step

S = 10**9
GAME, WEB = Workload("game"), Workload("web")
TABLE = {"Game": {Kind.PLAY: 1.0}}
PLAYS = HintState(
    front="one",
    entries=(DesktopEntry("one", ("Game",)),),
    playing=None,
    game_clients=None,
    idle_inhibited=None,
    sound_played=None,
    sound_recorded=None,
)


class Model:
    schema = 0
    classes = (GAME, WEB)
    known = True

    def __init__(self, game):
        self.game = game

    def judge(self, _):
        probabilities = Probabilities(classes=self.classes, values=(self.game, 1 - self.game))
        return Judgement(probabilities=probabilities, score=None, known=self.known)


def setup(weight, game=0.4):
    rankings = {name: (Entry(scheduler=SchedulerName("eevdf"), why="."),) for name in (GAME, WEB)}
    return Setup(
        classifier=Model(game),
        table=MappingTable(path="t", machine="m", provenance="p", rankings=rankings),
        voting=Voting(),
        policy=PolicySettings(),
        name_of_ops=lambda _: None,
        permit=Permit(switch=False),
        hints=Hints(categories=TABLE, weight=weight),
    )


def sample(second, hints=PLAYS):
    ticks = (second, 0, 0, second, 0, 0, 0, 0)
    cpu = processors(ticks)
    return RawSample(monotonic_ns=second * S, wall_ns=second * S, cpu=cpu, hints=hints)


def run(made, hints=PLAYS, ticks=5):
    state = State()
    for second in range(1, ticks + 1):
        state = step(made, state, sample(second, hints))
    return state


def test_with_weight_0_the_hint_is_seen_and_changes_nothing():
    hinted, plain = run(setup(0.0)), run(setup(0.0), None)
    assert hinted.decision == plain.decision
    assert hinted.decision.workload == WEB
    assert (hinted.evidence.interactive, plain.evidence) == ({Kind.PLAY: 1.0}, None)


def test_with_weight_the_vote_is_of_both():
    state = run(setup(1.0))
    assert state.decision.workload == GAME
    assert state.decision.probabilities.of(GAME) == pytest.approx(0.4 * 2.718282 / (0.4 * 2.718282 + 0.6))


def test_a_confident_model_keeps_its_word():
    assert run(setup(1.0, game=0.05)).decision.workload == WEB


def test_a_tick_that_fits_no_class_is_known_where_label_and_hints_are_one(monkeypatch):
    monkeypatch.setattr(Model, "known", False)
    assert run(setup(4.0)).decision.workload == GAME
    state = run(setup(0.1))  # the label stays `web`, the hints say a game
    assert (state.decision.workload, state.decision.reason) == (None, Reason.UNDECIDED)


def test_a_tick_without_rates_has_the_window_in_front_all_the_same():
    state = step(setup(1.0), State(), sample(1))
    assert state.decision.probabilities is None
    assert state.evidence == Evidence(interactive={Kind.PLAY: 1.0}, because=("one is in front (play 1.00)",))
    gap = step(setup(1.0), state, replace(sample(2), monotonic_ns=900 * S))
    assert gap.evidence.interactive == {Kind.PLAY: 1.0}
