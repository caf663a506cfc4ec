# SPDX-License-Identifier: GPL-2.0-only
"""A real GNOME Shell without a screen, a graphics card, X or logind, on buses and in a home of its own.

`HeadlessShell` starts and stops it, opens real windows in it and types into them. The two buses know no service files,
so nothing but what is asked for here is ever started; the kernel ends each process when the test's process dies
(setpriv --pdeathsig), and `stop` ends them before.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from pathlib import Path

from buses import Bus, CallError
from dbus_fast import Variant
from waiting import LIMIT_S, until

from collectors.gnome import extension
from scenarios.programs import gnome
from scenarios.programs.gnome import PROGRAMS, listens

__all__ = ["KEYS", "LIMIT_S", "NEEDED", "PROGRAMS", "HeadlessShell", "Window", "listens"]

NEEDED = "needs gnome-shell, dbus-daemon and python3-gi with gir1.2-gtk-4.0; `asa lab setup --tests` installs them"
KEYS = {
    key: code
    for codes, first in (("qwertyuiop", 16), ("asdfghjkl", 30), ("zxcvbnm", 44))
    for code, key in enumerate(codes, first)
}
KEYS |= {" ": 57, "\n": 28, "shift": 42, "alt": 56, "super": 125}  # linux/input-event-codes.h
_REMOTE = "org.gnome.Mutter.RemoteDesktop"


class Window:
    """A real window of a process of its own."""

    def __init__(self, process, app_id):
        self.process = process
        self.pid = process.pid
        self.app_id = app_id
        self.lines = deque(maxlen=1000)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def said(self, line, limit_s=LIMIT_S):
        """Wait until it has printed `line`."""
        until(lambda: line in self.lines, f"{line!r} from the window; it said {list(self.lines)}", limit_s)

    def order(self, line):
        """fullscreen, unfullscreen, or title TEXT."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def close(self):
        """End the process; its window goes with it."""
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


