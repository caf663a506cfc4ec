# SPDX-License-Identifier: GPL-2.0-only
"""A real bus with services of a desktop on it, and a clock that stands unless it is moved."""

from dbus_fast import Variant
from private_bus import Peer, PrivateBus
from waiting import until

from collectors.hints.line import ROUND_NS, Place

GAMES, SESSION, LOGIND = "com.feralinteractive.GameMode", "org.gnome.SessionManager", "org.freedesktop.login1"
PLAYER = "org.mpris.MediaPlayer2"
PROFILES = "org.freedesktop.UPower.PowerProfiles", "net.hadess.PowerProfiles"


class Desk:
    """A bus, peers that answer for properties, and what is asked of them."""

    def __init__(self, folder):
        self.bus = PrivateBus(folder)
        self.place = Place(self.bus.address, self.bus.uid)
        self.now_ns = 1_000_000_000
        self.peers = []

    def where(self):
        return self.place

    def peer(self, name, **properties):
        """A service; a property of None is not answered, one that is not given is an error."""
        peer = Peer(self.bus, name)
        peer.properties = properties
        peer.answers["Get"] = lambda _interface, member: _answer(peer.properties, member)
        self.peers.append(peer)
        return peer

    def leave(self, peer):
        peer.close()
        self.peers.remove(peer)

    def turn(self, asker):
        """A tick, six seconds after the one before: a round is due in each."""
        self.now_ns += ROUND_NS
        asker.turn()
        self.pump()

    def shows(self, asker, condition):
        def so():
            self.turn(asker)
            return condition()

        return until(so, lambda: f"{condition} (now: {asker.reason!r})")

    def pump(self):
        for peer in self.peers:
            peer.pump()

    def close(self):
        for peer in self.peers:
            peer.close()
        self.bus.stop()


def _answer(properties, member):
    if member not in properties:
        return ("error", "org.freedesktop.DBus.Error.UnknownProperty")
    value = properties[member]
    return None if value is None else ("v", [value])


def games(count):
    return {"ClientCount": Variant("i", count)}


def player(status, entry=""):
    return {"PlaybackStatus": Variant("s", status), "DesktopEntry": Variant("s", entry)}
