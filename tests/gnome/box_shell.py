# SPDX-License-Identifier: GPL-2.0-only
"""A GNOME Shell without a screen as a user of a box has it: in a session that logind knows, on that user's own bus.

What is typed, focused and shown is real, as in `headless`; only the box's system bus and the user's services are new.
Call `prepare` before the user logs in.
"""

import json
import shutil
import subprocess
from pathlib import Path

import headless
from buses import Bus
from waiting import until

from collectors.gnome.extension import UUID
from scenarios.lab.box import root as box_root
from scenarios.lab.box.machine import end

SERVICES = ("org.freedesktop.PackageKit", "org.gnome.Shell.CalendarServer", "org.gnome.Shell.Screencast")
"""What the shell would have the buses start and does without: an emulated guest has better to do."""

_WINDOW = "opt/window.py"  # in the box: users of it may not be let into the folder of the tests
_BUS_RULES = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><policy context="default"><allow user="root"/></policy></busconfig>
"""
_SETTINGS = """[org/gnome/shell]
welcome-dialog-last-shown-version='99'
[org/gnome/desktop/session]
idle-delay=uint32 0
[org/gnome/desktop/interface]
enable-animations=false
[org/gnome/desktop/background]
picture-uri=''
picture-uri-dark=''
"""
_NOTES = "JSON.stringify(Main.messageTray.getSources().flatMap(s => s.notifications.map(n => n.title)))"


def prepare(box):
    """Let the test, which is root, on to the buses of users; no `SERVICES`."""
    (box.path / "etc/dbus-1/session-local.conf").write_text(_BUS_RULES)
    for folder in (box.path / "usr/share/dbus-1/services", box.path / "usr/share/dbus-1/system-services"):
        for name in SERVICES:
            (folder / f"{name}.service").unlink(missing_ok=True)
    shutil.copy(Path(headless.__file__).with_name("window.py"), box.path / _WINDOW)


def give(box, user, path, text):
    """A file of a user's, with the folders above it; `path` is below the user's home."""
    owner, home = box_root.USERS[user], box.path / "home" / user
    target = home / path
    for folder in reversed([one for one in target.parents if home in one.parents and not one.exists()]):
        folder.mkdir(mode=0o700)
        shutil.chown(folder, owner, owner)
    target.write_text(text)
    shutil.chown(target, owner, owner)


class BoxShell(headless.HeadlessShell):
    """The shell of a `session` of `box`; `folder` takes what programs print. ASA's extension is not installed by it."""

    MONITOR = "640x480"

    def __init__(self, box, session, folder):
        self.folder = folder
        self.home = box.path / "home" / session.user
        self.runtime = box.path / "run/user" / str(box_root.USERS[session.user])
        self.address = f"unix:path={self.runtime}/bus"
        self.env = {
            "XDG_CURRENT_DESKTOP": "GNOME",
            "XDG_SESSION_CLASS": "user",
            "WAYLAND_DISPLAY": "wayland-asa",
            "GSETTINGS_BACKEND": "keyfile",  # a plain file below home; dconf would need its service
            "GTK_A11Y": "none",
            "NO_AT_BRIDGE": "1",
            "LIBGL_ALWAYS_SOFTWARE": "1",
            "GALLIUM_DRIVER": "softpipe",  # compiles nothing: an emulated guest is at it for longer than it then draws
            "GSK_RENDERER": "cairo",
        }
        self.extension_folder = self.home / ".local/share/gnome-shell/extensions" / UUID
        self.shell = self.bus = None
        self._box, self._session = box, session
        self._processes = []
        self._remote = None
        give(box, session.user, ".config/glib-2.0/settings/keyfile", _SETTINGS)

    def start(self, answers_within_s=headless.LIMIT_S):
        """The shell alone: the user's bus is there. Returns once our extension answers, where that is installed."""
        self.bus = Bus(self.address)
        self.start_shell(answers_within_s)
        return self

    def open_window(self, title="Untitled", app_id="org.asa.Test", *, wait=True):
        """A real GTK 4 window, on the screen and focused when this returns (unless `wait` is False)."""
        command = ["/usr/bin/python3", f"/{_WINDOW}", app_id, title]
        window = headless.Window(self._spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE), app_id)
        if wait:
            window.said("shown")
            pids = ["pgrep", "--full", "--uid", self._session.user, f"^{' '.join(command)}$"]
            window.pid = int(self._box.run(pids, check=True).stdout)  # as the box counts
            self.focus(window)
        return window

    def notes(self):
        """The headings of all notifications that the shell keeps."""
        return json.loads(json.loads(self.eval(_NOTES)))

    def notified(self, heading):
        """Wait until the shell has a notification of this heading."""
        until(lambda: heading in self.notes(), lambda: f"{heading!r} among the notifications {self.notes()}")

    def _spawn(self, command, **more):
        log = self.folder / f"{Path(command[0]).name}-{len(self._processes)}.log"
        with log.open("wb") as output:
            options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **more}
            process = self._box.spawn(command, session=self._session, env=self.env, **options)
        self._processes.append(process)
        return process

    @staticmethod
    def _end(process):
        end(process)
