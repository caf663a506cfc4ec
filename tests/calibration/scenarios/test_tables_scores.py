# SPDX-License-Identifier: GPL-2.0-only
"""A run's results as scores, tables and a summary."""

import pyarrow.parquet as pq
import pytest

from asa.core.errors import AsaError
from calibration.scenarios import tables as bench_tables
from calibration.scenarios.scores import Played, figures, played, scores
from calibration.scenarios.summary import HEAD, cells, summary
from calibration.scoring.table import APPLICATIONS
from scenarios.application import Tier
from scenarios.catalogue import find
from scenarios.conditions import Conditions
from scenarios.energy import Energy
from scenarios.noise import Noise
from scenarios.runner_plan import Asked, Outcome, Result, Series, make

GOOD = {"click_ms": 80.0, "sort_ms": 90.0, "input_ms": 20.0, "tab_switch_ms": 100.0, "scroll_frame_ms": 16.7}
UNDER_ROW = ("parallel", 1000, "m")
NOISE = Noise(
    steal_pct=0.0,
    others_pct=1.0,
    busiest="cc1",
    cpu_pressure_pct=None,
    io_pressure_pct=2.0,
    memory_pressure_pct=0.0,
)


def plan(schedulers=("eevdf", "scx_simple"), repeats=2):
    scenarios = find("web+archive")
    asked = Asked(
        tier=Tier.REAL,
        scenarios=("web+archive",),
        schedulers=schedulers,
        repeats=repeats,
        seed=3,
        seconds=10.0,
        warm_up_s=1.0,
        cpus=2,
    )
    return make(asked, scenarios, "abcd")


def result(trial, **metrics):
    """Three equal samples of each metric; `web` slower by a factor under scx_simple."""
    worse = 4.0 if trial.scheduler == "scx_simple" else 1.0
    share = 0.5 if trial.background and trial.interactive else 1.0
    series = []
    if trial.interactive:
        series += [one("web", metric, value * worse) for metric, value in GOOD.items()]
    if trial.background:
        series.append(one("archive", "compress_mb_per_s", 10.0 * share))
        series.append(one("archive", "extract_mb_per_s", 40.0 * share))
    return Result(
        trial=trial,
        outcome=Outcome.DONE,
        attempts=1,
        started_ns=5,
        took_s=12.0,
        window_s=10.0,
        host="h",
        kernel="6.12",
        cpus=2,
        scheduler_version="1",
        versions={part: {"program": "1.0"} for part in (trial.interactive, trial.background) if part},
        parameters={},
        noise=NOISE,
        series=[one for one in series if one.metric not in metrics.get("without", ())],
        under=Conditions(clock=UNDER_ROW[0], tick_hz=UNDER_ROW[1], machine=UNDER_ROW[2]),
        energy=(Energy(busy_s=[1.0, 2.0], joules=60.0, watts=6.0),),
    )


def one(application, metric, value):
    return Series(application=application, metric=metric, at_s=[0.0, 1.0, 2.0], values=[value] * 3)


def failed(trial):
    return Result(
        trial=trial,
        outcome=Outcome.FAILED,
        attempts=1,
        started_ns=5,
        took_s=1.0,
        failure="crashed",
        application="archive",
        reason="its driver ended with code 1",
        last_words="out of luck",
    )


def by_id(results):
    return {one.trial.id: one for one in results}


def pick(made, label, scheduler, repeat=1):
    return next(t for t in made.trials if (t.label, t.scheduler, t.repeat) == (label, scheduler, repeat))


def test_a_relative_figure_is_compared_with_the_load_alone():
    made = plan()
    trials = played(made.run, [result(trial) for trial in made.trials])
    found = figures(trials)
    pair = found[made.run, pick(made, "web+archive", "scx_simple").id]
    assert (pair["archive"]["compress_mb_per_s"].value, pair["archive"]["compress_mb_per_s"].alone) == (5.0, 10.0)
    assert pair["web"]["click_ms"].value == 320.0
    single = found[made.run, pick(made, "archive", "eevdf").id]
    assert single["archive"]["compress_mb_per_s"].alone == 10.0
    scored = scores(trials)
    eevdf, simple = (scored[made.run, pick(made, "web+archive", name).id].score for name in ("eevdf", "scx_simple"))
    assert eevdf > simple + 0.1
    assert set(scored) == {(made.run, trial.id) for trial in made.trials}


def test_what_is_interactive_is_compared_with_itself_alone_too():
    def game(trial, background, chunks, repeat=1):
        samples = {"game": {"chunks_per_s": [chunks]}}
        return Played(
            trial=trial,
            run="r",
            repeat=repeat,
            interactive="game",
            background=background,
            scheduler="eevdf",
            copy=1,
            samples=samples,
        )

    trials = [game("alone", "", 40.0), game("pair", "video", 10.0), game("other", "video", 10.0, repeat=2)]
    found = figures(trials)
    assert found["r", "pair"]["game"]["chunks_per_s"].alone == 40.0
    assert found["r", "other"]["game"] == {}, "its repeat has other parameters"


