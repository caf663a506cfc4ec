# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench overhead` and `asa lab bench switch` in their shortest form, and their one-line complaints."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asa.cli.lab.bench import output as bench_output
from asa.cli.lab.bench import overhead as bench
from asa.core.errors import AsaError
from calibration.overhead.figures import OverheadFigure
from calibration.switch.figures import SwitchFigure

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true",
    reason="the probes need root: run the tests by sudo, or with CI=true",
)
ROUNDS = 10
# An agent that runs here already is not in the way: ours has a run folder of its own.
APART = """
import os, subprocess, sys
from asa.cli import main
os.makedirs("/run/asa", mode=0o755, exist_ok=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "asa-test", "/run/asa"], check=True)
sys.exit(main.main(sys.argv[1:]))
"""


def run(*words, which="overhead"):
    top = argparse.ArgumentParser()
    bench.register(top.add_subparsers(dest="command", required=True))
    arguments = top.parse_args(["bench", which, *words])
    return arguments.run(arguments)


def run_switch(*words):
    return run(*words, which="switch")


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def probes_cost_something():
    """In one of some rounds. A host whose CPU is taken away meanwhile, or gets faster, shows less than nothing."""
    words = ("--rounds", "1", "--idle-seconds", "2", "--only", "probe_ns_per_switch", "--json")
    command = [sys.executable, "-m", "asa.cli", "lab", "bench", "overhead", *words]
    for _ in range(ROUNDS):
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if lines_of(printed)[0]["value"] > 0.0:
            return True
    return False


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.alone
@needs_root
def test_every_figure_from_end_to_end(tmp_path):
    out = tmp_path / "overhead.md"
    words = ("--rounds", "1", "--idle-seconds", "2", "--slope-minutes", "0", "--out", str(out), "--json")
    command = ["unshare", "--mount", sys.executable, "-c", APART, "lab", "bench", "overhead", *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    found = {line["name"]: line for line in lines_of(printed.stdout)}
    assert list(found) == list(OverheadFigure)
    for name, line in found.items():
        assert set(line) - {"reason", "detail"} == {"name", "value", "unit", "goal", "ok"}
        goal = OverheadFigure(name).goal
        assert (line["goal"], line["unit"]) == (goal.bound, goal.unit)
        assert (line["value"] is None) <= bool(line.get("reason")), line
    assert found["rss_slope_kb_per_min"]["value"] is None
    measured = {name: line["value"] for name, line in found.items() if name != "rss_slope_kb_per_min"}
    assert None not in measured.values(), found
    # an interpreter with a model, which computes something each second
    assert 0.01 < measured["agent_cpu_pct"] < 50.0
    assert 20.0 < measured["agent_rss_mb"] < 300.0
    assert 5.0 < measured["probes_rss_mb"] < measured["agent_rss_mb"]
    assert measured["probe_ns_per_switch"] > 0.0 or probes_cost_something()
    assert 0.0 <= measured["tick_overrun_pct"] <= 100.0
    text = out.read_text()
    assert all(f"`{name}`" in text for name in OverheadFigure)
    assert "![CPU time and resident memory over time](overhead.svg)" in text
    assert "switches/s" in text
    assert (tmp_path / "overhead.svg").read_text().startswith("<svg ")
    assert "the agent alone" in printed.stderr  # progress, away from the JSON


@pytest.mark.root
@pytest.mark.alone
@needs_root
def test_some_figures_only(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run("--rounds", "1", "--idle-seconds", "2", "--only", "probes_rss_mb,probe_ns_per_switch") == 0
    printed = capfd.readouterr().out
    last = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert [line["name"] for line in last] == ["probes_rss_mb", "probe_ns_per_switch"]
    assert "probes_rss_mb" in printed.splitlines()[3]  # the table for people
    assert list(tmp_path.iterdir()) == []  # an incomplete run takes no document's place


@pytest.mark.vm
@pytest.mark.slow
def test_one_switch_of_each_kind_in_the_lab(tmp_path):
    out = tmp_path / "switching.md"
    words = ("--switches", "1", "--clock", "parallel", "--json", "--out", str(out))
    command = [sys.executable, "-m", "asa.cli", "lab", "bench", "switch", *words]
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path)}  # the console of a guest that fails is kept there
    for _ in range(2):  # an emulated kernel's watchdog takes a scheduler out now and then: told, and played once more
        printed = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert printed.returncode == 0, printed.stderr
        found = {line["name"]: line for line in lines_of(printed.stdout)}
        assert list(found) == list(SwitchFigure), printed.stderr
        if "watchdog" not in printed.stderr and "stall" not in printed.stderr:
            break
    value = {name: line["value"] for name, line in found.items()}
    assert None not in value.values(), (found, printed.stderr)
    assert "asa: " not in printed.stderr  # no trouble, no switch missing
    # What holds for one switch, on a host that others use, whatever the budgets say of twenty.
    assert value["gap_ratio_median"] > 20.0
    assert 0.5 < value["switch_floor_p99_ms"] < value["standby_switch_p99_ms"] < 100.0
    assert value["standby_own_ms"] > 0.0
    assert 2.0 < value["standby_rss_mb"] < 48.0
    assert value["standby_cpu_ms"] < 20.0
    assert value["external_change_seen_ms"] > 0.0
    seen = [float(cell) for cell in _told_and_seen(out.read_text(), "plain")]
    assert abs(seen[0] - seen[1]) < 60.0  # ms of a gap of seconds: the loop looks each 20 ms, the probe each one
    seen = [float(cell) for cell in _told_and_seen(out.read_text(), "standby")]
    assert -2.0 < seen[0] - seen[1] < 15.0  # told from before the detach, seen from when it shows
    assert out.with_suffix(".svg").read_text().startswith("<svg ")
    assert "parallel: round 1 of 1: standby" in printed.stderr


