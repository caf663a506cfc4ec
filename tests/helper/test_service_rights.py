# SPDX-License-Identifier: GPL-2.0-only
"""The helper on a real bus: what polkit, the seat and the number of callers allow."""

import os
import time
from pathlib import Path

import pytest
from service_stage import failure, leased, private_bus, stage, switched
from stage import USER, Login
from waiting import until

from asa.core.helper_api import BUS_NAME, INTERFACE, PATH, Action, Failure

__all__ = ["private_bus", "stage"]  # fixtures
DAEMON = 1  # a user that every machine has

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test"),
]

REPORT = '{"sha256": "", "flags": [], "kernels": {}, "stages": []}'


def test_without_polkit_root_alone_may(stage):
    stage.helper()
    user = stage.connect(USER)
    for member, signature, body in (
        ("Acquire", "", ()),
        ("Hold", "u", (0,)),
        ("Resume", "", ()),
        ("Approve", "sb", ("scx_flash", False)),
        ("Probes", "", ()),
        ("Vouch", "ss", ("scx_flash", REPORT)),
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
    assert "needs no token" in stage.call(bus, "Vouch", "ss", "scx_flash", REPORT).message
    assert failure(stage.call(bus, "Vouch", "ss", "scx_flash", "{")) == Failure.REFUSED  # nobody is asked about that
    assert asked[1:] == [Action.SWITCH_UNAPPROVED, Action.OBSERVE, Action.HOLD, Action.CONFIGURE, Action.VOUCH]
    assert stage.get(bus, "Holder") == USER


def test_with_damaged_approvals_none_counts_as_approved_and_none_is_to_blame(stage):
    """Refused would be held against the scheduler: three times, and it were off."""
    stage.polkit(lambda action: action != Action.SWITCH_UNAPPROVED)
    stage.helper()
    assert stage.call(stage.connect(), "Approve", "sb", "scx_flash", True) == ()
    bus, *_ = leased(stage, USER)
    (stage.places.state / "approvals.json").write_text("{")
    assert failure(stage.call(bus, "Switch", "ss", "scx_bpfland", "")) == Failure.NOT_AUTHORIZED


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


def test_who_is_not_in_front_gets_the_probes_with_a_password_only(stage):
    """polkit may have heard of a user switch before the helper: without a password its yes is for who sits there."""
    login = Login(stage, DAEMON)
    try:
        stage.polkit(lambda _: True)
        stage.helper()
        user = stage.connect(USER)
        refused = stage.call(user, "Probes")
        assert (failure(refused), f"no session of user {USER}" in refused.message) == (Failure.NOT_ACTIVE, True)
        assert failure(stage.call(user, "Probes", interactive=True)) == Failure.NOT_POSSIBLE  # the setting is off
        assert failure(stage.call(stage.connect(), "Probes")) == Failure.NOT_POSSIBLE
        login.front(USER)
        stage.turn(lambda: failure(stage.call(user, "Probes")) == Failure.NOT_POSSIBLE, "the probes' answer")
    finally:
        login.end()


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
