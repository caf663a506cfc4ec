# SPDX-License-Identifier: GPL-2.0-only
"""The helper as a process on a real bus: who gets the lease, what they may do with it, and every way that it ends.

Schedulers are stand-ins over a sysfs tree in a folder (see `stage`); real ones on a real kernel are in tests/guest.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helper_bus import PrivateBus
from stage import USER, Login, Stage, owner
from waiting import LIMIT_S, until

from asa.bus import CallError
from asa.core.helper_api import BUS_NAME, INTERFACE, MOST_READY, NO_END, NOBODY, PATH, WHY_CHARACTERS, Action, Failure

DAEMON = 1  # a user that every machine has

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test"),
]


@pytest.fixture
def private_bus():
    bus = PrivateBus()
    yield bus
    bus.end()


@pytest.fixture
def stage(private_bus):
    stage = Stage(private_bus.folder, private_bus.address)
    yield stage
    stage.end()


def failure(answer):
    assert isinstance(answer, CallError), answer
    return answer.name


def leased(stage, uid=0):
    """A caller that has the lease, and what it hears."""
    bus = stage.connect(uid)
    events, lost = stage.hear(bus, "Event"), stage.hear(bus, "LeaseLost")
    answer = stage.call(bus, "Acquire")
    assert isinstance(answer, tuple), answer
    (facts,) = answer
    return bus, json.loads(facts), events, lost


def switched(stage, bus, events, name, why="for a test"):
    count = len(events)
    assert stage.call(bus, "Switch", "ss", name, why) == ()
    stage.turn(lambda: len(events) > count, f"the event of {name}")
    return json.loads(events[-1])


def test_a_switch_and_back_with_the_lease(stage):
    stage.helper()
    stranger = stage.connect()
    overheard = stage.hear(stranger, "Event")
    bus, facts, events, _ = leased(stage)
    assert (facts["way"], facts["no_gate"]) == ("plain", "the setting switch.gate is off")
    assert facts["approved"] == sorted(facts["approved"])
    assert {"scx_bpfland", "scx_flash:performance"} <= set(facts["approved"])
    assert stage.call(bus, "Acquire") == (json.dumps(facts, separators=(",", ":")),)  # it has it already

    event = switched(stage, bus, events, "scx_bpfland", f"be\x1b[2J\n  cause \u2028{'x' * 999}")
    assert (event["outcome"], event["old"], event["new"]) == ("confirmed", "eevdf", "scx_bpfland")
    assert event["why"].startswith("be[2J cause xxx")
    assert len(event["why"]) == WHY_CHARACTERS
    assert stage.attached() == "bpfland"
    assert stage.get(bus, "State").startswith("bpfland")
    assert (stage.get(bus, "Holder"), stage.get(bus, "Way"), stage.get(bus, "Standbys")) == (0, "plain", "[]")

    assert switched(stage, bus, events, "eevdf")["new"] == "eevdf"
    assert stage.attached() == ""
    assert switched(stage, bus, events, "scx_flash:performance")["outcome"] == "confirmed"
    assert stage.call(bus, "Release") == ()
    assert stage.attached() == ""  # before the answer came
    assert stage.get(bus, "Holder") == NOBODY
    assert failure(stage.call(bus, "Switch", "ss", "eevdf", "")) == Failure.NO_LEASE
    assert failure(stage.call(bus, "Release")) == Failure.NO_LEASE
    assert overheard == []


def test_one_holder_and_no_other(stage):
    stage.helper()
    bus, _, events, _ = leased(stage)
    other = stage.connect()
    assert failure(stage.call(other, "Acquire")) == Failure.BUSY
    for member, signature, body in (
        ("Switch", "ss", ("scx_bpfland", "")),
        ("KeepReady", "as", (["scx_bpfland"],)),
        ("Release", "", ()),
    ):
        assert failure(stage.call(other, member, signature, *body)) == Failure.NO_LEASE
    assert switched(stage, bus, events, "scx_bpfland")["outcome"] == "confirmed"


def test_names_come_from_the_manifest_alone(stage):
    stage.helper()
    bus, _, events, lost = leased(stage)
    for name in (
        "",
        "scx",
        "/bin/sh",
        "../scx_bpfland",
        "scx_bpfland:",
        "scx_bpfland:default",
        "scx_bpfland:-x",
        "a" * 9999,
    ):
        assert failure(stage.call(bus, "Switch", "ss", name, "")) == Failure.UNKNOWN_SCHEDULER
        assert failure(stage.call(bus, "KeepReady", "as", ["scx_bpfland", name])) == Failure.UNKNOWN_SCHEDULER
        assert failure(stage.call(bus, "Approve", "sb", name, True)) == Failure.UNKNOWN_SCHEDULER
    assert failure(stage.call(bus, "KeepReady", "as", ["eevdf"] * (MOST_READY + 1))) == Failure.REFUSED
    assert stage.call(bus, "KeepReady", "as", ["eevdf", "scx_flash"] * (MOST_READY // 2)) == ()
    missing = stage.call(bus, "Switch", "ss", "scx_rusty", "")  # in the manifest, but not installed here
    assert failure(missing) == Failure.REFUSED
    assert "scx_rusty" in missing.message
    assert events == []
    assert lost == []
    assert stage.attached() == ""


def test_one_that_cannot_come_up_is_reported_and_the_lease_stays(stage):
    stage.helper()
    bus, _, events, lost = leased(stage)
    (stage.tree / "refuse").touch()
    event = switched(stage, bus, events, "scx_bpfland")
    assert event["outcome"] == "failed"
    assert "no such BPF helper" in event["detail"]
    (stage.tree / "refuse").unlink()
    assert switched(stage, bus, events, "scx_bpfland")["outcome"] == "confirmed"
    assert lost == []


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


def test_what_is_no_longer_approved_goes_and_does_not_come_back(stage):
    stage.helper()
    bus, _, events, lost = leased(stage)
    admin = stage.connect()
    switched(stage, bus, events, "scx_flash:performance")
    assert stage.call(admin, "Approve", "sb", "scx_bpfland", False) == ()  # not in use: the lease stays
    assert failure(stage.call(bus, "KeepReady", "as", ["scx_flash", "scx_bpfland"])) == Failure.NOT_AUTHORIZED
    assert stage.call(admin, "Approve", "sb", "scx_flash", False) == ()
    stage.turn(lambda: lost, "the word of it")
    assert stage.attached() == ""
    (facts,) = stage.call(bus, "Acquire")
    assert {one.partition(":")[0] for one in json.loads(facts)["approved"]} == {"scx_lavd"}
    assert stage.get(bus, "Approved") == json.loads(facts)["approved"]


def test_without_polkit_root_alone_may(stage):
    stage.helper()
    user = stage.connect(USER)
    for member, signature, body in (
        ("Acquire", "", ()),
        ("Hold", "u", (0,)),
        ("Resume", "", ()),
        ("Approve", "sb", ("scx_flash", False)),
        ("Probes", "", ()),
    ):
        refused = stage.call(user, member, signature, *body)
        assert (failure(refused), "polkit" in refused.message) == (Failure.NOT_AUTHORIZED, True)
    assert stage.get(user, "HeldUntil") == 0
    assert "scx_flash" in stage.get(user, "Approved")


def test_each_verb_asks_polkit_for_its_own_action(stage):
    asked = stage.polkit(lambda action: action != Action.SWITCH_UNAPPROVED)
    stage.helper()
    root = stage.connect()
    assert stage.call(root, "Approve", "sb", "scx_bpfland", False) == ()
    bus, _, events, _ = leased(stage, USER)
    assert asked == [Action.SWITCH]
    assert switched(stage, bus, events, "scx_flash")["outcome"] == "confirmed"
    assert asked == [Action.SWITCH]
    assert failure(stage.call(bus, "Switch", "ss", "scx_bpfland", "")) == Failure.NOT_AUTHORIZED
    assert stage.attached() == "flash"
    assert failure(stage.call(bus, "Probes")) == Failure.NOT_POSSIBLE  # the setting is off
    assert stage.call(bus, "Resume") == ()
    assert stage.call(bus, "Approve", "sb", "scx_bpfland", True) == ()
    assert asked[1:] == [Action.SWITCH_UNAPPROVED, Action.OBSERVE, Action.HOLD, Action.CONFIGURE]
    assert stage.get(bus, "Holder") == USER


def test_those_who_wait_for_a_password_are_few(stage):
    stage.polkit(lambda _: None)
    stage.helper()

    def ask(bus, answers):
        bus.send(BUS_NAME, PATH, INTERFACE, "Resume", then=answers.append, limit_s=600.0, interactive=True)

    users = [stage.connect(USER) for _ in range(9)]
    answers = []
    for user in users:
        for _ in range(9):
            ask(user, answers)
    stage.turn(lambda: len(answers) >= 81 - 16, "those that are too many")
    assert {failure(one) for one in answers} == {Failure.BUSY}
    others = []  # of another user, who is to have places all the same
    for _ in range(8):
        ask(stage.connect(DAEMON), others)
    stage.get(users[0], "Version")  # answered after them
    assert others == []
    users[0].close()
    stage._buses.remove(users[0])
    late = stage.connect(USER)

    def waits():
        # it gets a place as soon as the helper has heard that the first has gone: then there is no answer either
        refusals = []
        ask(late, refusals)
        stage.get(late, "Version")  # answered after it
        return not refusals

    until(waits, "a place")


def test_who_leaves_the_seat_loses_the_lease(stage):
    login = Login(stage, USER)
    try:
        stage.polkit(lambda _: True)
        stage.helper()
        bus, _, events, lost = leased(stage, USER)
        switched(stage, bus, events, "scx_bpfland")
        login.front(1234)
        stage.turn(lambda: lost, "the word of it")
        assert stage.attached() == ""
        assert failure(stage.call(bus, "Acquire")) == Failure.NOT_ACTIVE
        login.front(USER)
        stage.turn(lambda: isinstance(stage.call(bus, "Acquire"), tuple), "the lease again")
    finally:
        login.end()


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


def test_nobody_keeps_a_processor_busy_by_calling_it(stage):
    """Under a lease the helper goes before everything else, so what comes from the bus gets a share of its time."""
    helper = stage.helper()
    leased(stage)
    began_s = cpu_s(helper)
    flood = stage.flood(USER)
    stage.turn(lambda: cpu_s(helper) > began_s + 0.5, "the flood")
    before_s, began_s = cpu_s(helper), time.monotonic()
    stage.turn(lambda: time.monotonic() - began_s > 3.0, "some time")
    share = (cpu_s(helper) - before_s) / (time.monotonic() - began_s)
    assert flood.poll() is None
    assert share < 0.6


def cpu_s(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
    (stage.tree / "deaf").touch()  # does not even go with its parent
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
    helper = stage.helper()
    bus, _, events, _ = leased(stage)
    (stage.tree / "deaf").touch()
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


def test_a_second_one_does_not_start(stage):
    stage.helper()
    second = stage.helper(wait=False)
    assert second.wait(LIMIT_S) == 1
    assert "another one is running" in stage.said()


def test_never_two_masters(stage):
    """`asa run` of root holds the lock of the run folder."""
    from asa.status import StatusFile

    agent = StatusFile(stage.folder / "run")
    stage.helper()
    bus = stage.connect()
    refused = stage.call(bus, "Acquire")
    assert failure(refused) == Failure.NOT_POSSIBLE
    assert "another agent is running" in refused.message
    agent.close()
    assert isinstance(stage.call(bus, "Acquire"), tuple)


def test_a_kernel_without_sched_ext(stage):
    for file in ("state", "enable_seq"):
        (stage.tree / file).unlink()
    stage.helper()
    bus = stage.connect()
    refused = stage.call(bus, "Acquire")
    assert (failure(refused), "no sched_ext" in refused.message) == (Failure.NOT_POSSIBLE, True)
    assert stage.get(bus, "State") == ""


def test_it_ends_when_nobody_wants_anything(stage):
    helper = stage.helper(idle_s=1.0)
    assert helper.wait(LIMIT_S) == 0


def test_it_does_not_end_under_a_lease(stage):
    helper = stage.helper(idle_s=0.5, wait=False)
    caller = stage.connect()
    until(lambda: owner(caller), stage.said)
    bus, _, events, _ = leased(stage)
    with pytest.raises(subprocess.TimeoutExpired):
        helper.wait(2.0)
    assert switched(stage, bus, events, "scx_bpfland")["outcome"] == "confirmed"
    bus.close()
    stage._buses.remove(bus)
    assert helper.wait(LIMIT_S) == 0
    assert stage.attached() == ""


def test_systemd_hears_of_it(stage):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(stage.folder / "notify"))
        systemd.settimeout(LIMIT_S)
        helper = stage.helper(NOTIFY_SOCKET=str(stage.folder / "notify"), WATCHDOG_USEC="900000")
        said = []
        while said.count("WATCHDOG=1") < 5:
            said += systemd.recv(4096).decode().split("\n")
        assert "READY=1" in said
        helper.terminate()
        while "STOPPING=1" not in said:
            said += systemd.recv(4096).decode().split("\n")
        assert helper.wait(LIMIT_S) == 0


def test_settings_anew(stage):
    helper = stage.helper()
    settings = stage.folder / "asa.yaml"
    settings.write_text("nonsense: 1\n")
    helper.send_signal(signal.SIGHUP)
    until(lambda: "keeping the settings in force" in stage.said(), stage.said)
    settings.write_text("switch: {gate: off, backend: own, stop_limit_s: 2.0}\n")
    helper.send_signal(signal.SIGHUP)
    until(lambda: "settings read again" in stage.said(), stage.said)


def test_it_stays_small(stage):
    """No model, no table, no terminal; and what an idle helper takes."""
    code = "import sys, asa.cli.main, asa.helper.service; asa.cli.main.parser(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    heavy = {"models", "numpy", "pandas", "textual", "rich", "dbus_fast", "scipy", "sklearn", "xgboost", "joblib"}
    assert loaded & heavy == set()
    assert "asa" in loaded
    helper = stage.helper()
    leased(stage)
    status = Path(f"/proc/{helper.pid}/status").read_text()
    (resident_kib,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    assert resident_kib < 60_000
