# SPDX-License-Identifier: GPL-2.0-only
"""/proc/net/sockstat, sockstat6, tcp and tcp6: how many sockets there are in which state.

The tables tcp and tcp6 are dear: the kernel walks its whole hash for each, 2.2 ms for 262,144 empty buckets, whatever
is in it. They are therefore read for one figure only, the listening sockets, and seldom; the rest is arithmetic over
the totals that the kernel keeps anyway:

    sockets in use (all but TIME_WAIT and SYN_RECV) = established (CurrEstab, with CLOSE_WAIT) + listening + other

so `other` is SYN_SENT, FIN_WAIT, LAST_ACK and CLOSING. A socket that starts to listen shows as `other` until the next
walk.
"""

from functools import partial

from asa.core.sample import ConnectionState
from collectors.procfs.reader import OpenFiles, Part, after, bounded, counters, garbled

_SOCKSTAT = "net/sockstat"
_SOCKSTAT6 = "net/sockstat6"
_TCP = "net/tcp"
_TCP6 = "net/tcp6"
_TABLE_LIMIT = 1000  # sockets: 150 bytes of text each
_READS_PER_WALK = 60  # at 1 Hz no more than 4.4 ms a minute on a machine with 24 GB
_STATES = tuple(b" %02X " % state for state in range(1, 14))  # include/net/tcp_states.h; no other column looks so
_LISTEN = b" 0A "


class Connections:
    """The socket part of the network collector."""

    def __init__(self, source: str, files: OpenFiles) -> None:
        """Open what is there; the rest is in the `lacking` of `files`."""
        self._source = source
        self._sockstat = files.may_have(_SOCKSTAT)
        self._sockstat6 = files.may_have(_SOCKSTAT6)
        self._tcp = files.may_have(_TCP)
        self._tcp6 = files.may_have(_TCP6)
        self._listening: int | None = None
        self._walked_at = 0  # sockets neither established nor waiting, when the tables were last read
        self._reads = _READS_PER_WALK  # the first read walks; a table that fails is left alone as long as a good one

    def read(self, established: int | None) -> ConnectionState:
        """Levels now, None for those whose file tells nothing; `established` is CurrEstab. Raises SourceError."""
        time_wait = orphaned = udp = listening = other = None
        four = self._sockstat.take(partial(parse_sockstat, self._source))
        six = self._sockstat6.take(partial(parse_sockstat6, self._source))
        if six is None and not self._sockstat6.there:
            six = (0, 0)  # a kernel without IPv6
        if four is not None:
            tcp4, orphaned, time_wait, udp4 = four
        if four is not None and six is not None:
            in_use = tcp4 + six[0]
            udp = bounded(self._source, _SOCKSTAT6, udp=udp4 + six[1])["udp"]
            if established is not None:
                unsettled = in_use - established  # below zero when a socket came or went between the two reads
                small = in_use + (time_wait or 0) < _TABLE_LIMIT
                listening = self._count_listening(unsettled, small=small, tcp6=six[0] > 0)
                other = unsettled - listening if listening is not None and listening <= unsettled else None
        return ConnectionState(
            established=established,
            time_wait=time_wait,
            orphaned=orphaned,
            listening=listening,
            other=other,
            udp_sockets=udp,
        )

    def _count_listening(self, unsettled: int, *, small: bool, tcp6: bool) -> int | None:
        self._reads += 1
        if not small:
            self._listening, self._reads = None, _READS_PER_WALK
        elif self._reads > _READS_PER_WALK and (self._listening is None or unsettled != self._walked_at):
            self._listening = self._walk(_TCP, self._tcp)
            if tcp6 and self._listening is not None:
                more = self._walk(_TCP6, self._tcp6)
                if more is None and not self._tcp6.there:
                    more = 0
                self._listening = None if more is None else self._listening + more
            self._walked_at = unsettled
            self._reads = 0
        return self._listening

    def _walk(self, file: str, table: Part) -> int | None:
        return table.take(partial(count_listening, self._source, file))


def parse_sockstat(source: str, text: bytes) -> tuple[int, int, int, int]:
    """(TCP in use, orphaned, in TIME_WAIT, UDP in use) of the text of /proc/net/sockstat. Raises SourceError."""
    fields = after(source, _SOCKSTAT, text, b"\nTCP: ").split()
    if len(fields) < 6 or fields[0:6:2] != [b"inuse", b"orphan", b"tw"]:
        raise garbled(source, _SOCKSTAT, text)
    fields = [*fields[1:6:2], _in_use(source, _SOCKSTAT, text, b"\nUDP: ")]
    in_use, orphaned, time_wait, udp = counters(source, _SOCKSTAT, fields)
    return in_use, orphaned, time_wait, udp


def parse_sockstat6(source: str, text: bytes) -> tuple[int, int]:
    """(TCP in use, UDP in use) of the text of /proc/net/sockstat6. Raises SourceError."""
    text = b"\n" + text
    fields = [_in_use(source, _SOCKSTAT6, text, key) for key in (b"\nTCP6: ", b"\nUDP6: ")]
    tcp, udp = counters(source, _SOCKSTAT6, fields)
    return tcp, udp


def _in_use(source: str, file: str, text: bytes, key: bytes) -> bytes:
    fields = after(source, file, text, key).split()
    if len(fields) < 2 or fields[0] != b"inuse":
        raise garbled(source, file, text)
    return fields[1]


def count_listening(source: str, file: str, text: bytes) -> int:
    """Listening sockets in the text of /proc/net/tcp or tcp6. Raises SourceError unless each line has a state."""
    if not text.startswith(b"  sl ") or sum(map(text.count, _STATES)) != text.count(b"\n") - 1:
        raise garbled(source, file, text)
    return text.count(_LISTEN)
