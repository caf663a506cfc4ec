# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the switch benchmark: their names, goals, and how they come out of what a guest recorded.

Pure arithmetic over `Found`; with some twenty values a 99th percentile is the largest of them (nearest rank).
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from calibration.switch.samples import Found, Kind, Swap, Switch
from scenarios.lab.emulator import Clock


class Name(StrEnum):
    """The figures, by the names that issue trackers and JSON lines use."""

    GAP_MEDIAN = "gap_ratio_median"
    GAP_P99 = "gap_ratio_p99"
    STANDBY_P99 = "standby_switch_p99_ms"
    FLOOR_P99 = "switch_floor_p99_ms"
    OVER_FLOOR = "standby_over_floor_ratio"
    OVER_KERNEL = "standby_over_kernel_ratio"
    OWN = "standby_own_ms"
    LOADED_OVER_FLOOR = "gated_less_load_over_floor_ratio"
    RSS = "standby_rss_mb"
    IDLE_CPU = "standby_cpu_ms"
    WORST_GATED = "probe_worst_gated_ms"
    WORST_STANDBY = "probe_worst_standby_ms"
    WORST_PLAIN = "probe_worst_plain_ms"
    WORST_NONE = "probe_worst_none_ms"
    EXTERNAL = "external_change_seen_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is, and the bound that it has to meet; `bound` None: it is there to be looked at."""

    unit: str
    what: str
    why: str = ""
    bound: float | None = None
    at_least: bool = False
    clocks: frozenset[Clock] = frozenset(Clock)  # under which the bound holds


