# SPDX-License-Identifier: GPL-2.0-only
"""All collectors of this host behind one call; `collectors.sources` is the list of them.

Opens what works here and says once why the rest does not; reads a source that takes too long less often. Reads raw
values; it computes nothing out of them.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from asa.config import CollectSettings
from asa.core.errors import SourceError
from asa.core.ports import Clock, Collector
from asa.core.sample import RawSample
from collectors.procfs.work import Work
from collectors.running import Absence
from collectors.sources import EBPF, HINTS, PROGRAMS, SOURCES

BUDGET_NS = 5_000_000
"""Most that a source may take of a tick: with one tick a second, all that the whole agent may (0.5 % of a core)."""

_TIMES = 10
"""A source is not slow that takes less than so many times what the others take in the middle: then the machine is.

It may be emulated, or starved; to spare all sources would blind the agent and help nobody. Elsewhere it never matters:
the dearest reader of /proc takes 4 times the middle, which is 50 us.
"""

_ALWAYS = frozenset({"cpu", "sched_ext", EBPF})
"""What no decision can do without: in a tick without the cores' counters there is nothing to judge, and in one that
knows of no scheduler nothing may be switched, and none stands by. Without the probes' latencies neither the guard nor a
trial sees what a scheduler does: in an emulated guest they were read in 2 of 4 ticks, and bad schedulers stayed."""

_REMEMBERED = 5  # reads whose median is judged: two that were interrupted by other tasks do not make a source slow
_LONGEST_PERIOD = 64  # ticks; a source that takes ever so long is still asked about once a minute
_STEADY = 10  # good reads in a row that end a failure: one that comes and goes would else be told each time

_TRY_EVERY_NS = 300_000_000_000  # an absent source is tried again so often,
_TRY_SHARE = 2000  # and never for more of the time than one part in so many


@runtime_checkable
class Backed(Protocol):
    """A collector that has more than one way to its figures."""

    @property
    def backend(self) -> str:
        """The way in use; known after `open`."""
        ...


@runtime_checkable
class Follower(Protocol):
    """A collector that goes on from what others read before it in the same tick."""

    def follow(self, fields: Mapping[str, object]) -> None:
        """What was read so far. Never raises."""
        ...


def standard(
    proc: Path,
    sys: Path,
    settings: CollectSettings,
    probes: Collector | None = None,
    key: bytes = b"",
    names: dict[int, str] | None = None,
) -> list[Collector]:
    """The collectors that `settings` ask for, not opened. What they ask not for is not even imported.

    `probes` stands in for our own eBPF programs where somebody else has loaded them. By `key` programs are numbered;
    without one a new one is made. `names` gets their names, where somebody wants them.
    """
    collectors: list[Collector] = []
    work = Work()
    for source in SOURCES:
        if not source.wanted(settings):
            continue
        if source.name == PROGRAMS:
            collectors.append(source.kind()(proc, sys, key, names, work=work))
        elif source.name == HINTS:
            collectors.append(source.kind()(proc, sys, work=work))
        elif source.name != EBPF:
            collectors.append(source.kind()(proc, sys))
        elif probes is not None:
            collectors.append(probes)
        else:
            collectors.append(source.kind()(proc, sys, settings.ebpf))
    return collectors


@dataclass(slots=True, kw_only=True)
class _Source:
    """A collector that was opened, and how its reading goes."""

    collector: Collector
    follower: Follower | None = None  # the same, where it is one
    took_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    period: int = 1  # read in the first two ticks of so many; 1: in each
    turn: int = 0  # of the period
    told_failing: bool = False
    good: int = 0  # reads since the last failure
    parts: dict[str, int] = field(default_factory=dict)  # told to be lacking -> reads since it is there again

    def due(self) -> bool:
        """Whether to read in this tick. Two neighbours are read, or there would never be a rate."""
        self.turn = (self.turn + 1) % self.period
        return self.turn < 2

    def median_ns(self) -> int:
        return sorted(self.took_ns)[len(self.took_ns) // 2]

    def judge(self, budget_ns: int) -> bool:
        """Settle the pace by what reads took lately. True when it is another one from now on."""
        period, median_ns = self.period, self.median_ns()
        if period > 1 and median_ns <= budget_ns // 2:  # half: it shall not swing to and fro
            self.period, self.turn = 1, 0
        elif len(self.took_ns) == _REMEMBERED and median_ns > budget_ns:
            self.period = 4
            while self.period < _LONGEST_PERIOD and 2 * median_ns > self.period * budget_ns:
                self.period *= 2
            self.turn = min(self.turn, 1)
        return self.period != period


def _source(collector: Collector, *, told: bool) -> _Source:
    follower = collector if isinstance(collector, Follower) else None
    return _Source(collector=collector, follower=follower, told_failing=told)


@dataclass(slots=True, kw_only=True)
class _Absent:
    """A collector that did not open."""

    collector: Collector
    name: str
    reason: str
    next_ns: int  # when it is tried again


class HostSampler:
    """The Sampler over some collectors.

    `failing` holds the sources whose last read failed, with the reason; they are read again at the next tick. `slow`
    holds those that take more than `budget_ns` a read (_TIMES says when that is not slow); they are read in two
    neighbouring ticks out of several, and their fields are None in the others. A source that did not open is tried
    again now and then.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        clock: Clock,
        *,
        budget_ns: int = BUDGET_NS,
        absence: Absence | None = None,
    ) -> None:
        self.failing: dict[str, str] = {}
        self.slow: dict[str, str] = {}
        self._collectors = tuple(collectors)
        self._clock = clock
        self._budget_ns = budget_ns
        self._absence = absence  # time without a CPU is no source's doing
        self._absent: list[_Absent] = []
        self._next_try_ns = 0
        self._sources: list[_Source] = []
        self._news: list[str] = []

    @property
    def missing(self) -> dict[str, str]:
        """Source or part of it -> why this host does not have it, or not now; known after `open`."""
        missing = {absent.name: absent.reason for absent in self._absent}
        for source in self._sources:
            missing.update(source.collector.lacking)
        return missing

    @property
    def backends(self) -> dict[str, str]:
        """Source -> the way in use to its figures, for sources that have several."""
        collectors = [source.collector for source in self._sources]
        return {collector.name: collector.backend for collector in collectors if isinstance(collector, Backed)}

    @property
    def cost_us(self) -> dict[str, float]:
        """Source -> microseconds that a read takes, the median of the last few."""
        return {source.collector.name: source.median_ns() / 1e3 for source in self._sources if source.took_ns}

    def open(self) -> None:
        """Open every source that works here. Never raises: what does not work is in `missing`."""
        for collector in self._collectors:
            absent = self._try(collector)
            if absent is not None:
                self._absent.append(absent)
                continue
            lacking = collector.lacking
            # what is in `missing` now, whoever shows that has told
            source = _source(collector, told=collector.name in lacking)
            source.parts = dict.fromkeys(lacking.keys() - {collector.name}, 0)
            self._sources.append(source)
        self._settle_next_try()

    def _try(self, collector: Collector) -> _Absent | None:
        """Open it; None when it is open."""
        start_ns = self._clock.monotonic_ns()
        try:
            collector.open()
        except SourceError as error:
            collector.close()
            end_ns = self._clock.monotonic_ns()
            wait_ns = max(_TRY_EVERY_NS, _TRY_SHARE * (end_ns - start_ns))
            return _Absent(collector=collector, name=error.source, reason=error.reason, next_ns=end_ns + wait_ns)
        except BaseException:  # told to end meanwhile: `close` would not know of it
            collector.close()
            raise
        return None

    def _try_absent(self, now_ns: int) -> None:
        """Try the one that is due, one a tick."""
        absent = min(self._absent, key=lambda one: one.next_ns)
        if absent.next_ns <= now_ns:
            place = self._absent.index(absent)
            again = self._try(absent.collector)
            if again is not None:
                self._absent[place] = again
            else:
                del self._absent[place]
                # told once it can be read; in its old place, as sources are read in order
                self._sources.append(_source(absent.collector, told=True))
                order = {id(collector): number for number, collector in enumerate(self._collectors)}
                self._sources.sort(key=lambda source: order[id(source.collector)])
        self._settle_next_try()

    def _settle_next_try(self) -> None:
        self._next_try_ns = min((absent.next_ns for absent in self._absent), default=0)

    def sample(self) -> RawSample:
        """Read every open source whose turn it is. Never raises: what failed is None."""
        monotonic_ns = start_ns = self._clock.monotonic_ns()
        wall_ns = self._clock.wall_ns()
        suspended_ns = self._clock.suspended_ns()
        fields: dict[str, Any] = {}
        if self._absent and monotonic_ns >= self._next_try_ns:
            self._try_absent(monotonic_ns)
            start_ns = self._clock.monotonic_ns()
        if self._absence is not None:
            self._absence.mark()
        for source in self._sources:
            if source.period > 1 and not source.due():
                continue
            if source.follower is not None:
                source.follower.follow(fields)
            try:
                fields.update(source.collector.read())
            except SourceError as error:
                self._failed(source, error.reason)
            else:
                if source.good < _STEADY:
                    self._succeeded(source)
            lacking = source.collector.lacking
            if lacking or source.parts:
                self._follow_parts(source, lacking)
            end_ns = self._clock.monotonic_ns()
            took_ns = end_ns - start_ns
            if took_ns > self._budget_ns and self._absence is not None:
                took_ns = max(0, took_ns - self._absence.since_ns())
            source.took_ns.append(took_ns)
            dear = took_ns > self._budget_ns and source.collector.name not in _ALWAYS
            if (dear or source.period > 1) and source.judge(self._budget_of(source)):
                self._pace(source)
            start_ns = end_ns
        return RawSample(monotonic_ns=monotonic_ns, wall_ns=wall_ns, suspended_ns=suspended_ns, **fields)

    def _budget_of(self, source: _Source) -> int:
        others = sorted(other.median_ns() for other in self._sources if other is not source and other.took_ns)
        return max(self._budget_ns, _TIMES * others[len(others) // 2]) if others else self._budget_ns

    def _failed(self, source: _Source, reason: str) -> None:
        name = source.collector.name
        self.failing[name] = reason
        source.good = 0
        if not source.told_failing:
            source.told_failing = True
            self._news.append(f"going on without {name}: {reason}")

    def _succeeded(self, source: _Source) -> None:
        name = source.collector.name
        self.failing.pop(name, None)
        source.good += 1
        if source.good == _STEADY and source.told_failing:
            source.told_failing = False
            self._news.append(f"{name} can be read now")

    def _follow_parts(self, source: _Source, lacking: dict[str, str]) -> None:
        """Tell once of a part that goes, and once when it has come."""
        for part in list(source.parts):
            source.parts[part] = 0 if part in lacking else source.parts[part] + 1
            if source.parts[part] == _STEADY:
                del source.parts[part]
                self._news.append(f"{part} can be read now")
        for part in lacking.keys() - source.parts.keys() - {source.collector.name}:
            source.parts[part] = 0
            self._news.append(f"going on without {part}: {lacking[part]}")

    def _pace(self, source: _Source) -> None:
        name = source.collector.name
        if source.period > 1:
            text = f"takes {source.median_ns() / 1e6:.0f} ms a read: read in 2 of {source.period} ticks"
            if name not in self.slow:
                self._news.append(f"{name} {text}")
            self.slow[name] = text
        else:
            del self.slow[name]
            self._news.append(f"{name} is read every tick again")

    def news(self) -> list[str]:
        """Lines that came up since the last call: a source failed, works again, or is read at another pace."""
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        """Give all descriptors back; samples are empty from then on. Never raises."""
        for source in self._sources:
            source.collector.close()
        self._sources.clear()
        self._absent.clear()
        if self._absence is not None:
            self._absence.close()
