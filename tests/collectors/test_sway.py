# SPDX-License-Identifier: GPL-2.0-only
"""The readers for sway, on a real sway without a screen, and for Hyprland on a socket; and on those that misbehave."""

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from collectors import hyprland, ipc, sway
from collectors.hyprland import HyprlandReader
from collectors.session import Session
from collectors.sway import SwayReader
from collectors.window import Window

S_NS = 1_000_000_000
NOBODY = 65534  # sway refuses to be root
PROGRAMS = ("sway", "swaymsg")
NEEDED = f"needs {', '.join(PROGRAMS)} and python3-gi with gir1.2-gtk-3.0; `asa lab setup --tests` installs them"
WINDOW = """
import sys, gi
gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk
GLib.set_prgname(sys.argv[1])
window = Gtk.Window(title=sys.argv[2])
window.show_all()
Gtk.main()
"""


class Compositor:
    """A real sway on a screen that is not there, with a runtime folder of its own; `show` opens a window."""

    def __init__(self, folder):
        self.uid = os.geteuid() or NOBODY
        self.runtime = folder / "run"
        self.runtime.mkdir(mode=0o700)
        self.config = folder / "config"
        self.config.write_text("xwayland disable\n")
        for path in (folder, self.runtime, self.config):
            os.chown(path, self.uid, -1)
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "WLR_BACKENDS": "headless",
            "WLR_RENDERER": "pixman",
            "WLR_LIBINPUT_NO_DEVICES": "1",
            "GDK_BACKEND": "wayland",
            "NO_AT_BRIDGE": "1",
            "LANG": "C.UTF-8",
        }
        self.log = folder / "log"
        self.processes = []
        self.server = self.run("sway", "--config", str(self.config))
        until(lambda: self.socket() and list(self.runtime.glob("wayland-?")), lambda: self.log.read_text()[-2000:])

    def socket(self):
        return next(self.runtime.glob("sway-ipc.*.sock"), None)

    def run(self, *command):
        with self.log.open("ab") as log:
            user = ["--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"] if os.geteuid() == 0 else []
            words = ["setpriv", *user, "--pdeathsig", "KILL", "--", *command]
            process = subprocess.Popen(words, env=self.environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def show(self, name, title):
        display = next(path.name for path in self.runtime.glob("wayland-?"))
        self.environment["WAYLAND_DISPLAY"] = display
        return self.run("/usr/bin/python3", "-c", WINDOW, name, title)

    def order(self, text):
        command = ["swaymsg", "--socket", str(self.socket()), text]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def session(runtime, uid=None):
    uid = os.geteuid() if uid is None else uid
    return Session(uid=uid, bus="", bus_uid=0, display="", authorities=(), wayland=True, runtime=Path(runtime))


@pytest.fixture
def compositor():
    if not all(map(shutil.which, PROGRAMS)):
        pytest.skip(NEEDED)
    with tempfile.TemporaryDirectory(prefix="asa-sway-") as folder:  # tmp_path is closed to others
        made = Compositor(Path(folder))
        yield made
        made.stop()


def test_the_focused_window_of_a_real_sway(compositor):
    reader = SwayReader(lambda: session(compositor.runtime, compositor.uid))
    empty = until(reader.poll, lambda: reader.reason)
    assert empty == Window(pid=None, fullscreen=False)
    assert (reader.claims, reader.reason) == (True, "")

    def shows(condition):
        return until(lambda: (window := reader.poll()) and condition(window) and window, lambda: f"{reader.poll()}")

    first = compositor.show("org.example.One", "Some page - Mozilla Firefox")
    seen = shows(lambda window: window.pid == first.pid)
    assert (seen.window_class, seen.title_class, seen.fullscreen) == ("org.example.One", "browser", False)
    assert set(reader.lacking) - {"desktop idle time"} == {"desktop input events"}
    if "ext_idle_notifier_v1" not in reader.lacking.get("desktop idle time", ""):  # sway 1.8 and newer
        assert shows(lambda window: (window.idle_ms or 0) > 1200)
    compositor.order("fullscreen enable")
    shows(lambda window: window.pid == first.pid and window.fullscreen)
    compositor.order("fullscreen disable")
    second = compositor.show("org.example.Two", "two")
    assert shows(lambda window: window.pid == second.pid).fullscreen is False
    compositor.order("workspace other")
    shows(lambda window: window.pid is None)
    compositor.server.terminate()
    compositor.server.wait()
    until(lambda: reader.poll() is None, "the end")
    assert "sway" in reader.reason
    assert not reader.claims
    reader.close()


class Server:
    """Listens where a compositor would; `say` answers each connection's question, or nothing comes."""

    def __init__(self, path, say):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        self.heard = []
        self.say = say
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                with connection:
                    while data := connection.recv(4096):
                        self.heard.append(data)
                        if self.say(connection) is None:
                            break

    def stop(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(10)


@pytest.fixture
def serve(tmp_path):
    made = []

    def start(name, say):
        made.append(Server(tmp_path / name, say))
        return made[-1]

    yield start
    for one in made:
        one.stop()


HYPRLAND = "hypr/abc_123/.socket.sock"


def active(**changes):
    body = {"address": "0x5", "pid": 42, "class": "kitty", "title": "~: vim", "fullscreen": 0, "workspace": {"id": 1}}
    return json.dumps(body | changes).encode()


@pytest.mark.parametrize(
    ("answer", "window"),
    [
        (active(), Window(pid=42, window_class="kitty", title_class="other", fullscreen=False)),
        (active(fullscreen=1), Window(pid=42, window_class="kitty", title_class="other", fullscreen=False)),
        (active(fullscreen=2), Window(pid=42, window_class="kitty", title_class="other", fullscreen=True)),
        (active(fullscreen=True), Window(pid=42, window_class="kitty", title_class="other", fullscreen=True)),
        (active(**{"class": "a\nb"}), Window(pid=42, title_class="other", fullscreen=False)),
        (b"{}", Window(pid=None, fullscreen=False)),
    ],
)
def test_the_active_window_of_hyprland(serve, tmp_path, answer, window):
    server = serve(HYPRLAND, lambda connection: connection.sendall(answer))
    reader = HyprlandReader(lambda: session(tmp_path))
    assert until(reader.poll, lambda: reader.reason) == window
    assert until(reader.poll, lambda: reader.reason) == window  # a connection of its own
    assert set(server.heard) == {b"j/activewindow"}
    reader.close()


def test_a_socket_that_was_left_behind_does_not_hide_the_one_in_use(serve, tmp_path):
    serve("hypr/new/.socket.sock", lambda connection: connection.sendall(active()))
    left = tmp_path / "hypr/old/.socket.sock"
    left.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(left))
    reader = HyprlandReader(lambda: session(tmp_path))
    assert until(reader.poll, lambda: reader.reason).pid == 42


def test_neither_runs(tmp_path):
    for kind, words in ((SwayReader, "sway does not run"), (HyprlandReader, "Hyprland does not run")):
        reader = kind(lambda: session(tmp_path))
        assert reader.poll() is None
        assert (reader.reason, reader.claims, reader.settled()) == (words, False, True)


def test_one_that_is_silent_is_unknown_and_costs_little(serve, tmp_path):
    serve("sway-ipc.0.1.sock", lambda _: True)
    now_ns = [S_NS]
    reader = SwayReader(lambda: session(tmp_path), lambda: now_ns[0])
    assert reader.poll() is None
    assert not reader.settled()
    now_ns[0] += 6 * S_NS
    assert reader.poll() is None
    assert reader.reason == "sway does not answer"
    reader.close()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        struct.pack("=6sII", b"i3-ipc", 1 << 30, 4),
        struct.pack("=6sII", b"i3-ipc", 2, 4) + b"[]",
        struct.pack("=6sII", b"i3-ipc", 1, 7) + b"1",
        struct.pack("=6sII", b"i3-ipc", 4000, 4) + b'{"nodes":[' * 400,
        struct.pack("=6sII", b"i3-ipc", 14, 4) + b'{"focused": 3}',
    ],
)
def test_one_that_lies_is_left_for_a_while(serve, tmp_path, said):
    server = serve("sway-ipc.0.1.sock", lambda connection: connection.sendall(said))
    now_ns = [S_NS]
    reader = SwayReader(lambda: session(tmp_path), lambda: now_ns[0])
    until(lambda: reader.poll() is None and reader.reason.startswith("sway: "), lambda: reader.reason)
    heard = len(server.heard)
    reader.poll()
    assert len(server.heard) == heard  # not before a second has passed


