# SPDX-License-Identifier: GPL-2.0-only
"""Teaching: from some minutes of a program to a lesson in the model (`models.taught`), and whether it is worth keeping.

NumPy alone: nothing is trained, so it takes seconds, and a lesson can be forgotten. It is judged by ticks that come
after those that teach. Its reach ends where it would take more than 1 % of the model's own vectors of other uses.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from asa.core.decision import FeatureFrame, Probabilities, Workload
from asa.core.errors import ModelError
from models import features
from models.artefact import IDLE, MOST_LESSONS, MOST_TAUGHT, Array, Artefact, Taught
from models.runtime import Ensemble
from models.runtime_numpy import Space

LEAST_TICKS = 60
"""Fewer are no lesson: a third of them judges."""
APART_TICKS = 8
"""Ticks closer together share samples, as features look back for some seconds: they do not tell of each other."""
MOST_MISTAKEN_PCT = 1.0
"""Of the model's vectors of other uses that would be taken for the taught one."""
LEAST_RIGHT_PCT = 50.0
_OWN_SHARE = 95.0  # per cent of the lesson's ticks whose distance to the others counts
_TWICE = 4.0  # squared: a lesson reaches twice as far as its own ticks are from each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What came of teaching. `why` says in one line why it is not worth keeping, "" where it is."""

    model: Artefact  # with the lesson
    ticks: int
    right_before_pct: float  # of the last third of the ticks, by the model as it was
    right_pct: float  # by the model with the first two thirds
    mistaken_pct: float  # of the model's vectors of other uses
    taken_for: str  # the class that the model knew in more than half of the ticks until now, "" where there was none
    why: str

    @property
    def figures(self) -> dict[str, float]:
        """By name, as a version keeps them."""
        return {
            "taught_ticks": float(self.ticks),
            "taught_right_before_pct": round(self.right_before_pct, 2),
            "taught_right_pct": round(self.right_pct, 2),
            "taught_mistaken_pct": round(self.mistaken_pct, 2),
        }


def teach(model: Artefact, frames: Sequence[FeatureFrame], label: str) -> Lesson:
    """Add a lesson: these ticks, in order of time, are `label`.

    The first two thirds teach and the last third judges; then all of them teach. Raises ModelError for a label that is
    no class of the model and for too few ticks.
    """
    if label not in model.header.classes:
        raise ModelError(f"the model has no class {label!r}; it knows {', '.join(sorted(model.header.classes))}")
    if len(frames) < LEAST_TICKS:
        raise ModelError(
            f"{len(frames)} ticks of {label!r}: {LEAST_TICKS} are needed to teach and to judge; take longer"
        )
    if len(model.header.taught or ()) >= MOST_LESSONS:
        raise ModelError(f"the model has {MOST_LESSONS} lessons, the most that it may have; forget one first")
    rows, others = _rows(model, frames), _others(model, label)
    after = 2 * len(rows) // 3
    trial = _with(model, rows[:after], label, _reach(rows[:after], others))
    judging = after + APART_TICKS
    said = _said(model, frames)
    before_pct, after_pct = _share_pct(said[judging:], label), right_pct(trial, frames[judging:], label)
    reach = _reach(rows, others)
    taken_for = _most(said)
    mistaken_pct = float((_risks(rows, others) <= reach).sum() / max(1, len(others)) * 100)
    return Lesson(
        model=_with(model, rows, label, reach),
        ticks=len(rows),
        right_before_pct=before_pct,
        right_pct=after_pct,
        mistaken_pct=mistaken_pct,
        taken_for=taken_for,
        why=_why(label, taken_for, before_pct, after_pct),
    )


def forget(model: Artefact, label: str) -> Artefact:
    """The model without its lessons of a label. Raises ModelError where there is none."""
    told = model.header.taught or ()
    if all(one.label != label for one in told) or model.taught is None:
        names = ", ".join(sorted({one.label for one in told})) or "nothing"
        raise ModelError(f"the model was not taught {label!r}; it was taught {names}")
    keep = np.repeat([one.label != label for one in told], [one.rows for one in told])
    left = tuple(one for one in told if one.label != label)
    header = msgspec.structs.replace(model.header, taught=left or msgspec.UNSET)
    return replace(model, header=header, taught=model.taught[keep] if left else None)


