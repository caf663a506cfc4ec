# SPDX-License-Identifier: GPL-2.0-only
"""A small ensemble trained on generated rows, once for all tests of models."""

import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest

from models import artefact, features, runtime_compiled
from models.artefact import Artefact, Header, OpenWorld, Part, Score
from models.train import ensemble, export
from models.train.ensemble import Fitted, Recipe, Rows

CLASSES = ("cpu", "disk", "idle", "wakeup")
FRONT, BEHIND = ("", "web"), ("", "disk", "llm")


def generated_rows(seed: int, count: int = 400) -> Rows:
    """Overlapping clouds, one a class, with holes, whole numbers and a column that is unknown throughout."""
    chance = np.random.default_rng(seed)
    width = len(features.NAMES)
    y = np.arange(count) % len(CLASSES)
    centres = np.random.default_rng(99).normal(size=(len(CLASSES), width))
    x = (centres[y] + 1.2 * chance.normal(size=(count, width))).astype(np.float32)
    x[:, 1] = np.round(x[:, 1])  # values that meet thresholds exactly
    x[chance.random(x.shape) < 0.1] = np.nan
    x[:, 2] = np.nan
    return Rows(x=x, y=y, weight=np.ones(count), fold=(np.arange(count) // 40) % 3, classes=len(CLASSES))


def header_for(fitted: Fitted) -> Header:
    """A header that fits the generated rows."""
    return Header(
        format=artefact.FORMAT,
        schema=features.SCHEMA,
        features=features.NAMES,
        classes=CLASSES,
        weights=fitted.weights,
        trained="2026-01-01T00:00:00+00:00",
        seed=1,
        dataset_sha256="0" * 64,
        versions={},
    )


@pytest.fixture(scope="session")
def rows() -> Rows:
    return generated_rows(0)


@pytest.fixture(scope="session")
def fitted(rows: Rows) -> Fitted:
    recipe = Recipe(rounds=12, forest_trees=20)
    return ensemble.fit(rows, ensemble.spaces(rows, recipe, 3), recipe, seed=3)


@pytest.fixture(scope="session")
def model(fitted: Fitted) -> Artefact:
    return export.to_artefact(fitted, header_for(fitted))


@pytest.fixture(scope="session")
def model_file(model: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.npz"
    artefact.save(model, path)
    return path


@pytest.fixture(scope="session")
def factors(rows: Rows) -> tuple[Fitted, Fitted]:
    """Two heads over the same rows: what is in front, what works behind."""
    recipe = Recipe(rounds=6, forest_trees=8)
    front = dataclasses.replace(rows, y=rows.y % 2, classes=len(FRONT))
    behind = dataclasses.replace(rows, y=np.minimum(rows.y, 2), classes=len(BEHIND))
    known = ensemble.spaces(rows, recipe, 3)
    return ensemble.fit(front, known, recipe, seed=3), ensemble.fit(behind, known, recipe, seed=3)


@pytest.fixture(scope="session")
def factored(factors: tuple[Fitted, Fitted]) -> Artefact:
    """A model of two heads with an open world."""
    front = Part(name="interactive", classes=FRONT, weights=factors[0].weights, temperature=1.5)
    behind = Part(name="background", classes=BEHIND, weights=factors[1].weights)
    header = msgspec.structs.replace(
        header_for(factors[0]),
        weights=(),
        classes=artefact.labels((front, behind)),
        heads=(front, behind),
        open_world=OpenWorld(score=Score.KINSHIP, least=0.01),
    )
    return export.factored_artefact(factors, header)


@pytest.fixture(scope="session")
def factored_file(factored: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("factored") / "model.npz"
    artefact.save(factored, path)
    return path


@pytest.fixture(scope="session")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled evaluator, built here."""
    library = tmp_path_factory.mktemp("evaluator") / "members.so"
    runtime_compiled.build(library)
    return library
