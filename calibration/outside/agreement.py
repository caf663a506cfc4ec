# SPDX-License-Identifier: GPL-2.0-only
"""Do the lab and the published figures put schedulers in the same order? Kendall's tau b, with an interval. Pure.

A published figure of N CPUs is compared with the lab's guest of N alike CPUs, else with its largest that has fewer. The
interval is of the lab alone: each scheduler's mean is drawn again and again from Student's t, which is wide for few
plays. What the published figure may be off by is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from asa.core.errors import AsaError
from calibration.outside.evidence import At, Evidence, Row, Trust
from calibration.paired import LEVEL
from calibration.scale.samples import METRICS, USUAL_HZ, Found, Metric
from scenarios.conditions import SERIAL, time_of_all

ENOUGH = 3
"""Schedulers that make an order worth a figure: of two, tau is 1 or -1."""

AGREES = 0.5
_DRAWS = 2000
_SEED = 27
_METRICS = {metric.name: metric for metric in METRICS}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One published figure at one number of CPUs, beside the lab's. `tau` is None where a side has no order."""

    row: Row
    at: At
    lab_cpus: int
    schedulers: tuple[str, ...]
    outside: tuple[float, ...]  # in the row's unit
    lab: tuple[float, ...]  # means, in the unit that people see
    tau: float | None
    low: float | None  # with `high`, 95 % of draws
    high: float | None
    p: float | None  # of no agreement, by all orders
    draws: Floats  # tau of each; nan without an order

    @property
    def counts(self) -> bool:
        """Are there schedulers enough?"""
        return len(self.schedulers) >= ENOUGH and self.tau is not None

    @property
    def suspect(self) -> str:
        """Which side is likelier wrong, "" where they agree: one run, or a fault that is known, is a weak witness.

        Neither where the draws of the lab's plays hold an agreement, too. What the lab lacks beside it is said.
        """
        if self.tau is None or self.tau >= AGREES:
            return ""
        if self.high is not None and self.high >= AGREES:
            return "neither: the lab's plays are too few to tell"
        weak = self.row.trust is Trust.LOW or self.row.runs == 1
        told = f"outside: {self.row.doubt}" if weak else "lab: it has no caches, and its load is not theirs"
        return (
            told if self.lab_cpus >= self.at.cpus else f"{told}; its {self.at.cpus} CPUs are {self.lab_cpus} in the lab"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """All that compare, equally weighted by row; None where none does."""

    tau: float | None
    low: float | None
    high: float | None
    rows: int


def usable(found: Sequence[Found]) -> list[Found]:
    """Guests of alike CPUs at the usual tick. Raises AsaError where the lab's CPUs took turns, or there are none."""
    for one in found:
        if one.under.clock == SERIAL:
            raise AsaError(f"{one.label}: {one.under.words}: run `asa lab bench scale` again, under the parallel clock")
    alike = [one for one in found if one.alike and one.under.tick_hz == USUAL_HZ]
    if not alike:
        raise AsaError(f"no guest of alike CPUs at {USUAL_HZ} Hz is kept; run `asa lab bench scale`")
    time_of_all((one.label, one.under) for one in alike)
    return sorted(alike, key=lambda one: one.cpus)


def compare(evidence: Evidence, found: Sequence[Found]) -> list[Agreement]:
    """All rows that the lab can play, with the schedulers that both have; two at least."""
    guests = usable(found)
    made = [_one(row, at, guests) for row in evidence.rows if row.lab in _METRICS for at in row.at]
    return [one for one in made if one is not None]


def whole(agreements: Sequence[Agreement]) -> Whole:
    """The mean of the rows' means."""
    rows: dict[str, list[Agreement]] = {}
    for one in agreements:
        if one.counts:
            rows.setdefault(one.row.id, []).append(one)
    if not rows:
        return Whole(tau=None, low=None, high=None, rows=0)
    tau = float(np.mean([np.mean([one.tau for one in same]) for same in rows.values()]))
    draws = np.mean([np.mean([_known(one) for one in same], axis=0) for same in rows.values()], axis=0)
    low, high = np.quantile(draws, (LEVEL / 2.0, 1.0 - LEVEL / 2.0))
    return Whole(tau=tau, low=float(low), high=float(high), rows=len(rows))


def tau_b(one: Floats, others: Floats) -> Floats:
    """Kendall's tau b of one order with each row of `others`; nan where a side has none (Kendall 1945)."""
    first, second = np.triu_indices(len(one), 1)
    ours = np.sign(one[first] - one[second])
    theirs = np.sign(others[:, first] - others[:, second])
    size = np.sqrt(np.count_nonzero(ours) * np.count_nonzero(theirs, axis=1))
    found: Floats = np.divide(theirs @ ours, size, out=np.full(len(others), np.nan), where=size > 0.0)
    return found


def _one(row: Row, at: At, guests: Sequence[Found]) -> Agreement | None:
    lab = _nearest(at.cpus, guests)
    metric = _METRICS[row.lab]
    plays = {name: _values(lab, name, metric) for name in at.figures}
    names = tuple(name for name, values in plays.items() if values)
    if len(names) < 2:
        return None
    good = row.goodness(at)
    outside = np.array([good[name] for name in names])
    sign = 1.0 if metric.more_is_better else -1.0
    means = np.array([np.mean(plays[name]) for name in names])
    tau = float(tau_b(outside, sign * means[None, :])[0])
    known = not np.isnan(tau)
    draws = tau_b(outside, sign * _drawn([plays[name] for name in names]))
    # draws of a single play say nothing of how far it may be off
    sure = known and all(len(plays[name]) > 1 for name in names)
    low, high = np.nanquantile(draws, (LEVEL / 2.0, 1.0 - LEVEL / 2.0)) if sure else (None, None)
    return Agreement(
        row=row,
        at=at,
        lab_cpus=lab.cpus,
        schedulers=names,
        outside=tuple(at.figures[name] for name in names),
        lab=tuple(float(mean) * metric.factor for mean in means),
        tau=tau if known else None,
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        p=float(stats.kendalltau(outside, means).pvalue) if known else None,
        draws=draws,
    )


def _nearest(cpus: int, guests: Sequence[Found]) -> Found:
    return next((one for one in reversed(guests) if one.cpus <= cpus), guests[0])


def _values(found: Found, scheduler: str, metric: Metric) -> list[float]:
    readings = [turn.readings.get(metric.mode, {}) for turn in found.turns if turn.scheduler == scheduler]
    return [value for reading in readings if (value := metric.value(reading)) is not None]


def _drawn(plays: Sequence[Sequence[float]]) -> Floats:
    """Means that may be the true ones, a row each draw."""
    chance = np.random.default_rng(_SEED)
    columns = []
    for values in plays:
        count = len(values)
        error = np.std(values, ddof=1) / np.sqrt(count) if count > 1 else 0.0
        columns.append(np.mean(values) + error * chance.standard_t(max(1, count - 1), _DRAWS))
    return np.column_stack(columns)


def _known(one: Agreement) -> Floats:
    return np.where(np.isnan(one.draws), 0.0, one.draws)
