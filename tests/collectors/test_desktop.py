# SPDX-License-Identifier: GPL-2.0-only
"""Which reader speaks for the desktop, what a sample holds of it, and where the session is found."""

import contextlib
import gc
import os
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from private_bus import Peer, PrivateBus, state
from waiting import LIMIT_S, until

from asa.core.errors import SourceError
from asa.core.sample import DesktopState
from collectors import desktop, titles
from collectors.desktop import DesktopCollector
from collectors.gnome import extension
from collectors.session import acting_as, connected, find
from collectors.window import TITLE_CLASSES, Window

PROC = Path("/proc")


class Reader:
    """A DesktopReader that says what a test has put into it."""

    def __init__(self, name):
        self.name, self.window, self.reason, self.claims, self.lacking = name, None, f"no {name}", False, {}
        self.closed = 0

    def poll(self):
        return self.window

    def settled(self):
        return True

    def close(self):
        self.closed += 1


@pytest.fixture
def pair(monkeypatch, tmp_path):
    first, second = Reader("first"), Reader("second")
    monkeypatch.setattr(desktop, "READERS", (lambda *_: first, lambda *_: second))
    collector = DesktopCollector(PROC, tmp_path, environment={}, run=tmp_path)
    collector.open()
    yield collector, first, second
    collector.close()


def test_who_speaks_for_the_desktop(pair):
    collector, first, second = pair
    assert collector.lacking == {"desktop": "first: no first; second: no second"}
    with pytest.raises(SourceError, match="first: no first; second: no second"):
        collector.read()
    second.window = Window(pid=None, window_class="B")
    assert (collector.read()["desktop"].source, collector.source, collector.lacking) == ("second", "second", {})
    second.lacking = {"desktop input events": "not counted"}
    assert collector.lacking == second.lacking
    first.window = Window(pid=None, window_class="A")
    closed = second.closed
    assert collector.read()["desktop"].window_class == "A"
    collector.read()
    assert second.closed == closed + 1  # hung up, once
    first.window, first.claims, first.reason = None, True, "the screen is locked"
    with pytest.raises(SourceError, match=r"^desktop: first: the screen is locked$"):
        collector.read()  # whatever the second would say
    assert (collector.source, collector.lacking) == ("", {"desktop": "first: the screen is locked"})
    first.claims = False
    assert collector.read()["desktop"].source == "second"


def test_a_sample_with_the_focused_process(pair):
    collector, first, _ = pair
    told = {"app": "a", "window_class": "b", "title_class": "other", "idle_ms": 5, "input_events": 6}
    first.window = Window(pid=os.getpid(), fullscreen=True, overview=False, **told)
    seen = collector.read()["desktop"]
    assert seen.focus.group.startswith(f"pid:{os.getpid()}@")
    assert seen.focus.memory_bytes > 1_000_000
    assert seen == DesktopState(source="first", fullscreen=True, overview=False, focus=seen.focus, **told)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    first.window = Window(pid=None)
    assert collector.read()["desktop"].focus is None
    assert len(list(Path("/proc/self/fd").iterdir())) < descriptors


def test_gnome_is_found_through_the_environment_and_after_a_late_login(tmp_path):
    now_ns = [1]
    runtime = tmp_path / "run/user" / str(os.geteuid())
    runtime.mkdir(parents=True)
    collector = DesktopCollector(PROC, tmp_path, environment={}, run=tmp_path / "run", now_ns=lambda: now_ns[0])
    collector.open()
    assert "no session bus" in collector.lacking["desktop"]
    bus = PrivateBus(runtime)
    try:
        shell = Peer(bus, "org.gnome.Shell", extension.NAME)
        shell.answers["GetState"] = ("a{sv}", [state(pid=os.getpid())])
        now_ns[0] += 30_000_000_000
        seen = until(lambda: read(collector, shell), "GNOME's state")
        assert (seen.source, seen.app) == ("gnome", "org.gnome.Terminal.desktop")
        assert seen.focus.group.startswith(f"pid:{os.getpid()}@")
        shell.close()
    finally:
        collector.close()
        bus.stop()


def read(collector, peer):
    peer.pump()
    try:
        return collector.read()["desktop"]
    except SourceError:
        return None


