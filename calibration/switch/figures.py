# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the switch benchmark: their names, goals, and how they come out of what a guest recorded.

Pure arithmetic over `Found`; with some twenty values a 99th percentile is the largest of them (nearest rank).
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from calibration.goals import Figure, Goal, Named
from calibration.switch.samples import Found, Kind, Swap, Switch
from scenarios.lab.emulator import Clock

_BUDGET = "the project's budget"


class SwitchFigure(Named):
    """The figures, each with its goal."""

    GAP_MEDIAN = (
        "gap_ratio_median",
        "times",
        (
            "gap of stop-then-start over that of the gate, both medians; a gap is the time in which neither the "
            "old nor the new scheduler is in force, and both ways load the new one within the switch"
        ),
        ">=",
        200.0,
        _BUDGET,
    )
    GAP_P99 = ("gap_ratio_p99", "times", "the same, of the 99th percentiles", ">=", 100.0, _BUDGET)
    STANDBY_P99 = (
        "standby_switch_p99_ms",
        "ms",
        "from the order of a switch to a scheduler that waits until it is confirmed; 99th percentile",
        "<=",
        20.0,
        f"{_BUDGET}, of guest time under the parallel clock",
    )
    FLOOR_P99 = (
        "switch_floor_p99_ms",
        "ms",
        "the kernel's own floor: a C program puts one loaded scx_simple in another's place; 99th percentile",
    )
    OVER_FLOOR = ("standby_over_floor_ratio", "times", "the first of these two over the second", "<=", 1.5, _BUDGET)
    OVER_KERNEL = (
        "standby_over_kernel_ratio",
        "times",
        ("the same, but over what the kernel takes for these very schedulers (the C program with the rota's pairs)"),
    )
    OWN = (
        "standby_own_ms",
        "ms",
        "what a switch to a scheduler that waits takes more than the kernel does, pair by pair; median of pairs",
    )
    LOADED_OVER_FLOOR = (
        "gated_less_load_over_floor_ratio",
        "times",
        "a gated switch without standby, from when the new one is loaded: 99th percentile, over the floor's",
        "<=",
        1.5,
        _BUDGET,
    )
    RSS = (
        "standby_rss_mb",
        "MB",
        "resident memory of the largest scheduler that waits (10^6 bytes, shared pages counted)",
        "<=",
        24.0,
        "half of the budget of 48 MB, so that two fit",
    )
    IDLE_CPU = (
        "standby_cpu_ms",
        "ms",
        "processor time of all that wait, over ten seconds",
        "<=",
        1.0,
        "none, by the project's budget; this is a ten-thousandth of one core",
    )
    WORST_GATED = (
        "probe_worst_gated_ms",
        "ms",
        (
            "latest wakeup of an ordinary task with a 1 ms timer, from the order of a gated switch (with its "
            "load) to its confirmation"
        ),
    )
    WORST_STANDBY = ("probe_worst_standby_ms", "ms", "the same, to a scheduler that waits")
    WORST_PLAIN = ("probe_worst_plain_ms", "ms", "the same, stop-then-start")
    WORST_NONE = ("probe_worst_none_ms", "ms", "the same beside a running scheduler and no switch")
    EXTERNAL = (
        "external_change_seen_ms",
        "ms",
        "until a change made by others (attached, evicted, killed) is seen by the kernel's event, the largest",
        "<=",
        100.0,
        _BUDGET,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockedFigure(Figure):
    """One number under one clock: the goal of `standby_switch_p99_ms` is of guest time alone."""

    clock: Clock

    @property
    def goal(self) -> Goal:
        """The name's, without a bound where it does not hold under this clock."""
        if self.name is SwitchFigure.STANDBY_P99 and self.clock is not Clock.PARALLEL:
            return replace(self.name.goal, bound=None)
        return self.name.goal


def figures(found: Found, clock: Clock) -> list[ClockedFigure]:
    """All figures of one guest, in the order of their names."""
    return [_figure(name, found, clock) for name in SwitchFigure]


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


def _figure(name: SwitchFigure, found: Found, clock: Clock) -> ClockedFigure:
    try:
        value, detail = _MADE[name](found)
    except _LackError as lack:
        return ClockedFigure(name=name, clock=clock, value=None, reason=str(lack))
    return ClockedFigure(name=name, clock=clock, value=value, detail=detail)


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


_MADE: dict[SwitchFigure, Callable[[Found], tuple[float, str]]] = {
    SwitchFigure.GAP_MEDIAN: lambda found: _gap_ratio(found, statistics.median),
    SwitchFigure.GAP_P99: lambda found: _gap_ratio(found, _p99),
    SwitchFigure.STANDBY_P99: _standby_p99,
    SwitchFigure.FLOOR_P99: _floor_p99,
    SwitchFigure.OVER_FLOOR: _over_floor,
    SwitchFigure.OVER_KERNEL: _over_kernel,
    SwitchFigure.OWN: _own,
    SwitchFigure.LOADED_OVER_FLOOR: _loaded_over_floor,
    SwitchFigure.RSS: _rss,
    SwitchFigure.IDLE_CPU: _idle_cpu,
    SwitchFigure.WORST_GATED: _worst(Kind.GATED),
    SwitchFigure.WORST_STANDBY: _worst(Kind.STANDBY),
    SwitchFigure.WORST_PLAIN: _worst(Kind.PLAIN),
    SwitchFigure.WORST_NONE: _worst(Kind.QUIET),
    SwitchFigure.EXTERNAL: _external,
}
