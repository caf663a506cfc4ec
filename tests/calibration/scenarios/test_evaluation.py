# SPDX-License-Identifier: GPL-2.0-only
"""Kept results become figures: the benchmark's own tables with made-up samples, a dataset's facts, what is missing."""

import argparse
import json
import random
import shutil

import pytest

from asa.cli.lab import evaluate
from asa.core.errors import AsaError
from calibration.scenarios import kept as evaluate_results
from calibration.scenarios import tables as bench_tables
from calibration.scenarios.evaluation import BenchmarkFigure, _changes, _ratio, compare, figures
from calibration.scenarios.plot import draw
from calibration.scoring.fusion import Measured
from models.train.recorded_table import Facts
from scenarios.application import Tier
from scenarios.catalogue import PAIRS, PAPER
from scenarios.runner_plan import Asked, Outcome, Result, Series, make

METRICS = {
    "game": {"frame_ms": 18.0, "fps": 45.0, "mspt_ms": 20.0, "chunks_per_s": 50.0},
    "office": {"key_ms": 60.0, "recalc_ms": 60.0, "slide_ms": 70.0, "copy_ms": 250.0},
    "web": {"click_ms": 250.0, "sort_ms": 300.0, "input_ms": 80.0, "tab_switch_ms": 250.0, "scroll_frame_ms": 20.0},
    "audio": {"underruns_per_min": 1.5, "block_pct": 60.0},
    "archive": {"compress_mb_per_s": 4.0, "extract_mb_per_s": 60.0},
    "blender": {"tiles_per_s": 4.0, "frame_s": 2.0},
    "kernel": {"objects_per_s": 4.0, "total_s": 20.0},
    "llm": {"first_token_ms": 900.0, "tokens_per_s": 100.0, "token_gap_ms": 12.0},
    "disk": {"random_iops": 9000.0, "sequential_mb_per_s": 900.0, "completion_ms": 2.0},
    "network": {"tcp_mbit_per_s": 900.0, "udp_mbit_per_s": 90.0, "udp_loss_pct": 0.1, "udp_jitter_ms": 0.5},
    "video": {"frames_per_s": 20.0, "total_s": 30.0},
}
BETTER_LARGE = ("_per_s", "fps", "iops")


def worse(metric, value, by):
    return value / by if metric.endswith(BETTER_LARGE) else value * by


def result(trial, slower, noise, chance, outcome=Outcome.DONE, window_s=9.0):
    def series(name, metric, value):
        by = slower.get(trial.scheduler, 1.0) * chance.lognormvariate(0.0, noise)
        pair = 2.0 if trial.interactive and trial.background else 1.0
        return Series(application=name, metric=metric, at_s=[1.0, 2.0], values=[worse(metric, value, by * pair)] * 2)

    names = [name for name in (trial.interactive, trial.background) if name]
    failed = outcome is Outcome.FAILED
    found = [] if failed else [series(name, *one) for name in names for one in METRICS[name].items()]
    return Result(trial=trial, outcome=outcome, attempts=1, started_ns=1, took_s=20.0, window_s=window_s, series=found)


def kept(
    folder,
    schedulers,
    *,
    tier=Tier.LAB,
    repeats=3,
    seed=1,
    noise=0.01,
    slower=None,
    draws=7,
    fails=(),
    seconds=9.0,
    clock="",
):
    """A run's folder as `asa lab bench run` leaves it."""
    asked = Asked(
        tier=tier,
        scenarios=tuple(one.label for one in PAIRS),
        schedulers=schedulers,
        repeats=repeats,
        seed=seed,
        seconds=seconds,
        warm_up_s=1.0,
        cpus=4,
        clock=clock,
    )
    plan = make(asked, PAIRS, run=f"run-{folder.name}")
    chance = random.Random(draws)  # noqa: S311
    outcomes = dict.fromkeys(fails, Outcome.FAILED)
    results = [
        result(
            trial,
            slower or {},
            noise,
            chance,
            outcomes.get(trial.label, outcomes.get((trial.label, trial.scheduler), Outcome.DONE)),
            seconds,
        )
        for trial in plan.trials
    ]
    folder.mkdir(parents=True)
    bench_tables.write(folder, plan, results)


def fact(label, seed, running=60, tier="real", scheduler="eevdf"):
    return Facts(
        id=f"{label}{seed}{tier}",
        label=label,
        tier=tier,
        host="host",
        cpus=2,
        scheduler=scheduler,
        seed=seed,
        rows=90,
        running=running,
        missing=(),
    )


