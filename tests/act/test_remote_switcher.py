# SPDX-License-Identifier: GPL-2.0-only
"""The user daemon's end of the helper: lease, switches, events and their loss.

The helper at the other end is a stand-in on a real dbus-daemon, because here it has to vanish, lie and be silent when
it is told to; tests/guest/test_helper_*.py have the real one.
"""

import os
import select
import time
from types import SimpleNamespace

import pytest
from jeepney.fds import FileDescriptor

from asa import wire
from asa.act.helper_link import HelperLink
from asa.act.remote import RemoteSwitcher
from asa.act.remote_probes import ProbeFetch
from asa.bus import Bus, BusError, Method, Object, Property
from asa.clock import SystemClock
from asa.core.decision import EEVDF, ExitKind, SchedulerName, Standby, SwitchEvent, SwitchOutcome, Way
from asa.core.errors import SchedulerError, SourceError
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH, Failure, LeaseFacts, ProbeFacts, Verb

P2DQ, FLASH = SchedulerName("scx_p2dq"), SchedulerName("scx_flash")
FACTS = LeaseFacts(way="gated", no_gate="", approved=("scx_p2dq", "scx_flash:server"))


class StandIn:
    """The helper, as far as the bus shows it."""

    def __init__(self, address, sys):
        self.bus = Bus.open(address)
        self.sys = sys
        self.asked = []
        self.refuse = {}  # member -> (name, message)
        self.facts = wire.json_text(FACTS)
        self.holder = ""
        self.bus.serve(
            Object(
                path=PATH,
                interface=INTERFACE,
                methods={
                    verb.member: Method(takes=verb.value.takes, gives=verb.value.gives, run=self.run) for verb in Verb
                },
                properties={"Standbys": Property(signature="s", read=self.standbys)},
            )
        )
        self.bus.own(BUS_NAME)

    def run(self, request):
        self.asked.append((request.member, *request.body))
        if request.member in self.refuse:
            request.fail(*self.refuse[request.member])
        elif request.member == "Acquire":
            self.holder = request.sender
            request.answer(self.facts)
        elif request.member == "Probes":
            facts = ProbeFacts(backend="core", layout=1, cpus=1, row_bytes=8, fields=(), lacking={})
            reader, writer = os.pipe()
            os.close(writer)
            request.answer(reader, wire.json_text(facts))
            os.close(reader)
        else:
            if request.member == "Release":
                self.detach()
            request.answer()

    def standbys(self):
        one = Standby(scheduler=FLASH, ready=True, memory_bytes=4_000_000, since_ns=1)
        return wire.json_text((one,))

    def attach(self, name):
        put(self.sys, "enabled", f"{name.removeprefix('scx_')}_1.1.4_x86_64")

    def detach(self):
        put(self.sys, "disabled", "")

    def tell(self, outcome, new, **more):
        event = SwitchEvent(
            monotonic_ns=time.monotonic_ns(), outcome=outcome, old=EEVDF, new=new, elapsed_ns=5_000_000,
            detail="so it is", undo="", way=Way.STANDBY, **more,
        )  # fmt: skip
        self.send("Event", wire.json_text(event))

    def send(self, member, text):
        self.bus.emit(PATH, INTERFACE, member, "s", (text,), to=self.holder)


def put(sys, state, ops):
    folder = sys / "kernel/sched_ext"
    (folder / "root").mkdir(parents=True, exist_ok=True)
    (folder / "root/ops").write_text(ops + "\n")
    (folder / "enable_seq").write_text("1\n")
    (folder / "state").write_text(state + "\n")


class Names:
    """What the switcher asks of a portfolio."""

    @staticmethod
    def name_of_ops(ops):
        return SchedulerName(f"scx_{ops.split('_')[0]}") if ops else None


class Bench:
    def __init__(self, address, sys, **more):
        self.sys = sys
        put(sys, "disabled", "")
        self.address = address
        self.helper = StandIn(address, sys)
        self.said = []
        clock = SystemClock()
        self.link = HelperLink(lambda: Bus.open(address), clock, self.said.append, **more)
        self.fetch = ProbeFetch(self.link)
        self.switcher = RemoteSwitcher(link=self.link, portfolio=Names(), clock=clock, sys=sys, answer_limit_s=30.0)
        self.events = []

    def until(self, condition, limit_s=20.0):
        end_s = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end_s, f"it did not come to that; said: {self.said}"
            served = [self.helper.bus] if self.helper is not None else []
            due = [one for one in (self.switcher.look_in_s(),) if one is not None]
            select.select([*self.switcher.descriptors(), *served], [], [], min([0.1, *due]))
            for bus in served:
                bus.advance()
            event = self.switcher.poll()
            if event is not None:
                self.events.append(event)

    def event(self):
        self.until(lambda: self.events)
        return self.events.pop(0)

    def lease(self):
        self.until(lambda: self.link.facts is not None)

    def switch(self, name):
        self.switcher.begin(name, "because")
        self.until(lambda: ("Switch", name, "because") in self.helper.asked)
        self.helper.attach(name)
        self.helper.tell(SwitchOutcome.CONFIRMED, name)
        return self.event()

    def close(self):
        self.link.close()
        if self.helper is not None:
            self.helper.bus.close()


