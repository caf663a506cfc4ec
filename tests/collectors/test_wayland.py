# SPDX-License-Identifier: GPL-2.0-only
"""The idle time by a compositor's word: on a stand-in that speaks the protocol, and on what speaks none."""

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import wayland
from collectors.session import Session
from collectors.wayland import IDLE_MS, IdleWatch, message, split

S_NS = 1_000_000_000
NOTIFIER = "ext_idle_notifier_v1"


class Compositor:
    """Listens as wayland-0. Its globals are a seat and, unless `version` is 0, the notifier."""

    def __init__(self, folder, version=2):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "wayland-0"))
        self.listener.listen()
        (folder / "wayland-0.lock").touch()
        self.globals = [(1, "wl_compositor", 4), (2, "wl_seat", 7)] + ([(3, NOTIFIER, version)] if version else [])
        self.now_ns = S_NS
        self.session = Session(
            uid=os.geteuid(), bus="", bus_uid=0, display="", authorities=(), wayland=True, runtime=folder
        )
        self.watch = IdleWatch(lambda: self.now_ns)

    def poll(self, after_s=0.0):
        self.now_ns += round(after_s * S_NS)
        return self.watch.poll(self.session)

    def greet(self):
        """Answer the first two requests; what comes then."""
        assert self.poll() is None
        self.line, _ = self.listener.accept()
        self.line.settimeout(10)
        assert self.heard() == [(1, 1, b"\2\0\0\0"), (1, 0, b"\3\0\0\0")]
        self.tell(*(message(2, 0, *one) for one in self.globals), message(3, 0, 5), message(1, 1, 3))
        assert self.poll() is None

    def heard(self):
        return split(self.line.recv(4096))[0]

    def tell(self, *messages):
        self.line.sendall(b"".join(messages))


@pytest.fixture
def make(tmp_path):
    made = []

    def compositor(*given):
        made.append(Compositor(tmp_path, *given))
        return made[-1]

    yield compositor
    for one in made:
        one.watch.close()
        one.listener.close()


@pytest.mark.parametrize(("version", "request_"), [(1, 1), (2, 2), (3, 2)])
def test_what_is_asked_for(make, version, request_):
    compositor = make(version)
    compositor.greet()
    bound, notifier, asked = compositor.heard()
    assert bound == (2, 0, b"\2\0\0\0\x08\0\0\0wl_seat\0\1\0\0\0\4\0\0\0")
    assert notifier[2][-8:] == bytes([min(version, 2), 0, 0, 0, 5, 0, 0, 0])
    assert asked == (5, request_, b"\6\0\0\0" + IDLE_MS.to_bytes(4, "little") + b"\4\0\0\0")


def test_the_idle_time_grows_until_somebody_is_there(make):
    compositor = make()
    compositor.greet()
    assert compositor.poll(0.5) is None  # nobody knows yet
    assert compositor.watch.reason == "told a second after the start"
    compositor.tell(message(6, 0))
    assert compositor.poll(0.6) == IDLE_MS
    assert compositor.poll(2.0) == IDLE_MS + 2000
    assert compositor.watch.reason == ""
    compositor.tell(message(6, 1))
    assert (compositor.poll(1.0), compositor.poll(5.0)) == (0, 0)
    compositor.tell(message(6, 0)[:5])
    assert compositor.poll() == 0  # half a message
    compositor.tell(message(6, 0)[5:], message(6, 1), message(6, 0))
    assert compositor.poll() == IDLE_MS


def test_somebody_who_is_there_from_the_start(make):
    compositor = make()
    compositor.greet()
    assert compositor.poll(1.5) == 0


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (bytes(8), "no Wayland compositor"),
        (message(1, 0, 5, 2, "invalid"), "the compositor ended it"),
        (message(2, 0), "no Wayland compositor"),
        (b"", "hung up"),
    ],
)
def test_one_that_lies_or_goes_is_left_for_a_while(make, said, reason):
    compositor = make()
    compositor.greet()
    compositor.heard()
    compositor.tell(said)
    if not said:
        compositor.line.close()
    assert compositor.poll(2.0) is None
    assert reason in compositor.watch.reason
    compositor.listener.setblocking(False)
    assert compositor.poll(10.0) is None
    with pytest.raises(BlockingIOError):
        compositor.listener.accept()
    assert compositor.poll(30.0) is None
    compositor.listener.accept()


def test_without_the_protocol_and_without_a_compositor(make, tmp_path):
    compositor = make(0)
    compositor.greet()
    assert compositor.watch.reason == f"this compositor has no {NOTIFIER}"
    (tmp_path / "empty").mkdir()
    watch = IdleWatch()
    assert watch.poll(None) is None
    nowhere = Session(uid=0, bus="", bus_uid=0, display="", authorities=(), wayland=True, runtime=tmp_path / "empty")
    assert watch.poll(nowhere) is None
    assert watch.reason == "no Wayland compositor listens in the runtime folder"


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_a_value_error(data):
    try:
        found, rest = split(data)
    except ValueError:
        return
    assert sum(8 + len(body) for _, _, body in found) + len(rest) == len(data)
    assert wayland.split(rest) == ([], rest)
