# SPDX-License-Identifier: GPL-2.0-only
"""Whose connection it is and when it ends, asked of a real dbus-daemon about real processes."""

import os

import pytest
from helper_bus import NOBODY, PrivateBus, turn

from asa.bus import Rule
from asa.helper.callers import BUS, BUS_PATH, Callers

FUZZED = 10_000


@pytest.fixture
def private():
    bus = PrivateBus()
    yield bus
    bus.end()


@pytest.fixture
def bus(private):
    return private.connect()


def uid_of(callers, bus, sender):
    told = []
    callers.uid_of(sender, told.append)
    turn(bus, until=lambda: told, what=f"the user of {sender}")
    assert len(told) == 1
    return told[0]


def ended(private, bus):
    """Unique name of a connection that was there."""
    left = private.connect()
    left.close()
    turn(bus, until=lambda: left.unique_name not in bus.ask(BUS, BUS_PATH, BUS, "ListNames")[0], what="its end")
    bus.advance()  # and that was heard
    return left.unique_name


@pytest.mark.root
def test_the_user_behind_a_connection(private, bus):
    callers = Callers(bus)
    name, _ = private.stranger(NOBODY)
    assert uid_of(callers, bus, name) == NOBODY
    assert uid_of(callers, bus, private.connect().unique_name) == os.geteuid()
    told = []
    callers.uid_of(name, told.append)
    assert told == [NOBODY]  # known by now: at once


def test_who_is_not_there_has_no_user(private, bus):
    callers = Callers(bus)
    left = ended(private, bus)
    for name in (left, ":1.987654", BUS, "org.example.Nobody", "", "nonsense"):
        assert uid_of(callers, bus, name) is None
    assert len(callers) == 0


@pytest.mark.root
def test_the_end_of_a_process_is_told_once(private, bus):
    callers = Callers(bus)
    name, pid = private.stranger(NOBODY)
    stays = private.connect().unique_name
    told, again, others = [], [], []
    gone = lambda: told.append(name)  # noqa: E731  # the same one each time
    for _ in range(3):
        callers.on_gone(name, gone)
    callers.on_gone(name, lambda: again.append(name))
    callers.on_gone(stays, lambda: others.append(stays))
    assert uid_of(callers, bus, name) == NOBODY
    assert told == []
    private.kill(pid)
    turn(bus, until=lambda: again, what="the end of the process")
    assert (told, again, others) == ([name], [name], [])
    assert len(callers) == 1
    assert uid_of(callers, bus, name) is None
    assert told == [name]


def test_the_end_is_told_to_who_asks_too_late(private, bus):
    callers = Callers(bus)
    left = ended(private, bus)
    told = []
    callers.on_gone(left, lambda: told.append(1))
    turn(bus, until=lambda: told, what="the end of it, told")
    assert len(callers) == 0


def test_nobody_can_say_that_another_has_left(private, bus):
    callers = Callers(bus)
    victim, liar = private.connect(), private.connect()
    told = []
    callers.on_gone(victim.unique_name, lambda: told.append(1))
    assert uid_of(callers, bus, victim.unique_name) == os.geteuid()
    heard = []
    bus.watch(Rule(sender=liar.unique_name, member="Done"), heard.append)
    bus.ask(BUS, BUS_PATH, BUS, "GetId")  # the rule is in force
    lie = (victim.unique_name, victim.unique_name, "")
    liar.emit(BUS_PATH, BUS, "NameOwnerChanged", "sss", lie, to=bus.unique_name)
    liar.emit(BUS_PATH, BUS, "Done", "", (), to=bus.unique_name)
    turn(bus, until=lambda: heard, what="the liar's second signal")
    assert told == []
    victim.close()
    turn(bus, until=lambda: told, what="the end of the victim")


def test_ten_thousand_names_leave_nothing(private, bus):
    callers = Callers(bus)
    told, gone = [], []
    for first in range(0, FUZZED, 200):
        for number in range(first, first + 200):
            callers.uid_of(f":1.{number + 1000}", told.append)
            callers.on_gone(f":1.{number + 1000}", lambda: gone.append(1))
        turn(bus, until=lambda: len(told) == len(gone) == first + 200, what="answers")  # noqa: B023  # called here
    assert set(told) == {None}
    assert len(callers) == 0


def test_who_comes_and_goes_leaves_nothing(private, bus):
    callers = Callers(bus)
    stays = private.connect().unique_name
    assert uid_of(callers, bus, stays) == os.geteuid()
    for _ in range(300):
        passing = private.connect()
        callers.on_gone(passing.unique_name, lambda: None)
        passing.close()
    turn(bus, until=lambda: len(callers) == 1, what="only who stays")
    assert uid_of(callers, bus, stays) == os.geteuid()
