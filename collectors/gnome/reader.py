# SPDX-License-Identifier: GPL-2.0-only
"""GNOME: the window in front, as the Shell's own extension tells it on the session bus, each tick.

A question (GetState) goes out in one tick and its answer is taken in the next, so idle time and input counts are those
of the tick before; a change of focus comes as a signal (StateChanged) and is as new as the tick. Whatever is missing is
waited for: no bus, no Shell, no extension or another version of it, a locked screen, a Shell that stands still, a peer
that floods or lies. `reason` says which; it all comes back without a restart.

The bus's names: org.gnome.Shell and org.gnome.ScreenSaver are GNOME Shell's own (js/ui/shellDBus.js,
js/ui/screenShield.js), the third is the extension's (collectors/gnome/extension).
"""

from collections.abc import Callable
from typing import Any

from jeepney import DBusAddress, HeaderFields, MessageFlag, MessageType, new_method_call

from asa.bus import BUS, Arrival, BusError, Stream
from asa.core.errors import SourceError
from collectors.gnome.extension import API_VERSION, NAME, OBJECT_PATH, UUID
from collectors.procfs.reader import reason_of
from collectors.session import Session, connected, unix_addresses
from collectors.window import TITLE_CLASSES, Window, name_of

_SHELL, _SHELL_PATH = "org.gnome.Shell", "/org/gnome/Shell"
_SAVER, _SAVER_PATH = "org.gnome.ScreenSaver", "/org/gnome/ScreenSaver"
_WATCHED = (_SHELL, NAME, _SAVER)

_S_NS = 1_000_000_000
_FIRST_RETRY_NS = 1 * _S_NS
_LAST_RETRY_NS = 30 * _S_NS  # a desktop that comes after the agent is seen this much later at most
_UNANSWERED_NS = 5 * _S_NS  # the Shell is one thread: what it has not answered by then, it stands still
_QUIET_NS = 60 * _S_NS  # without signals after a flood, and away from the bus after another
_LOOK_AGAIN_NS = 30 * _S_NS  # for another user at the screen, and at an extension that is not there

_LONGEST_BYTES = 1 << 14  # of a message: a state has 0.4 KB, what the Shell says of an extension 2 KB
_MOST_MESSAGES = 64  # a tick has an answer or two and at most 10 signals (the extension coalesces them)
_MOST_WAITING = 64  # questions under way; five at once is the most that an honest bus leaves open

_KEYS = {  # of GetState and StateChanged (core.js.in, _state): D-Bus type
    "pid": "u",
    "app": "s",
    "window-class": "s",
    "title-class": "s",
    "client": "s",
    "sandboxed-app": "s",
    "fullscreen": "b",
    "overview": "b",
    "idle-ms": "t",
    "input-events": "t",
}
_LARGEST_COUNT = (1 << 63) - 1  # what the journal holds
_SHELL_STATES = {  # ExtensionState of js/misc/extensionUtils.js
    2: "is off: disabled, or the screen is locked",
    4: "does not fit this GNOME Shell; run `asa gnome install`",
    6: "is not enabled; run `asa gnome install`",
    99: "is not installed; run `asa gnome install`",
}


class _FloodError(SourceError):
    """The peers sent more than anybody who means well does; the connection is of no use any more."""


