# SPDX-License-Identifier: GPL-2.0-only
"""The reader for KWin on a real kwin_wayland without a screen, with real windows."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from private_bus import PrivateBus
from waiting import until

from collectors.kwin.reader import KwinReader
from collectors.session import Session

LIMIT_S = 40.0
S_NS = 1_000_000_000
NOBODY = 65534  # KWin refuses to be root
WINDOW = """
import sys, gi
gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk
GLib.set_prgname(sys.argv[1])
window = Gtk.Window(title=sys.argv[2])
window.show_all()
if "fullscreen" in sys.argv:
    window.fullscreen()
Gtk.main()
"""


class Plasma:
    """KWin on a screen that is not there, on a session bus of its own."""

    def __init__(self, folder):
        self.uid = os.geteuid() or NOBODY
        self.folder = folder
        os.chown(folder, self.uid, -1)
        folder.chmod(0o700)
        self.bus = PrivateBus(folder, self.uid)
        self.log = folder / "log"
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "DBUS_SESSION_BUS_ADDRESS": self.bus.address,
            "KWIN_COMPOSE": "Q",  # it paints without a GPU
            "GDK_BACKEND": "wayland",
            "WAYLAND_DISPLAY": "wayland-asa",
            "NO_AT_BRIDGE": "1",
            "LANG": "C.UTF-8",
        }
        self.processes = []
        shutil.copy(
            shutil.which("kwin_wayland"), folder / "kwin_wayland"
        )  # without its capability, which no container gives
        self.run(str(folder / "kwin_wayland"), "--virtual", "--no-lockscreen", "--socket", "wayland-asa")
        until((folder / "wayland-asa").exists, lambda: self.log.read_text()[-2000:], limit_s=LIMIT_S)
        self.now_ns = S_NS
        self.reader = KwinReader(self.session, lambda: self.now_ns)

    def session(self):
        where = {"bus": self.bus.address, "bus_uid": self.uid, "runtime": self.folder}
        return Session(uid=self.uid, display="", authorities=(), wayland=True, **where)

    def run(self, *command):
        with self.log.open("ab") as log:
            user = ["--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"] if os.geteuid() == 0 else []
            words = ["setpriv", *user, "--pdeathsig", "KILL", "--", *command]
            process = subprocess.Popen(words, env=self.environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def window(self, *words):
        return self.run("/usr/bin/python3", "-c", WINDOW, *words)

    def poll(self):
        self.now_ns += S_NS // 10
        return self.reader.poll()

    def shows(self, condition):
        told = lambda: f"it says {self.poll()} {self.reader.reason!r}; {self.log.read_text()[-2000:]}"  # noqa: E731
        return until(lambda: (now := self.poll()) and condition(now) and now, told, limit_s=LIMIT_S)

    def stop(self):
        self.reader.close()
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.bus.stop()


@pytest.fixture
def plasma():
    if shutil.which("kwin_wayland") is None:
        pytest.skip("needs kwin_wayland; `asa lab setup --tests` installs it")
    with tempfile.TemporaryDirectory(prefix="asa-kwin-") as folder:  # tmp_path is closed to others
        made = Plasma(Path(folder))
        yield made
        made.stop()


def test_windows_that_take_turns(plasma):
    plasma.shows(lambda now: now.pid is None)
    notes = plasma.window("org.example.Notes", "shopping.txt")
    seen = plasma.shows(lambda now: now.pid == notes.pid)
    assert (seen.title_class, seen.fullscreen) == ("document", False)
    film = plasma.window("org.example.Film", "A film", "fullscreen")
    plasma.shows(lambda now: now.pid == film.pid and now.fullscreen)
    film.kill()
    film.wait()
    plasma.shows(lambda now: now.pid == notes.pid and now.fullscreen is False)
    plasma.shows(lambda now: (now.idle_ms or 0) > 1200)