def test_open_waits_for_an_answer_but_not_for_ever(tmp_path):
    bus = PrivateBus(tmp_path)
    shell = Peer(bus, "org.gnome.Shell", extension.NAME)  # it never answers: nobody pumps it
    try:
        environment = {"DBUS_SESSION_BUS_ADDRESS": bus.address, "XDG_SESSION_TYPE": "wayland"}
        collector = DesktopCollector(PROC, tmp_path, environment=environment, run=tmp_path)
        start_s = time.monotonic()
        collector.open()
        took_s = time.monotonic() - start_s
        assert "first answer" in collector.lacking["desktop"]
        assert 0.4 < took_s < LIMIT_S  # half a second; a busy machine may hold it up
        collector.close()
    finally:
        shell.close()
        bus.stop()


def login(run, *, uid, kind="wayland", display=""):
    for folder in ("seats", "sessions"):
        (run / "systemd" / folder).mkdir(parents=True, exist_ok=True)
    (run / "systemd/seats/seat0").write_text(f"# private\nIS_SEAT0=1\nACTIVE=c2\nACTIVE_UID={uid}\nSESSIONS=c2 7\n")
    (run / "systemd/sessions/c2").write_text(f"UID={uid}\nUSER=someone\nTYPE={kind}\nDISPLAY={display}\nACTIVE=1\n")


def test_the_session_of_an_ordinary_user(tmp_path):
    environment = {
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x/bus",
        "DISPLAY": ":3",
        "HOME": "/home/me",
        "XAUTHORITY": "/k",
    }
    seen = find(environment, tmp_path, 1000)
    assert (seen.uid, seen.bus, seen.bus_uid, seen.display, seen.wayland) == (
        1000,
        "unix:path=/x/bus",
        1000,
        ":3",
        False,
    )
    places = [Path("/k"), tmp_path / "user/1000/gdm/Xauthority", Path("/home/me/.Xauthority")]
    assert list(seen.authorities) == places
    assert find({"WAYLAND_DISPLAY": "wayland-0"}, tmp_path, 1000).wayland
    assert find({"XDG_RUNTIME_DIR": "/r"}, tmp_path, 1000).bus == "unix:path=/r/bus"
    login(tmp_path, uid=1001, kind="x11", display=":9")  # somebody else is at the screen
    assert (find({}, tmp_path, 1000).display, find({}, tmp_path, 1001).display) == ("", ":9")


def test_root_looks_at_who_called_sudo_or_sits_at_the_seat(tmp_path):
    assert find({}, tmp_path, 0).bus == f"unix:path={tmp_path}/user/0/bus"
    login(tmp_path, uid=1000, kind="x11", display=":1")
    seat = find({"HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/0"}, tmp_path, 0)
    assert (seat.uid, seat.bus_uid, seat.display, seat.wayland) == (1000, 1000, ":1", False)
    assert seat.bus == f"unix:path={tmp_path}/user/1000/bus"
    assert Path("/root/.Xauthority") not in seat.authorities
    sudo = find({"SUDO_UID": "1001"}, tmp_path, 0)
    assert (sudo.uid, sudo.display) == (1001, "")
    for odd in ("", "-1", "4294967295", "99999999999", "٣", "root"):
        assert find({"SUDO_UID": odd}, tmp_path, 0).uid == 1000


def test_an_address_in_the_environment_is_joined_as_its_owner(tmp_path):
    place = tmp_path / "bus"
    place.touch()
    seen = find({"SUDO_UID": "1001", "DBUS_SESSION_BUS_ADDRESS": f"unix:path={place},guid=1"}, tmp_path, 0)
    assert (seen.uid, seen.bus_uid) == (1001, os.geteuid())


@pytest.mark.parametrize(
    ("environment", "kind", "stale", "wayland"),
    [
        ({}, "x11", True, False),  # a compositor that crashed left its file
        ({}, "wayland", False, True),
        ({"XDG_SESSION_TYPE": "tty"}, "x11", True, False),
        ({"XDG_SESSION_TYPE": "tty"}, "wayland", False, True),
        ({"XDG_SESSION_TYPE": "x11"}, "wayland", True, False),
        ({"XDG_SESSION_TYPE": "tty"}, "tty", True, True),
        ({"XDG_SESSION_TYPE": "tty", "WAYLAND_DISPLAY": "wayland-1"}, "tty", False, True),
        ({"XDG_SESSION_TYPE": "x11", "WAYLAND_DISPLAY": "wayland-1"}, "tty", False, False),
        ({}, "tty", False, False),
    ],
)
def test_wayland_or_not(tmp_path, environment, kind, stale, wayland):
    login(tmp_path, uid=1000, kind=kind)
    if stale:
        (tmp_path / "user/1000").mkdir(parents=True)
        (tmp_path / "user/1000/wayland-0").touch()
    assert find(environment, tmp_path, 0).wayland is wayland


