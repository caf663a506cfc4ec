# SPDX-License-Identifier: GPL-2.0-only
"""A small ensemble trained on generated rows, once for all tests of models."""

from pathlib import Path

import numpy as np
import pytest

from models import artefact, ensemble, export, features
from models.artefact import Artefact, Header
from models.ensemble import Fitted, Recipe, Rows

CLASSES = ("cpu", "disk", "idle", "wakeup")


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
    return ensemble.fit(rows, Recipe(rounds=12, forest_trees=20), seed=3)


@pytest.fixture(scope="session")
def model(fitted: Fitted) -> Artefact:
    return export.to_artefact(fitted, header_for(fitted))


@pytest.fixture(scope="session")
def model_file(model: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.npz"
    artefact.save(model, path)
    return path
