# SPDX-License-Identifier: GPL-2.0-only
"""A whole model says in training what its artefact says in the agent; its choices come from inner folds."""

import dataclasses

import numpy as np
import pytest
from forty_labels import SMALL as ROOMY
from forty_labels import forty

from asa.core.decision import FeatureFrame
from asa.core.errors import ModelError
from models import artefact, features
from models.artefact import Score
from models.runtime import Ensemble
from models.train import cost, ensemble, factored, held_out, training
from models.train.dataset import Dataset
from models.train.factored import Kind, Model
from models.train.held_out import Kept

SMALL = dataclasses.replace(ROOMY, vectors=100)  # fewer than there are rows


@pytest.fixture(scope="module")
def data() -> Dataset:
    return forty(seeds=3, fronts=("", "web"), backs=("", "disk", "llm"))


@pytest.fixture(scope="module")
def models(data: Dataset) -> dict[Kind, Model]:
    return held_out.trained(data, np.ones(len(data.y), dtype=bool), tuple(Kind), SMALL, 1)


@pytest.fixture(scope="module")
def fewer(data: Dataset) -> Dataset:
    """Without a combination that the factors allow."""
    kept = data.select(data.y != data.classes.index("web+llm"))
    classes = tuple(name for name in data.classes if name != "web+llm")
    numbers = np.array([classes.index(data.classes[number]) for number in kept.y])
    return dataclasses.replace(kept, classes=classes, y=numbers)


@pytest.mark.parametrize("kind", list(Kind))
def test_the_artefact_says_what_training_said(data: Dataset, models: dict[Kind, Model], kind: Kind, tmp_path):
    says_the_same(data, models[kind], tmp_path)


def test_a_factored_model_may_know_some_of_the_combinations_only(fewer: Dataset, tmp_path):
    assert factored.labels_of(fewer).kinds() == (Kind.FLAT, Kind.FACTORED)
    model = held_out.trained(fewer, np.ones(len(fewer.y), dtype=bool), (Kind.FACTORED,), SMALL, 1)[Kind.FACTORED]
    shares = model.probabilities(fewer.x)
    assert shares.shape == (len(fewer.y), 5)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(fewer.y)))
    says_the_same(fewer, model, tmp_path)


def says_the_same(data: Dataset, model: Model, tmp_path):
    header = training.header(data, model, 1)
    artefact.save(training.factored_artefact(model.heads, header), tmp_path / "m.npz")
    loaded = Ensemble.load(tmp_path / "m.npz")
    assert sorted(loaded.classes) == sorted(data.classes)
    columns = [loaded.classes.index(name) for name in data.classes]
    x = data.x[::7].copy()
    x[::3, 4] = np.nan
    expected = model.probabilities(x)
    scores = model.scores(x, model.by_head(x))
    for row, wanted, place in zip(x, expected, range(len(x)), strict=True):
        frame = FeatureFrame(schema=features.SCHEMA, values=row.astype(np.float64))
        judged = loaded.judge(frame)
        assert np.array(judged.probabilities.values)[columns] == pytest.approx(wanted, abs=1e-5)
        found = loaded.scores(frame)
        for score in Score:
            assert found[score] == pytest.approx(scores[score][place], rel=1e-4, abs=1e-5)
        told = scores[header.open_world.score][place]
        assert judged.known == header.open_world.knows(told, max(judged.probabilities.values))


def test_most_validation_rows_are_known_where_nothing_can_be_kept_out(data: Dataset):
    rows = held_out.rows_of(data, np.ones(len(data.y), dtype=bool))
    rows = dataclasses.replace(rows, away=())
    model = factored.fit(Kind.FACTORED, rows, factored.labels_of(data), SMALL, 1)
    assert model.score is Score.PROBABILITY
    for score in Score:
        known = (model.familiar[score] >= model.open_world(score).least).mean()
        assert known == pytest.approx(cost.KNOWN_SHARE, abs=0.02)