@pytest.fixture
def bench(bus_address, tmp_path):
    made = Bench(bus_address, tmp_path / "sys")
    yield made
    made.close()


def test_a_switch_through_the_helper(bench):
    assert bench.link.lacking
    with pytest.raises(SchedulerError, match="not been asked yet"):
        bench.switcher.begin(P2DQ, "too early")
    bench.lease()
    assert bench.link.lacking == ""
    event = bench.switch(P2DQ)
    assert (event.outcome, event.new, event.way) == (SwitchOutcome.CONFIRMED, P2DQ, Way.STANDBY)
    assert not bench.switcher.busy()
    assert bench.switcher.current() == P2DQ


def test_only_one_switch_at_a_time(bench):
    bench.lease()
    bench.switcher.begin(P2DQ)
    assert bench.switcher.busy()
    with pytest.raises(SchedulerError, match="under way"):
        bench.switcher.begin(FLASH)


def test_what_the_helper_refuses_is_told_in_its_words(bench):
    bench.lease()
    bench.helper.refuse["Switch"] = (Failure.REFUSED, "scx_p2dq: not installed; run `asa schedulers install`")
    bench.switcher.begin(P2DQ, "because")
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.REFUSED, P2DQ)
    assert "not installed" in event.detail
    assert event.exit is None  # it is the scheduler's
    assert not bench.switcher.busy()
    bench.helper.refuse["Switch"] = (Failure.NOT_AUTHORIZED, "scx_p2dq is not approved any more")
    bench.switcher.begin(P2DQ, "because")
    assert bench.event().exit.kind is ExitKind.WITHDRAWN


@pytest.mark.parametrize("name", [Failure.NOT_ACTIVE, Failure.HELD, "org.example.Odd"])
def test_no_lease_is_told_once_with_the_reason(bench, name):
    bench.helper.refuse["Acquire"] = (name, "another user sits there")
    bench.until(lambda: bench.said)
    assert bench.said == ["observing only: another user sits there"]
    assert bench.link.lacking == "another user sits there"
    assert bench.link.due_in_s() > 10  # and it is not asked for again and again


def test_nobody_installed_the_helper(bus_address, tmp_path):
    bench = Bench(bus_address, tmp_path / "sys")
    bench.helper.bus.close()
    bench.helper = None
    bench.until(lambda: bench.said)
    assert bench.said == ["observing only: the helper is not installed; `sudo asa install`"]
    bench.helper = StandIn(bus_address, bench.sys)  # it is now: its name is enough, nobody waits ten minutes
    bench.lease()
    bench.close()


def test_a_helper_that_ends_is_nobodys_fault_and_the_next_one_is_asked(bench):
    bench.lease()
    bench.switch(P2DQ)
    bench.helper.bus.close()
    bench.helper = None
    bench.until(lambda: bench.link.facts is None)
    for _ in range(3):
        bench.switcher.poll()
    assert bench.events == []  # it is in force still: whoever comes next takes it out
    put(bench.sys, "disabled", "")
    event = bench.event()
    assert (event.outcome, event.new, event.exit.kind) == (SwitchOutcome.LOST, P2DQ, ExitKind.WITHDRAWN)
    assert bench.switcher.current() == EEVDF
    bench.helper = StandIn(bench.address, bench.sys)
    bench.lease()
    assert bench.switch(P2DQ).outcome is SwitchOutcome.CONFIRMED


def test_a_helper_that_ends_in_a_switch(bench):
    bench.lease()
    bench.switcher.begin(P2DQ, "because")
    bench.until(lambda: len(bench.helper.asked) > 1)
    bench.helper.bus.close()
    bench.helper = None
    event = bench.event()
    assert (event.outcome, event.new, event.exit.kind) == (SwitchOutcome.LOST, P2DQ, ExitKind.WITHDRAWN)
    assert not bench.switcher.busy()


def test_a_lease_that_is_taken_away(bench):
    bench.lease()
    bench.switch(P2DQ)
    bench.helper.detach()
    bench.helper.send("LeaseLost", "another user sits at this machine now")
    event = bench.event()
    assert (event.outcome, event.exit.reason) == (SwitchOutcome.LOST, "another user sits at this machine now")
    assert bench.link.lacking == "another user sits at this machine now"
    assert bench.said[-1] == "observing only: another user sits at this machine now"


def test_what_runs_ends_by_itself(bench):
    bench.lease()
    bench.switch(P2DQ)
    bench.helper.detach()
    bench.helper.tell(SwitchOutcome.LOST, P2DQ)
    assert bench.event().outcome is SwitchOutcome.LOST
    assert bench.switcher.current() == EEVDF


