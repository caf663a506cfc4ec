# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench run --tier lab`: stand-ins in a real guest, under a real scheduler, and the results on this side."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest


@pytest.mark.vm
@pytest.mark.slow
def test_a_run_in_the_lab_brings_everything_back(tmp_path):
    command = [sys.executable, "-m", "asa.cli", "lab", "bench", "run", "--tier", "lab", "--scenario", "alone:archive"]
    command += ["--scheduler", "scx_simple", "--seconds", "2", "--warm-up", "0", "--cpus", "2"]
    command += ["--out", str(tmp_path / "out"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    head, *rows = (json.loads(line) for line in done.stdout.splitlines())
    assert (head["trials"], head["done"]) == (2, 2)
    assert [(row["label"], row["scheduler"]) for row in rows] == [("archive", "eevdf"), ("archive", "scx_simple")]
    for row in rows:
        assert row["applications"]["archive"]["metrics"]["compress_mb_per_s"]["samples"] > 0
    trials = pq.read_table(tmp_path / "out/trials.parquet").to_pylist()
    assert {row["kernel"] for row in trials} == set(head["kernels"])
    assert {row["cpus"] for row in trials} == {2}
    assert not list((tmp_path / "out/guests").glob("*/.lab-*"))
