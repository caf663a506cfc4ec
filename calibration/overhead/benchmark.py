# SPDX-License-Identifier: GPL-2.0-only
"""The overhead benchmark: what the agent and its probes cost this machine, measured from outside.

Starts the agent as users do, processes that hold only the probes, and known loads; reads /proc. Makes figures with
their goals and what lies behind them. Writes no file: `calibration.overhead.report` tells people.
"""

import os
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from asa import paths
from asa.core.errors import AsaError
from asa.status import Status
from calibration.goals import Figure
from calibration.overhead import agent as overhead_agent
from calibration.overhead import probes as overhead_probes
from calibration.overhead.agent import Agent, Window
from calibration.overhead.estimates import Slope, Spread, slope, spread
from calibration.overhead.figures import PAPER_CPU_PCT, PAPER_MB, RATE, SLOPE_KB_PER_MIN, OverheadFigure
from calibration.overhead.load import PingPong, build, last_cpu, ping_pong, switches_per_s
from calibration.overhead.probes import Way
from collectors.sources import SOURCES

Tell = Callable[[str, float], None]
"""Takes what is being done now, and the share of the whole that is done, 0.0 to 1.0."""

LOOK_S = 5.0
_DROPPED_S = 60.0  # of the slope: allocators and page cache settle
_RSS_READS_S = 10.0  # for so long a process with the probes reads them before the figure counts
# of 1,000 hand-overs, 0.3-0.7 s in all. Where bursts follow one another, real-time tasks are held up for 50 ms in each
# second (sched(7)): some batches then last longer, and a median of 300 does not see them.
_BATCHES = 300
_SAMPLED_BURSTS = 5  # the reader sees the rate once a second: the last of these has been sampled for a while
_CHECK_S = 15.0
_INTERVAL_S = 1.0  # the budgets' pace
_SHORT_SLOPE_MIN = 10.0  # a heap that grows by steps of 256 KiB shows few of them in less
_PROBES = "ebpf"  # their source's name in the agent's status
_ON_THE_PATH = ("sched_switch", "sched_wakeup")  # what runs in each hand-over
# what an agent without its probes costs depends on them; the timer and the power supply are read beside
_READ = [source for source in SOURCES if source.name not in (_PROBES, "timer", "power")]
_ALWAYS = tuple(source.name for source in _READ if not source.optional)
_OPTIONAL = tuple(source.name for source in _READ if source.optional)
_NO_TICK = "the agent made no tick in so short a time; give --idle-seconds more"
_UNWANTED = "its settings want none"
_ROUND_S = 13.0  # for the progress only


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How long to measure, and which figures."""

    rounds: int = 7
    idle_s: float = 60.0
    slope_min: float = 30.0  # 0: no slope
    only: frozenset[OverheadFigure] = frozenset(OverheadFigure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Nanoseconds of a wakeup and switch in one round: without probes (mean of just before and after), and with."""

    bare_ns: float
    full_ns: float