def test_the_threshold_costs_least_of_what_members_had_not_seen(data: Dataset, models: dict[Kind, Model]):
    for model in models.values():
        costs = {score: one.cost for score, one in model.thresholds.items()}
        assert all(0.0 <= one <= SMALL.wrong_cost for one in costs.values())  # above 1 where too little would be known
        assert costs[model.score] == min(costs.values())
        assert model.open_world() == model.open_world(model.score)


def test_what_is_kept_out_is_judged_by_members_that_never_saw_it(data: Dataset, monkeypatch: pytest.MonkeyPatch):
    rows = held_out.rows_of(data, np.ones(len(data.y), dtype=bool))
    asked, told = [], []
    real_train, real_wrong = ensemble.train, cost.wrong

    def spy_train(rows_, use, *rest):
        asked.append(use)
        return real_train(rows_, use, *rest)

    def spy_wrong(rows_, truth, said):
        told.append((truth, said))
        return real_wrong(rows_, truth, said)

    monkeypatch.setattr(ensemble, "train", spy_train)
    monkeypatch.setattr(cost, "wrong", spy_wrong)
    model = factored.fit(Kind.FACTORED, rows, factored.labels_of(data), SMALL, 1)
    heads = [sum(use is away.learnt for use in asked) for away in rows.away]
    without = [away for away, count in zip(rows.away, heads, strict=True) if count]
    assert set(heads) == {0, len(model.heads)}  # without web one head has nothing to tell apart
    assert len(without) >= 2
    assert [len(truth) for truth, _ in told] == [len(rows.y), *(int(away.no_kind.sum()) for away in without)]
    for (_, said), away in zip(told[1:], without, strict=True):
        assert set(said) <= {*rows.y[away.learnt], *combined(data, rows.y[away.learnt])}


def combined(data: Dataset, seen: np.ndarray) -> set[int]:
    """Classes whose halves both occur among these."""
    halves = data.factors()
    fronts, backs = set(halves[seen, 0]), set(halves[seen, 1])
    return {number for number, (front, back) in enumerate(halves) if front in fronts and back in backs}


def test_labels_without_two_factors_are_flat(data: Dataset):
    behind = data.select(data.interactive == 0)
    names = dataclasses.replace(factored.labels_of(behind), interactives=("",))
    assert names.kinds() == (Kind.FLAT,)
    with pytest.raises(ModelError, match="train a flat model"):
        factored.fit(Kind.FACTORED, held_out.rows_of(behind, np.ones(len(behind.y), dtype=bool)), names, SMALL, 1)


def test_labels_of_which_none_has_both_factors_are_flat(data: Dataset):
    one_side = (data.interactive == 0) | (data.background == 0)
    single = data.select(one_side)
    classes = tuple(name for name in data.classes if "+" not in name)
    numbers = np.array([classes.index(data.classes[number]) for number in single.y])
    single = dataclasses.replace(single, classes=classes, y=numbers)
    assert factored.labels_of(single).kinds() == (Kind.FLAT,)


def test_a_label_with_one_session_beside_others_with_several_is_in_several_folds(data: Dataset):
    alone = np.array([one.label == "web" and one.seed != 0 for one in data.sessions])[data.session]
    rows = held_out.rows_of(data.select(~alone), np.ones(int((~alone).sum()), dtype=bool))
    for number in range(len(data.classes)):
        assert len(np.unique(rows.fold[rows.y == number])) > 1, data.classes[number]