class GnomeReader:
    """The DesktopReader for GNOME Shell. `find` says where the session is now, `now_ns` is CLOCK_MONOTONIC."""

    name = "gnome"

    def __init__(self, find: Callable[[], Session], now_ns: Callable[[], int]) -> None:
        self.reason = "not asked yet"
        self.shell_version = ""
        self._find = find
        self._now_ns = now_ns
        self._session: Session | None = None
        self._connection: Stream | None = None
        self._retry_ns = _FIRST_RETRY_NS
        self._retry_at_ns = 0
        self._signals_from_ns = 0  # when StateChanged may be listened to
        self._asked_ns: int | None = None  # when the question under way went out
        self._listens = False  # to StateChanged
        self._forget()

    @property
    def claims(self) -> bool:
        """True while an extension of our version is there, or the screen is locked."""
        ours = self._api == API_VERSION or (self._api is None and not self._fault)
        return self._locked or (bool(self._owners[NAME]) and ours)

    @property
    def lacking(self) -> dict[str, str]:
        """The key that counts input, where the extension found no way to."""
        if self._window is not None and self._window.input_events is None:
            return {"desktop input events": "this GNOME Shell's extension cannot count them"}
        return {}

    def poll(self) -> Window | None:
        """The newest state. Never raises."""
        now_ns = self._now_ns()
        try:
            window = self._turn(now_ns)
        except SourceError as error:
            self._lost(error, now_ns)
            window = None
        except (BusError, ValueError) as error:  # ValueError: a body of other bytes than its signature says
            self._lost(SourceError(source="desktop", reason=f"session bus: {error}{self._hint()}"), now_ns)
            window = None
        if window is not None:
            self.reason = ""
        return window

    def settled(self) -> bool:
        """False while an answer is awaited."""
        return self._connection is None or not self._waiting

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._forget()
        self._retry_at_ns = 0

    def _turn(self, now_ns: int) -> Window | None:
        if self._connection is None:
            if now_ns >= self._retry_at_ns:
                self._connect(now_ns)
            return None
        self._receive(self._connection)
        if now_ns >= self._look_at_ns:
            self._look_again(now_ns)
        if not self._listens and now_ns >= self._signals_from_ns:
            self._listens = True
            self._listen_to(f"type='signal',sender='{NAME}',interface='{NAME}',member='StateChanged'")
        serves = self._owners[NAME] and self._api == API_VERSION and not self._locked
        if serves and self._asked_ns is None:  # one question at a time: a Shell that stands still gets no queue
            self._ask(NAME, OBJECT_PATH, NAME, "GetState", self._take_state)
            self._asked_ns = now_ns
        self._connection.flush()
        trouble = self._trouble(now_ns)
        if trouble:
            self.reason = trouble
            return None
        if self._window is None:
            self.reason = "the extension's first answer is awaited"
        return self._window

    def _receive(self, connection: Stream) -> None:
        # nothing is ever answered, whoever calls us
        for count, arrival in enumerate(connection.receive(), 1):
            self._welcomed = True
            if not arrival.data:
                raise _FloodError(source="desktop", reason=f"a message of over {_LONGEST_BYTES} bytes")
            if count > _MOST_MESSAGES:
                raise _FloodError(source="desktop", reason=f"over {_MOST_MESSAGES} messages in one tick")
            self._take(arrival)
        if connection.behind:
            raise _FloodError(source="desktop", reason="more bytes than a tick takes")

    def _hint(self) -> str:
        # dbus-daemon says OK to whoever proves who they are, and hangs up if it is not its own user
        if self._welcomed or self._session is None:
            return ""
        return f", on user {self._session.bus_uid}; a bus takes its own user only"

    def _trouble(self, now_ns: int) -> str:
        if self._owners[_SHELL] is None:
            return "the session bus was asked for GNOME Shell"
        if not self._owners[_SHELL]:
            return "GNOME Shell does not run on this session bus"
        if self._locked:
            return "the screen is locked"
        if not self._owners[NAME]:
            return f"GNOME Shell's extension {UUID} {self._extension}"
        if self._api not in {None, API_VERSION}:
            return f"extension {UUID} speaks version {self._api!r}, we {API_VERSION}; run `asa gnome install`"
        if self._stands_still(now_ns):
            return "GNOME Shell does not answer"
        return self._fault

    def _stands_still(self, now_ns: int) -> bool:
        return self._asked_ns is not None and now_ns - self._asked_ns > _UNANSWERED_NS

    def _connect(self, now_ns: int) -> None:
        session = self._find()
        try:
            stream = connected(unix_addresses(session.bus), session.bus_uid)
        except OSError as error:
            reason = f"no session bus at {session.bus!r}: {reason_of(error)}"
            raise SourceError(source="desktop", reason=reason) from error
        connection = self._connection = Stream.over(stream, session.bus_uid, _LONGEST_BYTES)
        self._session = session
        self._call(*BUS, "Hello")
        self._look_at_ns = now_ns + _LOOK_AGAIN_NS
        rules = [f"type='signal',sender='{BUS[0]}',member='NameOwnerChanged',arg0='{name}'" for name in _WATCHED]
        rules.append(f"type='signal',sender='{_SAVER}',interface='{_SAVER}',member='ActiveChanged'")
        for rule in rules:
            self._listen_to(rule)
        for name in _WATCHED:
            self._ask(*BUS, "GetNameOwner", self._owner_taker(name), name)
        connection.flush()
        self.reason = self._trouble(now_ns)

    def _lost(self, error: SourceError, now_ns: int) -> None:
        from_bus = self._connection is not None
        self.close()
        self.reason = error.reason
        self._retry_at_ns = now_ns + self._retry_ns
        self._retry_ns = min(2 * self._retry_ns, _LAST_RETRY_NS)
        if not from_bus:
            return
        if isinstance(error, _FloodError):
            # A new connection begins with an empty queue. If it is not the signals that flood, stay away altogether.
            again = now_ns < self._signals_from_ns
            self.reason = f"flooded by the session bus: {error.reason}; {'away' if again else 'no signals'} for 60 s"
            self._signals_from_ns = now_ns + _QUIET_NS
            self._retry_at_ns = now_ns + (_QUIET_NS if again else _FIRST_RETRY_NS)

    def _forget(self) -> None:
        self._owners: dict[str, str | None] = dict.fromkeys(_WATCHED)  # "" nobody, None not known yet
        self._waiting: dict[int, tuple[str, Callable[[Arrival], None]]] = {}  # whom was asked, who takes the answer
        self._extension = "is asked for"
        self._api: int | None = None
        self._locked = False
        self._fault = ""
        self._window: Window | None = None
        self._asked_ns = None
        self._look_at_ns = 0
        self._listens = False
        self._welcomed = False  # the bus has sent a message

    def _call(self, destination: str, path: str, interface: str, member: str, *texts: str) -> int:
        """Queue a method call; it never starts a service. Gives its serial, 0 without a connection."""
        if self._connection is None:
            return 0
        call = new_method_call(DBusAddress(path, destination, interface), member, "s" * len(texts) or None, texts)
        call.header.flags |= MessageFlag.no_auto_start
        return self._connection.send(call)

    def _ask(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        take: Callable[[Arrival], None],
        *texts: str,
    ) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            raise SourceError(source="desktop", reason=f"session bus: {_MOST_WAITING} questions without an answer")
        self._waiting[self._call(destination, path, interface, member, *texts)] = destination, take

    def _was_asked(self, name: str) -> bool:
        return any(destination == name for destination, _ in self._waiting.values())

    def _listen_to(self, rule: str) -> None:
        self._call(*BUS, "AddMatch", rule)

    def _look_again(self, now_ns: int) -> None:
        self._look_at_ns = now_ns + _LOOK_AGAIN_NS
        if self._session != self._find():
            raise SourceError(source="desktop", reason="another session is at the screen now")
        if self._owners[NAME]:
            if self._api is None and not self._was_asked(NAME):
                self._ask_properties()
        elif self._owners[_SHELL]:
            self._ask_extension()

    def _take(self, message: Arrival) -> None:
        member, sender = message.field(HeaderFields.member), message.field(HeaderFields.sender)
        if message.kind in {MessageType.method_return, MessageType.error}:
            _, take = self._waiting.pop(message.field(HeaderFields.reply_serial), ("", None))
            if take is not None:
                take(message)
        elif message.kind is not MessageType.signal:
            return
        elif member == "NameOwnerChanged" and sender == BUS[0] and message.signature == "sss":
            name, _, owner = message.body()
            if name in self._owners:
                self._owned(name, owner)
        elif member == "ActiveChanged" and sender == self._owners[_SAVER]:
            self._take_lock(message)
        elif member == "StateChanged" and sender == self._owners[NAME]:
            self._take_window(message)

    def _owner_taker(self, name: str) -> Callable[[Arrival], None]:
        def take(message: Arrival) -> None:
            known = message.signature == "s" and message.kind is not MessageType.error
            self._owned(name, message.body()[0] if known else "")
            self._retry_ns = _FIRST_RETRY_NS  # a bus that answers is a good one

        return take

    def _owned(self, name: str, owner: str) -> None:
        # a name changed hands: whatever the former owner said is void
        if self._owners[name] == owner and owner:
            return
        self._owners[name] = owner
        self._waiting = {serial: asked for serial, asked in self._waiting.items() if asked[0] != name}
        if name == NAME:
            self._api, self._window, self._asked_ns, self._fault = None, None, None, ""
            if owner:
                self._ask_properties()
            elif self._owners[_SHELL]:
                self._ask_extension()
        elif name == _SHELL and owner and not self._owners[NAME]:
            self._ask_extension()
        elif name == _SAVER:
            self._locked = False
            if owner:
                self._ask(_SAVER, _SAVER_PATH, _SAVER, "GetActive", self._take_lock)

    def _ask_properties(self) -> None:
        properties = "org.freedesktop.DBus.Properties"
        self._ask(NAME, OBJECT_PATH, properties, "GetAll", self._take_properties, NAME)

    def _ask_extension(self) -> None:
        if self._was_asked(_SHELL):
            return  # a Shell that stands still gets no queue
        take = self._take_extension
        self._ask(_SHELL, _SHELL_PATH, "org.gnome.Shell.Extensions", "GetExtensionInfo", take, UUID)

    def _take_extension(self, message: Arrival) -> None:
        info = message.body()[0] if message.signature == "a{sv}" and message.kind is not MessageType.error else None
        if info is None:
            self._extension = "is not loaded, and the Shell does not say why"
        elif not info:
            self._extension = "is not installed, or not since the last login; run `asa gnome install`"
        else:
            state, error = info.get("state"), info.get("error")
            number: Any = state[1] if state is not None and state[0] in {"d", "u", "i"} else None
            words = error[1] if error is not None and error[0] == "s" else ""
            why = f"failed: {words[:120]!r}" if number == 3 else f"is in state {number!r}"
            self._extension = _SHELL_STATES.get(number, why)

    def _take_properties(self, message: Arrival) -> None:
        if message.kind is MessageType.error:  # it may only be busy: asked again with the next look
            self._fault = f"extension {UUID}: GetAll: {message.field(HeaderFields.error_name)}"
            return
        self._fault = ""
        values = message.body()[0] if message.signature == "a{sv}" else {}
        version, shell = values.get("ApiVersion"), values.get("ShellVersion")
        self._api = version[1] if version is not None and version[0] == "u" else 0
        self.shell_version = name_of(shell[1]) if shell is not None and shell[0] == "s" else ""

    def _take_lock(self, message: Arrival) -> None:
        self._locked = message.signature == "b" and message.kind is not MessageType.error and bool(message.body()[0])
        if self._locked:
            self._window = None

    def _take_state(self, message: Arrival) -> None:
        self._asked_ns = None
        if message.kind is MessageType.error:
            self._fault = f"extension {UUID}: GetState: {message.field(HeaderFields.error_name)}"
        else:
            self._take_window(message)

    def _take_window(self, message: Arrival) -> None:
        try:
            self._window = _understood(message)
        except ValueError as error:
            self._fault = f"extension {UUID}: {error}; run `asa gnome install`"
            self._window = None
        else:
            self._fault = ""


def _understood(message: Arrival) -> Window:
    # out of a state; ValueError says what is wrong with it
    if message.signature != "a{sv}":
        raise ValueError(f"a state of type {message.signature!r}, not 'a{{sv}}'")
    state: dict[str, Any] = {}
    for key, (given, value) in message.body()[0].items():
        kind = _KEYS.get(key)
        if kind is None:
            continue  # of a newer extension with the same ApiVersion
        if given != kind:
            raise ValueError(f"{key} of type {given!r}, not {kind!r}")
        state[key] = value
    if "pid" not in state:
        raise ValueError("a state without pid")
    title_class = state.get("title-class", "")
    if title_class not in TITLE_CLASSES:
        raise ValueError(f"title-class {title_class[:40]!r}, which is none")
    return Window(
        pid=state["pid"] or None,
        app=name_of(state.get("sandboxed-app", "")) or name_of(state.get("app", "")),
        window_class=name_of(state.get("window-class", "")),
        title_class=title_class,
        fullscreen=state.get("fullscreen"),
        overview=state.get("overview"),
        idle_ms=_count(state.get("idle-ms")),
        input_events=_count(state.get("input-events")),
    )


def _count(value: int | None) -> int | None:
    return value if value is None or value <= _LARGEST_COUNT else None