def test_a_runtime_folder_that_cannot_be_looked_at(tmp_path):
    (tmp_path / "long").mkdir()
    (tmp_path / "long/wayland-0").symlink_to("a" * 300)
    (tmp_path / "closed").mkdir(mode=0)
    for odd in ("long", "closed", "x" * 300, "a\0b", "\udcff"):
        with acting_as(65534):  # root may look anywhere
            assert not find({"XDG_RUNTIME_DIR": str(tmp_path / odd)}, tmp_path, 65534).wayland


VARIABLES = [
    *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "HOME", "SUDO_UID", "WAYLAND_DISPLAY"),
    *("XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE"),
]
ODD = [
    *("", "\0", "\udcff", "x" * 5000, "/dev/zero", "0", "1000", "x11", "tty", ":65001", ":65001.0", ";;", "٣", "-1"),
    *("unix:path", "unix:path=\0", "unix:path=/dev/null", "unix:path=" + "x" * 200, "unix:abstract=%00%ff"),
]
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(ODD))
KINDS = st.sampled_from(["none", "file", "folder", "long", "loop"])


@settings(max_examples=150, deadline=None)
@given(
    environment=st.dictionaries(st.sampled_from(VARIABLES), TEXTS),
    seat=st.one_of(st.binary(max_size=40), st.sampled_from([b"ACTIVE=c2\nACTIVE_UID=1000\n"])),
    session=st.one_of(
        st.binary(max_size=40), TEXTS.map(lambda text: f"UID=1000\nDISPLAY={text}".encode("utf8", "replace"))
    ),
    kinds=st.tuples(KINDS, KINDS, KINDS),
)
def test_whatever_the_machine_holds_only_a_source_error_comes_out(environment, seat, session, kinds):
    with tempfile.TemporaryDirectory() as place:
        run = Path(place)
        login(run, uid=1000)
        (run / "systemd/seats/seat0").write_bytes(seat)
        (run / "systemd/sessions/c2").write_bytes(session)
        for uid in {0, 1000, os.geteuid()}:
            for name, kind in zip(("wayland-0", "bus", "gdm"), kinds, strict=True):
                make(run / "user" / str(uid) / name, kind)
        collector = DesktopCollector(PROC, run, environment=environment, run=run)
        collector.open()
        with contextlib.suppress(SourceError):
            msgspec.msgpack.encode(collector.read()["desktop"])
        assert not any("\n" in why for why in collector.lacking.values())
        msgspec.msgpack.encode(collector.lacking)
        collector.close()


def make(path, kind):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind != "none":
        path.symlink_to("a" * 300 if kind == "long" else path.name)


@pytest.mark.parametrize(
    "text", ["", "ACTIVE", "ACTIVE=../../../etc\nACTIVE_UID=x", "\0\0", "ACTIVE=a/b\nACTIVE_UID=5"]
)
def test_odd_files_of_logind(tmp_path, text):
    login(tmp_path, uid=1000)
    (tmp_path / "systemd/seats/seat0").write_text(text)
    assert find({}, tmp_path, 0).display == ""


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root: run the tests by sudo, or with CI=true"
)
def test_acting_as_another_user_ends_whatever_happens(tmp_path):
    def fails():
        with acting_as(65534):
            assert os.geteuid() == 65534
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert os.geteuid() == 0
    (tmp_path / "closed").mkdir(mode=0o700)
    with pytest.raises(PermissionError):
        connected([str(tmp_path / "closed/bus")], 65534)
    assert os.geteuid() == 0


def test_connecting_to_what_is_no_socket(tmp_path):
    for names in ([], ["a\0b"], ["x" * 200], [str(tmp_path)]):
        with pytest.raises(OSError, match=r".+"):
            connected(names, os.geteuid())


def test_a_failed_connection_leaves_no_garbage(tmp_path):
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            with contextlib.suppress(OSError):
                connected([str(tmp_path / "none"), "a\0b"], os.geteuid())
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("", ""),
        ("Issue 3 - Mozilla Firefox", "browser"),
        ("me@laptop: ~/work", "terminal"),
        ("main.py - asa", "document"),
        ("Calculator", "other"),
        ("x" * 10_000_000 + " - Chromium", "browser"),
    ],
)
def test_classes_of_titles(title, kind):
    assert titles.class_of(title) == kind
    assert kind in TITLE_CLASSES