def test_a_flood_ends_the_connection(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(ipc, "LARGEST_ANSWER_BYTES", 1 << 16)

    def flood(connection):
        with contextlib.suppress(OSError):
            connection.sendall(bytes(1 << 20))

    serve(HYPRLAND, flood)
    reader = HyprlandReader(lambda: session(tmp_path))
    until(lambda: reader.poll() is None and "over 65536 bytes" in reader.reason, lambda: reader.reason)


def test_a_window_of_xwayland_and_one_that_floats():
    node = {"focused": True, "pid": 7, "app_id": None, "window_properties": {"class": "Steam"}, "fullscreen_mode": 2}
    tree = {"nodes": [{"nodes": [], "floating_nodes": [node]}]}
    window = sway.window_of(json.dumps(tree).encode())
    assert window == Window(pid=7, window_class="Steam", title_class="", fullscreen=True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: (
            st.lists(one) | st.dictionaries(st.sampled_from(["nodes", "pid", "focused", "class", "name", "title"]), one)
        ),
    )
)
def test_whatever_it_says_a_window_or_a_value_error_comes_out(value):
    text = json.dumps(value).encode()
    for read in (sway.window_of, hyprland.window_of):
        with contextlib.suppress(ValueError):
            assert isinstance(read(text), Window)
