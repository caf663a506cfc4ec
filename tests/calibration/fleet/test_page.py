# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate fleet` as it is typed: JSON lines, the page with its pictures, and what it says without data."""

import argparse
import json
import warnings
import xml.etree.ElementTree as ET

import pyarrow.parquet as pq
import pytest
from fleet_runs import machine, result

from asa.cli.lab import evaluate
from asa.cli.lab.evaluate import fleet as evaluate_fleet
from asa.core.errors import AsaError
from calibration.fleet import page as fleet_page
from calibration.fleet.figures.goals import FleetFigure
from calibration.fleet.run import Fleet, Request, run
from calibration.fleet.task import Played
from calibration.goals import Figure
from calibration.hosts import Where
from scenarios import catalogue
from scenarios.lab.machines import find

COLUMNS = ("eevdf", "scx_lavd", "scx_simple", "agent", "agent:no-voting", "loader-auto")
MEANS = {"eevdf": 0.5, "scx_lavd": 0.6, "scx_simple": 0.4, "agent": 0.58, "agent:no-voting": 0.5, "loader-auto": 0.52}
ISSUE = (
    *("not_worse_pct", "significantly_better_pct", "mean_improvement_pct", "top1_pct", "top3_pct", "regret_pct"),
    *("gain_over_best_static_pct", "gain_over_loader_rule_pct", "unseen_gap_points", "adapt_minutes"),
)


def truth(label, column, repeat):
    """The agent loses in one scenario."""
    if "~" in label:
        return (MEANS[column], MEANS[column])
    if (label, column) == ("web+blender", "agent"):
        return 0.4
    return MEANS[column] + 0.01 * repeat


def record(label, column, repeat):
    if not column.startswith("agent"):
        return None
    name = "scx_simple" if label == "web+blender" else "scx_lavd"
    times = {"inference_ms": [0.1, 0.2], "decision_ms": [0.3, 4.0]}
    return {"held_s": {name: 20.0}, "classes": {label: 20}, "resident_mb": 40.0, **times}


