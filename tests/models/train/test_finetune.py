# SPDX-License-Identifier: GPL-2.0-only
"""Fine-tuning keeps what is better on own sessions and not worse on the base set; what judges was never trained on."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from forty_labels import forty
from recorded_uses import LOADS, samples

from asa.core.errors import ModelError
from models.own import Own
from models.train import dataset, finetune
from models.train.dataset import Recording
from models.train.finetune import Bounds, Score, verdict


def silent(text):
    assert "\n" not in text


@pytest.fixture(scope="module")
def base():
    return dataset.assemble(
        Recording(
            source=f"{label}-{seed}",
            label=label,
            place="lab",
            seed=seed,
            started_ns=seed,
            parameters="",
            samples=tuple(samples([(label, 14)], seed)),
        )
        for label in LOADS
        for seed in range(3)
    )


def own_like(base, *, units=2, labels=("cpu", "idle", "wakeup"), shift=0.0):
    """Own rows that lie where the base set's do, or `shift` further on."""
    x, label, unit, names = [], [], [], []
    for name in labels:
        rows = base.x[base.y == base.classes.index(name)][:10]
        for number in range(units):
            x.append(rows + np.float32(shift))
            label += [name] * len(rows)
            unit += [len(names)] * len(rows)
            names.append(f"{name} {number}")
    return Own(
        x=np.concatenate(x),
        label=tuple(label),
        unit=np.array(unit),
        units=tuple(names),
        starts=((1, 1),),
        by_hand=0,
        sha256="0" * 64,
    )


class Nearest:
    """By the nearest training row; remembers what it was trained on."""

    made: ClassVar[list] = []

    def __init__(self, rows):
        self.rows = rows
        self.x = np.nan_to_num(rows.x)
        Nearest.made.append(self)

    def probabilities(self, x):
        distances = ((np.nan_to_num(x)[:, None, :] - self.x[None]) ** 2).sum(axis=2)
        return np.eye(self.rows.classes)[self.rows.y[distances.argmin(axis=1)]] * 0.97 + 0.01


@pytest.fixture
def nearest():
    Nearest.made = []
    return Nearest


def test_a_machine_that_differs_is_learnt_and_all_of_it_is_trained_on(base, nearest):
    own = own_like(base)
    turned = {"cpu": "idle", "idle": "wakeup", "wakeup": "cpu"}  # here the same numbers mean something else
    own = replace(own, x=own.x + np.float32(0.5), label=tuple(turned[name] for name in own.label))
    outcome = finetune.tune(base, own, nearest, Bounds(), silent)
    assert outcome.why == ""
    assert outcome.own_before.accuracy_pct == 0.0
    assert outcome.own_after.accuracy_pct == 100.0
    assert outcome.base_after.accuracy_pct >= outcome.base_before.accuracy_pct - 0.5
    before, after, tuned = nearest.made
    assert outcome.tuned is tuned
    kept = len(base.y) // 3
    assert (len(before.rows.y), len(after.rows.y)) == (len(base.y) - kept, len(base.y) - kept + 30)
    assert len(tuned.rows.y) == len(base.y) + len(own.label)
    own_weight = tuned.rows.weight[len(base.y) :].sum()
    assert own_weight / tuned.rows.weight.sum() == pytest.approx(Bounds().own_share)


def test_nothing_that_judges_was_trained_on(base, nearest):
    own = own_like(base, shift=0.25)
    out = finetune.held_out_of(own)
    assert out.sum() == 30
    finetune.tune(base, own, nearest, Bounds(), silent)
    for one in nearest.made[:2]:
        trained = {row.tobytes() for row in one.x.astype(np.float32)}
        sessions = {
            number for row, number in zip(base.x, base.session, strict=True) if np.nan_to_num(row).tobytes() in trained
        }
        assert len(sessions) == 6  # of nine: one of each label is kept away as a whole


def test_what_makes_the_base_set_worse_is_rolled_back(base, nearest):
    own = own_like(base)
    turned = {"cpu": "idle", "idle": "wakeup", "wakeup": "cpu"}
    own = replace(own, label=tuple(turned[name] for name in own.label))
    outcome = finetune.tune(base, own, nearest, Bounds(base_loss_points=-1.0), silent)
    assert outcome.tuned is None
    assert outcome.why.startswith("rolled back: ")
    assert "worse on the base set" in outcome.why
    assert len(nearest.made) == 2  # nothing is trained to be thrown away


def test_no_better_is_rolled_back(base, nearest):
    class Deaf(nearest):
        def probabilities(self, x):
            return np.full((len(x), 3), 1 / 3)

    outcome = finetune.tune(base, own_like(base), Deaf, Bounds(), silent)
    assert outcome.tuned is None
    assert outcome.why.startswith("rolled back: no better on own sessions")


@pytest.mark.parametrize(
    ("base_after", "own_after", "kept"),
    [
        ((97.0, 0.1), (91.0, 0.5), True),
        ((96.5, 0.1), (91.0, 0.5), True),  # just the bound
        ((96.4, 0.1), (100.0, 0.0), False),
        ((97.0, 0.1), (90.0, 0.4), True),  # as accurate, and surer
        ((97.0, 0.1), (90.0, 0.5), False),
        ((99.0, 0.0), (89.9, 0.1), False),
    ],
)
def test_the_verdict(base_after, own_after, kept):
    def score(accuracy_pct, log_loss):
        return Score(accuracy_pct=accuracy_pct, log_loss=log_loss)

    why = verdict(score(97.0, 0.1), score(*base_after), score(90.0, 0.5), score(*own_after), Bounds())
    assert (why == "") is kept
    assert "\n" not in why


def test_leaks_strangers_and_single_units_are_refused_before_training(base, nearest):
    own = own_like(base)
    first = base.sessions[4].samples[0]
    for wrong, words in (
        (replace(own, starts=((first.wall_ns, first.monotonic_ns),)), "is among your own too"),
        (replace(own, label=("chess", *own.label[1:])), "chess, which the base set does not have"),
        (own_like(base, units=1), "record one more of each"),
    ):
        with pytest.raises(ModelError, match=words):
            finetune.tune(base, wrong, nearest, Bounds(), silent)
    with pytest.raises(ModelError, match=r"differ in classes \(chess, wakeup\)"):
        finetune.check_classes(base, ("cpu", "idle", "chess"))
    assert nearest.made == []


def test_a_label_of_one_session_is_learnt_and_judges_nothing():
    data = forty(seeds=3, fronts=("", "web"), backs=("", "llm"))
    pair = [number for number, one in enumerate(data.sessions) if one.label == "web+llm"]
    few = data.select(~np.isin(data.session, pair[1:]))
    kept = finetune.kept_of(few)
    assert not kept[few.y == few.classes.index("web+llm")].any()
    assert {few.classes[number] for number in few.y[kept].tolist()} == {"idle", "llm", "web"}
    alone = data.select(np.isin(data.session, [numbers[0] for numbers in ([0], [3], [6], [9])]))
    with pytest.raises(ModelError, match=r"base set: too few sessions of idle, llm, web, web\+llm to learn from"):
        finetune.kept_of(alone)
