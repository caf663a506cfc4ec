# SPDX-License-Identifier: GPL-2.0-only
"""GameMode, players, GNOME's session manager and logind on a real bus; and those that lie, or are silent."""

import pytest
from dbus_fast import Variant
from services_desk import GAMES, LOGIND, PLAYER, PROFILES, SESSION, games, player

from collectors.hints.services import SessionServices, SystemServices


@pytest.fixture
def services(desk):
    made = SessionServices(desk.where, lambda: desk.now_ns)
    yield made
    made.asker.close()


def test_without_services_nobody_plays_and_the_rest_is_unknown(desk, services):
    desk.turn(services.asker)
    assert (services.playing, services.game_clients, services.idle_inhibited) == (None, None, None)
    desk.shows(services.asker, lambda: services.playing == ())
    assert (services.game_clients, services.idle_inhibited) == (None, None)


def test_game_mode_comes_counts_and_goes(desk, services):
    peer = desk.peer(GAMES, **games(0))
    desk.shows(services.asker, lambda: services.game_clients == 0)
    peer.properties = games(2)
    desk.shows(services.asker, lambda: services.game_clients == 2)
    desk.leave(peer)
    desk.shows(services.asker, lambda: services.game_clients is None)


def test_players_that_play_and_their_entries(desk, services):
    first = desk.peer(f"{PLAYER}.one", **player("Playing", "org.videolan.vlc"))
    second = desk.peer(f"{PLAYER}.two.instance77", **player("Paused", "two"))
    third = desk.peer(f"{PLAYER}.three", PlaybackStatus=Variant("s", "Playing"))  # it tells no entry
    desk.shows(services.asker, lambda: services.playing == ("", "org.videolan.vlc"))
    second.properties, first.properties = player("Playing", "two"), player("Stopped")
    desk.shows(services.asker, lambda: services.playing == ("", "two"))
    desk.leave(third)
    desk.shows(services.asker, lambda: services.playing == ("two",))


def test_the_session_manager_tells_whether_idleness_is_inhibited(desk, services):
    peer = desk.peer(SESSION, InhibitedActions=Variant("u", 4 | 8))
    desk.shows(services.asker, lambda: services.idle_inhibited is True)
    peer.properties = {"InhibitedActions": Variant("u", 4)}  # suspend alone
    desk.shows(services.asker, lambda: services.idle_inhibited is False)


@pytest.mark.parametrize(("answer", "known"), [(True, True), (False, False), (1, None), ("yes", None)])
def test_without_gnome_the_power_manager_of_kde_and_xfce_tells(desk, services, answer, known):
    peer = desk.peer("org.freedesktop.PowerManagement")
    kind = {bool: "b", int: "u", str: "s"}[type(answer)]
    asked = []
    peer.answers["HasInhibit"] = lambda: asked.append(1) or (kind, [answer])
    desk.shows(services.asker, lambda: len(asked) > 1 and services.idle_inhibited is known)


@pytest.fixture
def system(desk):
    made = SystemServices(desk.where, lambda: desk.now_ns)
    yield made
    made.asker.close()


def profile(name, *holds):
    held = [{"ApplicationId": Variant("s", one), "Profile": Variant("s", name)} for one in holds]
    return {"ActiveProfile": Variant("s", name), "ActiveProfileHolds": Variant("aa{sv}", held)}


@pytest.mark.parametrize("name", PROFILES)
def test_the_power_profile_and_who_holds_it(desk, system, name):
    peer = desk.peer(name, **profile("power-saver"))
    desk.shows(system.asker, lambda: (system.power_profile, system.power_held) == ("power-saver", False))
    peer.properties = profile("performance", "com.example.Game")
    desk.shows(system.asker, lambda: (system.power_profile, system.power_held) == ("performance", True))
    peer.properties = {"ActiveProfile": Variant("s", "turbo"), "ActiveProfileHolds": Variant("s", "many")}
    desk.shows(system.asker, lambda: (system.power_profile, system.power_held) == (None, None))
    peer.properties = profile("balanced")
    desk.shows(system.asker, lambda: system.power_profile == "balanced")
    desk.leave(peer)
    desk.shows(system.asker, lambda: (system.power_profile, system.power_held) == (None, None))


def test_the_lid(desk, system):
    peer = desk.peer(LOGIND, LidClosed=Variant("b", True))
    desk.shows(system.asker, lambda: system.lid_closed is True)
    peer.properties = {"LidClosed": Variant("b", False)}
    desk.shows(system.asker, lambda: system.lid_closed is False)
    peer.properties = {"LidClosed": Variant("s", "open")}
    desk.shows(system.asker, lambda: system.lid_closed is None)


def test_logind_tells_too(desk):
    login = SystemServices(desk.where, lambda: desk.now_ns)
    peer = desk.peer(LOGIND, BlockInhibited=Variant("s", "handle-lid-switch:idle"))
    desk.shows(login.asker, lambda: login.idle_inhibited is True)
    peer.properties = {"BlockInhibited": Variant("s", "handle-lid-switch")}
    desk.shows(login.asker, lambda: login.idle_inhibited is False)
    desk.leave(peer)
    desk.shows(login.asker, lambda: login.idle_inhibited is None)
    login.asker.close()


@pytest.mark.parametrize("lie", [Variant("s", "many"), Variant("i", -1), Variant("i", 1 << 30), Variant("u", 3)])
def test_a_count_that_is_none_is_unknown(desk, services, lie):
    peer = desk.peer(GAMES, **games(1))
    desk.shows(services.asker, lambda: services.game_clients == 1)
    peer.properties = {"ClientCount": lie}
    desk.shows(services.asker, lambda: services.game_clients is None)


def test_a_player_that_lies_names_nothing(desk, services):
    desk.peer(f"{PLAYER}.a", PlaybackStatus=Variant("i", 1), DesktopEntry=Variant("s", "a"))
    desk.peer(f"{PLAYER}.b", PlaybackStatus=Variant("s", "Playing"), DesktopEntry=Variant("s", "b\n" + 300 * "x"))
    desk.shows(services.asker, lambda: services.playing == ("",))


def test_a_hundred_players_are_asked_in_part(desk, services):
    peer = desk.peer(f"{PLAYER}.p00", **player("Playing", "many"))
    for number in range(1, 100):
        peer.request(f"{PLAYER}.p{number:02}")
    desk.shows(services.asker, lambda: services.playing == 8 * ("many",))
