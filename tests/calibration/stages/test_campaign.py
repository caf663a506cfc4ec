# SPDX-License-Identifier: GPL-2.0-only
"""The campaigns: nothing that was played is lost or repeated, budgets hold, what fails is left out, and it ends."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_players import ToyPlayer

from asa.core.decision import EEVDF, Workload
from asa.core.errors import AsaError
from calibration.scenarios.scores import played
from calibration.stages import campaign as stages
from calibration.stages.best_arm import Rule
from calibration.stages.ranking import rank
from scenarios.application import Tier
from scenarios.catalogue import find

SCENARIOS = find("web+archive,office+video")
NAMES = ("eevdf", "scx_a", "scx_b")
SLOW = {"scx_a": 0.8, "scx_b": 1.3}


def asked(**changes):
    given_ = {
        "tier": Tier.LAB,
        "scenarios": tuple(one.label for one in SCENARIOS),
        "schedulers": NAMES,
        "repeats": 2,
        "seed": 1,
        "seconds": 5.0,
        "warm_up_s": 1.0,
        "cpus": 4,
    }
    return stages.Asked(**{**given_, **changes})


def campaign(**changes):
    given_ = {
        "run": "run",
        "asked": asked(repeats=0),
        "trials": 40,
        "seconds": None,
        "live": True,
        "beliefs": {one.label: stages.Belief(names=NAMES) for one in SCENARIOS},
    }
    return stages.Campaign(**{**given_, **changes})


def rounds(path, player, **changes):
    return stages.play_rounds(path, campaign(**changes), player, Rule())


def test_a_plan_goes_on_where_it_was_interrupted(tmp_path):
    first = ToyPlayer(SLOW, interrupt_after=5)
    with pytest.raises(KeyboardInterrupt):
        stages.play_plan(tmp_path, asked(), SCENARIOS, first)
    second = ToyPlayer(SLOW)
    plan, results = stages.play_plan(tmp_path, asked(), SCENARIOS, second)
    assert Counter([*first.played, *second.played]) == Counter(trial.id for trial in plan.trials)
    assert len(results) == len(plan.trials)
    third = ToyPlayer(SLOW)
    assert stages.play_plan(tmp_path, asked(), SCENARIOS, third) == (plan, results)
    assert third.played == []


@settings(max_examples=12)
@given(st.integers(0, 39), st.integers(1, 12))
def test_rounds_go_on_wherever_they_were_interrupted(tmp_path_factory, at, batch):
    whole = ToyPlayer(SLOW, batch=batch)
    expected = rounds(tmp_path_factory.mktemp("whole"), whole)
    path = tmp_path_factory.mktemp("parts")
    first, second = ToyPlayer(SLOW, batch=batch, interrupt_after=at), ToyPlayer(SLOW, batch=batch)
    if at < len(whole.played):
        with pytest.raises(KeyboardInterrupt):
            rounds(path, first)
    else:
        rounds(path, first)
    # what it believes now does not count: the campaign goes on by what it began with
    found = rounds(path, second, run="other", beliefs={})
    assert [*first.played, *second.played] == whole.played
    assert found.run == expected.run
    assert {one.trial.id for one in found.results} == {one.trial.id for one in expected.results}
    assert found.verdicts == expected.verdicts


def test_rounds_find_the_best_and_stop_when_it_is_settled(tmp_path):
    player = ToyPlayer(SLOW)
    found = rounds(tmp_path, player, trials=400)
    assert {label: one.leader for label, one in found.verdicts.items()} == {
        "web+archive": "scx_a",
        "office+video": "scx_a",
    }
    assert all(one.settled for one in found.verdicts.values())
    assert len(player.played) < 150
    ranked = rank(played(found.run, found.results))
    assert ranked[Workload("web+archive")][0].name == "scx_a"
    assert ranked[Workload("web+archive")][0].gain.mean > 0.0


def test_every_trial_is_live_but_those_that_others_are_compared_with(tmp_path):
    player = ToyPlayer(SLOW)
    found = rounds(tmp_path, player, trials=12)
    live = [one.trial for one in found.results if one.trial.scheduler.startswith("live:")]
    others = [one.trial for one in found.results if one.trial not in live]
    assert {trial.label for trial in live} == {"web+archive", "office+video"}
    assert {(trial.label, trial.scheduler) for trial in others} == {("archive", "eevdf"), ("video", "eevdf")}
    assert len(player.played) == len(set(player.played))
    assert len(player.played) <= 12
    by_hand = rounds(tmp_path / "by hand", ToyPlayer(SLOW), trials=6, live=False)
    assert not any(one.trial.scheduler.startswith("live:") for one in by_hand.results)


@settings(max_examples=10)
@given(st.floats(30.0, 400.0), st.floats(1.0, 30.0), st.integers(1, 16))
def test_machine_time_is_not_exceeded(tmp_path_factory, seconds, took_s, batch):
    player = ToyPlayer({}, took_s=took_s, batch=batch)
    found = rounds(tmp_path_factory.mktemp("time"), player, trials=None, seconds=seconds)
    # until the first trial was played nothing tells how long one takes
    guess = campaign().asked.seconds + campaign().asked.warm_up_s + 30.0
    assert found.spent_s == pytest.approx(took_s * len(player.played))
    assert found.spent_s <= max(seconds, seconds / guess * took_s)


@pytest.mark.parametrize("batch", [1, 16])
def test_the_half_hour_holds_where_trials_take_very_different_times(tmp_path, batch):
    """A table is promised in 30 minutes, whichever classes take long, and though nothing is known at first."""

    class Uneven(ToyPlayer):
        def result(self, trial):
            short = {trial.interactive, trial.background} & {"web", "archive"}
            took_s = 20.0 if short else 180.0
            return msgspec.structs.replace(super().result(trial), took_s=took_s)

    found = rounds(tmp_path, Uneven(SLOW, batch=batch), trials=None, seconds=1800.0)
    assert 1200.0 < found.spent_s <= 1800.0


def test_a_scheduler_that_does_not_come_up_is_left_out_with_its_words(tmp_path):
    player = ToyPlayer(SLOW, fails=lambda trial: "no BTF" if trial.scheduler.endswith("scx_b") else "")
    found = rounds(tmp_path, player, trials=100)
    assert "no BTF" in found.left_out["scx_b"]
    assert sum(name.endswith("scx_b") for name in player.played) <= 4
    assert all(one.leader == "scx_a" for one in found.verdicts.values())
    assert all("scx_b" not in one.open for one in found.verdicts.values())


def test_a_class_that_cannot_be_played_is_named_and_the_others_go_on(tmp_path):
    fails = {"fails": lambda trial: "no such program" if "office" in trial.label else "", "failure": "missing"}
    player = ToyPlayer(SLOW, **fails)
    found = rounds(tmp_path, player, trials=200)
    assert found.unplayed == ("office+video",)
    assert set(found.verdicts) == {"web+archive"}
    assert sum("office" in name for name in player.played) < 20


def test_another_request_is_refused_and_changes_nothing(tmp_path):
    rounds(tmp_path, ToyPlayer(SLOW), trials=6)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    for changes in ({"trials": 7}, {"live": False}, {"asked": asked(seed=2, repeats=0)}):
        with pytest.raises(AsaError, match="another campaign"):
            rounds(tmp_path, ToyPlayer(SLOW), **{"trials": 6, **changes})
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before
    (tmp_path / "campaign.json").write_text("{")
    with pytest.raises(AsaError, match="is no campaign"):
        rounds(tmp_path, ToyPlayer(SLOW), trials=6)


def test_shadows_are_of_each_scheduler_and_beside_no_agent():
    assert stages.shadows(["eevdf", "scx_a"]) == ("eevdf", "shadow:eevdf", "shadow:scx_a")
    assert stages.shadows([]) == ("eevdf", "shadow:eevdf")


def test_what_one_class_shows_is_expected_of_the_next_with_the_same_application():
    labels = ("web+archive", "web+video", "audio+disk")
    given_ = campaign(beliefs={label: stages.Belief(names=NAMES) for label in labels})
    player = ToyPlayer(SLOW)
    trials = stages.make(asked(), find("web+archive"), "run").trials
    found = played("run", [player.result(one) for one in trials])
    believed = stages.beliefs(given_, rank(found), found)
    beside = believed[Workload("web+video")].expected
    assert beside["scx_a"].gain > 0.0 > beside["scx_b"].gain
    assert beside[EEVDF].gain == 0.0
    assert beside["scx_a"].error >= stages.SIBLINGS
    assert believed[Workload("audio+disk")].expected == {}
    assert believed[Workload("web+archive")].expected == {}


@pytest.mark.parametrize("name", ["plan.json", "machine.json", "trials.parquet"])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("kept")
    with pytest.raises(AsaError, match=rf"holds something else \({name}\); name another folder by --folder"):
        rounds(tmp_path, ToyPlayer(SLOW), trials=6)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_stages_one_and_two_do_not_play_in_the_folder_of_the_third(tmp_path):
    rounds(tmp_path, ToyPlayer(SLOW), trials=6)
    with pytest.raises(AsaError, match="holds a campaign of stage 3"):
        stages.play_plan(tmp_path, asked(), SCENARIOS, ToyPlayer(SLOW))
    assert not (tmp_path / "plan.json").exists()


class Disturbed(ToyPlayer):
    """Every trial takes a second attempt."""

    def result(self, trial):
        return msgspec.structs.replace(super().result(trial), attempts=2)


def test_machine_time_is_not_exceeded_by_second_attempts(tmp_path):
    player = Disturbed(SLOW, took_s=10.0)
    found = rounds(tmp_path, player, trials=None, seconds=200.0)
    assert found.spent_s == 20.0 * len(player.played)
    assert 100.0 < found.spent_s <= 200.0


class Losing(ToyPlayer):
    """Guests are lost under scx_b; how long such a trial took nobody knows."""

    def result(self, trial):
        result = super().result(trial)
        return msgspec.structs.replace(result, took_s=0.0, attempts=2) if "scx_b" in trial.id else result


def test_a_trial_whose_guest_was_lost_is_not_for_nothing(tmp_path):
    player = Losing(SLOW, fails=lambda trial: "hung" if "scx_b" in trial.id else "", failure="guest", took_s=10.0)
    found = rounds(tmp_path, player, trials=None, seconds=400.0)
    lost = sum("scx_b" in name for name in player.played)
    assert lost
    assert found.spent_s == 10.0 * (len(player.played) - lost) + 20.0 * lost
