# SPDX-License-Identifier: GPL-2.0-only
"""The status file and its lock."""

import pytest
from made_up_status import status as example

from asa import status, wire
from asa.core.errors import AsaError


def test_written_is_read_while_the_agent_lives(tmp_path):
    file = status.StatusFile(tmp_path / "run")
    file.write(example(workload="cpu", updated_ns=2))
    assert status.read(tmp_path / "run") == example(workload="cpu", updated_ns=2)
    file.close()
    assert status.read(tmp_path / "run") is None


def test_a_file_left_behind_is_not_an_agent(tmp_path):
    (tmp_path / "status.json").write_bytes(wire.json_bytes(example()))
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


@pytest.mark.parametrize(
    ("workload", "regime", "words"),
    [
        (None, "", "not recognised yet"),
        ("web", "", "web"),
        ("web", "regime:heavy-computing", "unknown; regime heavy-computing; web stays"),
        (None, "regime:heavy-computing", "unknown; regime heavy-computing"),
        ("regime:heavy-computing", "regime:heavy-computing", "unknown; regime heavy-computing"),
        (
            "regime:mixed-waking",
            "regime:heavy-computing",
            "unknown; regime heavy-computing; what serves mixed-waking stays",
        ),
    ],
)
def test_what_is_unknown_is_said_by_its_regime(workload, regime, words):
    assert status.seen(example(workload=workload, regime=regime)) == words