def test_heads_of_two_seeds_share_no_vectors(data: Dataset, tmp_path):
    everything = np.ones(len(data.y), dtype=bool)
    one, other = (held_out.trained(data, everything, (Kind.FACTORED,), SMALL, seed)[Kind.FACTORED] for seed in (1, 2))
    header = training.header(data, one, 1)
    with pytest.raises(ModelError, match="the heads differ in vectors"):
        training.factored_artefact((one.heads[0], other.heads[1]), header)
    good = training.factored_artefact(one.heads, header)
    bad = training.factored_artefact(other.heads, header)
    with pytest.raises(ModelError, match=r"the heads differ in machine\.vectors"):
        artefact.save(dataclasses.replace(good, heads=(good.heads[0], bad.heads[1])), tmp_path / "mixed.npz")


def test_some_rows_are_learnt_from_without_ebpf_too(data: Dataset):
    rows = held_out.rows_of(data, np.ones(len(data.y), dtype=bool))
    probes = features.columns(features.SOURCES["ebpf"])
    blind = rows.x[len(data.y) :]
    assert len(blind) == -(-len(data.y) // held_out.BLIND_EVERY)
    assert np.isnan(blind[:, probes]).all()
    assert np.array_equal(blind[:, ~probes], data.x[:: held_out.BLIND_EVERY][:, ~probes], equal_nan=True)
    assert np.array_equal(rows.y[len(data.y) :], data.y[:: held_out.BLIND_EVERY])
    unprobed = data.without({features.Source.PROBES})
    assert len(held_out.rows_of(unprobed, np.ones(len(data.y), dtype=bool)).y) == len(data.y)


def test_the_preferred_is_right_more_often_on_validation_rows(data: Dataset, models: dict[Kind, Model]):
    rows = held_out.rows_of(data, np.ones(len(data.y), dtype=bool))
    flat, other = models[Kind.FLAT], models[Kind.FACTORED]
    wrong = dataclasses.replace(other, validation=np.roll(other.validation, 1, axis=1))
    assert factored.preferred((wrong, flat), rows) is flat
    surer = dataclasses.replace(flat, validation=np.eye(len(data.classes))[flat.validation.argmax(axis=1)])
    unsure = dataclasses.replace(flat, validation=0.5 * surer.validation + 0.5 / len(data.classes))
    worse = factored.judged(surer.validation, rows.y, rows.weight)[1]
    assert factored.preferred((surer, unsure), rows) is (
        surer if worse < factored.judged(unsure.validation, rows.y, rows.weight)[1] else unsure
    )


def test_a_temperature_makes_sure_what_is_right_and_unsure_what_is_not():
    y = np.arange(300) % 3
    timid = np.eye(3)[y] * 0.4 + 0.2
    assert factored.temperature(timid, y, np.ones(300)) < 0.5
    rash = np.eye(3)[np.where(np.arange(300) % 10 < 4, (y + 1) % 3, y)] * 0.97 + 0.01
    assert factored.temperature(rash, y, np.ones(300)) > 2.0
    shares = factored.hardened(rash, 2.0)
    assert shares.sum(axis=1) == pytest.approx(np.ones(300))
    assert np.array_equal(shares.argmax(axis=1), rash.argmax(axis=1))


def test_the_machine_has_no_more_vectors_than_it_may(models: dict[Kind, Model]):
    for model in models.values():
        for head in model.heads:
            assert 0.8 * SMALL.vectors <= len(head.members.space.vectors) <= SMALL.vectors


def test_everything_is_trained_and_judged_in_one_go(data: Dataset, tmp_path):
    trained = training.train(data, SMALL, 1, jobs=1, kept=Kept(tmp_path), tell=lambda _what, _share: None)
    assert trained.split == "whole seeds"
    assert trained.random_rows_pct > 50
    assert set(trained.validation_pct) == set(Kind)
    assert trained.header.open_world == trained.model.open_world()
    assert {len(trained.held_out.known), len(trained.held_out.blended)} == {len(data.y)}
    assert len(trained.held_out.scores) == len(trained.held_out.kinds)
    artefact.save(trained.to_artefact(), tmp_path / "whole.npz")
    assert artefact.load(tmp_path / "whole.npz").header.dataset_sha256 == data.sha256
