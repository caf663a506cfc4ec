# SPDX-License-Identifier: GPL-2.0-only
"""Where the person's desktop is: whose session, its message bus, its X display.

Reads the environment and, for a daemon that has none, what systemd-logind keeps in /run/systemd. A bus and an X server
of a user refuse root, so a root agent becomes that user for the length of a connect (`acting_as`). It speaks no
protocol.
"""

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from asa.core.errors import SourceError

_ROOT = 0
_LARGEST_ID = (1 << 32) - 2  # (uid_t) -1 means "leave as it is" to setresuid(2)
_LARGEST_FIELDS_BYTES = 1 << 14
_S_NS = 1_000_000_000
_FIRST_RETRY_NS = 1 * _S_NS
_LAST_RETRY_NS = 30 * _S_NS  # a desktop that comes after the agent is seen this much later at most
_LOOK_AGAIN_NS = 30 * _S_NS  # for another user at the screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The desktop session this agent looks at. Everything may be there or not: connecting shows."""

    uid: int  # whose it is
    bus: str  # D-Bus address
    bus_uid: int  # whom that bus accepts
    display: str  # X display, "" when there is none
    authorities: tuple[Path, ...]  # where the X server's cookie may be, in order
    wayland: bool  # an X server there would be Xwayland, which sees some of the windows only
    runtime: Path | None = None  # the user's runtime folder, where compositors listen; it may not be there


class Watch:
    """When a reader tries again to find its desktop, and whether its session is still the one at the screen.

    After a failure it waits for a second, then for twice as long each time. Times are CLOCK_MONOTONIC in ns.
    """

    def __init__(self, find: Callable[[], Session]) -> None:
        self.find = find
        self.session: Session | None = None
        self._look_at_ns = self._retry_at_ns = 0
        self._retry_ns = _FIRST_RETRY_NS

    def may_try(self, now_ns: int) -> bool:
        """Is the wait after the last failure over?"""
        return now_ns >= self._retry_at_ns

    def failed(self, now_ns: int) -> None:
        """Nothing is tried for a while."""
        self._retry_at_ns = now_ns + self._retry_ns
        self._retry_ns = min(2 * self._retry_ns, _LAST_RETRY_NS)

    def served(self) -> None:
        """The next failure is the first one."""
        self._retry_ns = _FIRST_RETRY_NS

    def anew(self) -> None:
        """Wait for nothing."""
        self._retry_at_ns = 0

    def took(self, session: Session, now_ns: int) -> None:
        """This one is looked at from now on."""
        self.session, self._look_at_ns = session, now_ns + _LOOK_AGAIN_NS

    def check(self, now_ns: int) -> None:
        """Look again, now and then. Raises SourceError where another session is at the screen."""
        if now_ns < self._look_at_ns:
            return
        self._look_at_ns = now_ns + _LOOK_AGAIN_NS
        if self.session != self.find():
            raise SourceError(source="desktop", reason="another session is at the screen now")


def find(environment: Mapping[str, str], run: Path, own_uid: int) -> Session:
    """The session of `own_uid`; for root that of SUDO_UID, else of who is at the first seat (sd_seat_get_active(3)).

    `run` is /run. Never fails: without any desktop it names the places where one would be.
    """
    seat = _fields(run / "systemd/seats/seat0")
    uid = own_uid
    if own_uid == _ROOT:
        sudo, active = _id(environment.get("SUDO_UID")), _id(seat.get("ACTIVE_UID"))
        uid = sudo if sudo is not None else active if active is not None else _ROOT
    active_session = seat.get("ACTIVE", "")
    login = _fields(run / "systemd/sessions" / active_session) if active_session.isalnum() else {}
    if _id(login.get("UID")) != uid:
        login = {}  # somebody else sits there
    own_runtime = environment.get("XDG_RUNTIME_DIR") if own_uid == uid else None
    runtime = Path(own_runtime) if own_runtime else run / "user" / str(uid)
    bus, bus_uid = environment.get("DBUS_SESSION_BUS_ADDRESS", ""), uid
    if bus:
        bus_uid = _owner(bus, uid)
    else:
        bus = f"unix:path={runtime / 'bus'}"
    return Session(
        uid=uid,
        bus=bus,
        bus_uid=bus_uid,
        display=environment.get("DISPLAY") or login.get("DISPLAY", ""),
        authorities=_authorities(environment, runtime, uid, own_uid),
        wayland=_is_wayland(environment, login.get("TYPE"), runtime),
        runtime=runtime,
    )