def _with(model: Artefact, rows: Array, label: str, reach: float) -> Artefact:
    kept = rows[:: -(-len(rows) // MOST_TAUGHT)]
    told = (*(model.header.taught or ()), Taught(label=label, rows=len(kept), reach=reach))
    before = [] if model.taught is None else [model.taught]
    header = msgspec.structs.replace(model.header, taught=told)
    return replace(model, header=header, taught=np.concatenate([*before, kept]).astype(np.float32))


def _rows(model: Artefact, frames: Sequence[FeatureFrame]) -> Array:
    # float32 (n, F) in the machine's z, 0 in columns that it leaves out
    values = np.array([one.values for one in frames], dtype=np.float32)
    picked = features.pick(model.header.features)
    values = values if picked is None else values[:, picked]
    space = Space(model.heads[0].machine)
    found = np.zeros(values.shape, dtype=np.float32)
    found[:, space.columns] = space.z(np.where(np.isnan(values), model.fill, values))
    return found


def _others(model: Artefact, label: str) -> Array:
    """The model's vectors that it takes for other uses itself, float32 (S, F) in z."""
    machine = model.heads[0].machine
    columns = Space(machine).columns
    shown = np.full((len(machine.vectors), len(features.NAMES)), np.nan, dtype=np.float64)
    picked = features.pick(model.header.features)
    places = columns if picked is None else np.asarray(picked)[columns]
    shown[:, places] = machine.vectors[:, columns] * machine.scale[columns] + machine.mean[columns]
    judge = Ensemble(model)
    names = [_first(judge.predict(FeatureFrame(schema=judge.schema, values=tuple(row)))) for row in shown.tolist()]
    found = np.zeros(machine.vectors.shape, dtype=np.float32)
    found[:, columns] = machine.vectors[:, columns]
    return found[[name != label for name in names]]


def _first(told: Probabilities) -> Workload:
    return told.classes[int(np.argmax(told.values))]


def _reach(rows: Array, others: Array) -> float:
    """Squared: twice as far as nearly all ticks are from those at another time, and short of nearly all other uses."""
    distances = _distances(rows, rows)
    number = np.arange(len(rows))
    distances[np.abs(number[:, None] - number[None, :]) <= APART_TICKS] = np.inf
    own = float(np.percentile(distances.min(axis=1), _OWN_SHARE)) * _TWICE
    risks = np.sort(_risks(rows, others))
    most = int(len(others) * MOST_MISTAKEN_PCT / 100.0)
    short = float(risks[most]) if most < len(risks) else own
    return max(1e-6, min(own, short * (1.0 - 1e-6)))


def _risks(rows: Array, others: Array) -> Array:
    """Squared distances from the lesson to vectors of other uses that, as ticks, were nearer to it than to the rest."""
    if len(others) < 2:
        return np.zeros(0)
    taught, among = _distances(others, rows).min(axis=1), _distances(others, others)
    np.fill_diagonal(among, np.inf)
    return np.asarray(taught[taught < among.min(axis=1)])


def _distances(some: Array, others: Array) -> Array:
    # squared, float64 (n, m)
    one, other = some.astype(np.float64), others.astype(np.float64)
    found = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * (one @ other.T)
    return np.asarray(np.fmax(found, 0.0))


def right_pct(model: Artefact, frames: Sequence[FeatureFrame], label: str) -> float:
    """Share of these ticks that the model knows, as this label; in per cent."""
    return _share_pct(_said(model, frames), label)


def _said(model: Artefact, frames: Sequence[FeatureFrame]) -> list[str]:
    # the class of each tick, "" where the model knows none
    judge = Ensemble(model)
    return [str(_first(one.probabilities)) if one.known else "" for one in map(judge.judge, frames)]


def _share_pct(said: Sequence[str], label: str) -> float:
    return float(np.mean([one == label for one in said]) * 100)


def _most(said: Sequence[str]) -> str:
    name, count = Counter(said).most_common(1)[0]
    return name if 2 * count > len(said) else ""


def _why(label: str, taken_for: str, before_pct: float, after_pct: float) -> str:
    if taken_for == IDLE != label:
        return "the model sees an idle machine in more than half of the ticks; start the program first"
    if after_pct < before_pct:
        return f"{after_pct:.0f} % of the last third are recognised with the lesson, {before_pct:.0f} % without"
    if after_pct < LEAST_RIGHT_PCT:
        return f"only {after_pct:.0f} % of the last third are recognised: it does something else by then; take longer"
    return ""
