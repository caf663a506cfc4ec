# SPDX-License-Identifier: GPL-2.0-only
"""`asa bench overhead` from end to end in its shortest form, and its one-line complaints."""

import argparse
import json
import os

import pytest

from asa.cli import bench
from asa.core.errors import AsaError
from calibration.overhead_figures import GOALS, Name

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the probes need root: run the tests as root to force it")


def run(*words):
    top = argparse.ArgumentParser()
    bench.register(top.add_subparsers(dest="command", required=True))
    arguments = top.parse_args(["bench", "overhead", *words])
    return arguments.run(arguments)


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.root
@pytest.mark.slow
@needs_root
def test_every_figure_from_end_to_end(tmp_path, capfd):
    out = tmp_path / "overhead.md"
    words = ("--rounds", "1", "--idle-seconds", "2", "--slope-minutes", "0", "--out", str(out), "--json")
    assert run(*words) == 0
    printed = capfd.readouterr()
    found = {line["name"]: line for line in lines_of(printed.out)}
    assert list(found) == list(Name)
    for name, line in found.items():
        assert set(line) - {"reason"} == {"name", "value", "unit", "goal", "ok"}
        assert (line["goal"], line["unit"]) == (GOALS[name].value, GOALS[name].unit)
        assert (line["value"] is None) <= bool(line.get("reason")), line
    assert found["rss_slope_kb_per_min"]["value"] is None
    measured = {name: line["value"] for name, line in found.items() if name != "rss_slope_kb_per_min"}
    assert None not in measured.values(), found
    # an interpreter with a model, which computes something each second
    assert 0.01 < measured["agent_cpu_pct"] < 50.0
    assert 20.0 < measured["agent_rss_mb"] < 300.0
    assert 5.0 < measured["probes_rss_mb"] < measured["agent_rss_mb"]
    assert 0.0 <= measured["tick_overrun_pct"] <= 100.0
    text = out.read_text()
    assert all(f"`{name}`" in text for name in Name)
    assert "![CPU time and resident memory over time](overhead.svg)" in text
    assert "switches/s" in text
    assert (tmp_path / "overhead.svg").read_text().startswith("<svg ")
    assert "the agent alone" in printed.err  # progress, away from the JSON


@pytest.mark.root
@needs_root
def test_some_figures_only(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run("--rounds", "1", "--idle-seconds", "2", "--only", "probes_rss_mb,probe_ns_per_switch") == 0
    printed = capfd.readouterr().out
    last = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert [line["name"] for line in last] == ["probes_rss_mb", "probe_ns_per_switch"]
    assert "probes_rss_mb" in printed.splitlines()[3]  # the table for people
    assert list(tmp_path.iterdir()) == []  # an incomplete run takes no document's place


def test_a_figure_that_there_is_not():
    with pytest.raises(AsaError, match=r"--only: 'speed' is not a valid Name; the figures are agent_cpu_pct, "):
        run("--only", "agent_cpu_pct,speed")


def test_a_place_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path):
    for place in (tmp_path / "none/overhead.md", tmp_path):
        with pytest.raises(AsaError, match=r"cannot be written; make its folder, or name another place by --out"):
            run("--out", str(place))


@pytest.mark.parametrize(
    "words",
    [
        ("--rounds", "0"),
        ("--idle-seconds", "0"),
        ("--idle-seconds", "nan"),
        ("--slope-minutes", "-1"),
        ("--rounds", "x"),
    ],
)
def test_numbers_out_of_range(words, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
