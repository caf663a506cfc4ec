# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab shadow report` over journals whose figures are known, and `asa run --shadow` where it cannot work."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from asa.cli.lab import shadow
from asa.core.decision import EEVDF, LoadCost, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, JournalError
from asa.core.sample import RawSample
from asa.journal import Costs, Journal, SessionHeader
from calibration.overhead.shadow_report import quantiles

HAS_SCHED_EXT = Path("/sys/kernel/sched_ext").exists()
FLASH, RUSTY = SchedulerName("scx_flash"), SchedulerName("scx_rusty")
MS, MB = 1_000_000, 1_000_000


def asa(*words):
    parser = argparse.ArgumentParser()
    shadow.register(parser.add_subparsers())
    arguments = parser.parse_args(["shadow", "report", *map(str, words)])
    return arguments.run(arguments)


def header(mode="shadow"):
    return SessionHeader(started_ns=1, asa_version="0", host="a \x1b[31mlab", kernel="6.18", cpus=2, mode=mode)


def event(name, load=None, outcome=SwitchOutcome.SHADOWED, detail=""):
    return SwitchEvent(
        monotonic_ns=1, outcome=outcome, old=EEVDF, new=name, elapsed_ns=2, detail=detail, undo="", load=load
    )


def load(wall_ms, user_ms, system_ms, memory_mb=9):
    return LoadCost(wall_ns=wall_ms * MS, user_ns=user_ms * MS, system_ns=system_ms * MS, memory_bytes=memory_mb * MB)


def tick(journal, second, cpu_ms, *events):
    journal.add(RawSample(monotonic_ns=second * 10**9, wall_ns=1), None, events)
    costs = Costs(
        monotonic_ns=second * 10**9,
        collection_us=1000.0 + second,
        sources_us={"cpu": 80.0} if second else {},
        inference_us=None if second == 0 else 200.0,
        decision_us=30.0,
        action_us=5.0,
        journal_us=20.0,
        cpu_ns=cpu_ms * MS,
        resident_bytes=(40 + second) * MB,
    )
    journal.add_costs(costs)


@pytest.fixture
def journal(tmp_path):
    """Two shadow sessions of 10 s each, and one of another kind."""
    path = tmp_path / "shadow.sqlite"
    with Journal.open(path) as opened:
        opened.begin(header())
        loads = [event(FLASH, load(100 * n, 40, 10 * n, n)) for n in range(1, 11)]
        tick(opened, 0, 500, *loads)
        tick(opened, 10, 520, event(RUSTY, load(4000, 300, 3600)), event(EEVDF))
        opened.begin(header())
        refused = event(RUSTY, outcome=SwitchOutcome.REFUSED, detail="scx_rusty: ended; it said: 'no \x1b[2Jmemory'")
        tick(opened, 0, 100, refused, refused)
        tick(opened, 10, 130, event(FLASH, outcome=SwitchOutcome.LOST))
        opened.begin(header("switching"))
        tick(opened, 0, 0)
        tick(opened, 1, 9_000, event(FLASH, load(1, 1, 1)))
    return path


