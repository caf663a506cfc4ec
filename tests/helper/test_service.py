# SPDX-License-Identifier: GPL-2.0-only
"""The helper as a process on a real bus: who gets the lease and what they may do with it; its start and settings.

Schedulers are stand-ins over a sysfs tree in a folder (see `stage`); real ones on a real kernel are in tests/guest.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from service_stage import failure, leased, private_bus, stage, switched
from waiting import LIMIT_S, until

from asa.core.helper_api import INTERFACE, MOST_READY, NOBODY, WHY_CHARACTERS, Failure, Verb

__all__ = ["private_bus", "stage"]  # fixtures
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test"),
]


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


def test_introspection_says_what_each_verb_takes_and_does(stage):
    stage.helper()
    (text,) = stage.call(stage.connect(), "Introspect", interface="org.freedesktop.DBus.Introspectable")
    tree = ET.fromstring(text)  # noqa: S314  # our own
    found = {}
    for method in tree.iterfind(f"interface[@name='{INTERFACE}']/method"):
        kinds = {
            way: "".join(one.get("type") for one in method.iterfind(f"arg[@direction='{way}']"))
            for way in ("in", "out")
        }
        found[method.get("name")] = (kinds["in"], kinds["out"], method.find("annotation").get("value"))
    assert found == {verb.member: (verb.value.takes, verb.value.gives, verb.value.doc) for verb in Verb}


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
    bus = stage.connect()
    assert "switched off by the settings" in stage.call(bus, "Probes").message
    settings.write_text("switch: {gate: off, backend: own, stop_limit_s: 2.0}\n")
    helper.send_signal(signal.SIGHUP)
    until(lambda: "settings read again" in stage.said(), stage.said)
    assert "switched off" not in str(stage.call(bus, "Probes"))


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
