# SPDX-License-Identifier: GPL-2.0-only
"""From a dataset to a model to ship, with what it is worth: `asa lab train` without files and words.

Flat and factored are both judged on sessions that were held out; which of them is shipped is chosen on inner folds, as
are weights, temperatures, the open world's threshold and how much the desktop's hints count. Inner folds keep programs
away where a kind has several.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import joblib
import numpy as np
import xgboost

import asa
from asa import paths
from asa.core.errors import ModelError
from asa.decide import hints
from models import features
from models.artefact import FORMAT, Array, Artefact, Header
from models.train import evaluation, factored, held_out, hinting
from models.train.dataset import Dataset
from models.train.ensemble import Recipe
from models.train.evaluation import HeldOut
from models.train.export import factored_artefact
from models.train.factored import Kind, Model
from models.train.held_out import Kept, Tell

_LIBRARIES = ("numpy", "scikit-learn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A model to ship, and what models like it did on what they had not seen."""

    model: Model
    header: Header
    held_out: HeldOut
    split: str  # what was held out, in words
    random_rows_pct: float
    validation_pct: Mapping[Kind, float]  # on inner folds of all sessions: what chose the kind

    def to_artefact(self) -> Artefact:
        """What the agent loads."""
        return factored_artefact(self.model.heads, self.header)


def split(data: Dataset) -> tuple[Array, str]:
    """The outer folds: whole seeds where they allow it, else whole sessions; and which of them it is, in words."""
    try:
        return evaluation.by_seeds(data), "whole seeds"
    except ModelError:
        return evaluation.by_sessions(data), "whole sessions"


def train(
    data: Dataset,
    recipe: Recipe,
    seed: int,
    *,
    kinds: Sequence[Kind] = tuple(Kind),
    jobs: int,
    kept: Kept,
    tell: Tell,
) -> Trained:
    """Judge and train. `kinds`: those that are tried. Raises ModelError for a dataset that would make the figures
    worthless, and for labels of which none of these can be made."""
    evaluation.check(data)
    everything = np.ones(len(data.y), dtype=bool)
    learnt = held_out.thinned(data, everything)
    rows, names = held_out.rows_of(data, learnt, by_program=True), factored.labels_of(data)
    kinds = tuple(kind for kind in kinds if kind in names.kinds())
    if not kinds:
        raise ModelError("the labels are not combinations of two factors: train a flat model")
    fold, words = split(data)
    judged = evaluation.hold_out(
        data,
        fold,
        recipe=recipe,
        seed=seed,
        kinds=kinds,
        hidden=tuple(features.SOURCES),
        by_program=True,
        jobs=jobs,
        kept=kept,
        tell=tell,
    )
    tell("all sessions", 0.0)
    lean = held_out.slim(data)
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        calls = [joblib.delayed(held_out.trained)(lean, everything, (kind,), recipe, seed) for kind in kinds]
        models = {kind: model for of in joblib.Parallel(n_jobs=jobs)(calls) for kind, model in of.items()}
    model = models[held_out.choose(models, rows)]
    mixed = evaluation.random_rows(data, seed, model.kind)
    (flattered,) = held_out.run(data, [mixed], recipe=recipe, seed=seed, jobs=jobs, kept=kept, tell=tell)
    return Trained(
        model=model,
        header=header(data, model, seed, _hint_weight(data.select(learnt), model)),
        held_out=judged,
        split=words,
        random_rows_pct=evaluation.accuracy_pct(flattered.blended, data.y[mixed.test]),
        validation_pct={kind: factored.judged(one.validation, rows.y, rows.weight)[0] for kind, one in models.items()},
    )


def _hint_weight(data: Dataset, model: Model) -> float:
    # on what the model says of programs that its folds had not seen; the rows stand before their copies without eBPF
    speaks = hinting.told(data, hints.load(paths.mapping_tables() / hints.NAME, 0.0)).speaks
    return hinting.chosen(model.validation[: len(data.y)], speaks, data.y) if speaks.any() else 0.0


def header(data: Dataset, model: Model, seed: int, hint_weight: float = 0.0) -> Header:
    """What the artefact says of itself."""
    flat = model.kind is Kind.FLAT
    return Header(
        format=FORMAT,
        schema=features.SCHEMA,
        features=features.NAMES,
        classes=model.classes,
        weights=model.parts[0].weights if flat else (),
        temperature=model.parts[0].temperature if flat else 1.0,
        heads=() if flat else model.parts,
        open_world=model.open_world(),
        hint_weight=hint_weight,
        trained=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=seed,
        dataset_sha256=data.sha256,
        versions={
            "asa": asa.__version__,
            "python": platform.python_version(),
            "xgboost": xgboost.__version__,
            **{name: version(name) for name in _LIBRARIES},
        },
    )