class HeadlessShell:
    """A GNOME Shell below `folder`, with our extension installed and enabled unless told not to.

    `env` is the environment of programs in its session, `address` its session bus, `home` and `runtime` its folders.
    """

    MONITOR = "1280x720"

    def __init__(self, folder, *, with_extension=True):
        self.folder = Path(folder)
        self.home = self.folder / "home"
        self.runtime = self.folder / "run"
        self.address = f"unix:path={self.runtime}/bus"
        for place in (self.home, self.runtime):
            place.mkdir(mode=0o700, parents=True)
        self.env = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            **gnome.environment(self.home, self.runtime),
        }
        self.extension_folder = self.home / ".local/share/gnome-shell/extensions" / extension.UUID
        gnome.make_home(self.home, enabled=with_extension)
        self.shell = None
        self.bus = None
        self._processes = []
        self._remote = None

    @staticmethod
    def major():
        """Of the installed gnome-shell, 43 for example."""
        return int(gnome.version().partition(".")[0])

    def start(self, answers_within_s=LIMIT_S):
        """Buses and shell; returns once our extension answers (or the shell, without it), out of the overview."""
        for name in ("bus", "system_bus"):
            config = self.folder / f"{name}.conf"
            config.write_text(gnome.BUS_CONFIG.format(path=self.runtime / name))
            self._spawn([shutil.which("dbus-daemon"), "--nofork", "--nopidfile", f"--config-file={config}"])
            until(lambda name=name: listens(self.runtime / name), f"{name} listens")
        self.bus = Bus(self.address)
        self.start_shell(answers_within_s)
        return self

    def start_shell(self, answers_within_s=LIMIT_S):
        """The shell alone, after `kill_shell`."""
        (self.runtime / "wayland-asa").unlink(missing_ok=True)
        (self.runtime / "wayland-asa.lock").unlink(missing_ok=True)
        self.shell = self._spawn(gnome.command(self.MONITOR))
        until(lambda: self._alive() and self.owns("org.gnome.Shell"), "org.gnome.Shell on the bus")
        until(lambda: self._quietly("Main.layoutManager._startingUp") == "false", "the shell is up")
        self.set_overview(False)
        self._plug_in()
        if self.extension_folder.exists():
            until(lambda: self.owns(extension.NAME), "our extension on the bus", answers_within_s)

    def kill_shell(self):
        """As a crash would: SIGKILL. Windows of before lose their connection and end."""
        self._end(self.shell)

    def stop(self):
        """End everything; never fails."""
        if self.bus is not None:
            self.bus.close()
        for process in reversed(self._processes):
            self._end(process)

    def owns(self, name):
        """Whether somebody on the session bus has `name`."""
        return self.bus.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner", "s", name
        )[0]

    def eval(self, script):
        """JavaScript inside the shell; the result as the shell prints it (JSON). Raises CallError."""
        done, text = self.bus.call("org.gnome.Shell", "/org/gnome/Shell", "org.gnome.Shell", "Eval", "s", script)
        if not done:
            raise CallError(text)
        return text

    def state(self):
        """GetState of our extension: key -> value. Raises CallError while it is not there."""
        return {key: value.value for key, value in self.raw_state().items()}

    def raw_state(self):
        """The same with the D-Bus types: key -> Variant."""
        return self.bus.call(extension.NAME, extension.OBJECT_PATH, extension.NAME, "GetState")[0]

    def extensions(self, member, *arguments):
        """Call org.gnome.Shell.Extensions: EnableExtension, DisableExtension, GetExtensionInfo."""
        interface = "org.gnome.Shell.Extensions"
        arguments = arguments or (extension.UUID,)
        return self.bus.call("org.gnome.Shell", "/org/gnome/Shell", interface, member, "s", *arguments)[0]

    def disable_extension(self):
        """As the Extensions application does; returns when its name has left the bus."""
        self.extensions("DisableExtension")
        until(lambda: not self.owns(extension.NAME), "our extension is gone")

    def enable_extension(self):
        """The opposite."""
        self.extensions("EnableExtension")
        until(lambda: self.owns(extension.NAME), "our extension is back")

    def lock(self):
        """What the shell does to extensions when the screen is locked: it enters the lock screen's session mode.

        The real lock screen exists under GDM and logind only.
        """
        self.eval("Main.sessionMode.pushMode('unlock-dialog')")
        until(lambda: not self.owns(extension.NAME), "our extension is switched off")

    def unlock(self):
        """The opposite."""
        self.eval("Main.sessionMode.popMode('unlock-dialog')")
        until(lambda: self.owns(extension.NAME), "our extension is back")

    def set_overview(self, shown):
        """Show or hide the overview, and wait for it."""
        self.bus.call(
            "org.gnome.Shell", "/org/gnome/Shell", "org.freedesktop.DBus.Properties", "Set", "ssv",
            "org.gnome.Shell", "OverviewActive", Variant("b", shown),
        )  # fmt: skip
        want = "true,true" if shown else "false,false"
        script = "`${Main.overview.visible},${Main.overview.visibleTarget}`"
        until(lambda: self.eval(script) == f'"{want}"', f"overview {'shown' if shown else 'hidden'}")

    def open_window(self, title="Untitled", app_id="org.asa.Test", *, wait=True):
        """A real GTK 4 window, on the screen and focused when this returns (unless `wait` is False)."""
        command = ["/usr/bin/python3", str(Path(__file__).with_name("window.py")), app_id, title]
        process = self._spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        window = Window(process, app_id)
        if wait:
            window.said("shown")
            self.focus(window)
        return window

    def focus(self, window):
        """Give it the focus, and wait until it has it."""
        one = f"global.get_window_actors().map(a => a.meta_window).find(w => w.get_pid() === {window.pid})"
        until(lambda: self.eval(f"!!{one}") == "true", "the shell knows the window")
        self.eval(f"{one}.activate(global.get_current_time())")
        until(lambda: self.eval(f"global.display.focus_window === {one}") == "true", "the window has the focus")

    def type_keys(self, text):
        """Press and release keys of a keyboard, for each character of `text` (a-z, blank, newline) one."""
        for character in text:
            self._key(KEYS[character])

    def move_pointer(self, times=1, step=1.0):
        """Move the pointer `times` times by `step` pixels, to and fro."""
        for turn in range(times):
            self._inject("NotifyPointerMotionRelative", "dd", step if turn % 2 else -step, 0.0)

    def click(self):
        """Press and release the left button where the pointer is."""
        for pressed in (True, False):
            self._inject("NotifyPointerButton", "ib", 0x110, pressed)  # BTN_LEFT

    def log(self):
        """What the shell printed."""
        return (self.folder / f"gnome-shell-{self._processes.index(self.shell)}.log").read_text()

    def _key(self, code):
        for pressed in (True, False):
            self._inject("NotifyKeyboardKeycode", "ub", code, pressed)

    def _inject(self, member, signature, *body):
        self.bus.call(_REMOTE, self._remote, f"{_REMOTE}.Session", member, signature, *body)

    def _plug_in(self):
        # The input devices of a remote desktop session: what the shell gets are ordinary events of a device. A device
        # appears with its first event, so they come before any window, which would miss what follows at once.
        until(lambda: self.owns(_REMOTE), f"{_REMOTE} on the bus")
        (self._remote,) = self.bus.call(_REMOTE, "/org/gnome/Mutter/RemoteDesktop", _REMOTE, "CreateSession")
        self.bus.call(_REMOTE, self._remote, f"{_REMOTE}.Session", "Start")
        self._key(KEYS["shift"])
        self.move_pointer()

    def _quietly(self, script):
        try:
            return self.eval(script)
        except CallError:
            return ""

    def _alive(self):
        assert self.shell.poll() is None, f"gnome-shell ended with {self.shell.returncode}:\n{self.log()[-3000:]}"
        return True

    def _spawn(self, command, **more):
        log = self.folder / f"{Path(command[0]).name}-{len(self._processes)}.log"
        with log.open("wb") as output:
            options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **more}
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                env=self.env, cwd="/", start_new_session=True, **options,
            )  # fmt: skip
        self._processes.append(process)
        return process

    @staticmethod
    def _end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a session of its own: its children go too
        process.wait()
