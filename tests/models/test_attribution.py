# SPDX-License-Identifier: GPL-2.0-only
"""Attributions are XGBoost's own, and name what was preferred to what."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import xgboost

from asa.cli import explain_features
from asa.core.decision import FeatureFrame, Probabilities, Workload
from asa.core.errors import ModelError
from models import features
from models.attribution import Attributor, compare


def values_of(row):
    return row.astype(np.float64)


@pytest.fixture(scope="module")
def attributor(model) -> Attributor:
    return Attributor(model.heads[0].trees, model.fill)


def test_contributions_are_those_of_xgboost(attributor, fitted, rows):
    chosen = rows.x[:60].copy()
    chosen[0] = np.nan  # nothing is known
    expected = fitted.members.booster.predict(xgboost.DMatrix(chosen, nthread=1), pred_contribs=True)
    got = np.array([attributor.contributions(values_of(row)) for row in chosen])
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() < 1e-5
    assert np.abs(expected[:, :, :-1]).max() > 0.1  # or there would be nothing to compare
    assert np.isnan(chosen[1:]).any()


def test_they_add_up_to_the_margins(attributor, fitted, rows):
    expected = fitted.members.booster.predict(xgboost.DMatrix(rows.x[:30], nthread=1), output_margin=True)
    got = np.array([attributor.contributions(values_of(row)).sum(axis=1) for row in rows.x[:30]])
    assert np.abs(got - expected).max() < 1e-5


def test_a_feature_that_is_asked_twice_on_a_way_is_one_player(model):
    """Deep trees over two features ask for each several times."""
    chance = np.random.default_rng(5)
    width = len(model.fill)
    x = np.full((600, width), np.nan, dtype=np.float32)
    x[:, :2] = chance.normal(size=(600, 2))
    x[chance.random(600) < 0.2, 0] = np.nan
    y = (np.nan_to_num(x[:, 0]) * x[:, 1] > 0).astype(int) + (x[:, 1] > 1)
    data = xgboost.DMatrix(x, label=y, nthread=1)
    settings = {"objective": "multi:softprob", "num_class": 3, "base_score": 0.0, "max_depth": 6, "nthread": 1}
    booster = xgboost.train({**settings, "eta": 0.3}, data, 8)
    frame = booster.trees_to_dataframe()
    deepest = frame.groupby("Tree").size().max()
    assert deepest > 15  # nodes: more than three steps deep, so that one of two features is asked twice
    trees, fill = exported(booster, width)
    attributor = Attributor(trees, fill)
    expected = booster.predict(xgboost.DMatrix(x[:80], nthread=1), pred_contribs=True)
    got = np.array([attributor.contributions(values_of(row)) for row in x[:80]])
    assert np.abs(got - expected).max() < 1e-5


def exported(booster, width):
    """Trees of a booster alone, by the exporter's own code."""
    from types import SimpleNamespace

    from models.artefact import Trees
    from models.train import export

    forest = export._Forest(width)
    fill = np.zeros(width, dtype=np.float32)
    shared = SimpleNamespace(booster=booster, space=SimpleNamespace(fill=fill))
    base, leaf = export._add_boosted(forest, shared)
    made = Trees(
        slot=np.array(forest.slot, dtype=np.uint16),
        threshold=np.array(forest.threshold, dtype=np.float32),
        child=np.array(forest.child, dtype=np.int32),
        cover=np.array(forest.cover, dtype=np.float32),
        root=np.array(forest.root, dtype=np.int32),
        group=np.array(forest.group, dtype=np.uint8),
        base=base,
        boosted_leaf=leaf,
        forest_leaf=np.zeros((1, len(base)), dtype=np.float32),
    )
    return made, fill


def test_compared_classes_differ_by_their_margins(attributor, fitted, rows):
    row = rows.x[3]
    margins = fitted.members.booster.predict(xgboost.DMatrix(row[None], nthread=1), output_margin=True)[0]
    some = attributor.contributions(values_of(row), (2, 0))
    assert np.array_equal(some[[0, 2]], attributor.contributions(values_of(row))[[0, 2]])
    assert not some[[1, 3]].any()
    parts, before = compare(attributor, values_of(row), 2, 0)
    assert before + sum(part.weight for part in parts) == pytest.approx(margins[2] - margins[0], abs=1e-5)
    strengths = [abs(part.weight) for part in parts]
    assert strengths == sorted(strengths, reverse=True)
    told = [None if np.isnan(value) else value for value in values_of(row).tolist()]
    assert all(part.value == told[part.feature] for part in parts)
    turned, _ = compare(attributor, values_of(row), 0, 2)
    assert {part.feature: -part.weight for part in turned} == {part.feature: part.weight for part in parts}


def test_what_cannot_be_explained_is_said(attributor, model):
    with pytest.raises(ModelError, match="2 values for"):
        attributor.contributions(np.array((1.0, np.nan)))
    trees = model.heads[0].trees
    with pytest.raises(ModelError, match="damaged"):
        Attributor(replace(trees, cover=np.zeros_like(trees.cover)), model.fill)


def test_each_head_is_explained_by_its_own_class_where_not_all_combinations_are_known(factored, rows):
    known = ("web+llm", "idle", "disk")  # of six, in an order of their own
    fewer = replace(factored, header=msgspec.structs.replace(factored.header, classes=known))
    frame = FeatureFrame(schema=features.SCHEMA, values=values_of(rows.x[0]))
    seen = Probabilities(classes=tuple(map(Workload, known)), values=(0.7, 0.2, 0.1))
    front, behind = explain_features._heads(fewer, frame, seen)
    assert (front.workload, front.other) == ("web", "none")
    assert (behind.workload, behind.other) == ("llm", "none")
    seen = Probabilities(classes=seen.classes, values=(0.1, 0.2, 0.7))
    front, behind = explain_features._heads(fewer, frame, seen)
    assert (front.workload, behind.workload) == ("none", "disk")
