# SPDX-License-Identifier: GPL-2.0-only
"""The lease's order of things, and faults that a real switcher does not show on demand."""

import pytest

from asa.bus import BusError
from asa.core.decision import EEVDF, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError
from asa.core.helper_api import Failure
from asa.helper.lease import Lease
from asa.helper.machine import RefusedError


class Fakes:
    """Bus and machine in one, which write down what is done to them."""

    way, no_gate = "gated", ""

    def __init__(self):
        self.done = []
        self.events = []
        self.clean = True
        self.fault = None

    def open(self):
        self.done.append("open")
        if self.fault:
            raise self.fault
        return self

    def rest(self):
        self.done.append("rest")
        if self.fault:
            raise self.fault
        return self.clean

    def poll(self):
        return self.events.pop(0) if self.events else None

    def look_in_s(self):
        return 0.5

    def descriptors(self):
        return (7,)

    def emit(self, path, interface, member, signature, body, to=""):
        self.done.append((member, to))
        if self.fault:
            raise self.fault


@pytest.fixture
def fakes():
    return Fakes()


@pytest.fixture
def lease(fakes):
    said = []
    lease = Lease(
        bus=fakes, open_machine=fakes.open, say=said.append, patience=lambda s: fakes.done.append(s and "slow")
    )
    fakes.said = said
    return lease


def test_first_the_kernel_then_the_word(lease, fakes):
    lease.take(":1.7", 1000)
    assert (lease.look_in_s(), lease.descriptors(), lease.way) == (0.5, (7,), "gated")
    lease.end("for a test")
    lease.end("and only once")
    assert fakes.done == ["slow", "open", None, "slow", "rest", None, ("LeaseLost", ":1.7")]
    assert (lease.look_in_s(), lease.descriptors(), lease.machine) == (None, (), None)
    assert fakes.said[-1] == "the lease of user 1000 (:1.7) has ended: for a test; the kernel is as it was"


def test_who_has_gone_or_gave_it_back_is_told_nothing(lease, fakes):
    lease.take(":1.7", 1000)
    lease.end("released", tell=False)
    assert fakes.done[-1] is None


def test_one_at_a_time(lease, fakes):
    lease.take(":1.7", 1000)
    for holder in (":1.8", ":1.7"):
        with pytest.raises(RefusedError, match="user 1000 has the lease") as caught:
            lease.take(holder, 1000)
        assert caught.value.failure is Failure.BUSY
    assert fakes.done.count("open") == 1
    assert lease.of(":1.7") is fakes
    with pytest.raises(RefusedError) as caught:
        lease.of(":1.8")
    assert caught.value.failure is Failure.NO_LEASE
    lease.end("next")
    for caller in (":1.7", ""):
        with pytest.raises(RefusedError):
            lease.of(caller)


def test_a_machine_that_cannot_leaves_it_free(lease, fakes):
    fakes.fault = AsaError("no")
    with pytest.raises(AsaError, match="no"):
        lease.take(":1.7", 1000)
    assert (lease.machine, fakes.done) == (None, ["slow", "open", None])
    fakes.fault = None
    lease.take(":1.8", 1000)


def test_what_is_left_is_never_forgotten(lease, fakes):
    lease.take(":1.7", 1000)
    fakes.clean = False
    lease.end("stuck")
    assert not lease.clean
    assert "still in force" in fakes.said[-1]
    fakes.clean = True
    lease.take(":1.7", 1000)
    lease.end("again")
    assert not lease.clean


def test_a_rest_that_breaks_is_not_tried_twice(lease, fakes):
    lease.take(":1.7", 1000)
    fakes.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        lease.end("broken")
    lease.end("the helper is ending")
    assert fakes.done.count("rest") == 1


def test_events_are_the_holders(lease, fakes):
    lease.advance()
    lease.take(":1.7", 1000)
    fakes.events.append(
        SwitchEvent(
            monotonic_ns=1,
            outcome=SwitchOutcome.CONFIRMED,
            old=EEVDF,
            new=SchedulerName("scx_x"),
            elapsed_ns=5_000_000,
            detail="x_1",
            undo="",
            why="games",
        )
    )
    lease.advance()
    lease.advance()
    assert fakes.done[3:] == [("Event", ":1.7")]
    assert fakes.said[-1] == "eevdf -> scx_x confirmed after 5.0 ms: x_1, because games"


def test_a_bus_that_has_gone_stops_nothing(lease, fakes):
    lease.take(":1.7", 1000)
    done, fakes.emit = [], None

    def gone(*_, **__):
        done.append("told")
        raise BusError("gone")

    fakes.emit = gone
    lease.end("for a test")
    assert (done, lease.clean, lease.machine) == (["told"], True, None)