_BUDGET = "the project's budget"
_ICOUNT = frozenset({Clock.ICOUNT})
GOALS: dict[Name, Goal] = {
    Name.GAP_MEDIAN: Goal(
        unit="times",
        what="gap of stop-then-start over that of the gate, both medians; a gap is the time in which neither the old "
        "nor the new scheduler is in force, and both ways load the new one within the switch",
        why=_BUDGET,
        bound=200.0,
        at_least=True,
    ),
    Name.GAP_P99: Goal(unit="times", what="the same, of the 99th percentiles", why=_BUDGET, bound=100.0, at_least=True),
    Name.STANDBY_P99: Goal(
        unit="ms",
        what="from the order of a switch to a scheduler that waits until it is confirmed; 99th percentile",
        why=f"{_BUDGET}, of guest time under icount",
        bound=20.0,
        clocks=_ICOUNT,
    ),
    Name.FLOOR_P99: Goal(
        unit="ms",
        what="the kernel's own floor: a C program puts one loaded scx_simple in another's place; 99th percentile",
    ),
    Name.OVER_FLOOR: Goal(unit="times", what="the first of these two over the second", why=_BUDGET, bound=1.5),
    Name.OVER_KERNEL: Goal(
        unit="times",
        what="the same, but over what the kernel takes for these very schedulers (the C program with the rota's pairs)",
    ),
    Name.OWN: Goal(
        unit="ms",
        what="what a switch to a scheduler that waits takes more than the kernel does, pair by pair; median of pairs",
    ),
    Name.LOADED_OVER_FLOOR: Goal(
        unit="times",
        what="a gated switch without standby, from when the new one is loaded: 99th percentile, over the floor's",
        why=_BUDGET,
        bound=1.5,
    ),
    Name.RSS: Goal(
        unit="MB",
        what="resident memory of the largest scheduler that waits (10^6 bytes, shared pages counted)",
        why="half of the budget of 48 MB, so that two fit",
        bound=24.0,
    ),
    Name.IDLE_CPU: Goal(
        unit="ms",
        what="processor time of all that wait, over ten seconds",
        why="none, by the project's budget; this is a ten-thousandth of one core",
        bound=1.0,
    ),
    Name.WORST_GATED: Goal(
        unit="ms",
        what="latest wakeup of an ordinary task with a 1 ms timer, from the order of a gated switch (with its load) to "
        "its confirmation",
    ),
    Name.WORST_STANDBY: Goal(unit="ms", what="the same, to a scheduler that waits"),
    Name.WORST_PLAIN: Goal(unit="ms", what="the same, stop-then-start"),
    Name.WORST_NONE: Goal(unit="ms", what="the same beside a running scheduler and no switch"),
    Name.EXTERNAL: Goal(
        unit="ms",
        what="until a change made by others (attached, evicted, killed) is seen by the kernel's event, the largest",
        why=_BUDGET,
        bound=100.0,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number under one clock. `value` is None when it could not be measured; `reason` tells why."""

    name: Name
    clock: Clock
    value: float | None
    detail: str = ""
    reason: str = ""

    @property
    def bound(self) -> float | None:
        """The goal's, None where there is none under this clock."""
        goal = GOALS[self.name]
        return goal.bound if self.clock in goal.clocks else None

    @property
    def ok(self) -> bool | None:
        """Does it meet the goal? None without one."""
        if self.bound is None:
            return None
        if self.value is None:
            return False
        return self.value >= self.bound if GOALS[self.name].at_least else self.value <= self.bound


def figures(found: Found, clock: Clock) -> list[Figure]:
    """All figures of one guest, in the order of their names."""
    return [_figure(name, found, clock) for name in Name]


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the least value that `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def timed(found: Found, kind: Kind) -> list[Switch]:
    """Switches of a kind beside which no probe ran."""
    return [switch for switch in found.switches if switch.kind is kind and not switch.witnessed]


def gaps_ms(found: Found, kind: Kind) -> list[float]:
    """Their gaps."""
    return [switch.gap_ns / 1e6 for switch in timed(found, kind) if switch.gap_ns is not None]


def took_ms(found: Found, kind: Kind) -> list[float]:
    """From order to confirmation."""
    return [switch.took_ns / 1e6 for switch in timed(found, kind)]


def confirmed_ms(swaps: Sequence[Swap]) -> list[float]:
    """The kernel's own part."""
    return [swap.confirmed_ns / 1e6 for swap in swaps]


def _figure(name: Name, found: Found, clock: Clock) -> Figure:
    try:
        value, detail = _MADE[name](found)
    except _LackError as lack:
        return Figure(name=name, clock=clock, value=None, reason=str(lack))
    return Figure(name=name, clock=clock, value=value, detail=detail)


class _LackError(Exception):
    # What a figure would have been made of was not recorded.
    pass


def _had(values: Sequence[float], what: str) -> Sequence[float]:
    if not values:
        raise _LackError(f"{what}: none was measured")
    return values


def _gap_ratio(found: Found, of: Callable[[Sequence[float]], float]) -> tuple[float, str]:
    plain, gated = (_had(gaps_ms(found, kind), f"gaps of {kind} switches") for kind in (Kind.PLAIN, Kind.GATED))
    detail = f"{of(plain):.0f} over {of(gated):.2f} ms, {len(plain)} and {len(gated)} switches"
    standby = gaps_ms(found, Kind.STANDBY)
    beside = f"; to a standby {of(plain) / of(standby):.0f} times" if standby else ""
    return of(plain) / of(gated), detail + beside


def _p99(values: Sequence[float]) -> float:
    return percentile(values, 0.99)


def _spread(values: Sequence[float]) -> str:
    return f"median {statistics.median(values):.2f}, {min(values):.2f} to {max(values):.2f} in {len(values)}"


def _standby_p99(found: Found) -> tuple[float, str]:
    values = _had(took_ms(found, Kind.STANDBY), "switches to a standby")
    return _p99(values), _spread(values)


def _floor_p99(found: Found) -> tuple[float, str]:
    values = _had(confirmed_ms(found.floor), "exchanges of scx_simple")
    return _p99(values), _spread(values)


def _over_floor(found: Found) -> tuple[float, str]:
    ours, floor = _standby_p99(found)[0], _floor_p99(found)[0]
    return ours / floor, f"{ours:.2f} over {floor:.2f} ms"


def _over_kernel(found: Found) -> tuple[float, str]:
    ours = _standby_p99(found)[0]
    kernel = _p99(_had(confirmed_ms(found.kernels), "exchanges of the rota's schedulers"))
    return ours / kernel, f"{ours:.2f} over {kernel:.2f} ms"


def _own(found: Found) -> tuple[float, str]:
    """Median over pairs of the difference of the pair's two medians."""
    kernels: dict[tuple[str, str], list[float]] = {}
    for swap in found.kernels:
        kernels.setdefault((swap.old, swap.new), []).append(swap.confirmed_ns / 1e6)
    ours: dict[tuple[str, str], list[float]] = {}
    for switch in timed(found, Kind.STANDBY):
        ours.setdefault((switch.old, switch.new), []).append(switch.took_ns / 1e6)
    both = [statistics.median(ours[pair]) - statistics.median(kernels[pair]) for pair in ours if pair in kernels]
    _had(both, "pairs of schedulers with both")
    return statistics.median(both), f"{min(both):.2f} to {max(both):.2f} in {len(both)} pairs"


def _loaded_over_floor(found: Found) -> tuple[float, str]:
    rest = [
        (switch.took_ns - step.at_ns) / 1e6
        for switch in timed(found, Kind.GATED)
        for step in switch.steps
        if step.name == "parked"
    ]
    ours, floor = _p99(_had(rest, "gated switches with that step")), _floor_p99(found)[0]
    return ours / floor, f"{ours:.2f} over {floor:.2f} ms; {_spread(rest)}"


def _rss(found: Found) -> tuple[float, str]:
    values = _had([one.rss_bytes / 1e6 for one in found.parked], "schedulers that wait")
    each = ", ".join(
        f"{one.scheduler.removeprefix('scx_')} {one.rss_bytes / 1e6:.1f} ({one.pss_bytes / 1e6:.1f} its share)"
        for one in found.parked
    )
    return max(values), each


def _idle_cpu(found: Found) -> tuple[float, str]:
    values = _had([one.cpu_ns / 1e6 for one in found.parked], "schedulers that wait")
    return math.fsum(values), f"{len(values)} schedulers"


def _worst(kind: Kind) -> Callable[[Found], tuple[float, str]]:
    def of(found: Found) -> tuple[float, str]:
        beside = [one for one in found.lateness if one.kind is kind and one.wakeups]
        worst = _had([one.worst_ns / 1e6 for one in beside], f"wakeups beside {kind}")
        wakeups, window_ms = sum(one.wakeups for one in beside), sum(one.window_ns for one in beside) / 1e6
        middle = f"median of the worst {statistics.median(worst):.2f}"
        return max(worst), f"of {wakeups} in {len(beside)} windows, {window_ms:.0f} ms; {middle}"

    return of


def _external(found: Found) -> tuple[float, str]:
    values = _had([one.event_ms for one in found.external], "changes from outside")
    looks = max(one.poll_ms for one in found.external)
    return max(values), f"{_spread(values)}; by looks each 50 ms at most {looks:.1f}"


_MADE: dict[Name, Callable[[Found], tuple[float, str]]] = {
    Name.GAP_MEDIAN: lambda found: _gap_ratio(found, statistics.median),
    Name.GAP_P99: lambda found: _gap_ratio(found, _p99),
    Name.STANDBY_P99: _standby_p99,
    Name.FLOOR_P99: _floor_p99,
    Name.OVER_FLOOR: _over_floor,
    Name.OVER_KERNEL: _over_kernel,
    Name.OWN: _own,
    Name.LOADED_OVER_FLOOR: _loaded_over_floor,
    Name.RSS: _rss,
    Name.IDLE_CPU: _idle_cpu,
    Name.WORST_GATED: _worst(Kind.GATED),
    Name.WORST_STANDBY: _worst(Kind.STANDBY),
    Name.WORST_PLAIN: _worst(Kind.PLAIN),
    Name.WORST_NONE: _worst(Kind.QUIET),
    Name.EXTERNAL: _external,
}
