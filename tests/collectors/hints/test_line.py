# SPDX-License-Identifier: GPL-2.0-only
"""The connection under the questions: a bus that goes, stands still, floods, or never was; and what a tick asks."""

import os

import pytest
from services_desk import GAMES, games
from waiting import until

from asa.bus import BusError
from collectors.hints import line
from collectors.hints.line import ROUND_NS, Place
from collectors.hints.services import SessionServices


@pytest.fixture
def services(desk):
    made = SessionServices(desk.where, lambda: desk.now_ns)
    yield made
    made.asker.close()


def test_a_bus_that_goes_takes_all_it_said_with_it_and_is_found_again(desk, services):
    desk.peer(GAMES, **games(1))
    desk.shows(services.asker, lambda: services.game_clients == 1)
    desk.bus.stop()
    desk.shows(services.asker, lambda: services.asker.reason)
    assert (services.game_clients, services.playing) == (None, None)
    desk.leave(desk.peers[0])
    desk.bus.start()
    desk.peer(GAMES, **games(3))
    desk.shows(services.asker, lambda: services.game_clients == 3)
    assert services.asker.reason == ""


def test_no_bus_is_tried_less_and_less_often(desk, services):
    desk.place = Place("unix:path=/nowhere/bus", os.geteuid())
    tries = []
    services.asker._where = lambda: tries.append(desk.now_ns) or desk.place
    for _ in range(600):
        desk.now_ns += 1_000_000_000
        services.asker.turn()
    assert len(tries) <= 17
    assert services.asker.reason == "no bus at 'unix:path=/nowhere/bus': no such file or directory"


@pytest.mark.parametrize("address", ["", "tcp:host=a", "unix:path=/a\0b", "nonsense"])
def test_an_address_that_is_none_is_no_bus(desk, services, address):
    desk.place = Place(address, os.geteuid())
    services.asker.turn()
    assert services.asker.reason.startswith("no bus at ")


def test_questions_come_in_rounds(desk, services):
    peer = desk.peer(GAMES, **games(1))
    desk.shows(services.asker, lambda: services.game_clients == 1)
    until(lambda: services.asker.turn() or desk.pump() or not services.asker._bus._pending, "the last answer")
    before = len(peer.calls)
    for _ in range(99):  # ticks of 50 ms, before the next round
        desk.now_ns += ROUND_NS // 100
        services.asker.turn()
        desk.pump()
    assert len(peer.calls) == before
    desk.now_ns += ROUND_NS // 100
    until(lambda: services.asker.turn() or desk.pump() or len(peer.calls) == before + 1, "the next round")


def test_a_service_that_is_silent_is_unknown_in_the_end(desk, services, monkeypatch):
    monkeypatch.setattr(line, "_LIMIT_S", 0.05)
    peer = desk.peer(GAMES, **games(1))
    desk.shows(services.asker, lambda: services.game_clients == 1)
    peer.properties = {"ClientCount": None}
    desk.shows(services.asker, lambda: services.game_clients is None)


def test_a_flood_ends_the_connection_for_a_while(desk, services):
    peer = desk.peer(GAMES, **games(1))
    desk.shows(services.asker, lambda: services.game_clients == 1)
    ours = peer.calls[-1][1]
    peer.flood(2000, lambda number: peer.signal("Noise", "s", ["x" * 100], to=ours))
    services.asker.turn()
    assert services.asker.reason.endswith("more bytes than a tick takes")
    assert services.game_clients is None
    desk.shows(services.asker, lambda: services.game_clients == 1)


def test_another_session_at_the_screen_is_another_bus(desk, services, tmp_path_factory):
    desk.peer(GAMES, **games(1))
    desk.shows(services.asker, lambda: services.game_clients == 1)
    desk.place = Place("unix:path=/nowhere/else", os.geteuid())
    desk.turn(services.asker)
    assert services.game_clients is None


def test_a_service_that_is_not_there_is_not_started(desk, services, monkeypatch):
    sent = []
    desk.shows(services.asker, lambda: services.playing == ())
    bus = services.asker._bus
    monkeypatch.setattr(bus, "send", lambda *call, **how: sent.append((call[0], how["starts"])))
    services._ask_present(services.asker, frozenset({GAMES}))
    assert sent == [(GAMES, False)]


def test_a_bus_that_takes_nothing_more_is_given_up(desk, services, monkeypatch):
    desk.shows(services.asker, lambda: services.playing == ())

    def refuse(*_, **__):
        raise BusError("the bus has gone")

    monkeypatch.setattr(services.asker._bus, "send", refuse)
    desk.turn(services.asker)
    assert services.playing is None
    desk.shows(services.asker, lambda: services.playing == ())
