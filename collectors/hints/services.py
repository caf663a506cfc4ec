# SPDX-License-Identifier: GPL-2.0-only
"""What services say over D-Bus: GameMode, media players, who keeps the session from being idle; and on the system's bus
logind and the power profile.

com.feralinteractive.GameMode (its daemon/gamemode-dbus.c), org.mpris.MediaPlayer2 (MPRIS D-Bus Interface
Specification 2.2), org.gnome.SessionManager (gnome-session's org.gnome.SessionManager.xml),
org.freedesktop.PowerManagement.Inhibit (KDE's PowerDevil and Xfce's power manager), org.freedesktop.login1
(org.freedesktop.login1(5)), org.freedesktop.UPower.PowerProfiles (power-profiles-daemon since 0.20, tuned-ppd) and its
older name net.hadess.PowerProfiles. Properties are read, and one method that only tells.
"""

from collections.abc import Callable
from typing import Any

from collectors.hints.line import Asker, Line, Place
from collectors.window import name_of

_GAMES = ("com.feralinteractive.GameMode", "/com/feralinteractive/GameMode", "com.feralinteractive.GameMode")
_SESSION = ("org.gnome.SessionManager", "/org/gnome/SessionManager", "org.gnome.SessionManager")
_POWER = (
    "org.freedesktop.PowerManagement",
    "/org/freedesktop/PowerManagement/Inhibit",
    "org.freedesktop.PowerManagement.Inhibit",
)
_PROFILES = (  # the first that is there
    ("org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles"),
    ("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles"),
)
_NAMES_OF_PROFILES = ("power-saver", "balanced", "performance")
_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_PLAYER = "org.mpris.MediaPlayer2"
_PLAYER_PATH = "/org/mpris/MediaPlayer2"
_MOST_PLAYERS = 8
_MOST_GAMES = 1 << 16
_IDLE_FLAG = 8  # "inhibit the session being marked as idle"


class SessionServices:
    """Those of a session's bus. Unknown is None, as long as nobody has answered."""

    def __init__(self, where: Callable[[], Place], now_ns: Callable[[], int]) -> None:
        self.asker = Asker(where, now_ns, self._ask, self._forget)
        self._forget()

    @property
    def playing(self) -> tuple[str, ...] | None:
        """Entries of the players that play, "" for one that tells none; None while the bus has not answered."""
        if self._players is None:
            return None
        return tuple(sorted(entry for name, entry in self._entries.items() if self._players.get(name)))

    def _forget(self) -> None:
        self.game_clients: int | None = None
        self.idle_inhibited: bool | None = None
        self._players: dict[str, bool] | None = None  # by name on the bus: it plays
        self._entries: dict[str, str] = {}

    def _ask(self, line: Line) -> None:
        line.names(lambda names: self._ask_present(line, names))

    def _ask_present(self, line: Line, names: frozenset[str]) -> None:
        if _GAMES[0] in names:
            line.get(*_GAMES, "ClientCount", "i", self._take_games)
        else:
            self.game_clients = None
        if _SESSION[0] in names:
            line.get(*_SESSION, "InhibitedActions", "u", self._take_inhibited)
        elif _POWER[0] in names:
            line.call(*_POWER, "HasInhibit", self._take_whether)
        else:
            self.idle_inhibited = None
        players = sorted(name for name in names if name.startswith(f"{_PLAYER}."))[:_MOST_PLAYERS]
        before, known = self._players or {}, self._entries
        self._players = {name: before.get(name, False) for name in players}
        self._entries = {name: known.get(name, "") for name in players}
        for name in players:
            line.get(name, _PLAYER_PATH, f"{_PLAYER}.Player", "PlaybackStatus", "s", self._player_taker(name))
            if not self._entries[name]:  # it stays the same
                line.get(name, _PLAYER_PATH, _PLAYER, "DesktopEntry", "s", self._entry_taker(name))

    def _take_games(self, count: Any) -> None:
        self.game_clients = count if count is not None and 0 <= count <= _MOST_GAMES else None

    def _take_inhibited(self, flags: Any) -> None:
        self.idle_inhibited = None if flags is None else bool(flags & _IDLE_FLAG)

    def _take_whether(self, answer: Any) -> None:
        self.idle_inhibited = answer if isinstance(answer, bool) else None

    def _player_taker(self, name: str) -> Callable[[Any], None]:
        def take(status: Any) -> None:
            if self._players is not None and name in self._players:
                self._players[name] = status == "Playing"

        return take

    def _entry_taker(self, name: str) -> Callable[[Any], None]:
        def take(entry: Any) -> None:
            if name in self._entries:
                self._entries[name] = name_of(entry or "")

        return take


class SystemServices:
    """Those of the system's bus. Unknown is None, as long as nobody has answered."""

    def __init__(self, where: Callable[[], Place], now_ns: Callable[[], int]) -> None:
        self.asker = Asker(where, now_ns, self._ask, self._forget)
        self._forget()

    def _forget(self) -> None:
        self.idle_inhibited: bool | None = None
        self.lid_closed: bool | None = None
        self.power_profile: str | None = None
        self.power_held: bool | None = None

    def _ask(self, line: Line) -> None:
        line.get(*_LOGIND, "BlockInhibited", "s", self._take_inhibited)
        line.get(*_LOGIND, "LidClosed", "b", self._take_lid)
        line.names(lambda names: self._ask_present(line, names))

    def _ask_present(self, line: Line, names: frozenset[str]) -> None:
        for name, path in _PROFILES:
            if name in names:
                line.get(name, path, name, "ActiveProfile", "s", self._take_profile)
                line.get(name, path, name, "ActiveProfileHolds", "aa{sv}", self._take_holds)
                return
        self.power_profile = self.power_held = None

    def _take_inhibited(self, what: Any) -> None:
        self.idle_inhibited = None if what is None else "idle" in what.split(":")

    def _take_lid(self, closed: Any) -> None:
        self.lid_closed = closed

    def _take_profile(self, name: Any) -> None:
        self.power_profile = name if name in _NAMES_OF_PROFILES else None

    def _take_holds(self, holds: Any) -> None:
        self.power_held = None if holds is None else bool(holds)
