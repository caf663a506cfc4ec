# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench run` on this machine, with toys in the place of real programs: results, refusals, Ctrl-C."""

import argparse
import json
import os
import shutil
import signal
import threading
from contextlib import suppress

import psutil
import pyarrow.parquet as pq
import pytest
from toys import toys
from waiting import until

from asa import paths
from asa.cli.lab.bench import run as bench_run
from asa.core.errors import AsaError
from scenarios import catalogue


def drivers():
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # another test's, which ended meanwhile
            if "Driver.begin" in str(child.cmdline()):
                found.append(child)
    return found


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """The command, with toys; what is left of them at the end is told."""
    playing = {"applications": toys()}
    monkeypatch.setattr(catalogue, "applications", lambda _tier: playing["applications"])
    places = paths.Places(
        sys=tmp_path, run=tmp_path / "run", cache=tmp_path / "cache", state=tmp_path / "state", config=tmp_path / "no"
    )
    monkeypatch.setattr(paths, "default", lambda: places)
    top = argparse.ArgumentParser()
    bench_run.register(top.add_subparsers())

    def run(*words, broken=()):
        playing["applications"] = toys(broken=broken)
        arguments = top.parse_args(["run", "--seconds", "0.3", "--warm-up", "0", "--again", "0", *words])
        return arguments.run(arguments)

    yield run
    assert list((tmp_path / "cache/scratch").glob("*")) == []
    assert drivers() == []


def test_a_run_gives_tables_a_summary_and_lines(bench, tmp_path, capsys):
    out = tmp_path / "out"
    assert bench("--scenario", "web+archive,office+video", "--out", str(out), "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["trials"] == lines[0]["done"] + lines[0]["disturbed"] == 2 + 4
    assert [line["scenario"] for line in lines[1:]] == ["S14", "S15", "archive", "office", "video", "web"]
    pair = lines[2]
    assert pair["applications"]["web"]["metrics"]["click_ms"]["samples"] >= 1
    assert pair["applications"]["archive"]["score"] > 0.5
    assert pair["score"] > 0.5
    assert json.loads((out / "summary.json").read_text())["rows"][1] == pair
    assert {"web", "archive"} <= set(pq.read_table(out / "samples.parquet")["application"].to_pylist())
    assert pq.read_table(out / "trials.parquet").num_rows == 6


def test_what_failed_is_told_and_played_again(bench, tmp_path, capsys):
    words = ("--scenario", "web+archive", "--out", str(tmp_path / "out"))
    assert bench(*words, broken=("archive",)) == 1
    said = capsys.readouterr()
    assert "3 of 3 trials to play" in said.err
    assert "the toy is broken" in " ".join(said.out.replace("│", " ").split())
    assert bench(*words) == 0
    assert "2 of 3 trials to play" in capsys.readouterr().err
    assert bench(*words) == 0
    assert "0 of 3 trials to play" in capsys.readouterr().err
    with pytest.raises(AsaError, match="holds another plan"):
        bench(*words, "--seed", "5")


def test_ctrl_c_leaves_a_run_that_can_be_resumed(bench, tmp_path, capsys):
    out = tmp_path / "out"
    words = ("--scenario", "web+archive", "--out", str(out))

    def interrupt():
        until(lambda: list(out.glob("trials/*.json")), "the first trial was kept")
        os.kill(os.getpid(), signal.SIGINT)

    beside = threading.Thread(target=interrupt)
    beside.start()
    with pytest.raises(KeyboardInterrupt):
        bench(*words)
    beside.join()
    assert "the same command goes on from here" in capsys.readouterr().err
    before = len(list(out.glob("trials/*.json")))
    assert 1 <= before < 3
    assert bench(*words) == 0
    assert f"{3 - before} of 3 trials to play" in capsys.readouterr().err


def test_a_clones_tables_are_not_replaced(bench, tmp_path):
    out = tmp_path / "out"
    words = ("--scenario", "web+archive", "--out", str(out))
    assert bench(*words) == 0
    shutil.rmtree(out / "trials")
    kept = {path: path.read_bytes() for path in out.glob("*.*")}
    with pytest.raises(AsaError, match=r"trials\.parquet: has 3 trials whose own results are not beside it"):
        bench(*words)
    assert not (out / "trials").exists()
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scheduler", "scx_simple"), "this kernel has no sched_ext, only eevdf can be in force"),
        (("--jobs", "2"), "--jobs is of guests, which only --tier lab has"),
        (("--tier", "lab", "--cpus", "65"), "a guest has 1 to 64 CPUs, not 65"),
        (("--tier", "lab", "--cpus", "4", "--machine", "vm120"), "leave out --cpus or --machine"),
        (("--tier", "lab", "--machine", "vm119"), "'vm119' is not accepted"),
        (("--machine", "vm120"), "--machine is of guests, which only --tier lab has"),
        (("--tier", "lab", "--scheduler", "scx_none"), "scx_none: not in the manifest"),
        (("--scenario", "S29"), "'S29' is not accepted"),
        (("--out", "/proc/nowhere"), "name another folder by --out"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(bench, words, said):
    with pytest.raises(AsaError) as error:
        bench(*words)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("words", [("--seconds", "0"), ("--repeat", "0"), ("--warm-up", "nan"), ("--tier", "x")])
def test_a_wrong_word_is_refused(bench, words, capsys):
    with pytest.raises(SystemExit):
        bench(*words)
    assert "error: argument" in capsys.readouterr().err
