# SPDX-License-Identifier: GPL-2.0-only
"""The figures of trials, with made-up recordings, and what the command prints of those that are kept."""

import json

import pytest
from trial_noise import a_use

from calibration.kept import collect, write
from calibration.trials import __main__ as command
from calibration.trials import benchmark
from calibration.trials.benchmark import TROUBLES, Bench, TrialFigure


@pytest.fixture
def few(monkeypatch):
    for name in ("_ALIKE_TRIALS", "_TRIALS", "_TROUBLED"):
        monkeypatch.setattr(benchmark, name, 3)


@pytest.fixture
def bench(few):
    return Bench(lambda: [a_use(spread=0.15, seed=seed) for seed in (1, 2)])


def test_each_figure_is_measured(bench):
    kept = collect(bench.counts())
    assert set(kept.values) == {str(name) for name in TrialFigure}
    assert kept.values[TrialFigure.FALSE_BETTER] <= 20.0
    assert kept.values[TrialFigure.FIND_20] == 8
    assert kept.values[TrialFigure.DROP_20] == 5
    assert kept.values[TrialFigure.FOUND_20] == 100.0
    assert kept.values[TrialFigure.BAD_TRIAL] == 0.0
    assert all(name in kept.details[TrialFigure.FIND_20] for name in list(TROUBLES)[1:])


def test_a_gain_that_is_hardly_ever_found_has_no_median_and_says_so(few):
    kept = collect(Bench(lambda: [a_use(spread=3.0)]).counts())
    assert kept.values[TrialFigure.FIND_5] is None
    assert "fewer than half are called better in 24 pairs" in kept.reasons[TrialFigure.FIND_5]


def test_four_times_the_wait_is_missed_by_neither_the_guard_nor_a_trial(bench):
    assert bench.bad_by_guard() == (0.0, "6 recordings, each after another one of its use")
    assert bench.bad_in_trials() == (0.0, "6 trials, 5 pairs")


def test_the_command_prints_what_is_kept(tmp_path, capsys):
    place = tmp_path / "kept.json"
    write(collect({TrialFigure.FALSE_BETTER: lambda: (0.4, "so")}), place)
    assert command.main(["--kept", str(place)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {
        "name": "trial_false_better_pct",
        "value": 0.4,
        "unit": "%",
        "goal": 1.0,
        "ok": True,
        "detail": "so",
    }
    assert lines[3]["reason"] == "not measured; run `python -m calibration.trials --measure`"
    assert len(lines) == len(TrialFigure)


def test_it_measures_what_is_asked_for_and_refuses_other_names(tmp_path, capsys, few, monkeypatch):
    monkeypatch.setattr(command, "Bench", lambda: Bench(lambda: [a_use()]))
    place = tmp_path / "kept.json"
    assert command.main(["--kept", str(place), "--measure", "--only", "trial_pairs_to_find_20pct"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 8
    assert command.main(["--kept", str(place), "--only", "nothing"]) == 2
    assert "--only: 'nothing' is no figure" in capsys.readouterr().err
