# SPDX-License-Identifier: GPL-2.0-only
"""Reads what the programs counted, whichever backend brought them into the kernel, out of mapped memory.

A read makes no system call: it adds up the rows of the CPUs. It also sets how many events the programs time, by how
many there were lately. It loads nothing.
"""

import dataclasses
import mmap
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, Protocol

from asa.config import Ebpf
from asa.core.errors import SourceError
from asa.core.sample import FeltCounters, ProbeCounters, ProcessBursts
from collectors.ebpf import layout
from collectors.ebpf.processes import Slots
from collectors.procfs.reader import reason_of

SOURCE = "ebpf"

MOST_TIMED_SWITCHES_PER_S = 2_500
"""Timing a wakeup and its switch costs 224 ns more than counting them (473 and 249, docs/overhead.md of 2026-11-25):
0.06 % of a core at most. With 20,000 switches a second, the budget's rate, one in eight is timed. A tick's p99 still
rests on the slowest dozen or more, that of a window on six times as many."""

MOST_TIMED_PACKETS_PER_S = 10_000
"""Two clock calls (38 ns each) a packet on each of its ways: as much."""

_MOST_SKIPPED = 1 << 10  # at 2.5 million events a second: more than this and a quiet tick afterwards tells nothing
SLOTTED = "burst_ns"
"""The field that is filled when the slots of processes are."""

_WORD_LIMIT = 1 << 64
_HELD_READS = 6  # a row, the sums before and after it; the sample before, this one, and what has grown between them
_SHORTEST_RATE_NS = 50_000_000  # two reads closer together say little about a rate


class StatsMap(Protocol):
    """Programs that are attached, and the maps they fill. Closing it detaches them."""

    @property
    def backend(self) -> Ebpf:
        """CORE or BCC."""
        ...

    @property
    def cpus(self) -> int:
        """Rows of the map `stats`: the highest possible CPU number and one."""
        ...

    @property
    def row_bytes(self) -> int:
        """Size of a row as the kernel tells it: the map's value size, rounded up to 8."""
        ...

    @property
    def stats_fd(self) -> int:
        """Descriptor of the map `stats`, an array that can be mapped."""
        ...

    @property
    def irq_kinds_fd(self) -> int | None:
        """Descriptor of the map `irq_kinds`, an array that can be mapped; None: networks' are not told apart."""
        ...

    @property
    def fields(self) -> frozenset[str]:
        """Fields of ProbeCounters and FeltCounters that the attached programs fill."""
        ...

    @property
    def lacking(self) -> dict[str, str]:
        """Program (or a part of one) that is not at work -> why."""
        ...

    def scan(self) -> None:
        """Look for tasks that wait for a CPU now, where a program can: `waiting_ns` tells of them. Never raises."""
        ...

    def close(self) -> None:
        """Detach the programs and give the descriptors back. Never raises."""
        ...


