# SPDX-License-Identifier: GPL-2.0-only
"""KDE Plasma on Wayland: the DesktopReader that loads a script into KWin, and hears what it tells over the session bus.

KWin's own interface has no question for the active window, so a script asks inside it (focus.js) and calls us at each
change: org.kde.kwin.Scripting (KWin's src/scripting). What anybody but KWin says is not heard. Of the title its class
alone is kept. The script lies in the user's runtime folder, and is unloaded when we end; the next agent unloads one
that was left. On X11 the X server is asked instead (collectors.x11).
"""

import os
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from asa.bus import BUS, Bus, BusError, CallError, Method, Object, Request, Stream
from asa.core.errors import SourceError
from collectors import titles
from collectors.procfs.reader import reason_of
from collectors.session import Session, Watch, acting_as, connected, unix_addresses
from collectors.wayland import IdleWatch
from collectors.window import Window, name_of

KWIN = "org.kde.KWin"
SCRIPT = "asa-focus"
"""The script's name in KWin, and that of its file in the user's runtime folder, with `.js`."""

PATH, INTERFACE = "/org/asa/Focus", "org.asa.Focus"
_SCRIPTING = (KWIN, "/Scripting", "org.kde.kwin.Scripting")
_SOURCE = "desktop"
_LONGEST_BYTES = 1 << 14  # of a message: one of the script has 0.3 KB, and 4 KB with the longest title


class _Told(msgspec.Struct):
    pid: int = 0
    app: str = ""  # desktopFileName
    window_class: str = ""
    title: str = ""
    fullscreen: bool = False


_TOLD = msgspec.json.Decoder(_Told)


class KwinReader:
    """The DesktopReader for KWin. `find` tells the session, `now_ns` is CLOCK_MONOTONIC."""

    name = "kwin"

    def __init__(self, find: Callable[[], Session], now_ns: Callable[[], int]) -> None:
        self.reason = "not asked yet"
        self._watch, self._now_ns = Watch(find), now_ns
        self._idle = IdleWatch(now_ns)
        self._bus: Bus | None = None
        self._stream: Stream | None = None
        self._forget()

    @property
    def claims(self) -> bool:
        """True while the script tells."""
        return self._window is not None

    @property
    def lacking(self) -> dict[str, str]:
        """What neither a script of KWin nor its Wayland socket tells."""
        return self._idle.lacking("KWin")

    def poll(self) -> Window | None:
        """The newest state. Never raises."""
        now_ns = self._now_ns()
        try:
            self._turn(now_ns)
        except (SourceError, BusError, OSError, ValueError) as error:
            self.close()
            words = reason_of(error) if isinstance(error, OSError) else str(error)
            self.reason = error.reason if isinstance(error, SourceError) else f"session bus: {words}"
            self._watch.failed(now_ns)
        if self._window is None:
            return None
        self.reason = ""
        self._watch.served()
        return self._idle.beside(self._window, self._watch.session)

    def settled(self) -> bool:
        """False while KWin, or whether it is there, is asked for."""
        return self._bus is None or (self._owner is not None and (not self._owner or not self._loading))

    def close(self) -> None:
        """Unload the script and hang up."""
        if self._bus is not None:
            if self._owner:
                self._unload(self._bus)
            self._bus.close()
        self._bus = self._stream = None
        self._remove()
        self._idle.close()
        self._forget()
        self._watch.anew()

    def _forget(self) -> None:
        self._owner: str | None = None  # of KWin's name; "" nobody, None not known yet
        self._ours = ""  # our name on this bus
        self._loading = self._refused = False
        self._window: Window | None = None

    def _turn(self, now_ns: int) -> None:
        if self._bus is None or self._stream is None:
            if self._watch.may_try(now_ns):
                self._connect(now_ns)
            return
        self._bus.advance()
        if self._stream.behind:
            raise BusError("more bytes than a tick takes")
        self._watch.check(now_ns)
        if self._refused and self._watch.may_try(now_ns):
            self._load()

    def _connect(self, now_ns: int) -> None:
        session = self._watch.find()
        if not session.wayland:
            raise SourceError(source=_SOURCE, reason="no Wayland session; on X11 the X server is asked")
        stream = connected(unix_addresses(session.bus), session.bus_uid)
        self._stream = Stream.over(stream, session.bus_uid, _LONGEST_BYTES)
        bus = self._bus = Bus(self._stream)
        self._watch.took(session, now_ns)
        bus.send(*BUS, "Hello", then=self._named)
        bus.serve(Object(path=PATH, interface=INTERFACE, methods={"Tell": Method(takes="s", run=self._hear)}))
        bus.watch_name(KWIN, self._owned)
        self.reason = "the session bus was asked for KWin"

    def _named(self, answer: tuple[Any, ...] | CallError) -> None:
        self._ours = str(answer[0]) if isinstance(answer, tuple) and answer else ""

    def _owned(self, owner: str) -> None:
        if owner == self._owner:
            return
        self._owner, self._window = owner, None
        self.reason = "KWin's script is awaited" if owner else "KWin does not run on this session bus"
        self._refused = False
        if owner:
            self._load()

    def _load(self) -> None:
        if self._bus is not None and self._watch.session is not None:
            self._loading, self._refused = True, False
            self._unload(self._bus)
            path = str(self._write(self._watch.session))
            self._bus.send(*_SCRIPTING, "loadScript", "ss", (path, SCRIPT), then=self._loaded, starts=False)

    def _loaded(self, answer: tuple[Any, ...] | CallError) -> None:
        self._loading = False
        if isinstance(answer, CallError) or not answer or not isinstance(answer[0], int) or answer[0] < 0:
            self.reason = f"KWin refuses the script {SCRIPT}: {answer}"
            self._refused = True  # one that starts has its name before it takes scripts
            self._watch.failed(self._now_ns())
        elif self._bus is not None:
            self._bus.send(*_SCRIPTING, "start", starts=False)

    def _unload(self, bus: Bus) -> None:
        try:
            bus.send(*_SCRIPTING, "unloadScript", "s", (SCRIPT,), starts=False)
        except BusError:
            return  # the bus is gone, and KWin with it

    def _hear(self, request: Request) -> None:
        if request.sender != self._owner:
            request.fail("org.freedesktop.DBus.Error.AccessDenied", "KWin alone tells what is in front")
            return
        request.answer()
        try:
            told = _TOLD.decode(request.body[0])
        except ValueError:
            return  # a script of another version
        if told.pid <= 0:
            self._window = Window(pid=None, fullscreen=False)
            return
        self._window = Window(
            pid=told.pid,
            app=name_of(told.app),
            window_class=name_of(told.window_class),
            title_class=titles.class_of(told.title),
            fullscreen=told.fullscreen,
        )

    def _write(self, session: Session) -> Path:
        # as the user, whose folder it is: nothing of others is written to, whatever lies there
        if session.runtime is None:
            raise SourceError(source=_SOURCE, reason="no runtime folder for KWin's script")
        text = files("collectors.kwin").joinpath("focus.js").read_text(encoding="utf-8").replace("@NAME@", self._ours)
        path = session.runtime / f"{SCRIPT}.js"
        with acting_as(session.uid):
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def _remove(self) -> None:
        session = self._watch.session
        if session is None or session.runtime is None:
            return
        try:
            with acting_as(session.uid):
                (session.runtime / f"{SCRIPT}.js").unlink(missing_ok=True)
        except OSError:
            return  # the folder went with the session
