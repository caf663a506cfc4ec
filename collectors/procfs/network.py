# SPDX-License-Identifier: GPL-2.0-only
"""/proc/net/dev and /proc/net/snmp: traffic, TCP and UDP; and through `connections` how many sockets there are.

The hardware's interfaces are summed, and loopback (`collectors.procfs.interfaces` says which and why). An interface
that goes away takes its counters with it: the sum then goes back once. The kernel counts TCP over IPv4 and IPv6
together in snmp, but UDP over IPv4 only.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from asa.core.errors import SourceError
from asa.core.sample import ConnectionState, NetworkCounters
from collectors.procfs.connections import Connections
from collectors.procfs.interfaces import Interfaces
from collectors.procfs.reader import KernelFile, OpenFiles, Part, bounded, counters, garbled

_SOURCE = "network"
_DEV = "net/dev"
_SNMP = "net/snmp"
_DEV_COLUMNS = 16  # 8 received, 8 transmitted: net/core/net-procfs.c
_TCP = (b"InSegs", b"OutSegs", b"RetransSegs", b"ActiveOpens", b"PassiveOpens", b"EstabResets", b"AttemptFails")


class NetworkCollector:
    """Fills `network` and `connections`; what the second file would give is None where it is not there."""

    name = _SOURCE

    def __init__(self, proc: Path, sys: Path) -> None:
        self._interfaces = Interfaces(sys)
        self._files = OpenFiles(_SOURCE, proc)
        self._dev: KernelFile | None = None
        self._snmp: Part | None = None
        self._connections: Connections | None = None

    @property
    def lacking(self) -> dict[str, str]:
        """Files that tell nothing here or now, and why."""
        return self._files.lacking

    def open(self) -> None:
        """Open the files and understand them once. Raises SourceError when net/dev is not there."""
        self._dev = self._files.need(_DEV)
        self._snmp = self._files.may_have(_SNMP)
        self._connections = Connections(_SOURCE, self._files)
        self.read()

    def read(self) -> dict[str, object]:
        """Counters since boot and levels now. Raises SourceError."""
        if self._dev is None or self._snmp is None or self._connections is None:
            raise SourceError(source=_SOURCE, reason="not opened")
        fields = parse_dev(self._dev.read(), self._interfaces.counted)
        text = self._snmp.text()
        protocols, established = (_NO_PROTOCOLS, None) if text is None else parse_snmp(text, self._snmp.fault)
        state = self._connections.read(established)
        return {
            "network": NetworkCounters(**fields, **protocols),
            "connections": None if state == _NO_CONNECTIONS else state,
        }

    def close(self) -> None:
        """Give the descriptors back."""
        self._files.close()


def parse_dev(text: bytes, counted: Callable[[tuple[str, ...]], Collection[str]] = tuple) -> dict[str, int]:
    """Sums over those lines of the text of /proc/net/dev that are `counted`, of all their names. Raises SourceError."""
    lines = text.splitlines()[2:]
    if not lines or not text.startswith(b"Inter-|"):
        raise garbled(_SOURCE, _DEV, text)
    rows: dict[str, list[bytes]] = {}
    for line in lines:
        name, colon, rest = line.partition(b":")
        fields = rest.split()
        if not (name and colon) or len(fields) < _DEV_COLUMNS:
            raise garbled(_SOURCE, _DEV, line)
        rows[name.strip().decode(errors="replace")] = fields
    wanted = counted(tuple(rows))
    received_bytes = received_packets = sent_bytes = sent_packets = 0
    for interface, fields in rows.items():
        values = counters(_SOURCE, _DEV, fields)
        if interface in wanted:
            received_bytes += values[0]
            received_packets += values[1]
            sent_bytes += values[8]
            sent_packets += values[9]
    return bounded(
        _SOURCE,
        _DEV,
        received_bytes=received_bytes,
        received_packets=received_packets,
        sent_bytes=sent_bytes,
        sent_packets=sent_packets,
    )


def parse_snmp(text: bytes, fault: Callable[[SourceError], None]) -> tuple[dict[str, Any], int | None]:
    """(TCP and UDP fields of NetworkCounters, CurrEstab) of the text of /proc/net/snmp.

    The protocol that cannot be understood is None, and `fault` hears why.

    Columns are found by their headings (RFC 1213 names), as the file has grown more of them.
    """
    fields, established = _NO_PROTOCOLS, None
    for parse in (_parse_tcp, _parse_udp):
        try:
            found = parse(text)
        except SourceError as error:
            fault(error)
            continue
        established = found.pop("established", established)
        fields = fields | found
    return fields, established


def _parse_tcp(text: bytes) -> dict[str, Any]:
    tcp = _columns(text, b"Tcp: ", (*_TCP, b"CurrEstab"))
    return bounded(
        _SOURCE,
        _SNMP,
        established=tcp[7],
        tcp_in_segments=tcp[0],
        tcp_out_segments=tcp[1],
        tcp_retransmitted_segments=tcp[2],
        tcp_active_opens=tcp[3],
        tcp_passive_opens=tcp[4],
        tcp_resets=tcp[5] + tcp[6],
    )


def _parse_udp(text: bytes) -> dict[str, Any]:
    received, sent = _columns(text, b"Udp: ", (b"InDatagrams", b"OutDatagrams"))
    return {"udp_in_datagrams": received, "udp_out_datagrams": sent}


def _columns(text: bytes, protocol: bytes, names: tuple[bytes, ...]) -> list[int]:
    start = text.find(b"\n" + protocol) + 1
    headings, _, rest = text[start:].partition(b"\n")
    values = rest[: rest.find(b"\n")]
    if not headings.startswith(protocol) or not values.startswith(protocol):
        raise garbled(_SOURCE, _SNMP, headings)
    by_name = dict(zip(headings.split(), values.split(), strict=False))
    if not all(name in by_name for name in names):
        raise garbled(_SOURCE, _SNMP, values)
    return counters(_SOURCE, _SNMP, [by_name[name] for name in names])


_NO_PROTOCOLS: dict[str, Any] = {name: None for name in NetworkCounters.__slots__ if name.startswith(("tcp_", "udp_"))}
_NO_CONNECTIONS = ConnectionState(
    established=None, time_wait=None, orphaned=None, listening=None, other=None, udp_sockets=None
)
