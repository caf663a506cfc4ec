# SPDX-License-Identifier: GPL-2.0-only
"""Rates and levels that need no function of their own: growth of one counter, or one number as it is.

`collectors.metrics` declares them with `of=counter(...)` or `of=state(...)`; here the declarations become tables, one
for each part of a sample, that a tick goes through without a call for each field.
"""

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from asa.core.sample import RawSample
from collectors.metrics import METRICS
from collectors.metrics.kinds import Counter, Metric, State
from collectors.rates.arithmetic import Fields, rate

_Read = Callable[[Any], tuple[int | None, ...]]


class _Table(NamedTuple):
    """Of one part of a sample."""

    part: Callable[[RawSample], Any]
    names: tuple[str, ...]
    read: _Read


def _table(part: str, fields: dict[str, str]) -> _Table:
    if len(fields) > 1:
        read: _Read = attrgetter(*fields.values())
    else:
        one: Callable[[Any], int | None] = attrgetter(next(iter(fields.values())))

        def read(state: Any) -> tuple[int | None, ...]:
            return (one(state),)

    return _Table(attrgetter(part), tuple(fields), read)


def _tables(metrics: Iterable[Metric]) -> tuple[_Table, ...]:
    found: dict[str, dict[str, str]] = {}
    for metric in metrics:
        if metric.of is not None:
            found.setdefault(metric.part, {})[metric.field] = metric.of.field
    return tuple(_table(part, fields) for part, fields in found.items())


_SCALES = {
    metric.field: (metric.of.times, metric.of.per)
    for metric in METRICS
    if isinstance(metric.of, Counter) and (metric.of.times, metric.of.per) != (1, 1.0)
}


class Tables(NamedTuple):
    """Of the fields that are wanted: growth a second, the same in other units, levels."""

    rates: tuple[_Table, ...]
    scaled: tuple[_Table, ...]
    levels: tuple[_Table, ...]


def tables(names: Collection[str]) -> Tables:
    """Those of the named fields that are declared."""
    wanted = [metric for metric in METRICS if metric.field in names]
    counters = [metric for metric in wanted if isinstance(metric.of, Counter)]
    return Tables(
        rates=_tables(metric for metric in counters if metric.field not in _SCALES),
        scaled=_tables(metric for metric in counters if metric.field in _SCALES),
        levels=_tables(metric for metric in wanted if isinstance(metric.of, State)),
    )


def rates(fields: Fields, planned: Tables, previous: RawSample, current: RawSample, elapsed_s: float) -> None:
    """All declared rates, but where a counter went back or is not known in one of the samples."""
    for part, names, read in planned.rates:
        old, new = part(previous), part(current)
        if old is not None and new is not None:
            for name, before, now in zip(names, read(old), read(new), strict=True):
                if before is not None and now is not None and now >= before:
                    fields[name] = (now - before) / elapsed_s
    for part, names, read in planned.scaled:
        old, new = part(previous), part(current)
        if old is not None and new is not None:
            for name, before, now in zip(names, read(old), read(new), strict=True):
                times, per = _SCALES[name]
                fields[name] = rate(before, now, elapsed_s * per, times)


def levels(fields: Fields, planned: Tables, sample: RawSample) -> None:
    """All declared levels."""
    for part, names, read in planned.levels:
        state = part(sample)
        if state is not None:
            for name, value in zip(names, read(state), strict=True):
                if value is not None:
                    fields[name] = float(value)
