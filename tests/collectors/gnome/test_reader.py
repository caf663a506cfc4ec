# SPDX-License-Identifier: GPL-2.0-only
"""The GNOME reader on a real bus, with peers that behave, lie, flood, stand still and go."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import private_bus
import pytest
from dbus_fast import Variant
from private_bus import Peer, PrivateBus, state
from waiting import until

from collectors.gnome import extension
from collectors.gnome.reader import GnomeReader
from collectors.session import Session
from collectors.window import Window

SHELL, SAVER = "org.gnome.Shell", "org.gnome.ScreenSaver"
S_NS = 1_000_000_000
WINDOW = Window(
    pid=4242,
    app="org.gnome.Terminal.desktop",
    window_class="gnome-terminal-server",
    title_class="terminal",
    fullscreen=True,
    overview=False,
    idle_ms=1200,
    input_events=77,
)


class Desk:
    """A reader, its bus, its peers, and a clock that stands unless it is moved."""

    def __init__(self, folder):
        self.bus = PrivateBus(folder)
        self.now_ns = S_NS
        self.session = Session(
            uid=self.bus.uid, bus=self.bus.address, bus_uid=self.bus.uid, display="", authorities=(), wayland=True
        )
        self.reader = GnomeReader(lambda: self.session, lambda: self.now_ns)
        self.peers = []

    def peer(self, *names):
        self.peers.append(Peer(self.bus, *names))
        return self.peers[-1]

    def poll(self):
        window = self.reader.poll()
        for peer in self.peers:
            peer.pump()
        return window

    def shows(self, condition):
        return until(lambda: condition(self.poll()), lambda: f"{condition} (now: {self.reader.reason!r})")

    def says(self, words):
        told = lambda: f"{words!r} (now: {self.reader.reason!r})"  # noqa: E731
        until(lambda: self.poll() is None and words in self.reader.reason, told)

    def close(self):
        self.reader.close()
        for peer in self.peers:
            peer.close()
        self.bus.stop()


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path)
    yield desk
    desk.close()


@pytest.fixture
def shell(desk):
    return desk.peer(SHELL, extension.NAME)


def found(window):
    return window is not None


def test_a_state_as_the_extension_tells_it(desk, shell):
    desk.shows(lambda window: window == WINDOW)
    assert (desk.reader.reason, desk.reader.claims, desk.reader.lacking) == ("", True, {})
    assert desk.reader.shell_version == "43.9"


def test_each_poll_takes_an_answer_and_asks_again(desk, shell):
    desk.shows(found)
    for count in (78, 90, 120):
        shell.answers["GetState"] = ("a{sv}", [state(input_events=count)])
        desk.shows(lambda window, count=count: window.input_events == count)


def test_a_sandboxed_application_goes_by_its_own_name(desk, shell):
    shell.answers["GetState"] = ("a{sv}", [state(sandboxed_app="org.mozilla.firefox")])
    desk.shows(lambda window: window and window.app == "org.mozilla.firefox")


def test_no_window_and_no_count_are_unknown(desk, shell):
    shell.answers["GetState"] = ("a{sv}", [state(pid=0, input_events=None, idle_ms=1 << 63)])
    window = desk.shows(lambda window: window or None)
    assert (window.pid, window.input_events, window.idle_ms) == (None, None, None)
    assert list(desk.reader.lacking) == ["desktop input events"]


def test_a_signal_tells_a_change_before_the_next_answer(desk, shell):
    desk.shows(found)
    shell.answers["GetState"] = None
    until(lambda: desk.poll() and shell._silenced, "a question that is not answered")
    shell.signal("StateChanged", "a{sv}", [state(pid=4343)])
    desk.shows(lambda window: window and window.pid == 4343)


def test_what_others_signal_is_not_believed(desk, shell):
    desk.shows(found)
    (us,) = {sender for member, sender in shell.calls if member == "GetState"}
    stranger = desk.peer()
    stranger.signal("StateChanged", "a{sv}", [state(pid=6666)], to=us)
    stranger.signal("ActiveChanged", "b", [True], to=us, interface=SAVER, path="/org/gnome/ScreenSaver")
    stranger.signal("NameOwnerChanged", "sss", [SHELL, "", ""], to=us, interface=private_bus.BUS[2])
    stranger.call(us, "Hello")
    stranger.pump()
    shell.answers["GetState"] = ("a{sv}", [state(pid=4343)])  # asked for after all of that has come
    seen = []
    desk.shows(lambda window: seen.append(window.pid) or window.pid == 4343)
    assert set(seen) == {4242, 4343}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (("a{sv}", [state(pid=Variant("s", "4242"))]), "pid of type 's', not 'u'"),
        (("a{sv}", [state(fullscreen=Variant("u", 1))]), "fullscreen of type 'u', not 'b'"),
        (("a{sv}", [state(idle_ms=Variant("av", []))]), "idle-ms of type 'av'"),
        (("a{sv}", [state(pid=None)]), "without pid"),
        (("a{sv}", [state(title_class="My bank - 4,711.00")]), "title-class"),
        (("a{ss}", [{"pid": "1"}]), "a state of type 'a{ss}'"),
        (("", []), "a state of type ''"),
        (("error", "org.freedesktop.DBus.Error.UnknownMethod"), "UnknownMethod"),
    ],
)
def test_a_state_of_another_form_is_refused_until_a_good_one_comes(desk, shell, answer, words):
    shell.answers["GetState"] = answer
    desk.says(words)
    assert "\n" not in desk.reader.reason
    shell.answers["GetState"] = ("a{sv}", [state()])
    desk.shows(lambda window: window == WINDOW)


def test_names_that_are_no_names_are_unknown(desk, shell):
    shell.answers["GetState"] = ("a{sv}", [state(app="a\x1b[2Jb", window_class="w" * 256, unheard=Variant("s", "x"))])
    window = desk.shows(lambda window: window)
    assert (window.app, window.window_class, window.title_class) == ("", "", "terminal")


def test_another_version_of_the_extension(desk, shell):
    shell.answers["GetAll"] = ("a{sv}", [private_bus.properties(Variant("u", 2))])
    desk.says("speaks version 2, we 1")
    assert not desk.reader.claims
    assert "GetState" not in {member for member, _ in shell.calls}
    shell.release(extension.NAME)
    desk.says("is not loaded")
    desk.peer(extension.NAME)
    desk.shows(lambda window: window == WINDOW)


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({}, "is not installed, or not since the last login"),
        ({"state": Variant("d", 2.0)}, "is off"),
        ({"state": Variant("d", 3.0), "error": Variant("s", "SyntaxError: x")}, "failed: 'SyntaxError: x'"),
        ({"state": Variant("d", 4.0)}, "does not fit this GNOME Shell"),
        ({"state": Variant("s", "?")}, "is in state None"),
    ],
)
def test_the_shell_says_why_there_is_no_extension(desk, info, words):
    shell = desk.peer(SHELL)
    shell.answers["GetExtensionInfo"] = ("a{sv}", [info])
    desk.says(words)
    assert not desk.reader.claims
    shell.request(extension.NAME)
    desk.shows(lambda window: window == WINDOW)
    shell.release(extension.NAME)
    desk.says(words)


def test_a_bus_without_gnome_gets_one_later(desk):
    desk.says("GNOME Shell does not run")
    shell = desk.peer(SHELL, extension.NAME)
    desk.shows(lambda window: window == WINDOW)
    shell.close()
    desk.peers.clear()
    desk.says("GNOME Shell does not run")
    desk.peer(SHELL, extension.NAME)
    desk.shows(lambda window: window == WINDOW)


def test_a_locked_screen_tells_nothing_and_is_still_this_desktop(desk, shell):
    shell.answers["GetActive"] = ("b", [True])
    shell.request(SAVER)
    desk.says("the screen is locked")
    assert desk.reader.claims
    shell.release(extension.NAME)  # extensions are switched off on the lock screen
    asked = len(shell.calls)
    for _ in range(20):
        assert desk.poll() is None
    assert (desk.reader.reason, desk.reader.claims) == ("the screen is locked", True)
    assert "GetState" not in {member for member, _ in shell.calls[asked:]}
    shell.request(extension.NAME)
    shell.signal("ActiveChanged", "b", [False], interface=SAVER, path="/org/gnome/ScreenSaver")
    desk.shows(lambda window: window == WINDOW)
    shell.signal("ActiveChanged", "b", [True], interface=SAVER, path="/org/gnome/ScreenSaver")
    desk.says("the screen is locked")
    shell.release(SAVER)
    desk.shows(lambda window: window == WINDOW)


def test_a_shell_that_stands_still_is_asked_once(desk, shell):
    desk.shows(found)
    shell.answers["GetState"] = None
    until(lambda: desk.poll() and shell._silenced, "a question that is not answered")
    desk.now_ns += 6 * S_NS
    desk.says("does not answer")
    for _ in range(50):
        desk.now_ns += S_NS // 10
        desk.poll()
    assert len(shell._silenced) == 1
    shell.answers["GetState"] = ("a{sv}", [state(pid=9)])
    shell.speak_again()
    desk.shows(lambda window: window and window.pid == 9)


def test_a_shell_that_stands_still_is_asked_once_why_there_is_no_extension(desk):
    shell = desk.peer(SHELL)
    shell.answers["GetExtensionInfo"] = None
    until(lambda: desk.poll() or shell._silenced, "a question that is not answered")
    for _ in range(200):
        desk.now_ns += 30 * S_NS
        desk.poll()
    assert len(shell._silenced) == 1
    assert len(desk.reader._waiting) == 1
    shell.answers["GetExtensionInfo"] = ("a{sv}", [{}])
    shell.speak_again()
    desk.says("is not installed")


def test_questions_to_a_former_owner_are_dropped(desk):
    for _ in range(100):
        shell = desk.peer(SHELL, extension.NAME, SAVER)
        shell.answers = dict.fromkeys(("GetAll", "GetExtensionInfo", "GetActive"))
        until(lambda shell=shell: desk.poll() or len(shell._silenced) >= 2, "questions that are not answered")
        assert len(desk.reader._waiting) <= 5
        desk.peers.remove(shell)
        shell.close()
        desk.says("does not run")
    assert desk.reader._waiting == {}


def test_more_open_questions_than_any_honest_bus_leaves(desk, shell):
    desk.shows(found)
    shell.answers["GetActive"] = None
    desk.reader._waiting |= {-number: (SHELL, None) for number in range(64)}
    shell.request(SAVER)
    desk.says("64 questions")
    assert desk.reader._waiting == {}


def test_an_extension_that_fails_to_tell_its_version_is_asked_again(desk, shell):
    shell.answers["GetAll"] = ("error", "org.freedesktop.DBus.Error.NoReply")
    desk.says("GetAll: org.freedesktop.DBus.Error.NoReply")
    assert not desk.reader.claims
    shell.answers["GetAll"] = ("a{sv}", [private_bus.properties()])
    for _ in range(20):
        assert desk.poll() is None  # not in each tick
    desk.now_ns += 30 * S_NS
    desk.shows(lambda window: window == WINDOW)
    assert desk.reader.claims


def test_a_bus_that_goes_is_waited_for_ever_longer(desk, shell):
    desk.shows(found)
    desk.bus.stop()
    desk.says("the bus has gone")
    tries = []
    desk.reader._find = lambda: tries.append(desk.now_ns // S_NS) or desk.session
    for _ in range(200):
        desk.now_ns += S_NS
        assert desk.poll() is None
    assert "no session bus" in desk.reader.reason
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert gaps[:5] == [2, 4, 8, 16, 30]
    assert set(gaps[5:]) == {30}
    desk.bus.start()
    desk.peers.clear()
    desk.peer(SHELL, extension.NAME)
    desk.now_ns += 30 * S_NS
    desk.shows(lambda window: window == WINDOW)


def test_another_user_at_the_screen(desk, shell, tmp_path):
    desk.shows(found)
    (tmp_path / "other").mkdir()
    other = Desk(tmp_path / "other")
    try:
        other.peer(SHELL, extension.NAME).answers["GetState"] = ("a{sv}", [state(pid=11)])
        desk.session = other.session
        assert desk.poll().pid == 4242  # not looked at in each tick
        desk.now_ns += 30 * S_NS
        desk.says("another session")
        desk.now_ns += S_NS
        until(lambda: (desk.poll(), other.peers[0].pump(), desk.reader._window)[2], "the other desktop")
        assert desk.reader._window.pid == 11
    finally:
        other.close()


def test_signals_that_flood_are_not_listened_to_for_a_minute(desk, shell):
    desk.shows(found)
    flood(shell)
    desk.says("no signals for 60 s")
    desk.now_ns += S_NS
    desk.shows(lambda window: window == WINDOW)
    flood(shell)  # nobody is told: we go on
    for _ in range(20):
        assert desk.poll() == WINDOW
    desk.now_ns += 60 * S_NS
    desk.shows(lambda window: window == WINDOW)
    shell.answers["GetState"] = None
    until(lambda: desk.poll() and shell._silenced, "a question that is not answered")
    shell.signal("StateChanged", "a{sv}", [state(pid=4343)])
    desk.shows(lambda window: window and window.pid == 4343)


def flood(shell):
    shell.flood(500, lambda number: shell.signal("StateChanged", "a{sv}", [state(pid=number)]))


@pytest.mark.parametrize("what", ["many", "large"])
def test_whoever_floods_us_by_name_drives_us_away_for_a_minute(desk, shell, what):
    vandal = desk.peer()
    for words in ("no signals for 60 s", "away for 60 s"):
        desk.shows(found)
        us = [sender for member, sender in shell.calls if member == "GetState"][-1]
        count, load = (500, bytes(100)) if what == "many" else (1, bytes(200_000))
        vandal.flood(count, lambda _, us=us, load=load: vandal.call(us, "Hello", "ay", load))
        desk.says(words)
        desk.now_ns += S_NS
    assert desk.poll() is None
    assert "away" in desk.reader.reason
    desk.now_ns += 60 * S_NS
    desk.shows(lambda window: window == WINDOW)


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root: run the tests by sudo, or with CI=true"
)
def test_root_joins_the_bus_of_a_user_as_that_user():
    nobody = 65534
    place = Path(tempfile.mkdtemp())  # not in tmp_path, which is root's alone
    os.chown(place, nobody, nobody)
    bus = PrivateBus(place, uid=nobody)
    try:
        refused, theirs = reader_for(bus, 0), reader_for(bus, nobody)
        until(lambda: refused.poll() is None and "takes its own user only" in refused.reason, lambda: refused.reason)
        until(lambda: theirs.poll() is None and "does not run" in theirs.reason, lambda: theirs.reason)
        assert os.geteuid() == 0
        theirs.close()
    finally:
        bus.stop()
        shutil.rmtree(place)


def reader_for(bus, uid):
    session = Session(uid=uid, bus=bus.address, bus_uid=uid, display="", authorities=(), wayland=True)
    return GnomeReader(lambda: session, lambda: 0)