def by_name(folder, facts=None):
    return {figure.name: figure for figure in figures(evaluate_results.read(folder), facts)}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    kept(folder / "pairs", ("eevdf", "eevdf", "scx_simple"), slower={"scx_simple": 1.5})
    return folder


def test_a_scheduler_does_not_differ_from_itself_and_a_worse_one_does(results):
    found = by_name(results)
    assert (found[BenchmarkFigure.AA].value, found[BenchmarkFigure.AA].ok) == (0.0, True)
    assert found[BenchmarkFigure.AB].value > 50.0
    assert found[BenchmarkFigure.AB].ok
    assert "28 scenarios, 3 pairs" in found[BenchmarkFigure.AB].detail
    assert "changes by -0." in found[BenchmarkFigure.AB].detail


def test_a_scenario_says_which_metrics_differ(results):
    runs = evaluate_results.read(results)
    compared = {one.label: one for one in compare(runs, ("eevdf", 1), ("scx_simple", 1))}
    assert list(compared) == [one.label for one in PAIRS]
    game = dict(compared["game+kernel"].metrics)
    assert game["game.frame_ms"] == pytest.approx(1.5, rel=0.1)
    assert game["kernel.objects_per_s"] == pytest.approx(1 / 1.5, rel=0.1)
    assert compared["game+kernel"].test.mean < 0.0
    itself = compare(runs, ("eevdf", 1), ("eevdf", 2))
    assert sum(len(one.metrics) for one in itself) <= 10  # of 200, and those by chance


def test_pairs_that_lack_a_side_are_counted(tmp_path):
    kept(tmp_path / "one", ("eevdf", "scx_simple"), fails=(("web+llm", "scx_simple"),))
    kept(tmp_path / "two", ("eevdf", "scx_simple"), seed=2)
    compared = {one.label: one for one in compare(evaluate_results.read(tmp_path), ("eevdf", 1), ("scx_simple", 1))}
    assert (compared["web+llm"].lost, compared["web+llm"].test.pairs) == (3, 3)
    assert (compared["web+disk"].lost, compared["web+disk"].test.pairs) == (0, 6)
    assert "; 3 pairs lack a side" in by_name(tmp_path)[BenchmarkFigure.AB].detail


@pytest.mark.parametrize(
    ("a", "b", "change"), [(0.0, 3.0, 2.0), (3.0, 0.0, -2.0), (0.0, 0.0, 0.0), (2.0, 6.0, 1.0), (6.0, 2.0, -1.0)]
)
def test_a_change_is_of_one_size_both_ways(a, b, change):
    one, other = ({"audio": {"underruns_per_min": Measured(value=value)}} for value in (a, b))
    assert list(_changes(one, other)) == [("audio.underruns_per_min", change)]
    if a != b:
        assert _ratio(change) == (b / a if a else float("inf"))


def test_runs_of_two_clocks_are_not_compared(tmp_path):
    kept(tmp_path / "old", ("eevdf",), repeats=1)
    kept(tmp_path / "new", ("eevdf",), repeats=1, clock="parallel")
    kept(tmp_path / "real", ("eevdf",), repeats=1, tier=Tier.REAL)
    with pytest.raises(AsaError, match=r"old: was measured under clock icount, 250 Hz, and .*new under clock parallel"):
        figures(evaluate_results.read(tmp_path), None)


def test_a_copied_folder_is_no_second_run(tmp_path):
    kept(tmp_path / "one", ("eevdf",), repeats=1)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert by_name(tmp_path)[BenchmarkFigure.REPEAT].value is None


def test_a_second_run_of_one_seed_gives_no_further_pairs(tmp_path):
    for name in ("one", "two"):
        kept(tmp_path / name, ("eevdf", "eevdf"), repeats=2)
    found = by_name(tmp_path)
    assert found[BenchmarkFigure.AA].value is None
    assert (
        "2 pairs of a scenario are kept, 3 are needed; run: asa lab bench run --tier lab"
        in found[BenchmarkFigure.AA].reason
    )
    kept(tmp_path / "three", ("eevdf", "eevdf"), repeats=2, seed=2)
    assert by_name(tmp_path)[BenchmarkFigure.AA].value == 0.0


@pytest.mark.parametrize(("noise", "met"), [(0.005, True), (0.3, False)])
def test_two_runs_of_one_seed_repeat_or_do_not(tmp_path, noise, met):
    for draws, name in enumerate(("one", "two")):
        kept(tmp_path / name, ("eevdf",), repeats=1, noise=noise, draws=draws)
    kept(tmp_path / "other", ("eevdf",), repeats=1, noise=1.0, seed=2)
    figure = by_name(tmp_path)[BenchmarkFigure.REPEAT]
    assert figure.ok is met
    assert figure.detail.endswith("one and two")


