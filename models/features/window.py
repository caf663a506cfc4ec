# SPDX-License-Identifier: GPL-2.0-only
"""The last seconds as the model sees them: the newest tick's values, and statistics of some values up to it.

Mean over 3 s and 6 s, slope and standard deviation over 6 s. A window that has just begun gives the statistics of what
there is; a value that was unknown at some ticks those of the others. What is older than the window is forgotten, so a
gap begins anew; who knows that there was one (the machine slept) passes an empty window. Pure.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asa.core.decision import FeatureFrame
from collectors.rates import Rates
from models.features.column import Column
from models.features.table import FOLLOWED, SCHEMA, VALUES
from models.features.tick import Numbers, values

SHORT_S, LONG_S = 3.0, 6.0
_TICK_S = 1.0
# A tick's rates are those of the second before it: a tick counts while most of that second lies in the window.
_SHORT_S, _LONG_NS = SHORT_S - _TICK_S / 2, int((LONG_S - _TICK_S / 2) * 1e9)

_LEAST_EXTENT_S2 = 1e-6
_sum = np.add.reduce  # over the ticks; what `sum` calls, in half the time

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


def _nothing(width: int) -> Numbers:
    made = np.full(width, np.nan)
    made.setflags(write=False)
    return made


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """The newest tick, and the followed values of the ticks in the window, the newest last. Nobody writes to them."""

    times_ns: tuple[int, ...] = ()  # CLOCK_MONOTONIC
    newest: Numbers = field(default_factory=lambda: _nothing(len(VALUES)))  # (VALUES,)
    followed: Numbers = field(default_factory=lambda: _nothing(0).reshape(0, len(_FOLLOWED)))  # (times, FOLLOWED)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Window):
            return NotImplemented
        pairs = ((self.newest, other.newest), (self.followed, other.followed))
        return self.times_ns == other.times_ns and all(np.array_equal(*pair, equal_nan=True) for pair in pairs)

    __hash__ = None  # type: ignore[assignment]  # arrays have none


def push(window: Window, monotonic_ns: int, rates: Rates, cpus: int) -> Window:
    """Take one tick in; `cpus` is the number of online cores, at least 1. Time that stood still begins anew."""
    newest = values(rates, cpus)
    row = newest[_FOLLOWED].reshape(1, -1)
    times_ns = window.times_ns
    if times_ns and times_ns[-1] >= monotonic_ns:
        times_ns = ()
    old = sum(time_ns < monotonic_ns - _LONG_NS for time_ns in times_ns)
    kept = window.followed[old : len(times_ns)]
    followed = np.concatenate((kept, row)) if len(kept) else row
    newest.setflags(write=False)
    followed.setflags(write=False)
    return Window(times_ns=(*times_ns[old:], monotonic_ns), newest=newest, followed=followed)


def vector(window: Window) -> Numbers:
    """What the model sees, float64 (COLUMNS,), NaN where unknown."""
    seen = window.followed
    if not len(seen):
        return _nothing(len(COLUMNS))
    last_ns = window.times_ns[-1]
    times_s = [(time_ns - last_ns) / 1e9 for time_ns in window.times_ns]
    at_s = np.array(times_s)
    known = np.isfinite(seen)
    filled = np.where(known, seen, 0.0)
    short = len(times_s) - sum(time_s > -_SHORT_S for time_s in times_s)
    count = _or_unknown(_sum(known, dtype=np.intp))
    mean = _sum(filled) / count
    short_mean = _sum(filled[short:]) / _or_unknown(_sum(known[short:], dtype=np.intp))
    apart = np.where(known, filled - mean, 0.0)
    deviation = np.sqrt(_sum(apart * apart) / count)
    # least squares by column: the times at which it was known, about their mean
    times, squares = np.array((at_s, at_s * at_s)) @ known
    extent = squares - times * times / count
    extent[extent < _LEAST_EXTENT_S2] = np.inf  # a single tick has no slope
    return np.concatenate((window.newest, short_mean, mean, at_s @ apart / extent, deviation))


def frame(window: Window) -> FeatureFrame:
    """The same as a frame."""
    numbers = vector(window)
    numbers.setflags(write=False)
    return FeatureFrame(schema=SCHEMA, values=numbers)


def _or_unknown(count: NDArray[np.int_]) -> Numbers:
    # a mean of nothing is NaN without a warning
    return np.where(count, count, np.nan)
