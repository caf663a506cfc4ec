# SPDX-License-Identifier: GPL-2.0-only
"""Compares each stand-in of the lab tier with its program: plays both on this host, one after the other, and samples.

The sampler is the agent's own; what it counts is the whole machine's, so nothing else should run. Judges nothing and
prints nothing: `calibration.scenarios.stand_ins_report` does.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from asa.clock import SystemClock
from asa.core.ports import Sampler
from asa.paths import Places
from collectors.rates import Rates, derive
from collectors.sampler import HostSampler, standard
from collectors.sources import only
from scenarios.application import Application, ApplicationError, Tier
from scenarios.session import Session, default_folder, place_for

Tell = Callable[[str, float], None]
"""Takes what is being done now, and the share of the whole that is done, 0.0 to 1.0."""

Values = Mapping[str, float]
"""Quantity (a name of QUANTITIES) -> mean over the window; those that this host does not tell are left out."""

_TICK_S = 0.5
_NEEDED = frozenset({"cpu", "process", "paging", "disk", "network", "ebpf"})  # sources of what is compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is compared: a name, how to get it from rates, and below which value it is as good as nothing."""

    name: str
    title: str
    of: Callable[[Rates], float | None]
    least: float


def _rate(name: str, title: str, *, least: float) -> Quantity:
    def of(rates: Rates) -> float | None:
        value: float | None = getattr(rates, name)
        return value

    return Quantity(name=name, title=title, of=of, least=least)


def _busy(rates: Rates) -> float | None:
    if rates.cpu_idle_share is None or rates.cpu_iowait_share is None:
        return None
    return 100.0 * (1.0 - rates.cpu_idle_share - rates.cpu_iowait_share)


def _system(rates: Rates) -> float | None:
    return None if rates.cpu_system_share is None else 100.0 * rates.cpu_system_share


def _storage(rates: Rates) -> float | None:
    if rates.disk_read_bytes_per_s is None or rates.disk_write_bytes_per_s is None:
        return None
    return (rates.disk_read_bytes_per_s + rates.disk_write_bytes_per_s) / 1e6


def _requests(rates: Rates) -> float | None:
    if rates.disk_reads_per_s is None or rates.disk_writes_per_s is None:
        return None
    return rates.disk_reads_per_s + rates.disk_writes_per_s


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(name="cpu_busy_pct", title="CPUs busy, %", of=_busy, least=5.0),
    Quantity(name="cpu_system_pct", title="of it in the kernel, %", of=_system, least=5.0),
    _rate("runnable_threads", "runnable threads", least=1.0),
    _rate("context_switches_per_s", "switches/s", least=300.0),
    _rate("wakeups_per_s", "wakeups/s", least=300.0),
    _rate("futex_waits_per_s", "futex waits/s", least=200.0),
    _rate("burst_p50_us", "burst p50, us", least=10.0),
    _rate("burst_p95_us", "burst p95, us", least=100.0),
    _rate("sleep_p50_us", "sleep p50, us", least=10.0),
    _rate("sleep_p95_us", "sleep p95, us", least=100.0),
    _rate("forks_per_s", "forks/s", least=5.0),
    _rate("execs_per_s", "execs/s", least=5.0),
    _rate("page_faults_per_s", "page faults/s", least=2_000.0),
    Quantity(name="disk_requests_per_s", title="disk requests/s", of=_requests, least=50.0),
    Quantity(name="disk_mb_per_s", title="disk MB/s", of=_storage, least=1.0),
    _rate("network_sent_packets_per_s", "packets/s", least=100.0),
    _rate("network_sent_bytes_per_s", "network bytes/s", least=100_000.0),
)
"""In the order of the tables."""

