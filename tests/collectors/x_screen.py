# SPDX-License-Identifier: GPL-2.0-only
"""X servers without a screen (Xvfb), with GTK windows on them."""

import os
import shutil
import struct
import subprocess
from contextlib import contextmanager

import pytest

from collectors.session import Session

PROGRAMS = ("Xvfb", "openbox", "xdotool", "xauth")
NEEDED = f"needs {', '.join(PROGRAMS)} and python3-gi with gir1.2-gtk-3.0; `asa lab setup --tests` installs them"
WINDOW = """
import sys, gi
gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk
GLib.set_prgname(sys.argv[1])
window = Gtk.Window(title=sys.argv[2])
window.set_wmclass(sys.argv[1], sys.argv[1].capitalize())
window.show_all()
if "fullscreen" in sys.argv:
    window.fullscreen()
Gtk.main()
"""


def session(number, authority=None, wayland=False):
    places = (authority,) if authority else ()
    return Session(uid=os.geteuid(), bus="", bus_uid=0, display=f":{number}", authorities=places, wayland=wayland)


class Screen:
    """An Xvfb that asks for a cookie; `start` and `stop` at will."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = folder / "cookies"
        self.number = None
        self.processes = []
        self.cookie = os.urandom(16).hex()

    def start(self):
        ends = os.pipe()
        command = ["Xvfb", *([] if self.number is None else [f":{self.number}"]), "-displayfd", str(ends[1])]
        command += ["-auth", str(self.authority), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
        if self.number is None:
            self.allow("")
        self.server = self.run(*command, pass_fds=(ends[1],))
        os.close(ends[1])
        with os.fdopen(ends[0]) as told:
            self.number = int(told.readline())
        self.allow(self.number)

    def allow(self, number):
        entry = struct.pack(">HH", 65535, 0)  # any host
        for text in (str(number).encode(), b"MIT-MAGIC-COOKIE-1", bytes.fromhex(self.cookie)):
            entry += struct.pack(">H", len(text)) + text
        self.authority.write_bytes(entry)

    def run(self, *command, **options):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "XAUTHORITY": str(self.authority)}
        environment |= {"DISPLAY": f":{self.number}", "GDK_BACKEND": "x11", "NO_AT_BRIDGE": "1", "LANG": "C.UTF-8"}
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        pdeath = ["setpriv", "--pdeathsig", "KILL", "--"]
        process = subprocess.Popen([*pdeath, *command], env=environment, **silent, **options)
        self.processes.append(process)
        return process

    def window(self, name, title, *more):
        return self.run("/usr/bin/python3", "-c", WINDOW, name, title, *more)

    def order(self, *words):
        self._xdotool(*words).check_returncode()

    def found(self, *words):
        """What xdotool says; "" where it found nothing."""
        return self._xdotool(*words).stdout

    def _xdotool(self, *words):
        environment = {"DISPLAY": f":{self.number}", "XAUTHORITY": str(self.authority)}
        command = ["xdotool", *words]
        return subprocess.run(command, env=os.environ | environment, check=False, capture_output=True, text=True)

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.processes.clear()


@contextmanager
def screens(folder, count=1):
    """So many of them, started; skips or fails where programs are missing."""
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if lacking and os.environ.get("CI") != "true":
        pytest.skip(f"not on PATH: {lacking}; {NEEDED}")
    assert not lacking, f"not on PATH: {lacking}; {NEEDED}"
    found = []
    try:
        for number in range(count):
            (folder / str(number)).mkdir()
            found.append(Screen(folder / str(number)))
            found[-1].start()
        yield found
    finally:
        for one in found:
            one.stop()
