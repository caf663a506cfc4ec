# SPDX-License-Identifier: GPL-2.0-only
"""A real GNOME Shell without a screen, ASA's extension in it, and hands at its windows.

`GnomeShell` runs for as long as sessions are recorded: the collectors find it by its session bus. `GnomeDesk` is the
`Desk` of a driver there: Mutter's remote desktop types, clicks and scrolls. Programs have to speak Wayland. The two
buses know no service files, so nothing else is ever started.
"""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from asa.bus import BUS, Bus, BusError
from collectors.gnome import extension
from scenarios.crew import Crew
from scenarios.interactive.game_screen import ScreenError

PROGRAMS = ("gnome-shell", "dbus-daemon", "setpriv")
DESKTOP = "ASA_DESKTOP"
"""Environment variable: the folder of the shell that a driver's window belongs into."""
MONITOR = "1280x720"

BUS_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen>
<policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
</policy>
</busconfig>
"""
SETTINGS = """[org/gnome/shell]
enabled-extensions={enabled}
welcome-dialog-last-shown-version='99'
[org/gnome/desktop/session]
idle-delay=uint32 0
[org/gnome/desktop/interface]
enable-animations=false
enable-hot-corners=false
[org/gnome/desktop/background]
picture-uri=''
picture-uri-dark=''
"""

_SOCKET = "wayland-asa"
_SHELL = ("org.gnome.Shell", "/org/gnome/Shell", "org.gnome.Shell")
_PROPERTIES = "org.freedesktop.DBus.Properties"
_REMOTE = "org.gnome.Mutter.RemoteDesktop"
_START_LIMIT_S = 90.0
_ANSWER_LIMIT_S = 20.0  # a shell that draws in software beside a full load
_LOOK_S = 0.2
_LEAST_PIXELS = 100  # a side of a window that a person could look at
_LEFT_BUTTON = 0x110  # linux/input-event-codes.h
_VERTICAL = 0
_KEYSYMS = {  # X11/keysymdef.h
    "BackSpace": 0xFF08,
    "Tab": 0xFF09,
    "Return": 0xFF0D,
    "Escape": 0xFF1B,
    "Home": 0xFF50,
    "Left": 0xFF51,
    "Up": 0xFF52,
    "Right": 0xFF53,
    "Down": 0xFF54,
    "Page_Up": 0xFF55,
    "Page_Down": 0xFF56,
    "End": 0xFF57,
    "Delete": 0xFFFF,
    "space": 0x20,
    "shift": 0xFFE1,
    "ctrl": 0xFFE3,
    "alt": 0xFFE9,
    "super": 0xFFEB,
}
_IN_FRONT = """(() => {{
    const large = w => Math.min(w.get_frame_rect().width, w.get_frame_rect().height) >= {least};
    const all = global.get_window_actors().map(a => a.meta_window);
    const one = global.display.focus_window ?? all.filter(w => w.get_window_type() === 0).pop();
    if (!one || !large(one)) return false;
    if (one.get_window_type() === 0) {{
        if ({maximized} && one.can_maximize()) one.maximize(3);
        else if (one.allows_resize()) one.move_resize_frame(true, 0, 32, {width}, {height});
    }}
    one.activate(global.get_current_time());
    return global.display.focus_window === one;
}})()"""
_STARTED = "!Main.layoutManager._startingUp"
_OUT = "!Main.overview.visible && !Main.overview.visibleTarget"
_TITLE = "global.display.focus_window?.get_title() ?? ''"
_PLACES = """(() => {
    const frame = global.display.focus_window?.get_frame_rect();
    const [x, y] = global.get_pointer();
    return frame ? [frame.x - x, frame.y - y, frame.width, frame.height] : null;
})()"""


def version() -> str:
    """Of the installed gnome-shell, 43.9 for example. Raises OSError, CalledProcessError."""
    told = subprocess.run(["gnome-shell", "--version"], capture_output=True, text=True, check=True).stdout
    return told.split()[-1]


def listens(path: Path) -> bool:
    """Whether a connection is accepted: the socket is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def environment(home: Path, runtime: Path) -> dict[str, str]:
    """Of shell and programs in its session."""
    return {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CURRENT_DESKTOP": "GNOME",
        "XDG_SESSION_TYPE": "wayland",
        "XDG_SESSION_CLASS": "user",
        "WAYLAND_DISPLAY": _SOCKET,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
        "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={runtime}/system_bus",  # empty: no logind, no GDM
        "GSETTINGS_BACKEND": "keyfile",  # a plain file below home; dconf would need its service
        "GTK_A11Y": "none",
        "NO_AT_BRIDGE": "1",
        "LIBGL_ALWAYS_SOFTWARE": "1",
        "GSK_RENDERER": "cairo",
    }