FAR = 10.0
"""Two values further apart than so many times are of another order of magnitude."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is played, for how long each. `settle_s` passes between readiness and the first sample."""

    names: tuple[str, ...]
    seconds: float = 30.0
    settle_s: float = 3.0
    seeds: tuple[int, ...] = (1, 2, 3)  # a window's time is shared by sessions of these


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One of the two, as sampled. `reason` says why there are no values, else ""."""

    values: Values
    versions: Mapping[str, str]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A program and its stand-in."""

    name: str
    real: Half
    lab: Half

    def far(self) -> list[Quantity]:
        """Where they are of another order of magnitude, and it is not about next to nothing."""
        return [one for one in QUANTITIES if self._apart(one) > FAR]

    def ratio(self, quantity: Quantity) -> float | None:
        """Stand-in to program; None where one is unknown or the program has none of it."""
        real, lab = self.real.values.get(quantity.name), self.lab.values.get(quantity.name)
        return None if real is None or lab is None or real <= 0.0 else lab / real

    def _apart(self, quantity: Quantity) -> float:
        if quantity.name not in self.real.values or quantity.name not in self.lab.values:
            return 1.0
        real, lab = (max(half.values[quantity.name], quantity.least) for half in (self.real, self.lab))
        return max(real / lab, lab / real)


@dataclass(slots=True, kw_only=True)
class Result:
    """What was measured."""

    began_s: float  # seconds since the epoch
    took_s: float = 0.0
    idle: Half
    pairs: list[Pair] = field(default_factory=list)
    missing: Mapping[str, str] = field(default_factory=dict)  # source of the sampler -> why it is not here


def compare(options: Options, tiers: Mapping[Tier, Mapping[str, Application]], places: Places, tell: Tell) -> Result:
    """Play and sample. An application that fails costs its own half alone."""
    began_s, begin_s = time.time(), time.monotonic()
    settings = only({"ebpf"})
    steps = 1 + len(options.names) * len(tiers)
    with closing(HostSampler(standard(places.proc, places.sys, settings), SystemClock())) as sampler:
        sampler.open()
        tell("nothing plays", 0.0)
        idle = Half(values=_means(_window(sampler, options.seconds / 2, lambda: None)), versions={})
        missing = {source: why for source, why in sampler.missing.items() if source in _NEEDED}
        result = Result(began_s=began_s, idle=idle, missing=missing)
        for name in options.names:
            halves: dict[Tier, Half] = {}
            for tier in Tier:
                tell(f"{name}: {_TITLES[tier]}", (1 + 2 * len(result.pairs) + len(halves)) / steps)
                halves[tier] = _half(tiers[tier][name], tier, options, places.cache, sampler)
            result.pairs.append(Pair(name=name, real=halves[Tier.REAL], lab=halves[Tier.LAB]))
    result.took_s = time.monotonic() - begin_s
    return result


_TITLES = {Tier.REAL: "the program", Tier.LAB: "the stand-in"}


def _half(application: Application, tier: Tier, options: Options, cache: Path, sampler: Sampler) -> Half:
    place = place_for(application, cache=cache, tier=tier)
    found: list[Rates] = []
    versions: Mapping[str, str] = {}
    try:
        for seed in options.seeds:
            folder = default_folder(cache, lab=False)
            with Session.start(application, seed=seed, place=place, folder=folder) as session:
                session.await_ready()
                versions = session.versions
                settled_s = time.monotonic() + options.settle_s
                while time.monotonic() < settled_s:
                    session.check()
                    time.sleep(_TICK_S)
                found += _window(sampler, options.seconds / len(options.seeds), session.check)
    except ApplicationError as error:
        return Half(values={}, versions=versions, reason=str(error))
    return Half(values=_means(found), versions=versions)


def _window(sampler: Sampler, seconds: float, check: Callable[[], None]) -> list[Rates]:
    found = []
    end_s = time.monotonic() + seconds
    before = sampler.sample()
    while time.monotonic() < end_s:
        time.sleep(_TICK_S)
        check()
        now = sampler.sample()
        rates = derive(before, now)
        if rates is not None:
            found.append(rates)
        before = now
    return found


def _means(found: Sequence[Rates]) -> Values:
    values = {}
    for quantity in QUANTITIES:
        known = [value for rates in found if (value := quantity.of(rates)) is not None]
        if known:
            values[quantity.name] = statistics.fmean(known)
    return values


def quiet(result: Result, most_pct: float = 10.0) -> bool:
    """Whether the machine was as good as idle before anything played."""
    return result.idle.values.get("cpu_busy_pct", 100.0) <= most_pct
