# SPDX-License-Identifier: GPL-2.0-only
"""Who may do what: real polkit, real logind, the real bus policy, and callers of three users."""

import pytest
from waiting import until

from asa.core.helper_api import BUS_NAME, INTERFACE, PATH, Failure
from asa.helper.desk import NO_END, NOBODY
from scenarios.lab.box import installed as box_asa
from scenarios.lab.box.installed import Caller

DENIED = "org.freedesktop.DBus.Error.AccessDenied"
BUS = {"to": "org.freedesktop.DBus", "path": "/org/freedesktop/DBus", "interface": "org.freedesktop.DBus"}
PROPERTIES = "org.freedesktop.DBus.Properties"
CALLS = (
    ("Acquire", "", ()),
    ("Probes", "", ()),
    ("Hold", "u", (5,)),
    ("Resume", "", ()),
    ("Approve", "sb", ("scx_rusty", True)),
)


@pytest.fixture
def root(installed):
    with Caller.start(installed) as caller:
        yield caller
        caller.call("Resume")


def test_the_bus_starts_it_for_whoever_calls(installed):
    installed.systemctl("stop", box_asa.UNIT)
    assert box_asa.helper_pid(installed) == 0
    with Caller.start(installed, user="eve") as eve:
        assert eve.call("Ping", interface="org.freedesktop.DBus.Peer").error == ""
        assert installed.show(box_asa.UNIT, "ActiveState") == "active"
        assert eve.call("GetConnectionUnixUser", "s", BUS_NAME, **BUS).body == (0,)
        pid = box_asa.helper_pid(installed)
        assert eve.call("GetConnectionUnixProcessID", "s", BUS_NAME, **BUS).body == (pid,)


@pytest.mark.parametrize("interactive", [False, True])
def test_a_third_user_without_a_session_may_nothing(installed, interactive):
    with Caller.start(installed, user="eve") as eve:
        for member, signature, body in CALLS:
            answer = eve.call(member, signature, *body, interactive=interactive)
            assert (member, answer.error) == (member, Failure.NOT_AUTHORIZED)
        for member, signature, body in (
            ("Release", "", ()),
            ("Switch", "ss", ("scx_rusty", "")),
            ("KeepReady", "as", ([],)),
        ):
            assert eve.call(member, signature, *body).error == Failure.NO_LEASE
        assert eve.property("Holder") == NOBODY
        assert eve.property("HeldUntil") == 0


def test_the_session_in_front_may_switch_and_observe_and_not_configure(installed, ada):
    with Caller.start(installed, session=ada) as caller:
        # on a kernel without sched_ext that is the answer to who may switch
        assert caller.call("Acquire").error in ("", Failure.NOT_POSSIBLE)
        assert caller.call("Probes").error in ("", Failure.NOT_POSSIBLE)
        for member, signature, body in CALLS[2:]:
            assert caller.call(member, signature, *body).error == Failure.NOT_AUTHORIZED


def test_who_is_no_longer_in_front_may_no_longer(installed, ada):
    with Caller.start(installed, session=ada) as caller:
        ben = installed.login("ben")
        assert caller.call("Acquire").error in (Failure.NOT_AUTHORIZED, Failure.NOT_ACTIVE)
        with Caller.start(installed, session=ben) as other:
            assert other.call("Acquire").error in ("", Failure.NOT_POSSIBLE)
        installed.activate(ada)
        until(lambda: caller.call("Acquire").error in ("", Failure.NOT_POSSIBLE), "ada's turn again")
        installed.logout(ben)


def test_probes_are_taken_away_with_the_seat(installed, ada):
    with Caller.start(installed, session=ada) as caller:
        answer = caller.call("Probes")
        if answer.error:  # a kernel that has none
            assert answer.error == Failure.NOT_POSSIBLE
            return
        ben = installed.login("ben")
        assert caller.signal("ProbesLost")[0] != ""
        installed.logout(ben)


def test_root_holds_the_machine_and_the_hold_outlives_the_helper(installed, ada, root):
    assert root.call("Hold", "u", 0).error == ""
    assert root.property("HeldUntil") == NO_END
    with Caller.start(installed, session=ada) as caller:
        assert caller.call("Acquire").error == Failure.HELD
        killed = box_asa.helper_pid(installed)
        installed.run(["kill", "-KILL", str(killed)], check=True)
        until(lambda: box_asa.helper_pid(installed) not in {0, killed}, "another helper")
        assert caller.call("Acquire").error == Failure.HELD
        assert caller.call("Resume").error == Failure.NOT_AUTHORIZED
        assert root.call("Resume").error == ""
        assert caller.call("Acquire").error in ("", Failure.NOT_POSSIBLE)


def test_nobody_else_can_have_the_name(installed, ada):
    installed.systemctl("stop", box_asa.UNIT)
    with Caller.start(installed, session=ada) as caller:
        assert caller.call("RequestName", "su", BUS_NAME, 4, **BUS).error == DENIED
        assert caller.call("RequestName", "su", "org.asa.Helper2", 4, **BUS).error == DENIED


def test_the_bus_lets_nothing_else_through(installed, root):
    for caller_user in ("eve", "root"):
        with Caller.start(installed, user=caller_user) as caller:
            assert caller.call("Reload").error == DENIED
            assert caller.call("Set", "ssv", INTERFACE, "Holder", ["u", 0], interface=PROPERTIES).error == DENIED
            assert caller.call("Acquire", interface="org.asa.Helper2").error == DENIED
            assert caller.call("GetAll", "s", INTERFACE, interface=PROPERTIES).error == ""


def test_only_the_helper_speaks_as_the_helper(installed, root):
    # eve's emission of the helper's own signal is delivered by the bus, but as eve's: senders cannot be made up
    with Caller.start(installed, user="eve") as eve:
        command = ["dbus-send", "--system", "--type=signal", f"--dest={root.name}", PATH, f"{INTERFACE}.LeaseLost"]
        installed.run([*command, "string:lie"], user="eve", check=True)
        owner = eve.call("GetNameOwner", "s", BUS_NAME, **BUS).body[0]
        root.call("Ping", interface="org.freedesktop.DBus.Peer")
        assert all(sender != owner for _, sender, _ in root.signals)


def test_what_root_revokes_is_no_longer_approved(installed, root):
    known = root.property("Approved")
    assert "scx_rusty" in known
    assert root.call("Approve", "sb", "scx_rusty", False).error == ""
    assert root.property("Approved") == [name for name in known if name != "scx_rusty"]
    assert root.call("Approve", "sb", "scx_none", False).error == Failure.UNKNOWN_SCHEDULER
    assert root.call("Approve", "sb", "scx_rusty", True).error == ""
    assert root.property("Approved") == known
