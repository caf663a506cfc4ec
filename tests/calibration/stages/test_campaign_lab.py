# SPDX-License-Identifier: GPL-2.0-only
"""The stages in real guests: a real scheduler beside EEVDF, by hand, as a shadow, and switched to by the agent."""

import json
import subprocess
import sys
from collections import Counter

import pyarrow.parquet as pq
import pytest

from asa.decide import table
from models.train.recorded import read

WORDS = ("--in-lab", "--scenario", "web+archive", "--scheduler", "scx_simple", "--seconds", "3", "--warm-up", "0")
WORDS = (*WORDS, "--cpus", "2", "--json")


def asa(*words):
    command = [sys.executable, "-m", "asa.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return json.loads(done.stdout)


def _recorded(campaign):
    """How many sessions `asa lab train` finds of each label."""
    found = Counter()
    for path in (campaign / "recordings").glob("*.journal.xz"):
        for session in read(path):
            found[session.header.label] += len(session.samples) >= 2
    return found


@pytest.mark.vm
@pytest.mark.slow
def test_stage_one_measures_two_schedulers_and_records_them(tmp_path):
    out = tmp_path / "table.yaml"
    places = ("--folder", str(tmp_path / "one"), "--out", str(out))
    told = asa("calibrate", "prototype", *WORDS, "--jobs", "2", "--repeat", "1", "--record", *places)
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
    two = ("--folder", str(tmp_path / "two"), "--repeat", "1", "--record")
    told = asa("calibrate", "overhead", *words, *longer, *two)
    assert told["failed"] == 0, told
    assert _recorded(tmp_path / "two") == {"web+archive": 3, "web": 1, "archive": 1}
    cost = told["costs"]["scx_simple"]
    assert cost["switch_ms"] > told["costs"]["eevdf"]["switch_ms"] > 0.0
    assert cost["overhead_pct"] > 0.0
    assert cost["runs"] >= 1
    three = ("--folder", str(tmp_path / "three"), "--trials", "4", "--record")
    told = asa("calibrate", "generalize", *words, *three)
    assert told["failed"] == 0, told
    assert _recorded(tmp_path / "three")["web+archive"] >= 2
    found = table.read(out)
    ranked = {str(entry.name) for entry in found.classes["web+archive"] if entry.score is not None}
    assert ranked == {"eevdf", "scx_simple"}
    assert set(found.costs) == {"eevdf", "scx_simple"}
    schedulers = set(pq.read_table(tmp_path / "three/trials.parquet")["scheduler"].to_pylist())
    assert {"live:eevdf", "live:scx_simple"} <= schedulers
