# SPDX-License-Identifier: GPL-2.0-only
"""`asa machine` against a helper on a private bus. Root is asked for no password there; others are refused."""

import json
import os
import subprocess
import sys

import pytest
from helper_bus import PrivateBus
from stage import USER, Stage
from waiting import LIMIT_S

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test"),
]


@pytest.fixture(scope="module")
def bus():
    made = PrivateBus()
    yield made
    made.end()


@pytest.fixture(scope="module")
def stage(bus):
    made = Stage(bus.folder, bus.address)
    made.helper()
    yield made
    made.end()


def asa(bus, *words, uid=0):
    """Exit code and what was printed by `asa machine WORDS`."""
    done = subprocess.run(
        [sys.executable, "-m", "asa.cli", "machine", *words],
        env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": bus.address},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        user=uid,
        group=uid,
        extra_groups=[],
    )
    return done.returncode, done.stdout, done.stderr


def told(bus):
    code, out, _ = asa(bus, "status", "--json")
    assert code == 0
    return json.loads(out)


def test_status(bus, stage):
    code, out, _ = asa(bus, "status")
    assert code == 0
    assert "lease      nobody\n" in out
    assert "held       nothing\n" in out
    assert "scx_" in next(line for line in out.splitlines() if line.startswith("approved"))
    assert told(bus)["Standbys"] == []


def test_hold_and_resume(bus, stage):
    assert asa(bus, "hold", "1h") == (0, "held\n", "")
    assert told(bus)["HeldUntil"] > 0
    assert "held       until 20" in asa(bus, "status")[1]
    assert asa(bus, "hold") == (0, "held\n", "")
    assert "until `asa machine resume`" in asa(bus, "status")[1]
    assert asa(bus, "resume") == (0, "not held any more\n", "")
    assert told(bus)["HeldUntil"] == 0


def test_approve_and_revoke(bus, stage):
    name = told(bus)["Approved"][0]
    assert asa(bus, "revoke", name) == (0, "not approved any more\n", "")
    assert name not in told(bus)["Approved"]
    assert asa(bus, "approve", name) == (0, "approved\n", "")
    assert name in told(bus)["Approved"]


def test_what_is_refused_is_one_line(bus, stage):
    code, out, error = asa(bus, "hold", uid=USER)
    assert (code, out) == (1, "")
    assert error.startswith("asa: ")
    assert error.count("\n") == 1
    code, _, error = asa(bus, "approve", "scx_none")
    assert code == 1
    assert "'scx_none' is not in the manifest" in error
    assert told(bus)["HeldUntil"] == 0


def test_no_helper_is_one_line():
    empty = PrivateBus()
    try:
        assert asa(empty, "status") == (1, "", "asa: the helper is not installed here; `sudo asa install`\n")
    finally:
        empty.end()
