# SPDX-License-Identifier: GPL-2.0-only
"""Switching through the real scx_loader on a bus of our own: what is ordered, refused or not believed.

Schedulers are stand-ins over a folder as sysfs (see `loader_bench`); real ones on a real kernel are in
tests/guest/test_loader.py.
"""

import os
import select
import signal

import pytest
from loader_bench import BPFLAND, FLASH, LOADER, NEST, bench, binary, make, portfolio
from waiting import until

from asa.act import loader_facts
from asa.act.kernel import sched_ext_state
from asa.act.loader_bus import LoaderBus, Ordered
from asa.act.undo import UndoJournal
from asa.bus import Bus, Object, Property
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome
from asa.core.errors import SchedulerError

__all__ = ["bench", "binary", "make", "portfolio"]  # fixtures


def test_there_and_back(bench):
    event = bench.switch(BPFLAND)
    assert (event.outcome, event.old, event.new, event.why) == (SwitchOutcome.CONFIRMED, EEVDF, BPFLAND, "for a test")
    assert bench.switcher.current() == BPFLAND
    assert [(one.scheduler, one.pid) for one in bench.undo.leftover()] == [(BPFLAND, bench.pids()[0])]
    event = bench.switch(SchedulerName("scx_flash:performance"))
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, BPFLAND, "scx_flash:performance")
    assert bench.switcher.current() == "scx_flash:performance"
    assert (bench.root / "started").read_text() == "\n--primary-domain=performance\n"
    assert [one.scheduler for one in bench.undo.leftover()] == ["scx_flash:performance"]
    event = bench.switch(EEVDF)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, "scx_flash:performance", EEVDF)
    assert sched_ext_state(bench.root).state == "disabled"
    assert not bench.undo.leftover()
    assert bench.turn() is None


def test_a_yes_of_the_loader_is_not_believed(make):
    bench = make(attach_limit_s=1.0)
    bench.behave("sleeps")
    event = bench.switch(BPFLAND)
    assert event.outcome is SwitchOutcome.FAILED
    assert "scx_bpfland: scx_loader has not brought it up within 1 s" in event.detail
    assert bench.pids() == []  # the loader was told to stop it: it does not come later
    assert not bench.undo.leftover()


def test_an_old_enable_count_is_not_believed(make):
    bench = make(attach_limit_s=1.0)
    bench.behave("stale")
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.FAILED
    assert sched_ext_state(bench.root).state == "disabled"


def test_what_the_loader_does_not_know_is_refused_and_the_running_one_stays(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    event = bench.switch(NEST)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.REFUSED, BPFLAND, NEST)
    assert "unknown variant" in event.detail
    assert not bench.switcher.busy()
    assert bench.switcher.current() == BPFLAND
    assert bench.turn() is None
    assert bench.switch(EEVDF).outcome is SwitchOutcome.CONFIRMED


def test_what_the_authority_forbids_is_refused(bench):
    bench.allowed = False
    event = bench.switch(BPFLAND)
    assert event.outcome is SwitchOutcome.REFUSED
    assert "Not allowed" in event.detail
    assert not (bench.root / "started").exists()


def test_without_a_bus_nothing_is_ordered(bench):
    bench.bus.kill()
    bench.bus.wait()
    with pytest.raises(SchedulerError, match="scx_loader cannot be told"):
        bench.switcher.begin(BPFLAND)
    assert not bench.switcher.busy()


@pytest.mark.parametrize("when", ["in force", "loading", "nothing"])
def test_rest(bench, when):
    if when == "in force":
        bench.switch(BPFLAND)
    elif when == "loading":
        bench.behave("sleeps")
        bench.switcher.begin(BPFLAND)
        until(lambda: bench.turn() or bench.pids(), "it is loading")
    serving = os.fork()
    if serving == 0:  # the authority has to answer while the switcher waits
        while True:
            select.select([bench.authority], [], [], 1.0)
            bench.authority.advance()
    try:
        assert bench.switcher.rest()
    finally:
        os.kill(serving, signal.SIGKILL)
        os.waitpid(serving, 0)
    assert (sched_ext_state(bench.root).state, bench.pids()) == ("disabled", [])
    assert not bench.undo.leftover()


