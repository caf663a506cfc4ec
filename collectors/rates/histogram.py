# SPDX-License-Identifier: GPL-2.0-only
"""Means and percentiles of what a histogram grew by between two samples.

What is found goes into the fields that are being made; what is unknown is left as it is there.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import sub
from typing import NamedTuple, TypeAlias

from collectors.ebpf.layout import OCTAVE_FIRST_LOG2, OCTAVE_SLOTS, percentiles_ns
from collectors.rates.arithmetic import Fields


def grown(old: Sequence[int] | None, new: Sequence[int] | None) -> list[int] | None:
    """Growth slot by slot; None when a slot went back or their number is another one."""
    if old is None or new is None or len(old) != len(new):
        return None
    slots = list(map(sub, new, old))
    return None if slots and min(slots) < 0 else slots


def running(old: Sequence[int] | None, new: Sequence[int] | None) -> list[int] | None:
    """The same as running sums: growth of each slot and all before it."""
    slots = grown(old, new)
    return None if slots is None else list(accumulate(slots))


def mean_us(time_ns: int | None, events: int | None) -> float | None:
    """Mean time an event in us; None of nothing."""
    # `ratio` without its call: this is asked two dozen times a tick
    return None if time_ns is None or not events else time_ns / events / 1e3


class Names(NamedTuple):
    """Fields of a histogram: its mean's, and the percentiles' with the share below each, rising."""

    mean: str
    shares: tuple[float, ...]
    percentiles: tuple[str, ...]


def names(name: str, *percents: int) -> Names:
    """Of the histogram `name`."""
    return Names(
        f"{name}_mean_us", tuple(percent / 100 for percent in percents), tuple(f"{name}_p{one}_us" for one in percents)
    )


def spread(
    fields: Fields, named: Names, time_ns: int | None, below: Sequence[int] | None, starts: Sequence[int]
) -> None:
    """Mean and percentiles of a histogram that grew by `below` (`running`), its sum by `time_ns`.

    `starts` are as in the layout; nothing of a histogram with more slots: it is of another layout.
    """
    if not below or not below[-1] or len(below) > len(starts):
        return
    if time_ns is not None:
        fields[named.mean] = time_ns / below[-1] / 1e3
    for field, value_ns in zip(named.percentiles, percentiles_ns(below, starts, named.shares), strict=True):
        fields[field] = value_ns / 1e3


Bins: TypeAlias = tuple[tuple[tuple[int, str], ...], str]
"""Wide bins of an OCTAVE histogram: the slot after each one's last with the field of its share, and the rest's."""


def bins(name: str, ends: Mapping[str, int]) -> Bins:
    """`ends`: a bin's name -> log2 of the ns at which it ends, rising; what is longer than all is in `longer`."""
    known = tuple((log2 - OCTAVE_FIRST_LOG2, f"{name}_{part}_share") for part, log2 in ends.items())
    return known, f"{name}_longer_share"


def shares(fields: Fields, wide: Bins, below: Sequence[int] | None) -> None:
    """Parts of all events in wide bins of an OCTAVE histogram that grew by `below` (`running`)."""
    if below is None or len(below) != OCTAVE_SLOTS or not below[-1]:
        return
    known, longer = wide
    whole, before = below[-1], 0
    for last, field in known:
        reached = below[last]
        fields[field] = (reached - before) / whole
        before = reached
    fields[longer] = (whole - before) / whole
