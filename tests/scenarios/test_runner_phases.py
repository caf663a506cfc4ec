# SPDX-License-Identifier: GPL-2.0-only
"""Trials whose applications change in the middle: planned, played under one scheduler, and told apart afterwards."""

import dataclasses
from contextlib import contextmanager, suppress

import psutil
import pytest
from toys import toys

from asa import wire
from asa.core.errors import InputError
from scenarios.application import Tier
from scenarios.catalogue import CHANGING, PAIRS, find
from scenarios.runner import Stage, play
from scenarios.runner_plan import CONTROLLER, Asked, Outcome, Plan, Result, Trial, make, split

WORD = "web+archive~office+video"


class Held:
    """A scheduler that is always in force; counts how often it was asked for, and the drivers at each look."""

    def __init__(self):
        self.holds, self.drivers = 0, []

    def version(self, scheduler):
        return "1"

    @contextmanager
    def hold(self, scheduler):
        self.holds += 1
        yield self.look

    def look(self):
        found = 0
        for child in psutil.Process().children():
            with suppress(psutil.Error):  # it ended meanwhile
                found += "Driver.begin" in str(child.cmdline())
        self.drivers.append(found)


def plan(words=WORD, schedulers=("eevdf", "scx_simple"), seconds=0.3):
    scenarios = find(words)
    asked = Asked(
        tier=Tier.LAB,
        scenarios=tuple(one.label for one in scenarios),
        schedulers=schedulers,
        repeats=2,
        seed=1,
        seconds=seconds,
        warm_up_s=0.0,
        cpus=2,
    )
    return make(asked, scenarios, "run")


@pytest.fixture
def stage(tmp_path):
    return Stage(
        applications=toys(),
        tier=Tier.LAB,
        cache=tmp_path,
        scratch=tmp_path / "scratch",
        forcing=Held(),
        seconds=0.5,
        warm_up_s=0.0,
        told=lambda windows: {"switches": 1, "windows": list(windows), "then": {"switches": 2}},
    )


def changing(made):
    return [trial for trial in made.trials if trial.then is not None]


def test_names_of_those_that_change():
    assert find("changing") == CHANGING
    assert [one.name for one in find("P3,P1")] == ["P1", "P3"]
    assert find("S16,P1")[-1] == CHANGING[0]
    assert find(CHANGING[1].label) == (CHANGING[1],)
    (other,) = find(WORD)
    assert (other.name, other.label, other.then.label) == (WORD, WORD, "office+video")
    assert {one.then for one in PAIRS} == {None}
    for wrong in ("web+archive~", "~web", "web~idle", "web~disk~game", "P9"):
        with pytest.raises(InputError, match="changing, P1 to P4"):
            find(wrong)


def test_a_plan_pairs_both_phases_with_each_application_alone():
    made = plan()
    assert len({trial.id for trial in made.trials}) == len(made.trials)
    both = changing(made)
    assert [trial.label for trial in both] == [WORD] * 4
    assert {trial.phases for trial in both} == {(("web", "archive"), ("office", "video"))}
    assert both[0].applications == ("web", "archive", "office", "video")
    alone = {trial.label for trial in made.trials if trial.then is None}
    assert alone == {"web", "archive", "office", "video"}


def test_trials_that_were_kept_before_there_were_phases_are_read():
    trial = plan("web+archive").trials[0]
    kept = wire.plain(trial)
    del kept["then"]
    assert wire.from_json(wire.json_bytes(kept), Trial) == trial


def test_both_phases_are_measured_under_one_scheduler(stage):
    trial = changing(plan())[0]
    steps = []
    result = play(trial, dataclasses.replace(stage, mark=steps.append))
    assert (result.outcome, result.reason) == (Outcome.DONE, "")
    assert steps == ["scheduler", "applications", "warm-up", "window", "applications", "window"]
    assert stage.forcing.holds == 1
    assert 0 < max(stage.forcing.drivers) <= 2  # what played first has ended before the others start
    assert result.window_s >= 0.5 <= result.then_window_s
    assert {(one.application, one.phase) for one in result.series} == {
        ("web", 1),
        ("archive", 1),
        ("office", 2),
        ("video", 2),
    }
    for one in result.series:
        assert one.values
        assert 0.0 <= min(one.at_s) <= max(one.at_s) < (result.window_s, result.then_window_s)[one.phase - 1]
    first, then = result.parameters[CONTROLLER]["windows"]
    assert first[1] < then[0]
    assert set(result.parameters) == {"web", "archive", "office", "video", CONTROLLER}


def test_the_same_application_may_play_in_both(stage):
    trial = changing(plan("web+archive~web+video"))[0]
    result = play(trial, stage)
    assert result.outcome is Outcome.DONE, result.reason
    assert {one.phase for one in result.series if one.application == "web"} == {1, 2}


def test_one_that_breaks_in_the_second_phase_fails_the_trial(stage):
    broken = Stage(
        **{name: getattr(stage, name) for name in Stage.__slots__} | {"applications": toys(broken=("video",))}
    )
    result = play(changing(plan())[0], broken)
    assert (result.outcome, result.application, result.series) == (Outcome.FAILED, "video", [])
    assert result.window_s is not None
    assert result.then_window_s is None


def test_a_phase_becomes_a_trial_of_its_own(stage):
    made = plan()
    trial = changing(made)[0]
    other = next(one for one in made.trials if one.then is None)
    done = Result(trial=other, outcome=Outcome.DONE, attempts=1, started_ns=1, took_s=1.0)
    whole = play(trial, stage)
    parted, results = split(made, {trial.id: whole, other.id: done})
    assert isinstance(parted, Plan)
    assert len(parted.trials) == len(made.trials) + len(changing(made))
    assert results[other.id] is done
    first, then = results[f"{trial.id}.1"], results[f"{trial.id}.2"]
    assert [one.trial.scenario for one in (first, then)] == [f"{WORD}/1", f"{WORD}/2"]
    assert [one.trial.label for one in (first, then)] == ["web+archive", "office+video"]
    assert {one.application for one in then.series} == {"office", "video"}
    assert set(then.parameters) == {"office", "video", CONTROLLER}
    assert [one.parameters[CONTROLLER]["switches"] for one in (first, then)] == [1, 2]
    assert (first.window_s, then.window_s) == (whole.window_s, whole.then_window_s)
    assert {one.trial.id for one in results.values()} <= {one.id for one in parted.trials}
