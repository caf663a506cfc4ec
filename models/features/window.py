# SPDX-License-Identifier: GPL-2.0-only
"""The last seconds as the model sees them: the newest tick's values, and statistics of some values up to it.

Mean over 3 s and 6 s, slope and standard deviation over 6 s. A window that has just begun gives the statistics of what
there is; a value that was unknown at some ticks those of the others. What is older than the window is forgotten, so a
gap begins anew; who knows that there was one (the machine slept) passes an empty window. Pure.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from asa.core.decision import FeatureFrame
from collectors.rates import Rates
from models.features.column import Column, Value
from models.features.table import FOLLOWED, SCHEMA, VALUES
from models.features.tick import Numbers, values

SHORT_S, LONG_S = 3.0, 6.0
_TICK_S = 1.0
# A tick's rates are those of the second before it: a tick counts while most of that second lies in the window.
_SHORT_S, _LONG_NS = SHORT_S - _TICK_S / 2, int((LONG_S - _TICK_S / 2) * 1e9)

_LEAST_EXTENT_S2 = 1e-6

_STATISTICS = {
    "mean3s": "mean over 3 s of",
    "mean6s": "mean over 6 s of",
    "slope6s": "change a second over 6 s of",
    "deviation6s": "standard deviation over 6 s of",
}
_BY_NAME = {value.name: value for value in VALUES}
_FOLLOWED = np.array([VALUES.index(_BY_NAME[name]) for name in FOLLOWED], dtype=np.intp)


def _statistic(key: str, of: Column) -> Column:
    sentence = f"{_STATISTICS[key]} {of.sentence}"
    return Column(name=f"{of.name}_{key}", sentence=sentence, source=of.source, suspect=of.suspect)


COLUMNS: tuple[Column, ...] = (
    *VALUES,
    *(_statistic(key, _BY_NAME[name]) for key in _STATISTICS for name in FOLLOWED),
)
"""Of `vector`, in order."""


def value_of(place: int) -> Value:
    """What the column at a place is, or is a statistic of."""
    return VALUES[place if place < len(VALUES) else _FOLLOWED[(place - len(VALUES)) % len(FOLLOWED)]]


def _nothing(width: int) -> Numbers:
    made = np.full(width, np.nan)
    made.setflags(write=False)
    return made


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """The newest tick, and the followed values of the ticks in the window, the newest last. Nobody writes to them.

    Each tick's row has two halves: 1 where a value was known and 0 elsewhere; the values, 0 where unknown.
    """

    times_ns: tuple[int, ...] = ()  # CLOCK_MONOTONIC
    newest: Numbers = field(default_factory=lambda: _nothing(len(VALUES)))  # (VALUES,)
    followed: Numbers = field(default_factory=lambda: _nothing(0).reshape(0, 2 * len(FOLLOWED)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Window):
            return NotImplemented
        pairs = ((self.newest, other.newest), (self.followed, other.followed))
        return self.times_ns == other.times_ns and all(np.array_equal(*pair, equal_nan=True) for pair in pairs)

    __hash__ = None  # type: ignore[assignment]  # arrays have none


def push(window: Window, monotonic_ns: int, rates: Rates, cpus: int) -> Window:
    """Take one tick in; `cpus` is the number of online cores, at least 1. Time that stood still begins anew."""
    newest = values(rates, cpus)
    times_ns, kept = window.times_ns, window.followed
    if times_ns and times_ns[-1] >= monotonic_ns:
        times_ns, kept = (), kept[:0]
    old = bisect_left(times_ns, monotonic_ns - _LONG_NS)
    followed = np.zeros((len(times_ns) - old + 1, 2 * len(FOLLOWED)))
    followed[:-1] = kept[old:]
    row, seen = followed[-1], newest[_FOLLOWED]
    known = np.isfinite(seen)
    row[: len(FOLLOWED)] = known
    np.copyto(row[len(FOLLOWED) :], seen, where=known)
    newest.setflags(write=False)
    followed.setflags(write=False)
    return Window(times_ns=(*times_ns[old:], monotonic_ns), newest=newest, followed=followed)


def vector(window: Window) -> Numbers:
    """What the model sees, float64 (COLUMNS,), NaN where unknown."""
    if not window.times_ns:
        return _nothing(len(COLUMNS))
    last_ns, width = window.times_ns[-1], len(FOLLOWED)
    known, filled = window.followed[:, :width], window.followed[:, width:]
    at_s = [(time_ns - last_ns) / 1e9 for time_ns in window.times_ns]
    # what sums weigh the ticks by: those of the last 3 s, all, their times, and these squared
    weights = np.array(([time_s > -_SHORT_S for time_s in at_s], [1.0] * len(at_s), at_s, [s * s for s in at_s]))
    sums = weights @ window.followed  # (4, 2 * FOLLOWED)
    count, times, squares = sums[:2, :width], sums[2, :width], sums[3, :width]
    count[count == 0.0] = np.nan  # nothing has no mean
    seen = np.empty(len(COLUMNS))
    seen[: len(VALUES)] = window.newest
    means, slope, deviation = seen[_MEANS].reshape(2, width), seen[_SLOPE], seen[_DEVIATION]
    np.divide(sums[:2, width:], count, out=means)
    apart = (filled - means[1]) * known
    np.sqrt(np.add.reduce(apart * apart) / count[1], out=deviation)
    # least squares by column: the times at which it was known, about their mean
    extent = squares - times * times / count[1]
    extent[extent < _LEAST_EXTENT_S2] = np.inf  # a single tick has no slope
    np.divide(weights[2] @ apart, extent, out=slope)
    return seen


_MEANS, _SLOPE, _DEVIATION = (
    slice(len(VALUES) + first * len(FOLLOWED), len(VALUES) + last * len(FOLLOWED))
    for first, last in ((0, 2), (2, 3), (3, 4))
)


def frame(window: Window) -> FeatureFrame:
    """The same as a frame."""
    numbers = vector(window)
    numbers.setflags(write=False)
    return FeatureFrame(schema=SCHEMA, values=numbers)
