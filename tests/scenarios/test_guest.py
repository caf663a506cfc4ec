# SPDX-License-Identifier: GPL-2.0-only
"""Runs tests/guest inside the lab, on a kernel with sched_ext."""

import sys
from pathlib import Path

import pytest

from asa import paths
from scenarios.lab import guest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.vm
@pytest.mark.slow
def test_guest_suite(tmp_path, capsys):
    lines = []
    lab = guest.ready(paths.default().cache, lines.append)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--rootdir", str(ROOT), "tests/guest"]

    def show(line):
        lines.append(line)
        with capsys.disabled():
            print(f"  guest: {line}", flush=True)

    result = guest.run(command, lab=lab, out=tmp_path, on_output=show, memory_mb=3072, limit_s=900.0)
    assert result.exit_code == 0, "\n".join(lines[-80:])
    assert any(" passed" in line and "skipped" not in line for line in lines[-5:])