def unix_addresses(address: str) -> list[str]:
    r"""Names for connect(2) out of a D-Bus address: a path, or an abstract name with "\0" on top.

    D-Bus Specification, "Server Addresses". Other transports are left out: a desktop's own bus is a unix socket.
    """
    names = []
    for part in address.split(";"):
        transport, _, options = part.partition(":")
        if transport != "unix":
            continue
        for option in options.split(","):
            key, _, value = option.partition("=")
            if key == "path":
                names.append(unquote(value))
            elif key == "abstract":
                names.append("\0" + unquote(value))
    return names


def connected(names: Sequence[str], uid: int) -> socket.socket:
    """A non-blocking socket, connected as `uid` to the first unix socket of `names` that takes it. Raises OSError."""
    failure = OSError(errno.EINVAL, "no unix socket is named")
    for name in names:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            with acting_as(uid):
                connection.connect(name)
        except OSError as error:
            connection.close()
            failure = error
        except ValueError as error:  # a NUL inside the name
            connection.close()
            failure = OSError(errno.EINVAL, str(error))
        else:
            return connection
    try:
        raise failure
    finally:
        del failure  # its traceback holds this frame: the two would keep the callers' samples until a rare collection


@contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """Be `uid` to the kernel (files, SO_PEERCRED) inside the block; root only, for others it changes nothing.

    The effective user belongs to the whole process (glibc tells every thread), so keep the block as short as one
    connect. Raises OSError when the kernel refuses; the old user is then still in force.
    """
    if os.geteuid() != _ROOT or uid == _ROOT:
        yield
        return
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(_ROOT)


def _is_wayland(environment: Mapping[str, str], login_type: str | None, runtime: Path) -> bool:
    # pam_systemd(8): it may be tty or unspecified too, as in a shell of sudo, and tells nothing of the desktop then
    for kind in (environment.get("XDG_SESSION_TYPE"), login_type):
        if kind in {"x11", "wayland"}:
            return kind == "wayland"
    if environment.get("WAYLAND_DISPLAY"):
        return True
    # Its file may outlive a compositor. Path.exists raises where it may not look; this is False then.
    return os.path.exists(runtime / "wayland-0")  # noqa: PTH110


def _owner(address: str, otherwise: int) -> int:
    # An address out of the environment may be of a bus that root started itself, as under `sudo dbus-run-session`.
    for name in unix_addresses(address):
        if not name.startswith("\0"):
            try:
                return os.stat(name).st_uid  # noqa: PTH116  # a name out of an address may hold anything
            except (OSError, ValueError):
                continue
    return otherwise


def _authorities(environment: Mapping[str, str], runtime: Path, uid: int, own_uid: int) -> tuple[Path, ...]:
    # xauth(1); gdm keeps its own below the runtime directory (gdm/Xauthority)
    places = [Path(environment["XAUTHORITY"])] if environment.get("XAUTHORITY") else []
    places.append(runtime / "gdm/Xauthority")
    home = environment.get("HOME") if own_uid == uid else home_of(uid)
    if home:
        places.append(Path(home) / ".Xauthority")
    return tuple(places)


def home_of(uid: int) -> str | None:
    """Home folder of a user of this machine. Not by pwd: its look-up may ask a directory server and wait for it."""
    try:
        lines = Path("/etc/passwd").read_text(errors="replace").splitlines()
    except OSError:
        return None
    entries = (line.split(":") for line in lines)
    return next((entry[5] for entry in entries if len(entry) == 7 and entry[2] == str(uid)), None)


def _fields(path: Path) -> dict[str, str]:
    # KEY=value lines. logind's files; what sd_seat_get_active(3) of libsystemd reads too.
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_FIELDS_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return {}
    return dict(line.partition("=")[::2] for line in text.splitlines() if not line.startswith("#"))


def _id(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    return int(text) if int(text) <= _LARGEST_ID else None
