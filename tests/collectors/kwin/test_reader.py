# SPDX-License-Identifier: GPL-2.0-only
"""The reader for KWin on a real bus, with a peer in KWin's place that loads scripts and tells what they would."""

import json
import os
from pathlib import Path

import pytest
from private_bus import Peer, PrivateBus
from waiting import until

from collectors.kwin.reader import INTERFACE, KWIN, PATH, SCRIPT, KwinReader
from collectors.session import Session
from collectors.window import Window

S_NS = 1_000_000_000
TOLD = {"pid": 42, "app": "org.kde.kate", "window_class": "kate", "title": "notes - Kate", "fullscreen": False}


class Plasma:
    """A session bus, KWin's place on it, and the reader."""

    def __init__(self, folder):
        self.folder = folder
        self.bus = PrivateBus(folder)
        self.now_ns = S_NS
        self.wayland = True
        self.reader = KwinReader(self.session, lambda: self.now_ns)
        self.loaded = []
        self.peers = []

    def session(self):
        own = os.geteuid()
        where = {"bus": self.bus.address, "bus_uid": own, "runtime": self.folder}
        return Session(uid=own, display="", authorities=(), wayland=self.wayland, **where)

    def kwin(self, answer=0):
        peer = self.peer(KWIN)
        peer.answers["loadScript"] = lambda path, name: self.loaded.append((Path(path), name)) or ("i", [answer])
        peer.answers["unloadScript"] = ("b", [True])
        peer.answers["start"] = ("", [])
        return peer

    def peer(self, *names):
        self.peers.append(Peer(self.bus, *names))
        return self.peers[-1]

    def turn(self):
        window = self.reader.poll()
        for peer in self.peers:
            peer.pump()
        return window

    def shows(self, condition):
        return until(lambda: condition(self.turn()), lambda: f"{self.turn()} ({self.reader.reason})")

    def name(self):
        """Ours, as the script has it."""
        text = self.loaded[-1][0].read_text()
        return text.split('callDBus("')[1].split('"')[0]

    def tell(self, peer, told, member="Tell"):
        peer._call(self.name(), PATH, INTERFACE, member, "s", told if isinstance(told, str) else json.dumps(told))

    def stop(self):
        self.reader.close()
        for peer in self.peers:
            peer.close()
        self.bus.stop()


@pytest.fixture
def plasma(tmp_path):
    made = Plasma(tmp_path)
    yield made
    made.stop()


def test_what_the_script_tells(plasma):
    kwin = plasma.kwin()
    plasma.shows(lambda _: [member for member, _ in kwin.calls] == ["unloadScript", "loadScript", "start"])
    path, name = plasma.loaded[0]
    assert (path, name) == (plasma.folder / f"{SCRIPT}.js", SCRIPT)
    assert path.stat().st_mode & 0o777 == 0o600
    assert plasma.name().startswith(":")
    assert not plasma.reader.claims
    plasma.tell(kwin, TOLD)
    plasma.shows(
        lambda window: (
            window == Window(pid=42, app="org.kde.kate", window_class="kate", title_class="other", fullscreen=False)
        )
    )
    assert (plasma.reader.claims, plasma.reader.reason) == (True, "")
    plasma.tell(kwin, TOLD | {"fullscreen": True})
    plasma.shows(lambda window: window.fullscreen)
    plasma.tell(kwin, {})
    plasma.shows(lambda window: window == Window(pid=None, fullscreen=False))
    plasma.reader.close()
    assert not path.exists()
    until(lambda: kwin.pump() or kwin.calls[-1][0] == "unloadScript", "it is unloaded")


def test_kwin_alone_is_heard(plasma):
    kwin, other = plasma.kwin(), plasma.peer()
    plasma.shows(lambda _: plasma.loaded)
    plasma.tell(other, TOLD)
    plasma.tell(kwin, TOLD | {"pid": 7})
    plasma.shows(lambda window: window is not None and window.pid == 7)
    plasma.tell(other, TOLD)
    for lie in ("", "[1]", '{"pid": "x"}', "{" * 1000):
        plasma.tell(kwin, lie)
    plasma.tell(kwin, TOLD | {"pid": 8, "window_class": "a\nb", "app": "x" * 300})
    assert plasma.shows(lambda window: window.pid == 8 and window) == Window(
        pid=8, title_class="other", fullscreen=False
    )


def test_a_kwin_that_restarts_gets_the_script_anew(plasma):
    kwin = plasma.kwin()
    plasma.shows(lambda _: plasma.loaded)
    plasma.tell(kwin, TOLD)
    plasma.shows(lambda window: window)
    kwin.close()
    plasma.peers.remove(kwin)
    plasma.shows(lambda window: window is None and plasma.reader.reason == "KWin does not run on this session bus")
    kwin = plasma.kwin()
    plasma.shows(lambda _: len(plasma.loaded) == 2)
    plasma.tell(kwin, TOLD)
    plasma.shows(lambda window: window)


def test_one_that_refuses_is_named(plasma):
    plasma.kwin(answer=-1)
    plasma.shows(lambda _: "KWin refuses the script" in plasma.reader.reason)
    assert plasma.reader.settled()


def test_one_that_takes_no_scripts_yet_is_asked_again(plasma):
    kwin = plasma.kwin(answer=-1)
    plasma.shows(lambda _: "KWin refuses the script" in plasma.reader.reason)
    kwin.answers["loadScript"] = lambda path, name: plasma.loaded.append((Path(path), name)) or ("i", [0])
    asked = len(plasma.loaded)
    for _ in range(50):
        plasma.turn()
    assert len(plasma.loaded) == asked  # not before a second has passed
    plasma.now_ns += S_NS
    plasma.shows(lambda _: len(plasma.loaded) > asked)
    plasma.tell(kwin, TOLD)
    plasma.shows(lambda window: window and window.pid == TOLD["pid"])


def test_without_kwin_and_on_x11(plasma):
    plasma.shows(lambda _: plasma.reader.reason == "KWin does not run on this session bus")
    plasma.reader.close()
    plasma.wayland = False
    assert plasma.reader.poll() is None
    assert "on X11" in plasma.reader.reason
    plasma.bus.stop()
    plasma.wayland = True
    plasma.now_ns += 60 * S_NS
    assert plasma.reader.poll() is None
    assert plasma.reader.reason.startswith("session bus: ")
    plasma.bus.start()