def test_what_a_killed_agent_left_is_ended_and_not_started_again(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    assert "scx_bpfland" in UndoJournal(bench.root / "undo.json").recover(30.0)
    assert (sched_ext_state(bench.root).state, bench.pids()) == ("disabled", [])
    bench.undo = UndoJournal(bench.root / "undo.json")
    bench.switcher = bench.new_switcher()
    assert bench.switch(FLASH).outcome is SwitchOutcome.CONFIRMED


def test_a_mode_that_is_not_in_the_manifest(bench):
    with pytest.raises(SchedulerError, match="has no mode 'nonsense'"):
        bench.switcher.begin(SchedulerName("scx_bpfland:nonsense"))
    assert not bench.switcher.busy()


def test_one_order_at_a_time(bench):
    bench.switcher.begin(BPFLAND)
    with pytest.raises(SchedulerError, match="under way"):
        bench.switcher.begin(FLASH)
    assert bench.event().outcome is SwitchOutcome.CONFIRMED
    assert bench.switcher.standbys() == ()


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"CurrentScheduler": ("u", 5)}, None),
        ({"CurrentScheduler": ("s", "unknown")}, Ordered(scheduler=EEVDF, arguments=None)),  # scx_loader 1.0
        (
            {"CurrentScheduler": ("s", "scx_flash"), "CurrentSchedulerArgs": ("as", ["-v"])},
            Ordered(scheduler=FLASH, arguments=("-v",)),
        ),
    ],
)
def test_what_another_version_says(bench, properties, expected):
    bench.loader.kill()
    until(lambda: not bench.is_loader_there(), "the name is free")
    bench.authority.own(LOADER[0])
    read = {
        name: Property(signature=kind, read=lambda value=value: value) for name, (kind, value) in properties.items()
    }
    bench.authority.serve(Object(path=LOADER[1], interface=LOADER[2], methods={}, properties=read))
    loader_bus = LoaderBus(lambda: Bus.open(bench.address))
    heard = []
    loader_bus.ordered(heard.append)
    until(lambda: bench.authority.advance() or loader_bus.advance() or heard, "the answer")
    assert heard == [expected]
    assert loader_bus.present
    loader_bus.close()
    assert not loader_bus.present


def test_what_the_real_loader_says_of_itself(bench):
    bus = Bus.open(bench.address)
    idle = loader_facts.ask(bus)
    assert (idle.told, idle.mode, idle.arguments, idle.default, len(idle.knows)) == ("", "", (), "", 14)
    assert idle.sentence == "knows 14 schedulers"
    assert idle.unknown([BPFLAND, NEST, FLASH]) == (NEST,)
    bench.order("SwitchScheduler", "su", (BPFLAND, 1))
    gaming = loader_facts.ask(bus)
    assert (gaming.told, gaming.mode, gaming.arguments) == (BPFLAND, "gaming", ())
    assert gaming.stands_for["lowlatency"] == ("-m", "performance", "-w")  # config.rs of scx_loader 1.1.3
    assert gaming.sentence == "knows 14 schedulers; was told scx_bpfland in mode gaming: -m all"
    bench.order("SwitchSchedulerWithArgs", "sas", (FLASH, ["-k"]))
    assert loader_facts.ask(bus).sentence == "knows 14 schedulers; was told scx_flash with -k"
    bus.close()


def test_nothing_is_said_where_no_loader_is(bench):
    bench.loader.kill()
    bench.loader.wait()
    until(lambda: not bench.is_loader_there(), "it has left the bus")
    bus = Bus.open(bench.address)
    assert loader_facts.ask(bus) is None
    bus.close()