@dataclass(slots=True, kw_only=True)
class Costs:
    """What probes add to a wakeup and switch, by kind of probes."""

    rounds: int  # asked for
    pairs: dict[str, list[Pair]] = field(default_factory=dict)  # one for each round
    refused: dict[str, str] = field(default_factory=dict)  # kind -> why there is nothing of it
    lacking: dict[str, dict[str, str]] = field(default_factory=dict)  # kind -> program -> why it is not attached

    def added(self, kind: str) -> Spread | None:
        """Nanoseconds, over all rounds; None for a kind that was not measured."""
        return spread([pair.full_ns - pair.bare_ns for pair in self.pairs.get(kind, ())])

    def bare(self, kind: str) -> Spread | None:
        """Nanoseconds without probes in the same rounds."""
        return spread([pair.bare_ns for pair in self.pairs.get(kind, ())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The kernel's own account of the programs while the paced load ran."""

    cpu_pct: float
    ns_per_switch: float
    runs_per_s: float


@dataclass(slots=True, kw_only=True)
class Result:
    """Everything that was measured in one run; None: not asked for, or not possible."""

    began_s: float  # seconds since the epoch
    figures: list[Figure] = field(default_factory=list)
    costs: Costs | None = None
    idle: Window | None = None
    growth: Slope | None = None
    loaded: Window | None = None
    check: Check | None = None
    status: Status | None = None  # the agent's at the end of the idle window
    took_s: float = 0.0

    @property
    def backend(self) -> str:
        """Which kind of probes the agent had; CORE when none, or when no agent ran."""
        return self.status.backends.get(_PROBES, CORE) if self.status is not None else CORE


CORE, BCC, PACED = "core", "bcc", "paced"  # the last one: the agent's backend
CORE_ALL, BCC_ALL = "core, all timed", "bcc, all timed"


class _Beside(NamedTuple):
    """What is put beside a bare wakeup and switch, and for which figure."""

    figure: OverheadFigure
    backend: str | None  # None: the agent's
    way: Way


_KINDS = {
    CORE: _Beside(OverheadFigure.PROBE_NS, CORE, Way.READ),
    BCC: _Beside(OverheadFigure.PROBE_NS_BCC, BCC, Way.READ),
    CORE_ALL: _Beside(OverheadFigure.PROBE_NS_ALL, CORE, Way.STILL),
    BCC_ALL: _Beside(OverheadFigure.PROBE_NS_BCC_ALL, BCC, Way.STILL),
    PACED: _Beside(OverheadFigure.AGENT_CPU_20K, None, Way.PACED),
}
_AGENT = frozenset(
    {
        OverheadFigure.AGENT_CPU,
        OverheadFigure.AGENT_RSS,
        OverheadFigure.AGENT_CPU_20K,
        OverheadFigure.RSS_SLOPE,
        OverheadFigure.OVERRUNS,
    }
)
_COSTS = frozenset(one.figure for one in _KINDS.values())


def measure(options: Options, places: paths.Places, tell: Tell) -> Result:
    """Measure what `options` ask for. Raises AsaError where nothing can be measured: no root, an agent runs."""
    if os.geteuid() != 0:
        raise AsaError("overhead: the probes and SCHED_FIFO need root; run: sudo asa lab bench overhead")
    result = Result(began_s=time.time())
    began_s = time.monotonic()
    steps = _Steps(tell, _expected_s(options))
    with tempfile.TemporaryDirectory(prefix="asa-overhead-") as folder:
        program = build(Path(folder))
        # The agent comes first: it refuses to be measured beside another one, and the rest would then be in vain.
        if options.only & _AGENT:
            with overhead_agent.started(places) as agent:
                _watch(agent, program, options, result, steps, places)
        if options.only & _COSTS:
            result.costs = _probe_costs(program, options.rounds, _kinds(options.only), result.backend, steps)
    made: dict[OverheadFigure, Callable[[], Figure]]
    made = {one.figure: partial(_cost_figure, one.figure, kind, result) for kind, one in _KINDS.items()}
    made |= {
        OverheadFigure.PROBES_RSS: lambda: _probes_rss(options, places, steps),
        OverheadFigure.AGENT_CPU: lambda: _idle_cpu(result),
        OverheadFigure.AGENT_RSS: lambda: _idle_rss(result),
        OverheadFigure.AGENT_CPU_20K: lambda: _loaded_cpu(result),
        OverheadFigure.RSS_SLOPE: lambda: _slope(options, result),
        OverheadFigure.OVERRUNS: lambda: _overruns(result),
    }
    result.figures = [made[name]() for name in OverheadFigure if name in options.only]
    result.took_s = time.monotonic() - began_s
    return result


class _Steps:
    """How far the run has come: seconds that passed in measurements over those expected."""

    def __init__(self, tell: Tell, expected_s: float) -> None:
        self._tell = tell
        self._expected_s = expected_s
        self._done_s = 0.0
        self._what = ""

    def begin(self, what: str) -> None:
        self._what = what
        self.passed(0.0)

    def passed(self, seconds: float) -> None:
        self._done_s += seconds
        self._tell(self._what, min(0.99, self._done_s / self._expected_s))


def _expected_s(options: Options) -> float:
    window_s = _window_s(options) if options.only & _AGENT else 0.0
    loaded_s = options.idle_s + min(_CHECK_S, options.idle_s) if OverheadFigure.AGENT_CPU_20K in options.only else 0.0
    rounds_s = options.rounds * _ROUND_S if options.only & _COSTS else 0.0
    rss_s = _RSS_READS_S if OverheadFigure.PROBES_RSS in options.only else 0.0
    return window_s + loaded_s + rounds_s + rss_s


def _window_s(options: Options) -> float:
    slope_s = options.slope_min * 60.0 if OverheadFigure.RSS_SLOPE in options.only else 0.0
    return max(options.idle_s, slope_s)


def _kinds(only: Collection[OverheadFigure]) -> list[str]:
    return [kind for kind, one in _KINDS.items() if one.figure in only]


def _watch(agent: Agent, program: Path, options: Options, result: Result, steps: _Steps, places: paths.Places) -> None:
    steps.begin("the agent starts")
    agent.settle()
    steps.begin("the agent alone")
    result.idle = agent.follow(_window_s(options), LOOK_S, steps.passed)
    result.status = agent.status()
    if options.slope_min > 0.0:
        start_ns = result.idle.looks[0].monotonic_ns
        later = [((look.monotonic_ns - start_ns) / 60e9, look.memory) for look in result.idle.looks]
        held = [(at_min, (memory.resident_bytes + memory.swapped_bytes) / 1024) for at_min, memory in later]
        result.growth = slope([point for point in held if point[0] * 60.0 >= _DROPPED_S])
    if OverheadFigure.AGENT_CPU_20K not in options.only:
        return
    with switches_per_s(program, last_cpu(), RATE):
        steps.begin(f"the agent beside {RATE:,} switches a second")
        result.loaded = agent.follow(options.idle_s, LOOK_S, steps.passed)
        with overhead_agent.run_times() as timed:
            if timed:
                steps.begin("the same, the kernel timing the probes")
                result.check = _checked(agent, min(_CHECK_S, options.idle_s), steps, places)


def _checked(agent: Agent, seconds: float, steps: _Steps, places: paths.Places) -> Check | None:
    before = overhead_agent.programs_ns(agent.pid, places.proc)
    window = agent.follow(seconds, LOOK_S, steps.passed)
    after = overhead_agent.programs_ns(agent.pid, places.proc)
    if before is None or after is None:
        return None
    spent_ns, runs = after[0] - before[0], after[1] - before[1]
    return Check(
        cpu_pct=spent_ns / 1e7 / window.seconds,
        ns_per_switch=spent_ns / (window.switches_per_s * window.seconds),
        runs_per_s=runs / window.seconds,
    )


def _probe_costs(program: Path, rounds: int, kinds: list[str], agents: str, steps: _Steps) -> Costs:
    costs = Costs(rounds=rounds)
    with ping_pong(program, last_cpu()) as pair:
        pair.time_ns(_BATCHES)  # the first one warms up what is never cold again
        for number in range(rounds):
            began_s = time.monotonic()
            steps.begin(f"ping-pong, round {number + 1} of {rounds}")
            first = number % len(kinds)  # no kind is always the first after the rest
            before_ns = pair.time_ns(_BATCHES)
            for kind in kinds[first:] + kinds[:first]:
                full_ns = _with_probes(pair, kind, agents, costs) if kind not in costs.refused else None
                if full_ns is None:
                    continue
                after_ns = pair.time_ns(_BATCHES)
                found = Pair(bare_ns=(before_ns + after_ns) / 2.0, full_ns=full_ns)
                costs.pairs.setdefault(kind, []).append(found)
                before_ns = after_ns
            steps.passed(time.monotonic() - began_s)
    return costs


def _with_probes(pair: PingPong, kind: str, agents: str, costs: Costs) -> float | None:
    _, backend, way = _KINDS[kind]
    try:
        with overhead_probes.opened(backend or agents, way) as probes:
            costs.lacking.setdefault(kind, {}).update(probes.lacking)
            return [pair.time_ns(_BATCHES) for _ in range(_SAMPLED_BURSTS if way is Way.READ else 1)][-1]
    except overhead_probes.ProbesError as error:
        costs.refused[kind] = str(error)
        return None


def _cost_figure(name: OverheadFigure, kind: str, result: Result) -> Figure:
    assert result.costs is not None  # noqa: S101  # measured whenever one of these figures is asked for
    found, bare = result.costs.added(kind), result.costs.bare(kind)
    if found is None or bare is None:
        return Figure(name=name, value=None, reason=result.costs.refused[kind])
    rounds = f"{found.least:.0f} to {found.greatest:.0f} in {found.count} rounds" if found.count > 1 else "one round"
    detail = f"{rounds}, on top of {bare.median:.0f} ns"
    return Figure(name=name, value=found.median, detail=detail, reason=_spoilt_cost(result.costs, kind))


def _spoilt_cost(costs: Costs, kind: str) -> str:
    """Why the nanoseconds are not those of all programs in all rounds, "" when they are."""
    lacking = costs.lacking.get(kind, {})
    found = [f"without {name}: {lacking[name]}" for name in _ON_THE_PATH if name in lacking]
    taken = len(costs.pairs.get(kind, ()))
    if taken < costs.rounds:
        found.append(f"only {taken} of {costs.rounds} rounds")
    if kind in costs.refused:
        found.append(f"the next one refused: {costs.refused[kind]}")
    return "; ".join(found)


def _probes_rss(options: Options, places: paths.Places, steps: _Steps) -> Figure:
    steps.begin("a process with the probes alone")
    most = 0
    try:
        with overhead_probes.opened(CORE, Way.READ) as probes:
            end_s = time.monotonic() + min(_RSS_READS_S, max(options.idle_s, 2.0))
            while time.monotonic() < end_s:
                time.sleep(1.0)
                most = max(most, overhead_agent.memory(probes.pid, places.proc).resident_bytes)
                steps.passed(1.0)
    except overhead_probes.ProbesError as error:
        return Figure(name=OverheadFigure.PROBES_RSS, value=None, reason=str(error))
    return Figure(name=OverheadFigure.PROBES_RSS, value=most / 1e6)


def _not_whole(result: Result) -> str:
    """Why what was measured is not the whole agent at its pace, "" when it is."""
    status = result.status
    assert status is not None  # noqa: S101  # set with the idle window
    missing, found = status.missing_sources, []
    if _PROBES in missing or _PROBES not in status.cost_us:
        found.append(f"the agent ran without its probes: {missing.get(_PROBES, _UNWANTED)}")
    without = [name for name in _ALWAYS if name in missing or name not in status.cost_us]
    without += [name for name in _OPTIONAL if name not in missing and name not in status.cost_us]
    found += [f"it ran without {name}: {missing.get(name, _UNWANTED)}" for name in without]
    if status.interval_s != _INTERVAL_S:
        found.append(f"a tick each {status.interval_s:g} s by its settings, the budget is for one each second")
    found += [f"{name} was not read in each tick: {text}" for name, text in status.slow_sources.items()]
    return "; ".join(found)


def _absent(result: Result) -> str:
    """Words on what this host has not got, to end a detail with; "" when it has all."""
    assert result.status is not None  # noqa: S101
    names = sorted(name for name in result.status.missing_sources if name not in (_PROBES, *_ALWAYS))
    return f"; this host has no {', '.join(names)}" if names else ""


def _idle_cpu(result: Result) -> Figure:
    assert result.idle is not None  # noqa: S101  # as below: the agent was watched if its figure is made
    if result.idle.ticks == 0:
        return Figure(name=OverheadFigure.AGENT_CPU, value=None, reason=_NO_TICK)
    ratio = PAPER_CPU_PCT / result.idle.cpu_pct
    detail = f"over {result.idle.seconds:.0f} s; {ratio:.1f} times less than the paper's {PAPER_CPU_PCT} %"
    detail += _absent(result)
    return Figure(name=OverheadFigure.AGENT_CPU, value=result.idle.cpu_pct, detail=detail, reason=_not_whole(result))


def _idle_rss(result: Result) -> Figure:
    assert result.idle is not None  # noqa: S101
    detail = f"{PAPER_MB / result.idle.resident_mb:.1f} times less than the paper's {PAPER_MB:.0f} MB"
    detail += f"; {result.idle.kept_mb:.1f} MB more in the process of its timer" if result.idle.kept_mb else ""
    detail += _absent(result)
    return Figure(
        name=OverheadFigure.AGENT_RSS, value=result.idle.resident_mb, detail=detail, reason=_not_whole(result)
    )


def _loaded_cpu(result: Result) -> Figure:
    assert result.loaded is not None  # noqa: S101
    assert result.costs is not None  # noqa: S101
    added = result.costs.added(PACED)
    if added is None:
        reason = f"its kernel side is unknown: {result.costs.refused[PACED]}"
        return Figure(name=OverheadFigure.AGENT_CPU_20K, value=None, reason=reason)
    own_pct, kernel_pct = result.loaded.cpu_pct, added.median * RATE / 1e7
    detail = f"{own_pct:.3f} the process, {kernel_pct:.3f} the kernel side{_absent(result)}"
    spoilt = _spoilt_cost(result.costs, PACED)
    reason = "; ".join(text for text in (_not_whole(result), f"its kernel side: {spoilt}" if spoilt else "") if text)
    return Figure(name=OverheadFigure.AGENT_CPU_20K, value=own_pct + kernel_pct, detail=detail, reason=reason)


def _slope(options: Options, result: Result) -> Figure:
    if result.growth is None:
        reason = f"{options.slope_min:g} minutes are too short: the first is dropped, and three looks are needed"
        return Figure(name=OverheadFigure.RSS_SLOPE, value=None, reason=reason)
    assert result.idle is not None  # noqa: S101  # a growth is that of the idle window
    found, long_min = result.growth, result.idle.seconds / 60.0
    detail = f"standard error {found.error:.3f}, over {long_min:.1f} minutes less the first"
    spoilt = [_not_whole(result)]
    if long_min < _SHORT_SLOPE_MIN:
        spoilt.append(f"{long_min:.1f} minutes are too short to tell a leak; give --slope-minutes 30")
    if found.error > SLOPE_KB_PER_MIN:
        spoilt.append("its standard error exceeds the goal; give --slope-minutes more")
    reason = "; ".join(text for text in spoilt if text)
    return Figure(name=OverheadFigure.RSS_SLOPE, value=found.value, detail=detail, reason=reason, error=found.error)


def _overruns(result: Result) -> Figure:
    assert result.idle is not None  # noqa: S101
    if result.idle.ticks == 0:
        return Figure(name=OverheadFigure.OVERRUNS, value=None, reason=_NO_TICK)
    value = 100.0 * result.idle.overruns / result.idle.ticks
    return Figure(
        name=OverheadFigure.OVERRUNS, value=value, detail=f"{result.idle.overruns} of {result.idle.ticks} ticks"
    )
