# SPDX-License-Identifier: GPL-2.0-only
"""The helper as a process on a real bus: every way that the lease ends, and that it ends itself."""

import json
import os
import signal
import subprocess
import time

import pytest
from service_stage import failure, leased, private_bus, stage, switched
from stage import owner
from waiting import LIMIT_S, until

from asa.core.helper_api import BUS_NAME, INTERFACE, NO_END, NOBODY, PATH, Failure

__all__ = ["private_bus", "stage"]  # fixtures
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test"),
]


def test_a_holder_that_is_killed_loses_the_kernel(stage):
    stage.helper()
    holder = stage.caller(("Acquire", "", ()), ("Switch", "ss", ("scx_bpfland", "to be killed")))
    until(lambda: stage.attached() == "bpfland", stage.said)
    holder.kill()
    until(lambda: not stage.attached(), stage.said)
    bus = stage.connect()
    stage.turn(lambda: stage.get(bus, "Holder") == NOBODY, "the end of the lease")
    _, _, events, _ = successor = leased(stage)
    assert switched(stage, successor[0], events, "scx_flash")["outcome"] == "confirmed"


def test_a_hold_ends_the_lease_and_outlives_the_helper(stage):
    helper = stage.helper()
    bus, _, events, lost = leased(stage)
    admin = stage.connect()
    switched(stage, bus, events, "scx_bpfland")
    assert stage.call(admin, "Hold", "u", 0) == ()
    assert stage.attached() == ""
    stage.turn(lambda: lost, "the word of it")
    assert "administrator" in lost[0]
    assert failure(stage.call(bus, "Acquire")) == Failure.HELD
    assert stage.get(admin, "HeldUntil") == NO_END
    helper.terminate()
    assert helper.wait(LIMIT_S) == 0
    stage.helper()
    assert failure(stage.call(bus, "Acquire")) == Failure.HELD
    assert stage.call(admin, "Hold", "u", 3600) == ()
    assert abs(stage.get(admin, "HeldUntil") - time.time_ns() - 3600e9) < 600e9
    assert stage.call(admin, "Resume") == ()
    assert stage.get(admin, "HeldUntil") == 0
    assert isinstance(stage.call(bus, "Acquire"), tuple)


def test_with_its_process_it_ends_whatever_the_bus_says(stage):
    """A connection may outlive its process, and the bus's word may wait behind what others send."""
    stage.helper()
    holder = stage.caller(("Acquire", "", ()), ("Switch", "ss", ("scx_bpfland", "")), heir=True)
    until(lambda: stage.attached() == "bpfland", stage.said)
    heir = int(holder.stdout.readline())
    try:
        holder.kill()
        until(lambda: "its process has ended" in stage.said(), stage.said)
        assert stage.attached() == ""
        bus = "org.freedesktop.DBus"
        assert stage.connect().ask(bus, "/", bus, "NameHasOwner", "s", (holder.name,), limit_s=LIMIT_S) == (True,)
    finally:
        os.kill(heir, signal.SIGKILL)


def test_it_ends_in_order_when_told_to(stage):
    helper = stage.helper()
    bus, _, events, lost = leased(stage)
    switched(stage, bus, events, "scx_bpfland")
    helper.terminate()
    stage.turn(lambda: lost, "the word of it")
    assert helper.wait(LIMIT_S) == 0
    assert stage.attached() == ""
    assert (
        not (stage.folder / "run/undo.json").exists()
        or json.loads((stage.folder / "run/undo.json").read_text())["running"] == []
    )


def test_a_killed_one_leaves_what_the_next_one_clears(stage):
    stage.deafen()  # it does not even go with its parent
    helper = stage.helper()
    bus, _, events, _ = leased(stage)
    switched(stage, bus, events, "scx_bpfland")
    helper.kill()
    helper.wait()
    assert stage.attached() == "bpfland"
    stage.turn(lambda: not owner(bus), "the end of the helper's name")
    stage.helper()
    assert "an earlier agent had left scx_bpfland" in stage.said()
    (stage.tree / "root/ops").unlink()  # what the kernel does when the process has gone
    (stage.tree / "state").write_text("disabled\n")
    (stage.tree / "deaf").unlink()
    bus, _, events, _ = leased(stage)
    assert switched(stage, bus, events, "scx_flash")["outcome"] == "confirmed"


def test_a_scheduler_that_the_kernel_keeps_is_said_and_ends_the_helper(stage):
    stage.deafen()
    helper = stage.helper()
    bus, _, events, _ = leased(stage)
    switched(stage, bus, events, "scx_bpfland")
    assert stage.call(bus, "Release") == ()
    assert helper.wait(LIMIT_S) == 1
    assert "a scheduler of ours is still in force" in stage.said()


def test_what_nobody_expects_ends_it_after_the_kernel_is_back(stage):
    helper = stage.helper("broken")
    bus, _, events, lost = leased(stage)
    switched(stage, bus, events, "scx_bpfland")
    bus.send(BUS_NAME, PATH, "org.freedesktop.DBus.Properties", "Get", "ss", (INTERFACE, "State"))
    stage.turn(lambda: lost, "the word of it")
    assert helper.wait(LIMIT_S) == 1
    assert stage.attached() == ""
    assert "ZeroDivisionError" in stage.said()


def test_without_the_bus_there_is_no_lease(stage, private_bus):
    helper = stage.helper()
    stage.caller(("Acquire", "", ()), ("Switch", "ss", ("scx_bpfland", "")))
    until(lambda: stage.attached() == "bpfland", stage.said)
    private_bus._processes[0].kill()
    assert helper.wait(LIMIT_S) == 1
    assert stage.attached() == ""
    assert "the bus has gone" in stage.said()


def test_it_ends_when_nobody_wants_anything(stage):
    helper = stage.helper(idle_s=1.0)
    assert helper.wait(LIMIT_S) == 0


def test_it_does_not_end_under_a_lease(stage):
    helper = stage.helper(idle_s=5.0, wait=False)
    caller = stage.connect()
    until(lambda: owner(caller), stage.said)
    bus, _, events, _ = leased(stage)
    with pytest.raises(subprocess.TimeoutExpired):
        helper.wait(7.0)
    assert switched(stage, bus, events, "scx_bpfland")["outcome"] == "confirmed"
    bus.close()
    stage._buses.remove(bus)
    assert helper.wait(LIMIT_S) == 0
    assert stage.attached() == ""
