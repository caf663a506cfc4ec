# SPDX-License-Identifier: GPL-2.0-only
"""How long after a switch the next one may come: by the settings, or by what such a switch has taken here. Pure.

By `auto` the machine spends at most a twentieth of its time on switches for another class: `TIMES` the median time from
order to confirmed of the last switches to that scheduler, made the same way. One that stands by needs tens of
milliseconds, so the next second or two will do; one that must load first, or for which the running one is stopped
first, needs seconds. What has not been measured yet waits the longest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from asa.core.decision import SchedulerName, SwitchEvent, Way

SHORTEST_S, LONGEST_S = 1.0, 10.0
TIMES = 20
_KEPT = 5  # switches of each kind: one in a moment of load does not decide


@dataclass(frozen=True, slots=True)
class Costs:
    """What switches took, the last of each kind: (scheduler, did it stand by) -> ns from order to confirmed."""

    taken_ns: Mapping[tuple[SchedulerName, bool], tuple[int, ...]] = field(default_factory=dict)


def note(costs: Costs, event: SwitchEvent) -> Costs:
    """Take in a switch that was made. One to what was in force already tells nothing."""
    if event.old == event.new:
        return costs
    kind = (event.new, event.way is Way.STANDBY)
    lately = (*costs.taken_ns.get(kind, ()), event.elapsed_ns)[-_KEPT:]
    return replace(costs, taken_ns={**costs.taken_ns, kind: lately})


def cooldown_s(costs: Costs, target: SchedulerName, *, stands_by: bool, setting: float | Literal["auto"]) -> float:
    """Seconds between the end of the last switch and one to `target`."""
    if setting != "auto":
        return setting
    taken_ns = costs.taken_ns.get((target, stands_by))
    if not taken_ns:
        return LONGEST_S
    return min(LONGEST_S, max(SHORTEST_S, TIMES * median(taken_ns) / 1e9))


def longest_s(setting: float | Literal["auto"]) -> float:
    """The longest that `cooldown_s` can be."""
    return LONGEST_S if setting == "auto" else setting
