# SPDX-License-Identifier: GPL-2.0-only
"""Means and percentiles of what a histogram grew by between two samples. Pure."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import sub

from collectors.ebpf.layout import OCTAVE_FIRST_LOG2, OCTAVE_SLOTS, percentile_ns
from collectors.rates.arithmetic import Fields, ratio, share


def grown(old: Sequence[int] | None, new: Sequence[int] | None) -> list[int] | None:
    """Growth slot by slot; None when a slot went back or their number is another one."""
    if old is None or new is None or len(old) != len(new):
        return None
    slots = list(map(sub, new, old))
    return None if min(slots, default=0) < 0 else slots


def mean_us(time_ns: int | None, events: int | None) -> float | None:
    """Mean time an event in us; None of nothing."""
    mean_ns = ratio(time_ns, events)
    return None if mean_ns is None else mean_ns / 1e3


def spread(
    name: str, time_ns: int | None, slots: list[int] | None, starts: Sequence[int], percents: tuple[int, ...]
) -> Fields:
    """Mean and percentiles of a histogram that grew by `slots`, its sum by `time_ns`; `starts` are as in the layout.

    Nothing of one with more slots than that: it is of another layout.
    """
    if slots is None or len(slots) > len(starts):
        return {}
    fields: Fields = {f"{name}_mean_us": mean_us(time_ns, sum(slots))}
    below = list(accumulate(slots)) if percents else []
    for percent in percents:
        value_ns = percentile_ns(slots, starts, percent / 100, below)
        fields[f"{name}_p{percent}_us"] = None if value_ns is None else value_ns / 1e3
    return fields


def shares(name: str, slots: Sequence[int] | None, ends: Mapping[str, int]) -> Fields:
    """Parts of all events in wide bins of an OCTAVE histogram that grew by `slots`.

    `ends`: a bin's name -> log2 of the ns at which it ends, rising; what is longer than all of them is in `longer`.
    """
    if slots is None or len(slots) != OCTAVE_SLOTS:
        return {}
    below = [0, *accumulate(slots)]
    fields: Fields = {}
    before = 0
    for part, log2 in ends.items():
        reached = below[log2 - OCTAVE_FIRST_LOG2 + 1]
        fields[f"{name}_{part}_share"] = share(reached - before, below[-1])
        before = reached
    fields[f"{name}_longer_share"] = share(below[-1] - before, below[-1])
    return fields
