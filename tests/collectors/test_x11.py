# SPDX-License-Identifier: GPL-2.0-only
"""The X11 reader on a real X server (Xvfb) with a window manager and GTK windows, and on servers that misbehave."""

import contextlib
import os
import socket
import statistics
import struct
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until
from x_screen import screens, session

from asa.core.errors import SourceError
from collectors import xprotocol as x
from collectors.session import Session
from collectors.x11 import MOST_NS, X11Reader

S_NS = 1_000_000_000


@pytest.fixture
def screen(tmp_path):
    with screens(tmp_path) as (only,):
        yield only


class Watcher:
    def __init__(self, find):
        self.now_ns = S_NS
        self.reader = X11Reader(find, lambda: self.now_ns)

    def shows(self, condition):
        told = lambda: f"{condition}; it says {self.reader.poll()} {self.reader.reason!r}"  # noqa: E731
        return until(lambda: (now := self.poll()) and condition(now) and now, told)

    def says(self, words):
        until(lambda: self.poll() is None and words in self.reader.reason, lambda: f"{words}: {self.reader.reason!r}")

    def poll(self):
        self.now_ns += S_NS // 20
        return self.reader.poll()


@pytest.fixture
def watcher(screen):
    watcher = Watcher(lambda: session(screen.number, screen.authority))
    yield watcher
    watcher.reader.close()


def test_windows_that_take_turns(screen, watcher):
    watcher.says("no window manager")
    screen.run("openbox")
    watcher.shows(lambda now: now.pid is None and now.fullscreen is False)
    notes = screen.window("notes", "shopping.txt")
    seen = watcher.shows(lambda now: now.pid == notes.pid)
    assert (seen.window_class, seen.title_class, seen.fullscreen) == ("Notes", "document", False)
    film = screen.window("film", "A film", "fullscreen")
    seen = watcher.shows(lambda now: now.pid == film.pid and now.fullscreen)
    assert (seen.window_class, seen.title_class) == ("Film", "other")
    film.kill()
    film.wait()
    watcher.shows(lambda now: now.pid == notes.pid and now.fullscreen is False)
    resting = watcher.shows(lambda now: now.idle_ms > 500)
    screen.order("mousemove", "5", "5", "mousemove", "90", "90")
    watcher.shows(lambda now: now.idle_ms < resting.idle_ms)
    assert (seen.app, seen.overview, seen.input_events) == ("", None, None)
    assert list(watcher.reader.lacking) == ["desktop input events"]


def test_a_server_that_is_killed_and_starts_again(screen, watcher):
    screen.run("openbox")
    watcher.shows(lambda now: now.fullscreen is False)
    screen.stop()
    until(lambda: watcher.poll() is None, "it is gone")
    assert not watcher.reader.claims
    screen.start()
    screen.run("openbox")
    watcher.shows(lambda now: now.fullscreen is False)


def test_without_the_cookie_the_server_refuses(screen, tmp_path):
    watcher = Watcher(lambda: session(screen.number, tmp_path / "none"))
    watcher.says("refuses us")
    assert "\n" not in watcher.reader.reason
    watcher.reader.close()


@pytest.mark.parametrize(
    ("display", "words"),
    [
        ("", "DISPLAY is not set"),
        ("laptop:10.0", "not on this machine"),
        (":x", "not on this machine"),
        (":65001", "no such"),
    ],
)
def test_displays_that_are_none_of_ours(display, words):
    place = Session(uid=0, bus="", bus_uid=0, display=display, authorities=(), wayland=False)
    reader = X11Reader(lambda: place, lambda: 0)
    assert reader.poll() is None
    assert words in reader.reason


def test_xwayland_is_not_asked():
    reader = X11Reader(lambda: session(1, wayland=True), lambda: 0)
    assert reader.poll() is None
    assert "Wayland" in reader.reason


class BadServer:
    """Listens where an X server does and sends `data` to whoever connects, then `more` for 10 s, without a pause."""

    def __init__(self, data, more=b""):
        self.more = more
        self.socket = socket.socket(socket.AF_UNIX)
        place = Path("/tmp/.X11-unix")  # noqa: S108
        place.mkdir(mode=0o1777, exist_ok=True)
        self.number = next(n for n in range(7001, 7999) if not (place / f"X{n}").exists())
        self.path = place / f"X{self.number}"
        self.socket.bind(str(self.path))
        self.socket.listen()
        self.connections = []
        threading.Thread(target=self._serve, args=(data,), daemon=True).start()

    def _serve(self, data):
        try:
            while True:
                connection, _ = self.socket.accept()
                self.connections.append(connection)
                connection.send(data)
                end_s = time.monotonic() + 10
                while self.more and time.monotonic() < end_s:
                    connection.send(self.more)
        except OSError:
            return

    def close(self):
        self.path.unlink()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


