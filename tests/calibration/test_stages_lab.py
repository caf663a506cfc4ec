# SPDX-License-Identifier: GPL-2.0-only
"""The stages in real guests: a real scheduler beside EEVDF, by hand, as a shadow, and switched to by the agent."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from asa.decide import table

WORDS = ("--in-lab", "--scenario", "web+archive", "--scheduler", "scx_simple", "--seconds", "3", "--warm-up", "0")
WORDS = (*WORDS, "--cpus", "2", "--jobs", "2", "--json")


def asa(*words):
    command = [sys.executable, "-m", "asa.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.vm
@pytest.mark.slow
def test_stage_one_measures_two_schedulers_and_records_them(tmp_path):
    out = tmp_path / "table.yaml"
    places = ("--folder", str(tmp_path / "one"), "--out", str(out))
    told = asa("calibrate", "prototype", *WORDS, "--repeat", "1", "--record", *places)
    assert (told["trials"], told["failed"]) == (4, 0)
    found = table.read(out)
    # besides who is for battery saver by the table before
    scores = {str(entry.name): entry.score for entry in found.classes["web+archive"] if entry.score is not None}
    assert set(scores) == {"eevdf", "scx_simple"}
    assert all(0.0 <= score <= 1.0 for score in scores.values())
    assert found.machine.cpus == 2
    assert "QEMU" in found.machine.cpu_model
    assert found.measured.kernel == found.machine.kernel
    assert set(found.measured.schedulers) == {"scx_simple"}
    assert pq.read_table(tmp_path / "one/trials.parquet").num_rows == 4
    assert len(list((tmp_path / "one/recordings").glob("*.journal.xz"))) == 4


@pytest.mark.vm
@pytest.mark.slow
def test_stages_two_and_three_have_the_agent_at_work(tmp_path):
    out = tmp_path / "table.yaml"
    words = (*WORDS, "--out", str(out))
    longer = ("--seconds", "10")  # the agent needs some to be sure, and emulated a load takes some more
    told = asa("calibrate", "overhead", *words, *longer, "--folder", str(tmp_path / "two"), "--repeat", "1")
    assert told["failed"] == 0, told
    cost = told["costs"]["scx_simple"]
    assert cost["switch_ms"] > told["costs"]["eevdf"]["switch_ms"] > 0.0
    assert cost["overhead_pct"] > 0.0
    assert cost["runs"] >= 1
    told = asa("calibrate", "generalize", *words, "--folder", str(tmp_path / "three"), "--trials", "4")
    assert told["failed"] == 0, told
    found = table.read(out)
    ranked = {str(entry.name) for entry in found.classes["web+archive"] if entry.score is not None}
    assert ranked == {"eevdf", "scx_simple"}
    assert set(found.costs) == {"eevdf", "scx_simple"}
    schedulers = set(pq.read_table(tmp_path / "three/trials.parquet")["scheduler"].to_pylist())
    assert {"live:eevdf", "live:scx_simple"} <= schedulers
