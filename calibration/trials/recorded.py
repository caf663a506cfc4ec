# SPDX-License-Identifier: GPL-2.0-only
"""The noise that trials are played on: what the guard's signals were, second by second, in the kept recordings.

Those of real programs under the kernel's own scheduler that ran long enough for a pair of blocks. Reads journals alone.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from asa import paths
from asa.core.errors import ModelError
from asa.core.mark import Phase
from asa.decide.signals import SIGNALS, Signal, Signals, Values, of_rates, values_of
from asa.pipeline import plan
from collectors import rates
from models.train.recorded import Recorded, read

Array: TypeAlias = npt.NDArray[np.float64]
_KEPT = ("scenarios/host.journal.xz", "scenarios/host-2.journal.xz", "sequences/host-110.journal.xz")
_FIELDS = tuple(one.name for one in fields(Signals))
_PRESSURE = SIGNALS.index(Signal.PRESSURE)
FEWEST = 3
"""Sessions of a use; with fewer it is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The recordings of one use: ticks of one second by places of `asa.decide.signals.Values`, NaN for unknown."""

    label: str
    sessions: tuple[Array, ...]


def journals() -> list[Path]:
    """Those that are kept and are long enough."""
    folder = paths.base_model().parents[1] / "recordings"
    return [folder / name for name in _KEPT]


def uses(journals: Iterable[Path], ticks: int) -> list[Use]:
    """All uses with sessions of so many ticks. Raises ModelError when there is none, JournalError as `read`."""
    found: dict[str, list[Array]] = defaultdict(list)
    for path in journals:
        for session in read(path):
            for label, values in _stretches(session):
                if len(values) >= ticks:
                    found[label].append(np.array(values, dtype=np.float64))
    made = [Use(label=label, sessions=tuple(found[label])) for label in sorted(found) if len(found[label]) >= FEWEST]
    if not made:
        raise ModelError(f"no use with {FEWEST} recordings of {ticks} s; record some by `asa lab record --scenario`")
    return made


def _stretches(session: Recorded) -> Iterable[tuple[str, Sequence[Any]]]:
    """What ran, and its ticks, as long as the same ran."""
    wanted, starts = plan(()), [mark.monotonic_ns for mark in session.marks]
    label, values = "", list[tuple[float, ...]]()
    for previous, sample in pairwise(session.samples):
        derived = rates.derive(previous, sample, wanted)
        middle_ns = (previous.monotonic_ns + sample.monotonic_ns) // 2
        mark = session.marks[max(0, bisect_right(starts, middle_ns) - 1)] if starts else None
        now = ""
        if derived is not None and sample.cpu is not None and mark is not None and mark.phase == Phase.RUNNING:
            now = "+".join(name for name in (mark.interactive, mark.background) if name)
        if now != label:
            if label:
                yield label, values
            label, values = now, []
        if now and derived is not None and sample.cpu is not None:
            known = values_of(of_rates(derived, len(sample.cpu.cores)))
            values.append(tuple(np.nan if value is None else value for value in known))
    if label:
        yield label, values


def signals_of(row: Array) -> Signals:
    """Of one tick, by the places of `Values`, or the first of them: the inverse of `values_of`."""
    known = [None if np.isnan(value) else float(value) for value in row]
    return Signals(**dict(zip(_FIELDS, known, strict=False)))


def means(values: Array, fewest: int) -> Values:
    """Of each place over ticks (n, places) that know it; None: fewer than `fewest` do."""
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return tuple(float(total / count) if count >= fewest else None for total, count in zip(sums, counts, strict=True))


def scaled(values: Array, factors: Array | float) -> Array:
    """Ticks whose signals are so many times as large; the load stays, and a pressure stays a share."""
    made = values.copy()
    made[:, : len(SIGNALS)] *= factors
    made[:, _PRESSURE] = np.minimum(made[:, _PRESSURE], 1.0)
    return made


def deviation(use: Use, ticks: int, places: Sequence[int], soft: Mapping[int, float]) -> tuple[float, float]:
    """Of the mean logarithms of two blocks that follow each other: the deviation; and how alike neighbouring ticks are.

    The second is the correlation of a tick with the next one, within sessions.
    """
    differences, before, after = list[float](), list[float](), list[float]()
    for session in use.sessions:
        logs = np.mean([np.log(session[:, place] + soft[place]) for place in places], axis=0)
        logs = logs[np.isfinite(logs)]
        differences += [
            float(logs[at + ticks : at + 2 * ticks].mean() - logs[at : at + ticks].mean())
            for at in range(0, len(logs) - 2 * ticks + 1, ticks // 2)
        ]
        centred = logs - logs.mean()
        before += list(centred[:-1])
        after += list(centred[1:])
    spread = float(np.sqrt(np.mean(np.square(differences)))) if differences else 0.0
    alike = float(np.corrcoef(before, after)[0, 1]) if len(before) > 2 else 0.0
    return spread, alike