def _told_and_seen(text, kind):
    line = next(line for line in text.splitlines() if line.startswith(f"| {kind} | scx_") and line.count("|") == 7)
    return line.split("|")[5:7]


@pytest.mark.parametrize("words", [("--switches", "0"), ("--switches", "x"), ("--clock", "sundial")])
def test_switches_out_of_range(words, capsys):
    with pytest.raises(SystemExit) as ended:
        run_switch(*words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_a_place_for_switching_figures_is_looked_at_before_a_guest_boots(tmp_path):
    with pytest.raises(AsaError, match=r"cannot be written; make its folder, or name another place by --out"):
        run_switch("--out", str(tmp_path / "none/figures.md"))


def test_a_figure_that_there_is_not():
    with pytest.raises(
        AsaError, match=r"--only: 'speed' is no figure of this benchmark; the figures are agent_cpu_pct, "
    ):
        run("--only", "agent_cpu_pct,speed")


def test_a_place_that_cannot_be_written_is_said_before_anything_is_measured(tmp_path):
    link = tmp_path / "link.md"
    link.symlink_to(tmp_path / "elsewhere.md")
    for place in (tmp_path / "none/overhead.md", tmp_path, Path("/dev/null"), link):
        with pytest.raises(AsaError, match=r"cannot be written; make its folder, or name another place by --out"):
            run("--out", str(place))


def test_a_report_takes_a_links_place_and_leaves_what_it_points_to(tmp_path):
    theirs, name = tmp_path / "theirs", tmp_path / "overhead.svg"
    theirs.write_text("theirs")
    name.symlink_to(theirs)
    bench_output.put(name, "ours")
    assert (theirs.read_text(), name.read_text(), name.is_symlink()) == ("theirs", "ours", False)
    assert sorted(tmp_path.iterdir()) == [name, theirs]  # nothing is left beside


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path):
    name = tmp_path / "overhead.md"
    bench_output.put(name, "old")
    with pytest.raises(UnicodeEncodeError):
        bench_output.put(name, "new" * 100_000 + "\udcff")
    assert name.read_text() == "old"
    assert list(tmp_path.iterdir()) == [name]


def test_reports_are_written_in_order_and_the_one_that_cannot_be_is_named(tmp_path, capsys):
    picture, page, folder = tmp_path / "overhead.svg", tmp_path / "overhead.md", tmp_path / "folder"
    bench_output.write({picture: "drawn", page: "told"})
    assert (picture.read_text(), page.read_text()) == ("drawn", "told")
    assert capsys.readouterr().err == f"wrote {page}\n"
    folder.mkdir()
    with pytest.raises(AsaError, match="folder: cannot be written: it is no file; name another place by --out"):
        bench_output.write({folder: "drawn", page: "told anew"})
    assert page.read_text() == "told"


@pytest.mark.root
@needs_root
def test_a_report_in_a_users_folder_is_that_users(tmp_path):
    name = tmp_path / "overhead.md"
    os.chown(tmp_path, 65534, 65533)
    bench_output.put(name, "text")
    found = name.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65533, 0o644)


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