def test_signals_of_a_stranger_are_not_believed(bench):
    bench.lease()
    stranger = Bus.open(bench.address)
    stranger.emit(PATH, INTERFACE, "LeaseLost", "s", ("go away",), to=bench.helper.holder)
    stranger.emit(PATH, INTERFACE, "Event", "s", ("{}",), to=bench.helper.holder)
    stranger.ask("org.freedesktop.DBus", "/", "org.freedesktop.DBus.Peer", "Ping")
    bench.switch(P2DQ)
    assert bench.link.facts is not None
    assert bench.events == []
    stranger.close()


def test_a_helper_of_another_version(bench):
    bench.helper.facts = '{"how": "gated"}'
    bench.until(lambda: bench.said)
    assert "another version of asa" in bench.said[0]
    assert bench.link.facts is None


def test_an_event_that_is_none_ends_the_switch_as_failed(bench):
    bench.lease()
    bench.switcher.begin(P2DQ)
    bench.helper.send("Event", "{}")
    event = bench.event()
    assert event.outcome is SwitchOutcome.FAILED
    assert "no event" in event.detail


def test_standbys_are_asked_for_once_and_only_approved_ones(bench):
    bench.lease()
    wanted = (P2DQ, SchedulerName("scx_p2dq:gaming"), SchedulerName("scx_flash:server"), FLASH)
    bench.switcher.keep_ready(wanted)
    bench.switcher.keep_ready(wanted)
    bench.until(bench.switcher.standbys)
    ready = ["scx_p2dq", "scx_flash:server"]  # each mode is approved by itself; one that is not would have all refused
    assert [one for one in bench.helper.asked if one[0] == "KeepReady"] == [("KeepReady", ready)]
    assert bench.switcher.standbys()[0].memory_bytes == 4_000_000
    bench.switcher.keep_ready(())
    bench.until(lambda: not bench.switcher.standbys())


def test_the_end_gives_the_lease_back(bus_address, tmp_path):
    bench = Bench(bus_address, tmp_path / "sys")
    bench.lease()
    bench.switch(P2DQ)
    os.set_blocking(bench.helper.bus.fileno(), False)
    with pytest.MonkeyPatch.context() as patch:
        ask = Bus.ask

        def asking(bus, *arguments, **more):  # the helper works in this process too
            if arguments[3:4] == ("Release",):
                serial = bus.send(*arguments, then=lambda _: None)
                bench.until(lambda: ("Release",) in bench.helper.asked)
                bus.forget(serial)
                return ()
            return ask(bus, *arguments, **more)

        patch.setattr(Bus, "ask", asking)
        assert bench.switcher.rest()
    assert bench.switcher.current() == EEVDF
    assert bench.link.fileno() == -1
    bench.close()


def test_no_bus_is_tried_again_later(tmp_path):
    said = []

    def none():
        raise BusError("the bus cannot be reached")

    link = HelperLink(none, SystemClock(), said.append)
    link.advance()
    link.advance()
    assert said == ["observing only: the bus cannot be reached"]
    assert 0 < link.due_in_s() <= 5.0
    assert link.fileno() == -1


def test_a_bus_that_ends(bench):
    bench.lease()
    bench.switch(P2DQ)
    bench.link._bus._stream._socket.shutdown(2)
    bench.until(lambda: bench.link.facts is None)
    put(bench.sys, "disabled", "")
    assert bench.event().exit.kind is ExitKind.WITHDRAWN


def test_an_observer_asks_for_probes_alone(bus_address, tmp_path):
    bench = Bench(bus_address, tmp_path / "sys", observe=True)
    with pytest.raises(SourceError, match="not been asked yet"):
        bench.fetch()
    bench.until(bench.fetch.news)
    descriptor, facts = bench.fetch()
    assert facts.backend == "core"
    assert os.read(descriptor, 1) == b""
    os.close(descriptor)
    assert [one[0] for one in bench.helper.asked] == ["Probes"]
    with pytest.raises(SourceError, match="taken already"):
        bench.fetch()
    bench.close()


def test_probes_that_were_detached_are_asked_for_again(bench):
    bench.lease()
    bench.until(bench.fetch.news)
    lost = []
    bench.link.on_gone.append(lambda: lost.append(True))
    bench.link.on_gone.append(bench.fetch.lost)
    os.close(bench.fetch()[0])
    bench.helper.send("ProbesLost", "who sits at the machine has changed")
    bench.until(bench.fetch.news)
    os.close(bench.fetch()[0])
    assert lost == [True]
    assert [one[0] for one in bench.helper.asked].count("Probes") == 2


def test_probes_that_came_twice_are_kept_once(tmp_path):
    """The helper was asked, went, and the next one was asked: both answered."""
    asked, on_answer = [], []
    fetch = ProbeFetch(SimpleNamespace(on_answer=on_answer, probes=asked.append))
    facts = ProbeFacts(backend="core", layout=1, cpus=1, row_bytes=8, fields=(), lacking={})
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    on_answer[0]()
    fetch.lost()
    on_answer[0]()
    for descriptor, answered in ((first, asked[0]), (second, asked[1])):
        answered((FileDescriptor(descriptor), wire.json_text(facts)))
    assert fetch() == (second, facts)
    os.close(second)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first)