def command(monitor: str) -> tuple[str, ...]:
    """The shell, with one monitor that nobody has; `--unsafe-mode` lets `Eval` through."""
    shown = ("--headless", "--virtual-monitor", monitor, "--wayland", "--wayland-display", _SOCKET)
    return ("gnome-shell", *shown, "--no-x11", "--unsafe-mode")


def make_home(home: Path, *, enabled: bool) -> None:
    """Settings, and the extension installed and enabled, if it is wanted."""
    settings = home / ".config/glib-2.0/settings/keyfile"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS.format(enabled=[extension.UUID] if enabled else "@as []"))
    if enabled:
        folder = home / ".local/share/gnome-shell/extensions" / extension.UUID
        folder.mkdir(parents=True)
        for name, text in extension.render(extension.format_for(int(version().partition(".")[0]))).items():
            (folder / name).write_text(text)


class GnomeShell:
    """A running shell below `folder`, which is the caller's to remove. `environment` is what collectors need."""

    def __init__(self, folder: Path, monitor: str = MONITOR) -> None:
        """Blocks until the extension answers. Raises ScreenError, OSError; nothing runs on then."""
        self.folder = folder
        runtime, home = folder / "run", folder / "home"
        runtime.mkdir(mode=0o700, parents=True)
        self._log = folder / "shell.log"
        self._crew = Crew()
        self._env = environment(home, runtime) | {"LC_ALL": "C.UTF-8", "DISPLAY": ""}
        self.environment: Mapping[str, str] = {
            "DBUS_SESSION_BUS_ADDRESS": self._env["DBUS_SESSION_BUS_ADDRESS"],
            DESKTOP: str(folder),
        }
        try:
            make_home(home, enabled=True)
            for name in ("bus", "system_bus"):
                config = folder / f"{name}.conf"
                config.write_text(BUS_CONFIG.format(path=runtime / name))
                self._launch("dbus-daemon", "--nofork", "--nopidfile", f"--config-file={config}")
                self._await(partial(listens, runtime / name), f"the {name.replace('_', ' ')} does not listen")
            self.pid = self._launch(*command(monitor)).pid
            bus = _open(runtime)
            try:
                self._await(lambda: _owned(bus, extension.NAME), "gnome-shell does not load ASA's extension")
                self._await(lambda: _owned(bus, _REMOTE), "gnome-shell has no remote desktop")
                self._await(lambda: _evaluated(bus, _STARTED) is True, "gnome-shell is still starting")
                away = (_SHELL[0], "OverviewActive", ("b", False))  # it takes the keys, and comes up by itself
                bus.ask(*_SHELL[:2], _PROPERTIES, "Set", "ssv", away, limit_s=_ANSWER_LIMIT_S)
                self._await(lambda: _evaluated(bus, _OUT) is True, "gnome-shell stays in its overview")
            finally:
                bus.close()
        except BusError as error:
            self.stop()
            raise ScreenError(f"GNOME Shell: {error}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End shell and buses. May be called again."""
        self._crew.end()

    def _launch(self, *argv: str) -> subprocess.Popen[bytes]:
        self._last = self._crew.launch(argv, cwd=self.folder, output=self._log, env=self._env)
        return self._last

    def _await(self, there: Callable[[], bool], complaint: str) -> None:
        deadline_s = time.monotonic() + _START_LIMIT_S
        while not there():
            if self._last.poll() is not None or time.monotonic() > deadline_s:
                said = self._log.read_text(errors="replace").strip()[-300:]
                raise ScreenError(f"{complaint}; it said: {said!r}")
            time.sleep(_LOOK_S)


class GnomeDesk:
    """Hands at the shell in `folder`. What they do arrives in order."""

    def __init__(self, folder: Path, *, size: str, maximized: bool) -> None:
        """`size` is of windows that are not maximized. Raises ScreenError."""
        runtime = folder / "run"
        width, height = (int(part) for part in size.split("x"))
        self._in_front = _IN_FRONT.format(
            least=_LEAST_PIXELS, maximized="true" if maximized else "false", width=width, height=height
        )
        self.environment: Mapping[str, str] = {
            "WAYLAND_DISPLAY": str(runtime / _SOCKET),
            "XDG_SESSION_TYPE": "wayland",
            "XDG_CURRENT_DESKTOP": "GNOME",
            "DISPLAY": "",
            "GDK_BACKEND": "wayland",
            "QT_QPA_PLATFORM": "wayland",
            "SDL_VIDEODRIVER": "wayland",
            "MOZ_ENABLE_WAYLAND": "1",
            "GTK_A11Y": "none",
        }
        self._bus = _open(runtime)
        self._session = "/"
        try:
            (self._session,) = self._ask(_REMOTE, "/org/gnome/Mutter/RemoteDesktop", _REMOTE, "CreateSession")
            self._hand("Start")
            # a device appears with its first event: before any window, which would miss what follows at once
            self._press(_keysym("shift"))
            self._hand("NotifyPointerMotionRelative", "dd", 1.0, 1.0)
        except BaseException:
            self._bus.close()
            raise

    def focus(self, limit_s: float) -> bool:
        """Wait until a window of some size is in front, where it is put; False after the limit."""
        begin_s = time.monotonic()
        while time.monotonic() - begin_s < limit_s:
            if self._eval(self._in_front) is True:
                return True
            time.sleep(_LOOK_S)
        return False

    def title(self) -> str:
        """Of the window in front."""
        return str(self._eval(_TITLE))

    def type(self, text: str) -> None:
        """Press the keys of a text."""
        for sign in text:
            self._press(_keysym("Return" if sign == "\n" else sign))

    def key(self, name: str) -> None:
        """Press one key."""
        self._press(*map(_keysym, name.split("+")))

    def click(self, x: float, y: float) -> None:
        """Move to a place of the window in front, and click: beside it, it would lose the focus."""
        places = self._eval(_PLACES)
        if places is None:
            return  # nobody is in front: somebody who clicks into the blue changes nothing
        left, top, width, height = places
        self._hand("NotifyPointerMotionRelative", "dd", left + x * width, top + y * height)
        for pressed in (True, False):
            self._hand("NotifyPointerButton", "ib", _LEFT_BUTTON, pressed)

    def scroll(self, notches: int) -> None:
        """Turn the wheel."""
        for _ in range(abs(notches)):
            self._hand("NotifyPointerAxisDiscrete", "ui", _VERTICAL, 1 if notches > 0 else -1)
            time.sleep(0.02)

    def stop(self) -> None:
        """Take the hands away; the shell stays."""
        self._bus.close()

    def _press(self, *keysyms: int) -> None:
        for keysym in keysyms:
            self._hand("NotifyKeyboardKeysym", "ub", keysym, True)
        for keysym in reversed(keysyms):
            self._hand("NotifyKeyboardKeysym", "ub", keysym, False)

    def _hand(self, member: str, signature: str = "", *body: object) -> None:
        self._ask(_REMOTE, self._session, f"{_REMOTE}.Session", member, signature, *body)

    def _eval(self, script: str) -> Any:
        try:
            return _evaluated(self._bus, script)
        except BusError as error:
            raise ScreenError(f"GNOME Shell: {error}; the desktop is gone, or it hangs") from error

    def _ask(self, name: str, path: str, interface: str, member: str, signature: str = "", *body: object) -> Any:
        try:
            return self._bus.ask(name, path, interface, member, signature, body, limit_s=_ANSWER_LIMIT_S)
        except BusError as error:
            raise ScreenError(f"GNOME Shell: {member}: {error}; the desktop is gone, or it hangs") from error


def _open(runtime: Path) -> Bus:
    try:
        return Bus.open(f"unix:path={runtime}/bus", _ANSWER_LIMIT_S)
    except BusError as error:
        raise ScreenError(f"{runtime}/bus: no GNOME Shell there: {error}") from error


def _evaluated(bus: Bus, script: str) -> Any:
    """What JavaScript inside the shell gives. None as well when it fails: parts of the shell come up late."""
    done, text = bus.ask(*_SHELL, "Eval", "s", (script,), limit_s=_ANSWER_LIMIT_S)
    return json.loads(text) if done and text else None


def _owned(bus: Bus, name: str) -> bool:
    return bool(bus.ask(*BUS, "NameHasOwner", "s", (name,), limit_s=_ANSWER_LIMIT_S)[0])


def _keysym(sign: str) -> int:
    if sign in _KEYSYMS:
        return _KEYSYMS[sign]
    if len(sign) != 1:
        raise ScreenError(f"{sign!r} is no key that is known here; add it to scenarios.programs.gnome")
    code = ord(sign)
    return code if code < 0x100 else 0x0100_0000 | code
