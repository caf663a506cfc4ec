# SPDX-License-Identifier: GPL-2.0-only
"""Means and percentiles of what a histogram grew by between two samples. Pure."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import sub
from typing import TypeAlias

from collectors.ebpf.layout import OCTAVE_FIRST_LOG2, OCTAVE_SLOTS, percentile_ns
from collectors.rates.arithmetic import Fields


def grown(old: Sequence[int] | None, new: Sequence[int] | None) -> list[int] | None:
    """Growth slot by slot; None when a slot went back or their number is another one."""
    if old is None or new is None or len(old) != len(new):
        return None
    slots = list(map(sub, new, old))
    return None if slots and min(slots) < 0 else slots


def mean_us(time_ns: int | None, events: int | None) -> float | None:
    """Mean time an event in us; None of nothing."""
    # `ratio` without its call: this is asked two dozen times a tick
    return None if time_ns is None or not events else time_ns / events / 1e3


def spread(
    name: str, time_ns: int | None, slots: list[int] | None, starts: Sequence[int], percents: tuple[int, ...]
) -> Fields:
    """Mean and percentiles of a histogram that grew by `slots`, its sum by `time_ns`; `starts` are as in the layout.

    Nothing of one with more slots than that: it is of another layout.
    """
    if slots is None or len(slots) > len(starts):
        return {}
    mean, others = _spread_names(name, percents)
    if not others:
        return {mean: mean_us(time_ns, sum(slots))}
    below = list(accumulate(slots))
    fields: Fields = {mean: mean_us(time_ns, below[-1] if below else 0)}
    for share_below, percentile in others:
        value_ns = percentile_ns(slots, starts, share_below, below)
        fields[percentile] = None if value_ns is None else value_ns / 1e3
    return fields


@cache  # a dozen, the same in each tick
def _spread_names(name: str, percents: tuple[int, ...]) -> tuple[str, tuple[tuple[float, str], ...]]:
    return f"{name}_mean_us", tuple((percent / 100, f"{name}_p{percent}_us") for percent in percents)


Bins: TypeAlias = tuple[tuple[tuple[int, str], ...], str]
"""Wide bins of an OCTAVE histogram: the slot after each one's last with the field of its share, and the rest's."""


def bins(name: str, ends: Mapping[str, int]) -> Bins:
    """`ends`: a bin's name -> log2 of the ns at which it ends, rising; what is longer than all is in `longer`."""
    known = tuple((log2 - OCTAVE_FIRST_LOG2, f"{name}_{part}_share") for part, log2 in ends.items())
    return known, f"{name}_longer_share"


def shares(slots: Sequence[int] | None, wide: Bins) -> Fields:
    """Parts of all events in wide bins of an OCTAVE histogram that grew by `slots`."""
    if slots is None or len(slots) != OCTAVE_SLOTS:
        return {}
    known, longer = wide
    below = list(accumulate(slots))
    whole, before = below[-1], 0
    if not whole:
        return dict.fromkeys((*(field for _, field in known), longer))
    fields: Fields = {}
    for last, field in known:
        reached = below[last]
        fields[field] = (reached - before) / whole
        before = reached
    fields[longer] = (whole - before) / whole
    return fields
