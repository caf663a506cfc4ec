# SPDX-License-Identifier: GPL-2.0-only
"""The status file and its lock."""

import os

import msgspec
import pytest

from asa import status
from asa.core.errors import AsaError


def example(**changes):
    values = {
        "pid": os.getpid(),
        "asa_version": "0",
        "started_ns": 1,
        "updated_ns": 2,
        "mode": "observing",
        "mode_reason": "told to",
        "workload": None,
        "confidence": 0.0,
        "probabilities": {},
        "wanted": None,
        "scheduler": None,
        "scheduler_since_ns": 0,
        "reason": "undecided",
        "sentence": "",
        "switches": 0,
        "failures": 0,
        "set_aside": [],
        "last_event": "",
        "table": "",
        "model": "",
        "interval_s": 1.0,
        "ticks": 0,
        "overruns": 0,
        "worst_late_ms": 0.0,
        "backends": {},
        "missing_sources": {},
        "slow_sources": {},
        "cost_us": {},
    }
    return msgspec.convert(values | changes, status.Status)


def test_written_is_read_while_the_agent_lives(tmp_path):
    file = status.StatusFile(tmp_path / "run")
    file.write(example(workload="cpu"))
    assert status.read(tmp_path / "run") == example(workload="cpu")
    file.close()
    assert status.read(tmp_path / "run") is None


def test_a_file_left_behind_is_not_an_agent(tmp_path):
    (tmp_path / "status.json").write_bytes(msgspec.json.encode(example()))
    assert status.read(tmp_path) is None
    (tmp_path / "lock").touch()
    assert status.read(tmp_path) is None


def test_one_agent_at_a_time(tmp_path):
    file = status.StatusFile(tmp_path)
    with pytest.raises(AsaError, match="another agent"):
        status.StatusFile(tmp_path)
    file.close()
    status.StatusFile(tmp_path).close()


def test_a_damaged_file_is_named(tmp_path):
    file = status.StatusFile(tmp_path)
    (tmp_path / "status.json").write_text("{}")
    with pytest.raises(AsaError, match=r"status\.json"):
        status.read(tmp_path)
    file.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AsaError, match="file/run"):
        status.StatusFile(tmp_path / "file/run")
