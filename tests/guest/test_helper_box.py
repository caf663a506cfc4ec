# SPDX-License-Identifier: GPL-2.0-only
"""All of it on a kernel with sched_ext: helper as root under its unit, daemon as a user, real systemd and polkit."""

import json
import time

import pytest
from agents import attached, clean_machine, eventually, settings_now

from asa import paths
from asa.core.helper_api import LEASE_LIMIT_S
from asa.status import read as read_status
from scenarios.lab.box import installed as box_asa
from scenarios.lab.box.installed import Caller
from scenarios.lab.box.machine import Box
from scenarios.lab.box.root import USERS

LIMIT_S = 180.0  # emulated, on a shared host: lavd alone takes a minute to load
SCHEDULERS = ("scx_bpfland", "scx_cosmos", "scx_flash", "scx_p2dq", "scx_rusty", "scx_simple", "scx_lavd")


@pytest.fixture(scope="module")
def box():
    with clean_machine(), Box.start() as box:
        box_asa.install(box, source=box_asa.staged(paths.default().cache))
        (box.path / "etc/asa/asa.yaml").write_text(f"switch:\n  attach_limit_s: {LIMIT_S:g}\n")
        yield box


@pytest.fixture
def ada(box):
    session = box.login("ada")
    yield session
    box.logout(session)
    print(box.journal(box_asa.UNIT)[-3000:])


@pytest.fixture
def daemon(box, ada):
    """The daemon of the session in front, with the lease."""
    box.run(["systemctl", "--user", "start", "asa.service"], session=ada, check=True)
    assert eventually(lambda: mode(box, ada) == "switching", LIMIT_S), said(box)
    yield ada
    box.run(["systemctl", "--user", "stop", "asa.service"], session=ada)
    assert eventually(lambda: attached() == "")


def status(box, session):
    """Of the daemon, None when none runs: from its file, because the command costs a guest seconds each time."""
    return read_status(box.path / f"run/user/{USERS[session.user]}/asa")


def mode(box, session):
    now = status(box, session)
    return None if now is None else now.mode


def told(box, session):
    """What the user's command says of the daemon."""
    done = box.run(["asa", "status", "--json"], session=session, check=True, timeout_s=LIMIT_S)
    return json.loads(done.stdout)["agent"]


def said(box):
    lines = box.run(["journalctl", "--no-pager", "--output=cat", "_SYSTEMD_USER_UNIT=asa.service"]).stdout
    return f"{lines[-1500:]}\n{box.journal(box_asa.UNIT)[-1500:]}"


def switch(box, session, name):
    """By hand, as the user does it."""
    box.run(["asa", "switch", name], session=session, check=True, timeout_s=LIMIT_S)
    ops = name.removeprefix("scx_")
    assert eventually(lambda: attached().startswith(ops), LIMIT_S), said(box)


def released_s(kill):
    """How long from the order to kill until the kernel is on its own scheduler again."""
    begin_s = time.monotonic()
    kill()
    assert eventually(lambda: attached() == ""), "a scheduler is still attached"
    return time.monotonic() - begin_s


def ordered(caller, name):
    """Switch, and what came of it."""
    answer = caller.call("Switch", "ss", name, "to see whether it works", limit_s=LIMIT_S)
    assert answer.error == "", answer
    while True:
        event = json.loads(caller.signal("Event", limit_s=LIMIT_S)[0])
        if event["new"] == name:
            return event


def test_every_scheduler_attaches_under_the_helpers_unit_and_goes_with_its_client(box, ada):
    before = settings_now()
    with Caller.start(box, session=ada) as caller:
        facts = json.loads(caller.call("Acquire", limit_s=LIMIT_S).body[0])
        assert (facts["way"], facts["no_gate"]) == ("gated", "")
        assert set(SCHEDULERS) <= set(facts["approved"])
        for name in SCHEDULERS:
            event = ordered(caller, name)
            assert event["outcome"] == "confirmed", event
            assert event["detail"].startswith(name.removeprefix("scx_")), event  # its ops, as sysfs named them
        seconds = released_s(caller.kill)
    print(f"lease_release_s {seconds:.2f}")
    assert seconds < LEASE_LIMIT_S
    assert eventually(lambda: settings_now() == before)


def test_who_loses_the_seat_loses_the_kernel(box, ada):
    with Caller.start(box, session=ada) as caller:
        assert caller.call("Acquire", limit_s=LIMIT_S).error == ""
        assert ordered(caller, "scx_simple")["outcome"] == "confirmed"
        ben = box.login("ben")
        assert "session" in caller.signal("LeaseLost", limit_s=LIMIT_S)[0]
        assert eventually(lambda: attached() == "")
        with Caller.start(box, session=ben) as other:
            assert other.call("Acquire", limit_s=LIMIT_S).error == ""
        box.logout(ben)


def test_a_daemon_that_is_killed_leaves_the_kernels_scheduler(box, daemon):
    switch(box, daemon, "scx_simple")
    pid = told(box, daemon)["pid"]
    assert pid == status(box, daemon).pid
    assert box.run(["ps", "-o", "user=", "-p", str(pid)]).stdout.strip() == "ada"
    seconds = released_s(lambda: box.run(["kill", "-KILL", str(pid)], check=True))
    print(f"lease_release_s {seconds:.2f}")
    assert seconds < LEASE_LIMIT_S
    # its unit starts it again, and it has the lease again
    assert eventually(lambda: (now := status(box, daemon)) is not None and now.pid != pid, LIMIT_S), said(box)
    assert eventually(lambda: mode(box, daemon) == "switching", LIMIT_S), said(box)


def test_a_helper_that_is_killed_comes_back_and_so_do_its_switches(box, daemon):
    before = settings_now()
    switch(box, daemon, "scx_flash")  # which sets what CPUs may do
    killed = box_asa.helper_pid(box)
    box.run(["kill", "-KILL", str(killed)], check=True)
    assert eventually(lambda: attached() == "", LIMIT_S)
    assert eventually(lambda: box_asa.helper_pid(box) not in {0, killed}, LIMIT_S)
    assert eventually(lambda: settings_now() == before, LIMIT_S)
    assert eventually(lambda: mode(box, daemon) in ("switching", "hold"), LIMIT_S), said(box)
    assert told(box, daemon)["mode"] in ("switching", "hold")
    switch(box, daemon, "scx_simple")