def test_without_the_load_alone_there_is_no_relative_figure():
    made = plan(repeats=1)
    results = [failed(trial) if trial.label == "archive" else result(trial) for trial in made.trials]
    key = (made.run, pick(made, "web+archive", "eevdf").id)
    trials = played(made.run, results)
    assert figures(trials)[key]["archive"] == {}
    assert scores(trials)[key].score is None
    assert scores(trials)[key].applications["web"].score > 0.8


def test_runs_are_scored_by_what_all_of_them_measured():
    made = plan(repeats=1)
    lacking = pick(made, "web+archive", "scx_simple").id
    results = [result(t, without=("scroll_frame_ms",) if t.id == lacking else ()) for t in made.trials]
    scored = scores(played(made.run, results))
    for scheduler in ("eevdf", "scx_simple"):
        part = scored[made.run, pick(made, "web+archive", scheduler).id].applications["web"]
        assert "scroll_frame_ms" in part.missing
    assert "scroll_frame_ms" not in scored[made.run, pick(made, "web", "eevdf").id].applications["web"].missing


def test_a_time_of_nothing_is_left_out_and_a_rate_of_nothing_counts():
    made = plan(repeats=1)
    results = []
    for trial in made.trials:
        got = result(trial)
        if trial.background and trial.interactive:
            stalled = [one("archive", "compress_mb_per_s", 0.0), one("archive", "extract_mb_per_s", 40.0)]
            kept = [series for series in got.series if series.application == "web"]
            got = Result(
                **{n: getattr(got, n) for n in Result.__struct_fields__ if n != "series"}, series=kept + stalled
            )
        results.append(got)
    found = figures(played(made.run, results))[made.run, pick(made, "web+archive", "eevdf").id]
    assert found["archive"]["compress_mb_per_s"].value == 0.0


def test_the_tables_hold_every_sample_and_give_the_same_scores(tmp_path):
    made = plan(schedulers=("eevdf", "eevdf"))
    bad = pick(made, "web+archive", "eevdf", repeat=2).id
    results = [failed(trial) if trial.id == bad else result(trial) for trial in made.trials]
    bench_tables.write(tmp_path, made, results)
    samples = pq.read_table(tmp_path / "samples.parquet").to_pylist()
    assert len(samples) == sum(len(series.values) for one in results for series in one.series)
    first = samples[0]
    assert (first["run"], first["tier"], first["cpus"], first["at_s"]) == ("abcd", "real", 2, 0.0)
    assert {row["copy"] for row in samples} == {1, 2}
    trials = {row["trial"]: row for row in pq.read_table(tmp_path / "trials.parquet").to_pylist()}
    assert len(trials) == len(made.trials)
    assert (trials[bad]["outcome"], trials[bad]["reason"]) == ("failed", "its driver ended with code 1")
    assert trials[bad]["others_pct"] is None
    other = pick(made, "web", "eevdf").id
    assert (trials[other]["others_pct"], trials[other]["busiest"], trials[other]["label"]) == (1.0, "cc1", "web")
    energy = trials[other]["energy_j"], trials[other]["power_w"], trials[other]["busy_s"]
    assert energy == (60.0, 6.0, [1.0, 2.0])
    assert trials[bad]["power_w"] is None
    assert {(row["clock"], row["tick_hz"], row["machine"]) for row in (*samples, trials[other])} == {UNDER_ROW}
    assert (trials[bad]["clock"], trials[bad]["tick_hz"]) == ("wall", None)
    assert scores(bench_tables.read(tmp_path)) == scores(played(made.run, results))
    with pytest.raises(AsaError, match="asa lab bench run --out"):
        bench_tables.read(tmp_path / "nothing")


def test_a_summary_names_scores_metrics_versions_and_failures():
    made = plan()
    bad = pick(made, "web+archive", "scx_simple", repeat=2).id
    results = by_id(failed(trial) if trial.id == bad else result(trial) for trial in made.trials)
    results.pop(pick(made, "web", "eevdf", repeat=2).id)
    found = summary(made, results)
    assert (found.trials, found.done, found.failed, found.left) == (8, 6, 1, 1)
    rows = {(row.label, row.scheduler): row for row in found.rows}
    assert [row.scenario for row in found.rows] == ["S15", "S15", "archive", "web"]
    pair = rows["web+archive", "scx_simple"]
    assert (pair.played, pair.planned, len(pair.scores)) == (1, 2, 1)
    assert pair.troubles[0].reason == "its driver ended with code 1"
    assert set(pair.applications["web"].metrics) == {metric.name for metric in APPLICATIONS["web"].metrics}
    assert pair.applications["web"].metrics["click_ms"].samples == 3
    assert pair.applications["archive"].versions == {"program": "1.0"}
    assert rows["web+archive", "eevdf"].score > pair.score
    assert (pair.joules, pair.watts) == (60.0, 6.0)
    assert cells(pair)[4:6] == ("60", "6")
    assert found.under.words == "clock parallel, 1000 Hz, machine m"
    text = "\n".join(cells(pair))
    assert len(cells(pair)) == len(HEAD)
    for word in ("S15", "click_ms 320", "compress_mb_per_s 5", "[program 1.0]", "out of luck"):
        assert word in text
    assert summary(made, {}).left == 8
