# SPDX-License-Identifier: GPL-2.0-only
"""Training repeats itself by seed, and weights and sigmoids come from held-out folds."""

import dataclasses

import numpy as np
import pytest

from models.artefact import Artefact
from models.runtime_numpy import UNSEEN
from models.train import ensemble, export
from models.train.ensemble import Fitted, Recipe, Rows

SMALL = Recipe(rounds=4, forest_trees=8)


def fit(rows: Rows, seed: int) -> Fitted:
    return ensemble.fit(rows, ensemble.spaces(rows, SMALL, seed), SMALL, seed)


def arrays(model: Artefact) -> list[np.ndarray]:
    parts = (model.heads[0].trees, model.heads[0].machine)
    return [model.fill, *(getattr(part, field.name) for part in parts for field in dataclasses.fields(part))]


def test_the_same_seed_gives_the_same_model(rows: Rows, model: Artefact):
    first, second = (export.to_artefact(fit(rows, seed=5), model.header) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(arrays(first), arrays(second), strict=True))
    other = export.to_artefact(fit(rows, seed=6), model.header)
    assert len(other.heads[0].trees.slot) != len(first.heads[0].trees.slot)


def test_members_give_distributions(fitted: Fitted, rows: Rows):
    by_member = fitted.by_member(rows.x[:50])
    assert by_member.shape == (3, 50, rows.classes)
    assert np.allclose(by_member.sum(axis=2), 1.0)
    assert sum(fitted.weights) == pytest.approx(1.0)


def test_weights_go_to_the_member_that_is_right():
    y = np.array([0, 1, 0, 1])
    right = np.where(np.eye(2)[y] > 0, 0.9, 0.1)
    by_member = np.stack([1 - right, right, np.full((4, 2), 0.5)])
    assert ensemble.choose_weights(by_member, y, np.ones(4)) == pytest.approx((0.2, 0.6, 0.2))  # none is silenced


def test_weights_listen_to_row_weights():
    y = np.array([0, 1])
    first, second = np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([[0.1, 0.9], [0.1, 0.9]])
    by_member = np.stack([first, second, np.full((2, 2), 0.01)])
    assert ensemble.choose_weights(by_member, y, np.array([100.0, 1.0]))[0] == pytest.approx(0.6)
    assert ensemble.choose_weights(by_member, y, np.array([1.0, 100.0]))[1] == pytest.approx(0.6)


def test_nothing_is_chosen_on_rows_that_trained_it(rows: Rows, monkeypatch: pytest.MonkeyPatch):
    trained: list[np.ndarray] = []
    predicted: list[np.ndarray] = []
    train, boosted = ensemble.train, ensemble.Members.boosted

    def spy_train(rows_, use, space, recipe, seed):
        trained.append(rows_.x[use])
        return train(rows_, use, space, recipe, seed)

    def spy_boosted(self, x):
        predicted.append(x)
        return boosted(self, x)

    monkeypatch.setattr(ensemble, "train", spy_train)
    monkeypatch.setattr(ensemble.Members, "boosted", spy_boosted)
    fit(rows, seed=1)
    assert len(predicted) == 3
    for known, asked in zip(trained, predicted, strict=False):
        assert len(known) + len(asked) == len(rows.x)
        assert not {row.tobytes() for row in known} & {row.tobytes() for row in asked}


def test_a_column_without_a_value_is_filled_with_a_constant(fitted: Fitted):
    assert fitted.members.space.fill[2] == 0.0
    assert np.isfinite(fitted.members.space.fill).all()


def test_a_column_that_was_never_seen_says_nothing_to_the_machine(fitted: Fitted, rows: Rows):
    later = rows.x[:20].copy()
    later[:, 2] = 1e6  # unknown throughout in training, as eBPF's are where it was recorded without
    known, shown = fitted.members.scores(rows.x[:20]), fitted.members.scores(later)
    assert shown == pytest.approx(known, abs=1e-9)
    assert fitted.members.kinship(later) == pytest.approx(fitted.members.kinship(rows.x[:20]), abs=1e-9)


def test_a_folds_space_knows_nothing_of_the_fold(rows: Rows):
    moved = rows.x.copy()
    moved[rows.fold == 1] *= 3.0
    first, second = (ensemble.spaces(one, SMALL, 1) for one in (rows, dataclasses.replace(rows, x=moved)))
    assert len(first) == 4  # of three folds, and of all rows
    same = [np.array_equal(one.vectors, other.vectors) for one, other in zip(first, second, strict=True)]
    assert same == [False, True, False, False]


def test_the_machine_sees_the_columns_that_tell_the_classes(rows: Rows):
    x = rows.x.copy()
    x[:, 5], x[:, 6] = rows.y, 100.0 * np.random.default_rng(1).normal(size=len(x))
    told, everything = dataclasses.replace(rows, x=x), np.ones(len(rows.y), dtype=bool)
    few = dataclasses.replace(SMALL, columns=20)
    space = ensemble.space(told, everything, few, seed=1)
    seen = space.scale < UNSEEN
    assert seen.sum() == 20
    assert (seen[5], seen[6]) == (True, False)
    assert not space.vectors[:, ~seen].any()
    members = ensemble.train(told, everything, space, few, seed=1)
    moved = x.copy()
    moved[:, ~seen] += 1e6
    assert np.array_equal(members.scores(moved), members.scores(x))


def test_vectors_are_means_of_a_classs_rows(rows: Rows):
    few, everything = dataclasses.replace(SMALL, vectors=len(np.unique(rows.y))), np.ones(len(rows.y), dtype=bool)
    space = ensemble.space(rows, everything, few, seed=1)
    members = ensemble.train(rows, everything, space, SMALL, seed=1)
    z = members.standardised(rows.x)
    means = np.array([z[rows.y == one].mean(axis=0) for one in range(rows.classes)])
    assert len(space.vectors) == rows.classes
    for vector, mean, one in zip(space.vectors, means, range(rows.classes), strict=True):
        to_rows = np.sqrt(((z[rows.y == one] - vector) ** 2).sum(axis=1))
        assert np.sqrt(((mean - vector) ** 2).sum()) < 0.3 * to_rows.min()  # near the mean, and no row


def test_a_class_whose_rows_count_more_has_more_vectors(rows: Rows):
    few, everything = dataclasses.replace(SMALL, vectors=40), np.ones(len(rows.y), dtype=bool)
    heavy = dataclasses.replace(rows, weight=np.where(rows.y == 0, 5.0, 1.0))
    space = ensemble.space(heavy, everything, few, seed=1)
    z = ensemble.train(heavy, everything, space, SMALL, seed=1).standardised(rows.x)
    means = np.array([z[rows.y == one].mean(axis=0) for one in range(rows.classes)])
    nearest = ((space.vectors[:, None, :] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert np.bincount(nearest, minlength=rows.classes).tolist() == [25, 5, 5, 5]
