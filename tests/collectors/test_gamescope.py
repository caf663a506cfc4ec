# SPDX-License-Identifier: GPL-2.0-only
"""The gamescope reader on real X servers (Xvfb) that have the properties which gamescope publishes, as it does."""

import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until
from x_screen import screens, session

from collectors import gamescope
from collectors import xprotocol as x
from collectors.gamescope import STEAM, GamescopeReader

S_NS = 1_000_000_000
CARDINAL = 6  # Xatom.h


class Publisher:
    """A client that sets properties of the root window, as steamcompmgr does."""

    def __init__(self, screen):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(f"/tmp/.X11-unix/X{screen.number}")  # noqa: S108
        self.socket.send(x.setup_request(bytes.fromhex(screen.cookie)))
        self.root = x.setup_root(self._read(x.setup_size))

    def put(self, name, *values):
        self.socket.send(x.intern_atom(name))
        atom = x.atom_of(self._read(x.message_size))
        body = struct.pack("<IIIB3xI", self.root, atom, CARDINAL, 32, len(values)) + struct.pack(
            f"<{len(values)}I", *values
        )
        self.socket.send(struct.pack("<BBH", 18, 0, 1 + len(body) // 4) + body)  # ChangeProperty, replace
        self.socket.send(x.intern_atom(name))  # answered when the server has done it
        self._read(x.message_size)

    def put_text(self, name, text):
        # each letter's place in memory is given for a long, of which the server gets the lower half: 4 of 8 letters
        memory = text.encode().ljust(8 * (len(text) + 1), b"\0")
        self.put(name, *(struct.unpack_from("<Q", memory, 8 * n)[0] & 0xFFFFFFFF for n in range(len(text) + 1)))

    def _read(self, size_of):
        data = b""
        while not size_of(data) or len(data) < size_of(data):
            data += self.socket.recv(1 << 16)
        return data


class Handheld:
    """A session of gamescope with the servers `shown`, the first of which has the properties."""

    def __init__(self, folder, shown):
        self.shown, self.now_ns = shown, S_NS
        (folder / "run").mkdir()
        self.socket = folder / "run/gamescope-0"
        self.socket.touch()
        cookies = b"".join(one.authority.read_bytes() for one in shown)
        (folder / "cookies").write_bytes(cookies)
        self.session = replace(session(shown[0].number, folder / "cookies"), runtime=folder / "run")
        self.reader = GamescopeReader(lambda: self.session, lambda: self.now_ns)
        self.publishers = [Publisher(one) for one in shown]
        self.root = self.publishers[0]

    def poll(self):
        self.now_ns += S_NS // 20
        return self.reader.poll()

    def shows(self, condition):
        told = lambda: f"it says {self.reader.poll()} {self.reader.reason!r}"  # noqa: E731
        return until(lambda: (now := self.poll()) and condition(now) and now, told)

    def says(self, words):
        until(lambda: self.poll() is None and words in self.reader.reason, lambda: self.reader.reason)

    def open(self, place, name):
        """A window on the server of that place; its process, and the number that X knows it by."""
        process = self.shown[place].window(name, "A game")
        found = lambda: self.shown[place].found("search", "--onlyvisible", "--class", name)  # noqa: E731
        until(lambda: found().strip(), f"the window of {name}")
        return process.pid, int(found().split()[0])


@pytest.fixture
def handheld(tmp_path):
    with screens(tmp_path, 2) as both:
        found = Handheld(tmp_path, both)
        yield found
        found.reader.close()
        for one in found.publishers:
            one.socket.close()


def test_steam_and_a_game_on_two_servers(handheld):
    handheld.says("another's")
    steam, steams_window = handheld.open(0, "steam")
    game, games_window = handheld.open(1, "game")
    root = handheld.root
    root.put_text("GAMESCOPE_FOCUS_DISPLAY", f":{handheld.shown[0].number}")
    root.put("GAMESCOPE_FOCUSED_WINDOW")
    handheld.shows(lambda now: now.pid is None and now.fullscreen is False)
    root.put("GAMESCOPE_FOCUSED_APP", STEAM)
    root.put("GAMESCOPE_FOCUSED_WINDOW", steams_window)
    seen = handheld.shows(lambda now: now.pid == steam)
    assert (seen.window_class, seen.fullscreen, seen.input_events, seen.idle_ms) == ("Steam", False, None, None)
    root.put("GAMESCOPE_FOCUSED_APP", 1_145_360)
    root.put_text("GAMESCOPE_FOCUS_DISPLAY", f":{handheld.shown[1].number}")
    root.put("GAMESCOPE_FOCUSED_WINDOW", games_window)
    root.put("GAMESCOPE_INPUT_COUNTER", 7)
    seen = handheld.shows(lambda now: now.pid == game)
    assert (seen.window_class, seen.fullscreen, seen.input_events) == ("Game", True, 7)
    rested = handheld.shows(lambda now: now.idle_ms >= 500)
    root.put("GAMESCOPE_INPUT_COUNTER", 9)
    handheld.shows(lambda now: now.input_events == 9 and now.idle_ms < rested.idle_ms)
    assert (handheld.reader.claims, handheld.reader.lacking) == (True, {})
    handheld.shown[1].stop()
    handheld.shows(lambda now: now.pid is None and now.fullscreen)  # nobody knows whose window it is
    handheld.shown[0].stop()
    until(lambda: handheld.poll() is None, "it is gone")
    assert not handheld.reader.claims


def test_without_steam_what_has_the_focus_is_played(handheld):
    game, window = handheld.open(0, "game")
    handheld.root.put("GAMESCOPE_FOCUSED_WINDOW", window)
    seen = handheld.shows(lambda now: now.pid == game)
    assert (seen.window_class, seen.fullscreen) == ("Game", True)
    handheld.root.put("GAMESCOPE_FOCUSED_WINDOW", 0x7FFFFFFF)  # one that has gone meanwhile
    handheld.shows(lambda now: now.pid is None)


def test_where_it_does_not_run_no_server_is_asked(tmp_path):
    for runtime in (None, tmp_path, Path("/nowhere")):
        reader = GamescopeReader(lambda runtime=runtime: replace(session(1), runtime=runtime), lambda: 0)
        assert reader.poll() is None
        assert reader.reason == "gamescope does not run"


@pytest.mark.parametrize(("text", "number"), [(":1", 1), (":12", 12), (":123", 123), ("", None), ("x\xff", None)])
def test_the_display_that_is_told(text, number):
    word = text.encode("latin-1").ljust(4, b"\0")[:4]
    reply = struct.pack("<BBHIIII12x", 1, 32, 0, 1, CARDINAL, 0, 1) + word
    assert gamescope._number(reply) == number


@given(reply=st.none() | st.binary(min_size=32, max_size=80))
def test_any_reply(reply):
    gamescope._number(reply)
    x.first_of(reply)
    x.is_there(reply)