def test_each_trial_of_two_runs_is_compared_with_its_own(tmp_path):
    """Three repeats of a label are three figures, whichever stands first in a table."""

    def single(repeats):
        for draws, name in enumerate(("one", "two")):
            kept(tmp_path / str(repeats) / name, ("eevdf",), repeats=repeats, draws=draws)
        told = by_name(tmp_path / str(repeats))[BenchmarkFigure.REPEAT].detail
        return int(told.partition(" single figures")[0].rpartition(" ")[2])

    assert single(3) == 3 * single(1) > 100


def test_runs_of_different_length_do_not_repeat_each_other(tmp_path):
    kept(tmp_path / "short", ("eevdf",), repeats=1, seconds=9.0)
    kept(tmp_path / "long", ("eevdf",), repeats=1, seconds=30.0)
    assert by_name(tmp_path)[BenchmarkFigure.REPEAT].value is None


def test_completed_scenarios_by_tier(tmp_path, results):
    kept(tmp_path / "real", ("eevdf",), tier=Tier.REAL, repeats=1, fails=("web+llm", "game+disk"))
    four = ("eevdf", "scx_simple", "scx_lavd", "scx_flash")
    kept(tmp_path / "lab", four, repeats=1)
    found = by_name(tmp_path)
    assert (found[BenchmarkFigure.REAL].value, found[BenchmarkFigure.REAL].ok) == (26.0, False)
    assert "2 failed" in found[BenchmarkFigure.REAL].detail
    assert "not S5, S18" in found[BenchmarkFigure.REAL].detail
    assert (found[BenchmarkFigure.LAB].value, found[BenchmarkFigure.LAB].ok) == (28.0, True)
    assert by_name(results)[BenchmarkFigure.LAB].value == 0.0  # two schedulers are not four


def test_the_dataset_counts_whole_sessions_of_different_seeds(tmp_path):
    facts = [fact(one.label, seed) for one in PAPER for seed in range(3)]
    found = by_name(tmp_path, facts)
    assert [(found[name].value, found[name].ok) for name in (BenchmarkFigure.SESSIONS, BenchmarkFigure.LABELS)] == [
        (120.0, True),
        (40.0, True),
    ]
    found = by_name(tmp_path, [*facts[1:], fact(facts[0].label, 0, running=20)])
    assert [found[name].value for name in (BenchmarkFigure.SESSIONS, BenchmarkFigure.LABELS)] == [119.0, 39.0]
    assert found[BenchmarkFigure.LABELS].detail == f"not {facts[0].label}"
    assert by_name(tmp_path, [*facts[1:], fact(facts[0].label, 1)])[BenchmarkFigure.LABELS].value == 39.0


def asa(*words):
    parser = argparse.ArgumentParser()
    evaluate.register(parser.add_subparsers())
    arguments = parser.parse_args(["evaluate", "scenarios", *map(str, words)])
    return arguments.run(arguments)


def test_command_without_any_results_says_what_makes_them(tmp_path, capsys):
    assert asa("--results", tmp_path / "none", "--dataset", tmp_path / "none", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines] == list(BenchmarkFigure)
    assert {(line["value"], line["ok"]) for line in lines} == {(None, False)}
    assert all("run: asa " in line["reason"] for line in lines)


def test_command_prints_tables_and_draws(results, tmp_path, capsys):
    assert asa("--results", results, "--dataset", tmp_path / "none", "--plot", tmp_path / "a.svg") == 0
    out = capsys.readouterr().out
    assert "eevdf against scx_simple" in out
    assert "Runs of the lab: Measured under the serial clock (`icount`), at 250 Hz" in out
    assert "game.frame_ms x1.5" in out
    assert json.loads(out.splitlines()[-1])["name"] == "dataset_labels"
    first = (tmp_path / "a.svg").read_bytes()
    assert first.startswith(b"<?xml")
    with pytest.raises(AsaError, match="cannot be drawn"):
        draw(tmp_path / "a.what", [("", ())])


def test_a_table_cut_off_is_one_line(results, tmp_path):
    folder = tmp_path / "cut"
    folder.mkdir()
    for path in (results / "pairs").iterdir():
        (folder / path.name).write_bytes(path.read_bytes()[:-500])
    with pytest.raises(AsaError, match="cut: holds no tables of a run"):
        asa("--results", tmp_path)