def test_the_report_by_scheduler(journal, capsys):
    assert asa(journal, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sessions"], found["kernels"], found["hosts"]) == (2, ["6.18"], ["a ?[31mlab"])
    by_name = {costs["scheduler"]: costs for costs in found["schedulers"]}
    assert list(by_name) == ["eevdf", "scx_flash", "scx_rusty"]
    flash = by_name["scx_flash"]
    assert (flash["chosen"], flash["loaded"], flash["failures"]) == (10, 10, {})
    assert flash["wall_ms"] == {"count": 10, "mean": 550.0, "p50": 500.0, "p95": 1000.0, "p99": 1000.0, "max": 1000.0}
    assert (flash["user_ms"]["p50"], flash["system_ms"]["max"], flash["cpu_ms"]["p50"]) == (40.0, 100.0, 90.0)
    assert flash["memory_mb"] == 10.0
    rusty = by_name["scx_rusty"]
    assert (rusty["chosen"], rusty["loaded"], rusty["wall_ms"]["max"]) == (3, 1, 4000.0)
    assert rusty["failures"] == {"scx_rusty: ended; it said: 'no ?[2Jmemory'": 2}
    assert (by_name["eevdf"]["chosen"], by_name["eevdf"]["loaded"], by_name["eevdf"]["wall_ms"]) == (1, 0, None)


def test_the_report_of_the_agent(journal, capsys):
    asa(journal, "--json")
    found = json.loads(capsys.readouterr().out)
    agent = found["agent"]
    assert (agent["ticks"], agent["duration_s"]) == (4, 20.0)
    assert agent["cpu_pct"] == pytest.approx(100 * 0.050 / 20)  # 20 ms in one session, 30 ms in the other
    assert agent["loads_cpu_pct"] == pytest.approx(100 * (0.4 + 0.55 + 3.9) / 20)
    assert agent["resident_mb"] == 50.0
    assert agent["collection_us"]["max"] == 1010.0
    assert (agent["inference_us"]["count"], agent["decision_us"]["count"]) == (2, 4)
    assert agent["sources_us"] == {"cpu": 80.0}
    assert (found["paper"]["cpu_pct"], found["paper"]["memory_mb"]) == (1.45, 297.0)


def test_the_tables_and_the_picture(journal, capsys, tmp_path):
    assert asa(journal, "--plot", tmp_path / "s.svg") == 0
    shown = capsys.readouterr().out
    assert "500 / 1000 / 1000" in shown
    assert "2 x scx_rusty: ended" in shown
    assert "1.45" in shown
    assert "297" in shown
    assert "\x1b" not in shown
    drawn = ElementTree.parse(tmp_path / "s.svg").getroot()  # noqa: S314  # our own
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"scx_flash", "scx_rusty", "collection", "inference", "decision", "action", "journal"} <= set(words)
    assert "eevdf" not in words  # nothing was loaded for it
    bars = list(drawn.iter("{http://www.w3.org/2000/svg}rect"))
    assert len(bars) == 1 + 2 * 2 + 5
    assert all(float(bar.get("width")) >= 0.0 for bar in bars)


def test_the_journal_stays_as_it_was(journal):
    before = journal.read_bytes()
    asa(journal)
    assert journal.read_bytes() == before


def test_a_packed_one_is_read_too(journal, tmp_path, capsys):
    with Journal.open(journal) as opened:
        opened.pack(tmp_path / "s.journal.xz")
    assert asa(tmp_path / "s.journal.xz", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == 2


def test_without_any_tick_or_load(tmp_path, capsys):
    with Journal.open(tmp_path / "j.sqlite") as opened:
        opened.begin(header())
    assert asa(tmp_path / "j.sqlite", "--plot", tmp_path / "s.svg") == 0
    assert "1 shadow session on" in capsys.readouterr().out
    ElementTree.parse(tmp_path / "s.svg")  # noqa: S314


def test_what_it_refuses(journal, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))
    with pytest.raises(JournalError, match=r"none/asa/shadow\.sqlite: there is no such journal"):
        asa()
    with pytest.raises(AsaError, match=r"nowhere/s\.svg: cannot be written"):
        asa(journal, "--plot", tmp_path / "nowhere/s.svg")
    with Journal.open(tmp_path / "j.sqlite") as opened:
        opened.begin(header("switching"))
    with pytest.raises(JournalError, match="no shadow session in it; `asa run --shadow` makes one"):
        asa(tmp_path / "j.sqlite")


def test_quantiles_are_values_that_were_measured():
    assert quantiles([]) is None
    one = quantiles([3.0])
    assert (one.p50, one.p95, one.p99, one.max, one.mean) == (3.0, 3.0, 3.0, 3.0, 3.0)
    hundred = quantiles([float(n) for n in range(100, 0, -1)])
    assert (hundred.p50, hundred.p95, hundred.p99, hundred.max) == (50.0, 95.0, 99.0, 100.0)


def run(*words, env):
    command = [sys.executable, "-m", "asa.cli", "run", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)


@pytest.fixture
def env(tmp_path):
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}


@pytest.mark.skipif(HAS_SCHED_EXT, reason="this kernel has sched_ext; tests/guest covers the shadow mode")
def test_without_sched_ext_it_is_one_clear_line(env, tmp_path):
    done = run("--shadow", "--for", "2", env=env)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "shadow mode is not possible here: this kernel has no sched_ext" in done.stderr
    assert not list(tmp_path.rglob("*.sqlite"))


def test_it_observes_or_shadows(env):
    done = run("--shadow", "--observe", env=env)
    assert done.returncode == 2
    assert "not allowed with" in done.stderr
