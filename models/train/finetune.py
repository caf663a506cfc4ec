# SPDX-License-Identifier: GPL-2.0-only
"""Fine-tuning: the members trained again on the base set and this machine's own rows, and kept only if that is better.

Two ensembles of one recipe are compared, one with and one without own rows, on sessions that neither has seen: a third
of the base set's, and one unit of each own label. What is kept is trained on all of both. The model in use is no fair
rival on the base set, which it was trained on as a whole; its accuracy on the own units is told beside.
"""

import hashlib
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Generic, Protocol, TypeVar

import msgspec
import numpy as np
import xgboost

import asa
from asa.core.errors import ModelError
from models import features
from models.artefact import FORMAT, Array, Header
from models.own import Own
from models.train import held_out
from models.train.dataset import Dataset, deal, deal_seeds
from models.train.ensemble import Rows
from models.train.factored import Kind, Model

Say = Callable[[str], None]

_KEPT_FOLDS = 3  # the base set's seeds are dealt into so many at most, of which one is kept away from training


class Predictor(Protocol):
    """A trained ensemble."""

    def probabilities(self, x: Array) -> Array:
        """Distributions of rows, (n, F) to (n, K)."""


_Made = TypeVar("_Made", bound=Predictor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much own rows count, and what may be lost for them."""

    own_share: float = 1 / 3  # of all rows' weight
    base_loss_points: float = 0.5  # of accuracy on the base set's kept sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """On rows of sessions that were held out, weighed as `Dataset.balanced` does."""

    accuracy_pct: float
    log_loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[_Made]):
    """What came of it. `tuned` is None when the old model stays, and `why` says why in one line."""

    tuned: _Made | None
    why: str
    base_before: Score
    base_after: Score
    own_before: Score
    own_after: Score
    sha256: str  # over base set and own rows

    @property
    def figures(self) -> dict[str, float]:
        """By name, as a version keeps them."""
        return {
            "base_kept_accuracy_before_pct": round(self.base_before.accuracy_pct, 3),
            "base_kept_accuracy_pct": round(self.base_after.accuracy_pct, 3),
            "own_held_out_accuracy_before_pct": round(self.own_before.accuracy_pct, 3),
            "own_held_out_accuracy_pct": round(self.own_after.accuracy_pct, 3),
            "own_held_out_log_loss_before": round(self.own_before.log_loss, 5),
            "own_held_out_log_loss": round(self.own_after.log_loss, 5),
        }


def tune(base: Dataset, own: Own, fit: Callable[[Rows], _Made], bounds: Bounds, say: Say) -> Outcome[_Made]:
    """Train, judge, and train what is to be kept. `fit` decides all by its own seed.

    Raises ModelError when own rows are of sessions in the base set (leaked), of a label that it does not have, or when
    no own label has two units.
    """
    check(base, own)
    own_y = np.array([base.classes.index(label) for label in own.label], dtype=np.intp)
    kept = kept_of(base)
    out = held_out_of(own)
    say(
        f"base set: {len(base.y)} rows, {int(kept.sum())} of them to judge by; "
        f"own: {len(own_y)}, {int(out.sum())} of them to judge by"
    )
    base_weight, own_weight = base.balanced(), balanced(own)
    say("1 of 3: training without own rows")
    before = fit(_rows(base, ~kept, own, own_y, np.zeros(len(own_y), dtype=bool), bounds))
    base_before = score(before, base.x[kept], base.y[kept], base_weight[kept])
    own_before = score(before, own.x[out], own_y[out], own_weight[out])
    say(f"without own rows: {_both(base_before, own_before)}")
    say("2 of 3: training with them")
    after = fit(_rows(base, ~kept, own, own_y, ~out, bounds))
    base_after = score(after, base.x[kept], base.y[kept], base_weight[kept])
    own_after = score(after, own.x[out], own_y[out], own_weight[out])
    say(f"with own rows: {_both(base_after, own_after)}")
    why = verdict(base_before, base_after, own_before, own_after, bounds)
    tuned = None
    if not why:
        say("3 of 3: training on all of both")
        everything = np.ones(len(base.y), dtype=bool)
        tuned = fit(_rows(base, everything, own, own_y, np.ones(len(own_y), dtype=bool), bounds))
    return Outcome(
        tuned=tuned,
        why=why,
        base_before=base_before,
        base_after=base_after,
        own_before=own_before,
        own_after=own_after,
        sha256=hashlib.sha256(f"{base.sha256}\n{own.sha256}".encode()).hexdigest(),
    )


def check(base: Dataset, own: Own) -> None:
    """Raises ModelError as `tune`; at once, before anything is trained."""
    known = {(session.samples[0].wall_ns, session.samples[0].monotonic_ns): session for session in base.sessions}
    for start in own.starts:
        if start in known:
            raise ModelError(
                f"{known[start].source}: its session of {known[start].label!r} is among your own too: what is learnt "
                "from cannot judge; name other journals"
            )
    unknown = sorted(set(own.label) - set(base.classes))
    if unknown:
        raise ModelError(f"own rows of {', '.join(unknown)}, which the base set does not have; name another base set")
    if not held_out_of(own).any():
        labels = ", ".join(own.labels())
        raise ModelError(
            f"a single unit of each own label ({labels}): none is left to judge by; record one more of each"
        )


def check_classes(base: Dataset, classes: Sequence[str]) -> None:
    """Raises ModelError when the base set has other classes than the model in use."""
    if set(base.classes) != set(classes):
        other = ", ".join(sorted(set(base.classes) ^ set(classes)))
        raise ModelError(f"base set and model in use differ in classes ({other}); name the set it was trained on")


def kind_of(parent: Header) -> Kind:
    """How the tuned model is built: as the one that it comes of."""
    return Kind.FACTORED if parent.heads else Kind.FLAT


def header(parent: Header, model: Model, *, made: str, seed: int, sha256: str) -> Header:
    """Of a tuned model. It tells the unknown by its parent's measure, with a threshold of its own."""
    opened, flat = parent.open_world, model.kind is Kind.FLAT
    libraries = {name: version(name) for name in ("numpy", "scikit-learn")}
    return msgspec.structs.replace(
        parent,
        format=FORMAT,
        schema=features.SCHEMA,
        features=features.NAMES,
        classes=model.classes,
        weights=model.parts[0].weights if flat else (),
        temperature=model.parts[0].temperature if flat else 1.0,
        heads=() if flat else model.parts,
        open_world=None if opened is None else model.open_world(opened.score),
        trained=made,
        seed=seed,
        dataset_sha256=sha256,
        versions={
            "asa": asa.__version__,
            "python": platform.python_version(),
            "xgboost": xgboost.__version__,
            **libraries,
        },
        sha256="",
    )


def kept_of(base: Dataset) -> Array:
    """Rows of the base set to judge by, bool (n,): a fold of whole seeds, where each label has several, else of whole
    sessions. Labels of which that would be all are learnt. Raises ModelError where none is left to judge by."""
    everything = np.ones(len(base.y), dtype=bool)
    try:
        kept = deal_seeds(base, everything, _KEPT_FOLDS) == 0
    except ModelError:
        kept = deal(base, everything, _KEPT_FOLDS) == 0
    kept &= np.isin(base.y, base.y[~kept])
    if not kept.any():
        names = ", ".join(sorted({base.classes[number] for number in base.y.tolist()}))
        raise ModelError(f"base set: too few sessions of {names} to learn from and to judge by; name another")
    return np.asarray(kept)


def held_out_of(own: Own) -> Array:
    """Rows to judge by, bool (n,): the last unit of each label that has at least two."""
    last = [numbers[-1] for numbers in _units(own) if len(numbers) > 1]
    return np.isin(own.unit, last)


def balanced(own: Own) -> Array:
    """Weights (n,) with mean 1 under which every own label counts the same."""
    _, of_label = np.unique(np.array(own.label), return_inverse=True)
    weight = 1.0 / np.bincount(of_label)[of_label]
    return np.asarray(weight / weight.mean())


def verdict(base_before: Score, base_after: Score, own_before: Score, own_after: Score, bounds: Bounds) -> str:
    """Why the old model stays, "" when the new one is better.

    Better: more accurate on own units, or as accurate and surer (less log loss).
    """
    lost = base_before.accuracy_pct - base_after.accuracy_pct
    if lost > bounds.base_loss_points:
        return (
            f"rolled back: {lost:.2f} points worse on the base set's kept sessions, {bounds.base_loss_points:g} allowed"
        )
    gained = own_after.accuracy_pct - own_before.accuracy_pct
    if gained < 0 or (gained == 0 and own_after.log_loss >= own_before.log_loss):
        return (
            f"rolled back: no better on own sessions held out ({gained:+.2f} points, log loss {own_after.log_loss:.3f})"
        )
    return ""


def score(predictor: Predictor, x: Array, y: Array, weight: Array) -> Score:
    """Of rows with their weights."""
    distributions = predictor.probabilities(x)
    right = distributions.argmax(axis=1) == y
    of_truth = np.maximum(distributions[np.arange(len(y)), y], 1e-9)
    return Score(
        accuracy_pct=float(np.average(right, weights=weight) * 100),
        log_loss=float(np.average(-np.log(of_truth), weights=weight)),
    )


def _rows(base: Dataset, of_base: Array, own: Own, own_y: Array, of_own: Array, bounds: Bounds) -> Rows:
    # own rows stand once: this machine has eBPF, or has it not
    there = held_out.rows_of(base, of_base)
    base_weight, own_weight = there.weight, balanced(own)[of_own]
    if of_own.any():
        share = bounds.own_share / (1.0 - bounds.own_share)
        own_weight = own_weight * (share * base_weight.sum() / own_weight.sum())
    fold_of_unit = np.zeros(len(own.units), dtype=np.intp)
    for numbers in _units(own):
        fold_of_unit[numbers] = np.arange(len(numbers)) % held_out.MOST_INNER
    weight = np.concatenate([base_weight, own_weight])
    return Rows(
        x=np.concatenate([there.x, own.x[of_own]]),
        y=np.concatenate([there.y, own_y[of_own]]),
        weight=weight / weight.mean(),
        fold=np.concatenate([there.fold, fold_of_unit[own.unit][of_own]]),
        classes=len(base.classes),
    )


def _units(own: Own) -> Iterator[Array]:
    labels = np.array(own.label)
    for label in own.labels():
        yield np.unique(own.unit[labels == label])


def _both(of_base: Score, of_own: Score) -> str:
    return f"{of_base.accuracy_pct:.2f} % of the base set's kept rows, {of_own.accuracy_pct:.2f} % of own rows held out"