SETUP = (
    struct.pack("<BxHHH", 1, 11, 0, 10)
    + bytes(16)
    + struct.pack("<H2xBB", 0, 1, 0)
    + bytes(10)
    + b"\x07\0\0\0"
    + bytes(4)
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "does not answer"),
        (SETUP, "does not answer"),
        (SETUP + b"\1" + bytes(31) * 3, "a question that was not asked"),
        (SETUP + b"\1\0\1\0\xff\xff\xff\x7f" + bytes(24), "a reply of"),
        (b"\1" * 8, "X server"),
        (struct.pack("<BBHHH", 0, 4, 11, 0, 1) + b"no\nx", "refuses us: 'no"),
    ],
)
def test_servers_that_stand_still_or_lie(data, words):
    check(BadServer(data), words)


def test_a_server_that_sends_events_without_end():
    check(BadServer(SETUP, more=(b"\x0c" + bytes(31)) * 2048), "events, none asked for")


def check(server, words):
    watcher = Watcher(lambda: session(server.number))
    try:
        taken_ns = []
        end_s = time.monotonic() + 20
        while words not in watcher.reader.reason and time.monotonic() < end_s:
            start_ns = time.monotonic_ns()
            assert watcher.poll() is None
            taken_ns.append(time.monotonic_ns() - start_ns)
        assert words in watcher.reader.reason
        assert "\n" not in watcher.reader.reason
        if len(taken_ns) > 10:  # it waits for 2 ms; a busy machine holds up one now and then, not half of them
            assert statistics.median_low(taken_ns) < 50 * MOST_NS
    finally:
        watcher.reader.close()
        server.close()


@given(reply=st.binary(min_size=32, max_size=200))
def test_any_reply(reply):
    for parse in (x.atom_of, x.opcode_of, x.idle_of, x.client_pid_of, x.text_of, x.words_of, x.message_size):
        parse(reply)
    with contextlib.suppress(SourceError):
        x.setup_root(reply)


@given(data=st.binary(max_size=200))
def test_any_authority_file(data, tmp_path_factory):
    place = tmp_path_factory.getbasetemp() / "cookies"
    place.write_bytes(data)
    assert isinstance(x.cookie((place.with_name("none"), place), 0), bytes)


def test_authorities_that_are_no_files_are_passed_over(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "long").symlink_to("a" * 255 + "/b")
    (tmp_path / "good").write_bytes(b"".join(map(packed, (65535, b"", b"", b"MIT-MAGIC-COOKIE-1", b"key"))))
    odd = [tmp_path / "fifo", tmp_path, Path("/dev/zero"), tmp_path / "long", Path("a\0b"), Path("x" * 300)]
    found = []
    thread = threading.Thread(
        target=lambda: found.append(x.cookie((*odd, tmp_path / "good"), 0)), daemon=True
    )  # opening a FIFO to read waits for a writer
    thread.start()
    thread.join(20)
    assert found == [b"key"]


def packed(value):
    return struct.pack(">H", value) if isinstance(value, int) else struct.pack(">H", len(value)) + value


def test_no_home_is_looked_into_while_there_is_no_server(monkeypatch):
    asked = []
    monkeypatch.setattr(x, "cookie", lambda *_: asked.append(1) or b"")
    reader = X11Reader(lambda: session(65001), lambda: 0)
    assert reader.poll() is None
    assert "no such" in reader.reason
    assert not asked
    server = BadServer(SETUP)
    try:
        reader = X11Reader(lambda: session(server.number), lambda: 0)
        reader.poll()
        assert asked
    finally:
        reader.close()
        server.close()


@pytest.mark.parametrize(
    ("data", "left", "text"),
    [
        ("Grüße".encode(), 0, "Grüße"),
        ("Grüße".encode()[:3], 9, "Gr"),  # cut inside a character
        ("Grüße".encode("latin-1"), 0, "Grüße"),
        ("Grüße".encode("latin-1"), 9, "Grüße"),
        ("Gr\xfc".encode("latin-1"), 0, "Grü"),
    ],
)
def test_texts_whole_and_cut(data, left, text):
    reply = struct.pack("<BBHIIII12x", 1, 8, 0, 0, 0, left, len(data)) + data
    assert x.text_of(reply) == text


def test_a_long_title_keeps_its_end(screen, watcher):
    screen.run("openbox")
    watcher.shows(lambda now: now.fullscreen is False)
    browser = screen.window("thing", "x" * 3500 + " - Mozilla Firefox")
    assert watcher.shows(lambda now: now.pid == browser.pid).title_class == "browser"


def test_the_cookie_of_the_right_display(tmp_path):
    def entry(family, *texts):
        return struct.pack(">H", family) + b"".join(struct.pack(">H", len(text)) + text for text in texts)

    name = b"MIT-MAGIC-COOKIE-1"
    place = tmp_path / "cookies"
    place.write_bytes(
        entry(0, b"\x7f\0\0\1", b"3", name, b"remote")
        + entry(256, b"laptop", b"2", name, b"second")
        + entry(256, b"laptop", b"3", b"XDM-AUTHORIZATION-1", b"other")
        + entry(256, b"laptop", b"3", name, b"third")
        + entry(65535, b"", b"", name, b"any")
    )
    assert [x.cookie((place,), number) for number in (2, 3, 4)] == [b"second", b"third", b"any"]
    assert x.cookie((tmp_path / "none",), 2) == b""