def asa(*words):
    parser = argparse.ArgumentParser()
    evaluate_fleet.register(parser.add_subparsers())
    arguments = parser.parse_args(["fleet", *map(str, words)])
    return arguments.run(arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("fleet")
    asked = {"columns": COLUMNS, "scenarios": "S1,S16,P1", "record": record, "command": "asa lab fleet run --seed 4"}
    machine(made / "p1", truth, **asked)
    machine(made / "u1", truth, prototype=False, cores=2, sockets=1, threads=2, note="a | b", **asked)
    score = {"median_s": 4.0, "p95_s": 5.0, "error_pct": 1.0}
    others = {"threshold": 0.3, "decay": 0.8}
    lines = [
        {"method": "time-weighted", "parameters": {"window_s": w, **others}, "validation": score} for w in (4.0, 6.0)
    ]
    (made / "voting.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return made


def test_every_figure_is_one_json_line(folder, capsys):
    assert asa(folder, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines] == list(FleetFigure)
    assert [line["name"] for line in lines][: len(ISSUE)] == list(ISSUE)
    by_name = {line["name"]: line for line in lines}
    assert by_name["not_worse_pct"]["value"] == 50.0
    assert by_name["not_worse_pct"]["ok"] is False
    assert by_name["top1_pct"]["low"] < 50.0 < by_name["top1_pct"]["high"]
    assert by_name["agent_latency_p99_ms"]["value"] == 4.2
    assert by_name["adapt_minutes"]["value"] is None
    assert "adapt" in by_name["adapt_minutes"]["reason"]
    assert by_name["win_pct"]["goal"] is by_name["win_pct"]["ok"] is None


def test_the_table_for_people_has_the_lines_too(folder, capsys):
    assert asa(folder) == 0
    out = capsys.readouterr().out
    assert "significantly_better_pct" in out.split("{")[0]
    assert sum(line.startswith("{") for line in out.splitlines()) == len(FleetFigure)


def test_the_page_is_whole_and_the_same_again(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_790_000_000.0)
    notes = tmp_path / "notes.md"
    notes.write_text("A longer window: no better.\n")
    page = tmp_path / "evaluation.md"
    assert asa(folder, "--page", page, "--notes", notes, "--json") == 0
    text = page.read_text()
    for name in FleetFigure:
        assert f"`{name}`: {name.goal.what}." in text
        assert f'{{"name": "{name}"' in text
    assert f"- this page: `asa lab evaluate fleet {folder} --page {page} --notes {notes}`, 2026-09-21" in text
    assert "- recorded by: `asa lab fleet run --seed 4`" in text
    assert "A longer window: no better." in text
    assert "Measured under the serial clock (`icount`), at 250 Hz" in text.split("## Goals")[0]
    assert "Not known: these runs were kept before it was measured." in text
    assert "a \\| b" in text
    losses = text.split("## Where it loses")[1].split("##")[0]
    assert "failed: 2 of 6." in losses  # elsewhere 0.58 against scx_lavd's 0.6 is within the margin
    assert "| u1 | S16 web+blender | 0.400 | 0.520 | scx_lavd 0.620 | scx_simple | scx_simple alone is behind" in losses
    steady, changing = text.split("## The agent without a part")[1].split("##")[0].split("In scenarios that change:")
    assert "\n| agent:no-voting | 4 | " in steady
    assert "\n| agent:no-voting | 2 | " in changing
    scored = pq.read_table(tmp_path / "evaluation" / "scores.parquet").to_pylist()
    assert {row["column"] for row in scored} >= set(COLUMNS)
    assert next(row for row in scored if row["column"] == "agent")["held"] == "scx_lavd"
    pictures = sorted(path.name for path in (tmp_path / "evaluation").glob("*.svg"))
    assert pictures == ["columns.svg", "confusion.svg", "heatmap.svg", "summary.svg", "windows.svg"]
    for name in pictures:
        assert f"(evaluation/{name})" in text
        assert ET.fromstring((tmp_path / "evaluation" / name).read_text()).tag.endswith("svg")  # noqa: S314  # our own
    before = {path: path.read_bytes() for path in (tmp_path / "evaluation").glob("*.svg")}
    assert asa(folder, "--page", page, "--notes", notes, "--json") == 0
    assert page.read_text() == text
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_of_the_fleet_becomes_a_page(tmp_path, capsys):
    """What `asa lab fleet run` keeps is what this reads: its own folder, of results that were made up."""

    def play(task):
        results = tuple(
            result(
                trial,
                0.5 if len(trial.applications) == 1 else truth(trial.label, trial.scheduler, trial.repeat),
                record(trial.label, trial.scheduler, trial.repeat),
            )
            for trial in task.trials
        )
        return Played(task=task.name, machine=task.machine.name, host="", results=results)

    request = Request(
        machines=find("vm120,vm124"),
        scenarios=catalogue.find("S1,S16,P1"),
        columns=COLUMNS,
        repeats=2,
        seed=1,
        seconds=1.0,
        warm_up_s=0.0,
    )
    with Fleet(tmp_path / "fleet", request, "asa lab fleet run --out fleet") as fleet:
        run(fleet, Where(jobs=1), lambda _: None, play)
        fleet.finish()
    assert asa(tmp_path / "fleet", "--page", tmp_path / "page.md", "--json") == 0
    values = {line["name"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert values["not_worse_pct"]["value"] == 50.0
    assert values["top1_pct"]["value"] == 50.0
    assert values["phases_improvement_pct"]["value"] == pytest.approx(16.0)
    text = (tmp_path / "page.md").read_text()
    assert "- recorded by: `asa lab fleet run --out fleet`" in text
    assert "| vm124 | unseen | 4 | 2 fast, 2 fast | 2048 | 62 of 62 | 0 | 0 |" in text  # 2 x (6 x (2 + 2 phases) + 7)
    assert "no run is kept on vm121, vm122, vm123, vm125, vm126, vm127, vm128, vm129." in text


def test_runs_that_go_on_are_told_and_columns_that_lack_a_repeat_have_a_star(tmp_path, capsys):
    """The second run has no scx_lavd, and was harder: its mean is of the first alone."""
    asked = {"scenarios": "S1", "repeats": 1, "record": record, "name": "p1"}
    machine(tmp_path / "1/p1", truth, columns=COLUMNS, **asked)
    machine(tmp_path / "2/p1-again", lambda *of: truth(*of) - 0.2, columns=("eevdf", "scx_simple", "agent"), **asked)
    begun = machine(tmp_path / "3/p1", truth, columns=COLUMNS, **asked)
    (begun / "trials.parquet").unlink()
    assert asa(tmp_path, "--page", tmp_path / "page.md") == 0
    assert f"{begun}: left out: it has no tables yet" in capsys.readouterr().err
    text = (tmp_path / "page.md").read_text()
    assert f"- left out, since its run has not ended: `{begun}`" in text
    scores = text.split("Mean scores over all machines")[1].split("##")[0]
    head, row = (line.split(" | ") for line in scores.splitlines() if line.startswith(("| scenario", "| S1")))
    means = dict(zip(head, row, strict=True))
    assert (means["eevdf"], means["agent"], means["scx_lavd"]) == ("0.410", "0.490", "0.610*")
    assert "| gain_over_loader_rule_pct | 11.3 % |  | > 0 % | yes | 1 blocks, 1 of the agent's 2 runs |" in text


def test_labels_of_changing_scenarios_fit_into_the_picture(tmp_path, monkeypatch):
    """Beside the longest label that there is, one machine's column keeps an inch."""
    drawn = []

    def save(canvas, path, **_):
        canvas.draw_without_rendering()
        drawn.append((path.stem, canvas))

    monkeypatch.setattr("calibration.fleet.plots.Canvas.savefig", save)
    long = "audio+blender~web+video"
    machine(tmp_path / "p1", truth, columns=COLUMNS, scenarios=f"S1,{long}", repeats=1, record=record)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib's, where nothing is left for the axes
        assert asa(tmp_path, "--page", tmp_path / "page.md", "--json") == 0
    canvas = dict(drawn)["heatmap"]
    axis = canvas.axes[0]
    label = next(one for one in axis.get_yticklabels() if long in one.get_text())
    assert label.get_window_extent().x0 >= 0.0
    assert axis.get_window_extent().width / canvas.dpi > 1.0  # inches, of one machine's column


def test_a_fleet_without_the_agent_has_a_page_that_says_so(tmp_path, capsys):
    machine(tmp_path / "fleet" / "p1", truth, columns=("eevdf",), scenarios="S1", repeats=1)
    assert asa(tmp_path / "fleet", "--page", tmp_path / "page.md") == 0
    text = (tmp_path / "page.md").read_text()
    assert "no run of agent is kept" in text
    assert ".svg)" not in text
    assert list((tmp_path / "page").iterdir()) == [tmp_path / "page" / "scores.parquet"]


def test_what_cannot_be_is_said_in_one_line(folder, tmp_path):
    with pytest.raises(AsaError, match="holds no machine of a fleet"):
        asa(tmp_path)
    with pytest.raises(AsaError, match="cannot be written; make its folder"):
        asa(folder, "--page", tmp_path / "none" / "page.md")
    with pytest.raises(AsaError, match="name a text file by --notes"):
        asa(folder, "--page", tmp_path / "page.md", "--notes", tmp_path / "none")
    assert not (tmp_path / "page.md").exists()


def test_it_is_one_of_the_evaluations():
    parser = argparse.ArgumentParser()
    evaluate.register(parser.add_subparsers())
    assert parser.parse_args(["evaluate", "fleet", "--json"]).run is evaluate_fleet.run


def test_cells_say_what_is_unknown():
    unknown = Figure(name=FleetFigure.TOP1, value=None, reason="nothing was played")
    assert fleet_page.cells(unknown) == ("top1_pct", "unknown", "", ">= 60 %", "no", "nothing was played")
