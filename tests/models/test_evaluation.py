# SPDX-License-Identifier: GPL-2.0-only
"""Figures come from held-out sessions only, and say what they claim."""

import dataclasses

import numpy as np
import pytest

from asa.config import Voting
from asa.core.mark import Phase
from models import artefact, card, ensemble, evaluation, features
from models.artefact import Header
from models.dataset import PHASES, Dataset, Recording
from models.ensemble import Recipe
from models.evaluation import HeldOut

SMALL = Recipe(rounds=4, forest_trees=8)
CLASSES = ("cpu", "disk", "idle")
TICKS = 12


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Rows that know their session (column 0) better than their class (column 1, noisy)."""
    chance = np.random.default_rng(4)
    sessions = [
        Recording(source="", label=label, place=place, seed=seed, started_ns=0, parameters="", samples=())
        for label in CLASSES
        for place in ("host", "lab")
        for seed in range(3)
    ]
    session = np.repeat(np.arange(len(sessions)), TICKS)
    y = np.array([CLASSES.index(it.label) for it in sessions])[session]
    x = chance.normal(size=(len(y), len(features.NAMES))).astype(np.float32)
    x[:, 0] = chance.permutation(len(sessions))[session] * 10
    x[:, 1] = y + 0.7 * chance.normal(size=len(y))
    at_ns = np.tile(np.arange(TICKS), len(sessions)) * 1_000_000_000 + 5_000_000_000
    return Dataset(
        x=x,
        y=y,
        interactive=np.zeros_like(y),
        background=y + 1,
        phase=np.full(len(y), PHASES.index(Phase.RUNNING), dtype=np.uint8),
        session=session,
        at_ns=at_ns,
        classes=CLASSES,
        interactives=("",),
        backgrounds=("", *CLASSES),
        sessions=tuple(sessions),
        sha256="ab" * 32,
    )


def certain(data: Dataset, recognised: np.ndarray) -> HeldOut:
    """Predictions that are sure of the given classes."""
    blended = np.eye(len(data.classes))[recognised]
    return HeldOut(
        by_member=np.stack([blended] * 3), blended=blended, fold=data.session % 3, fold_weights=((0.5, 0.3, 0.2),) * 3
    )


def test_no_prediction_comes_from_a_model_that_saw_its_session(data: Dataset, monkeypatch: pytest.MonkeyPatch):
    seen: list[set[bytes]] = []
    train = ensemble.train

    def spy(rows, use, recipe, seed):
        seen.append({row.tobytes() for row in rows.x[use]})
        return train(rows, use, recipe, seed)

    monkeypatch.setattr(ensemble, "train", spy)
    said: list[str] = []
    held_out = evaluation.hold_out(data, SMALL, 1, said.append)
    assert len(said) == 3
    assert len(seen) == 9  # per outer fold: two inner ones and the last training
    for number in range(3):
        test = {row.tobytes() for row in data.x[held_out.fold == number]}
        of_fold = seen[3 * number : 3 * number + 3]
        assert not any(test & known for known in of_fold)
        assert len(of_fold[2]) == len(data.y) - len(test)
    assert np.allclose(held_out.blended.sum(axis=1), 1.0)


def test_rows_at_random_flatter(data: Dataset):
    held_out = evaluation.hold_out(data, SMALL, 1, lambda _: None)
    honest = evaluation.accuracy_pct(held_out.blended, data.y)
    assert evaluation.random_rows_pct(data, SMALL, 1) > honest + 5


def test_mean_weights_are_shares(data: Dataset):
    held_out = dataclasses.replace(
        certain(data, data.y), fold_weights=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.3, 0.3, 0.4))
    )
    assert sum(held_out.weights) == pytest.approx(1.0, abs=1e-12)
    assert held_out.weights == pytest.approx((0.4333, 0.4334, 0.1333), abs=2e-4)


def test_accuracy_recall_and_confusion(data: Dataset):
    recognised = data.y.copy()
    wrong = np.flatnonzero(data.y == 2)[:18]  # 18 of 72 rows of the last class
    recognised[wrong] = 0
    held_out = certain(data, recognised)
    table = evaluation.confusion(data, held_out)
    assert table.tolist() == [[72, 0, 0], [0, 72, 0], [18, 0, 54]]
    assert evaluation.recall_pct(table).tolist() == [100.0, 100.0, 75.0]
    assert evaluation.accuracy_pct(held_out.blended, data.y) == pytest.approx(100 * 198 / 216)


def test_a_vote_forgives_a_single_wrong_tick(data: Dataset):
    recognised = data.y.copy()
    recognised[np.arange(len(data.y)) % TICKS == 9] = 1
    held_out = certain(data, recognised)
    assert evaluation.accuracy_pct(held_out.blended, data.y) < 100
    assert evaluation.voted_pct(data, held_out, Voting()) == 100.0
    wrong = certain(data, (data.y + 1) % 3)
    assert evaluation.voted_pct(data, wrong, Voting()) == 0.0


def test_no_vote_figure_when_sessions_are_shorter_than_the_window(data: Dataset):
    assert evaluation.voted_pct(data, certain(data, data.y), Voting(window_s=60.0)) is None


def test_places_are_told_apart(data: Dataset):
    lab = evaluation.in_place(data, lambda session: session.in_lab)
    assert lab.sum() == len(data.y) // 2
    assert all(data.sessions[number].place == "lab" for number in data.session[lab])


def test_the_card_says_what_was_measured(data: Dataset):
    recognised = data.y.copy()
    recognised[np.flatnonzero(data.y == 2)[:18]] = 0
    header = Header(
        format=artefact.FORMAT,
        schema=features.SCHEMA,
        features=features.NAMES,
        classes=CLASSES,
        weights=(0.5, 0.3, 0.2),
        trained="2026-01-01",
        seed=7,
        dataset_sha256=data.sha256,
        versions={"numpy": "9.9"},
    )
    figures = [
        card.Figure(name="a", value=96.0, unit="%", goal=97.0),
        card.Figure(name="b", value=0.1, unit="ms", goal=0.2, least=False),
        card.Figure(name="c", value=None, unit="%", goal=97.0),
    ]
    text = card.render(
        data,
        certain(data, recognised),
        header,
        recipe=SMALL,
        settings=Voting(),
        figures=figures,
        command="asa train --seed 7",
    )
    assert "Worst class: idle, recall 75.00 %" in text
    assert "| idle | 18 | 0 | 54 | 75.00 |" in text
    assert "| ensemble | 91.67 | 83.33 | 100.00 |" in text
    assert "| cpu | 3 / 36 | 3 / 36 |" in text
    assert "| a | 96.000 % | >= 97 % | no |" in text
    assert "| b | 0.100 ms | <= 0.2 ms | yes |" in text
    assert "| c | unknown | >= 97 % |  |" in text
    for word in ("asa train --seed 7", "numpy 9.9", "xgboost 0.5000, forest 0.3000, svm 0.2000", data.sha256):
        assert word in text