def sampling_mask(mask: int, events_per_s: float, most_timed_per_s: float) -> int:
    """The next mask of 2**k - 1, one event in mask + 1 being timed, so that at most `most_timed_per_s` are.

    It falls back only when a fifth less than that would be timed with half the divisor: no swinging at the border.
    """
    divisor = mask + 1
    while events_per_s > divisor * most_timed_per_s and divisor < _MOST_SKIPPED:
        divisor *= 2
    while divisor > 1 and events_per_s < 0.8 * most_timed_per_s * (divisor // 2):
        divisor //= 2
    return divisor - 1


@dataclass(slots=True, kw_only=True)
class _Sampled:
    """A kind of event of which one in `mask` + 1 is timed."""

    counters: tuple[str, ...]  # whose growth is its rate
    word: str  # where the programs look for the mask
    most_per_s: float
    mask: int = 0
    last: int = 0


class _Columns:
    """Where the fields of a class of counters stand that the programs fill."""

    def __init__(self, kind: type[ProbeCounters | FeltCounters], filled: Collection[str]) -> None:
        names = {field.name for field in dataclasses.fields(kind)} & set(filled)
        known = [field for field in layout.FIELDS if field.name in names]
        self._scalars = [(field.name, layout.OFFSETS[field.name]) for field in known if field.words == 1]
        self._tuples = [
            (field.name, layout.OFFSETS[field.name], layout.OFFSETS[field.name] + field.words)
            for field in known
            if field.words > 1
        ]

    def __bool__(self) -> bool:
        return bool(self._scalars or self._tuples)

    def named(self, sums: Sequence[int]) -> dict[str, Any]:
        fields: dict[str, Any] = {name: sums[at] for name, at in self._scalars}
        fields.update((name, tuple(sums[at:end])) for name, at, end in self._tuples)
        return fields


class Table:
    """How rows of the map `stats` become a sample: which fields the programs fill, and where they stand."""

    def __init__(self, fields: Collection[str]) -> None:
        # A CPU that is there switches tasks before long; rows of those that never came are passed over by this word.
        self._pulse = layout.OFFSETS["switches"] if "switches" in fields else None
        self._probes = _Columns(ProbeCounters, fields)
        self._felt = _Columns(FeltCounters, fields)

    def sums(self, rows: Sequence[memoryview]) -> list[int]:
        """Each word added up over the rows, wrapped at 2**64."""
        sums: list[int] = rows[0].tolist()
        for row in rows[1:]:
            if self._pulse is None or row[self._pulse]:
                sums = list(map(add, sums, row.tolist()))
        if max(sums) >= _WORD_LIMIT:
            sums = [word % _WORD_LIMIT for word in sums]
        return sums

    def counters(self, sums: Sequence[int]) -> ProbeCounters:
        """The sums by their names; what no program fills is None."""
        return ProbeCounters(**self._probes.named(sums))

    def felt(self, sums: Sequence[int]) -> FeltCounters | None:
        """Likewise; None where no program fills any of it."""
        return FeltCounters(**self._felt.named(sums)) if self._felt else None


def rows_of(words: memoryview, cpus: int) -> list[memoryview]:
    """The rows of `cpus` CPUs, without slots, in memory that is read by words of 8 bytes."""
    return _parts(words, cpus, 0, layout.ROW_WORDS)


def slots_of(words: memoryview, cpus: int) -> list[memoryview]:
    """The slots of processes behind them."""
    return _parts(words, cpus, layout.ROW_WORDS, layout.SLOT_WORDS)


def _parts(words: memoryview, cpus: int, first: int, count: int) -> list[memoryview]:
    row_words = layout.ROW_BYTES // layout.WORD_BYTES
    return [words[at + first : at + first + count] for at in range(0, cpus * row_words, row_words)]


class StatsReader:
    """The rows of the map `stats`, mapped, for as long as it is open."""

    def __init__(
        self,
        stats: StatsMap,
        now_ns: Callable[[], int] = time.monotonic_ns,
        *,
        most_timed_per_s: float | None = None,
    ) -> None:
        """Map the rows. Raises SourceError when the map does not fit the layout.

        `most_timed_per_s`: instead of both limits above; infinite: each event is timed, whatever it costs.
        """
        if stats.row_bytes != layout.ROW_BYTES:
            reason = f"a row of the map stats has {stats.row_bytes!r} bytes, not {layout.ROW_BYTES}; run `make bpf`"
            raise SourceError(source=SOURCE, reason=reason)
        self._now_ns = now_ns
        self._map = _mapped(stats.stats_fd, stats.cpus * layout.ROW_BYTES, "stats")
        self._words = memoryview(self._map).cast("Q")
        self._rows = rows_of(self._words, stats.cpus)
        self._slots = slots_of(self._words, stats.cpus)
        self._slotted = SLOTTED in stats.fields
        self._processes: Slots | None = None
        self._table = Table(stats.fields)
        packets = ("packets_sent", "packets_received")
        switches_per_s = MOST_TIMED_SWITCHES_PER_S if most_timed_per_s is None else most_timed_per_s
        packets_per_s = MOST_TIMED_PACKETS_PER_S if most_timed_per_s is None else most_timed_per_s
        self._sampled = (
            _Sampled(counters=("switches",), word="sample_mask", most_per_s=switches_per_s),
            _Sampled(counters=packets, word="packet_mask", most_per_s=packets_per_s),
        )
        self._last_ns: int | None = None
        for cpu, row in enumerate(self._rows):
            row[layout.OFFSETS["random"]] = cpu + 1  # else all CPUs would draw alike
        self._anchors = touch_heap()

    def read(self) -> ProbeCounters:
        """Sums over all CPUs since the programs were loaded; like the words themselves they wrap at 2**64."""
        return self.read_all()[0]

    def read_all(self) -> tuple[ProbeCounters, FeltCounters | None]:
        """The same, with what a person feels."""
        sums = self._table.sums(self._rows)
        self._set_sampling(lambda name: sums[layout.OFFSETS[name]])
        return self._table.counters(sums), self._table.felt(sums)

    def processes(self) -> ProcessBursts | None:
        """Whose turns on the CPU were; None where nobody counts them."""
        if self._processes is None and self._slotted:  # not before: whoever loads programs for others reads none
            self._processes = Slots(self._rows, self._slots)
        return None if self._processes is None else self._processes.read()

    def set_sampling(self) -> None:
        """What a read does beside: settle how many events are timed. For who loads the programs and does not read."""
        self._set_sampling(lambda name: sum(row[layout.OFFSETS[name]] for row in self._rows))

    def settle(self, switches_per_s: float) -> None:
        """Time as many switches as `read` would settle on at this rate. For who measures and never reads."""
        kind = self._sampled[0]
        self._set_mask(kind, sampling_mask(0, switches_per_s, kind.most_per_s))

    @property
    def timed_share(self) -> dict[str, float]:
        """Kind of event -> which share of it is timed at present, 1.0: each one."""
        return {kind.word.removesuffix("_mask"): 1 / (kind.mask + 1) for kind in self._sampled}

    def _set_sampling(self, total: Callable[[str], int]) -> None:
        now_ns = self._now_ns()
        if self._last_ns is not None and now_ns - self._last_ns < _SHORTEST_RATE_NS:
            return
        for kind in self._sampled:
            count = sum(map(total, kind.counters))
            if self._last_ns is not None:
                rate = (count - kind.last) * 1e9 / (now_ns - self._last_ns)
                mask = sampling_mask(kind.mask, rate, kind.most_per_s)
                if mask != kind.mask:
                    self._set_mask(kind, mask)
            kind.last = count
        self._last_ns = now_ns

    def _set_mask(self, kind: _Sampled, mask: int) -> None:
        kind.mask = mask
        for row in self._rows:
            row[layout.OFFSETS[kind.word]] = mask

    def close(self) -> None:
        """Unmap the rows; closing twice is harmless."""
        for part in (*self._rows, *self._slots):
            part.release()
        self._rows.clear()
        self._slots.clear()
        self._processes, self._slotted = None, False
        self._words.release()
        self._map.close()


class IrqKinds:
    """The map `irq_kinds`, mapped: which interrupt numbers are network devices'."""

    def __init__(self, descriptor: int) -> None:
        """Map it. Raises SourceError."""
        self._map = _mapped(descriptor, layout.IRQ_NUMBERS * layout.WORD_BYTES, "irq_kinds")
        self._words = memoryview(self._map).cast("Q")
        self._network: frozenset[int] = frozenset()

    def set_network(self, irqs: Iterable[int]) -> None:
        """Make `irqs` the network devices' interrupts, and no others. Numbers beyond the map are left out."""
        network = frozenset(irq for irq in irqs if 0 <= irq < layout.IRQ_NUMBERS)
        for irq in self._network - network:
            self._words[irq] = 0
        for irq in network - self._network:
            self._words[irq] = layout.IRQ_NETWORK
        self._network = network

    def close(self) -> None:
        """Unmap it; closing twice is harmless."""
        self._words.release()
        self._map.close()


def touch_heap() -> list[int]:
    """Take the memory now that reads need once all words have grown; what is returned holds it.

    The interpreter shares its numbers up to 256; each larger one takes 32 bytes. Word by word the heap of a new agent
    would so grow for hours, which looks like a leak. Pages that were used stay with the heap as long as a number of the
    same arena is kept.
    """
    grown = [[word + (1 << 32) for word in range(layout.ROW_WORDS)] for _ in range(_HELD_READS)]
    return [numbers[0] for numbers in grown]


def _mapped(descriptor: int, size_bytes: int, name: str) -> mmap.mmap:
    whole_pages = -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        return mmap.mmap(descriptor, whole_pages, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except (OSError, ValueError) as error:
        words = reason_of(error) if isinstance(error, OSError) else str(error)
        reason = f"map {name}: {size_bytes} bytes cannot be mapped: {words}; run `make bpf`"
        raise SourceError(source=SOURCE, reason=reason) from error
