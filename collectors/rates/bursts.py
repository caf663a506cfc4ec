# SPDX-License-Identifier: GPL-2.0-only
"""Rates of whose turns on the CPU were: how long the turns of single processes are, and who is made to leave.

Over the whole machine long and short turns mix; by process they tell a render, that keeps the CPU until it is taken
off, from a player beside it. Turns that are still under way count when they end.
"""

from bisect import bisect_left
from typing import TypeAlias

from asa.core.sample import ProcessBursts
from collectors.rates.arithmetic import Fields
from collectors.rates.processes import SEEN_CORES

_TOPS = tuple((f"{one}_mean_us", f"{one}_involuntary_share") for one in ("turns_top1", "turns_top2", "turns_top3"))
_FORCED_SHARE = 0.5
_ENDS_NS = (1 << 16, 1 << 18, 1 << 20, 1 << 22)  # the edges of OCTAVE slots: 65 us, 262 us, 1 ms, 4 ms
_SPREAD = (
    "turns_to_65us_share",
    "turns_to_262us_share",
    "turns_to_1ms_share",
    "turns_to_4ms_share",
    "turns_longer_share",
)
_NOTHING = (0, 0, 0, 0)

Turns: TypeAlias = tuple[int, int, int, int]
"""Of one process between the samples: its time on the CPU in ns, its turns (at least one), those of them that ended
though it was able to go on, and its pid. A plain tuple: two dozen are made in each tick."""


def turned(old: ProcessBursts, new: ProcessBursts) -> list[Turns]:
    """The turns of each process that had any, of the one that used the most first.

    One that is in the newer sample alone is followed since the older one was taken: all it has belongs here.
    """
    before = {process[0]: process for process in old.processes}
    found = []
    for pid, now_ns, now_turns, now_involuntary in new.processes:
        _, was_ns, was_turns, was_involuntary = before.get(pid, _NOTHING)
        turns = now_turns - was_turns
        if turns <= 0:  # most of them
            continue
        ns, involuntary = now_ns - was_ns, now_involuntary - was_involuntary
        if ns >= 0 and involuntary >= 0:  # what went back began anew: unknown
            found.append((ns, turns, involuntary, pid))
    found.sort(reverse=True)
    return found


def bursts(fields: Fields, uses: list[Turns], elapsed_s: float) -> None:
    """Of the processes that used the most; how CPU time is spread over processes by the mean length of their turns.

    `uses` as `turned` gives them.
    """
    least_ns = SEEN_CORES * elapsed_s * 1e9
    for (mean_us, involuntary_share), (ns, turns, involuntary, _) in zip(_TOPS, uses, strict=False):
        if ns >= least_ns:
            fields[mean_us] = ns / turns / 1e3
            fields[involuntary_share] = min(1.0, involuntary / turns)
    spread_ns, forced_ns = [0] * len(_SPREAD), 0
    for ns, turns, involuntary, _ in uses:
        spread_ns[bisect_left(_ENDS_NS, ns / turns)] += ns
        if involuntary >= _FORCED_SHARE * turns:
            forced_ns += ns
    whole_ns = sum(spread_ns)
    if whole_ns:
        for name, ns in zip(_SPREAD, spread_ns, strict=True):
            fields[name] = ns / whole_ns
        fields["turns_forced_share"] = forced_ns / whole_ns
