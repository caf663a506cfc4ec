# SPDX-License-Identifier: GPL-2.0-only
"""Lessons: a program that the model did not know is known then, nothing else changes, and they can be forgotten."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from asa.core.decision import FeatureFrame
from asa.core.errors import ModelError
from models import artefact, features, teaching
from models.runtime import Ensemble


def frames(model, center, count, seed):
    """Ticks of one behaviour: around a place in the machine's z, given in the units of the columns."""
    machine = model.heads[0].machine
    z = np.random.default_rng(seed).normal(center, 0.2, (count, len(machine.mean)))
    values = np.full((count, len(features.NAMES)), np.nan)
    places = features.pick(model.header.features)
    shown = z * np.where(machine.scale < 1e20, machine.scale, 1.0) + machine.mean
    values[:, slice(None) if places is None else places] = shown
    return [FeatureFrame(schema=features.SCHEMA, values=tuple(row)) for row in values.tolist()]


def first(judged):
    return judged.probabilities.classes[int(np.argmax(judged.probabilities.values))]


@pytest.fixture(scope="module")
def strict(model):
    """The model with a threshold below which nothing is known, so that a new behaviour is of no class."""
    world = artefact.OpenWorld(score=artefact.Score.KINSHIP, least=0.5)
    return replace(model, header=msgspec.structs.replace(model.header, open_world=world))


@pytest.fixture(scope="module")
def lesson(strict):
    return teaching.teach(strict, frames(strict, 6.0, 120, 1), strict.header.classes[0])


def test_what_was_taught_is_known_and_was_not_before(strict, lesson):
    label, more = strict.header.classes[0], frames(strict, 6.0, 50, 2)
    assert not any(Ensemble(strict).judge(one).known for one in more)
    judged = [Ensemble(lesson.model).judge(one) for one in more]
    assert all(one.known and first(one) == label for one in judged)
    assert all(math.isclose(sum(one.probabilities.values), 1.0) for one in judged)
    assert (lesson.why, lesson.right_before_pct, lesson.right_pct) == ("", 0.0, 100.0)


def test_all_else_is_judged_as_before(strict, lesson, rows):
    values = np.full((100, len(features.NAMES)), np.nan)
    places = features.pick(strict.header.features)
    values[:, slice(None) if places is None else places] = rows.x[:100]
    before, after = Ensemble(strict), Ensemble(lesson.model)
    for row in values.tolist():
        frame = FeatureFrame(schema=features.SCHEMA, values=tuple(row))
        assert after.judge(frame) == before.judge(frame)


def test_a_lesson_is_kept_in_the_file_and_can_be_forgotten(strict, lesson, tmp_path):
    artefact.save(lesson.model, tmp_path / "taught.npz")
    found = artefact.load(tmp_path / "taught.npz")
    assert found.header.taught == lesson.model.header.taught
    assert np.array_equal(found.taught, lesson.model.taught)
    left = teaching.forget(found, strict.header.classes[0])
    assert left.taught is None
    artefact.save(left, tmp_path / "left.npz")
    artefact.save(strict, tmp_path / "strict.npz")
    assert (tmp_path / "left.npz").read_bytes() == (tmp_path / "strict.npz").read_bytes()


def test_two_lessons_stand_beside_each_other(strict, lesson):
    second = teaching.teach(lesson.model, frames(strict, -6.0, 90, 3), strict.header.classes[1])
    judge = Ensemble(second.model)
    for center, label in ((6.0, strict.header.classes[0]), (-6.0, strict.header.classes[1])):
        assert {first(judge.judge(one)) for one in frames(strict, center, 20, 4)} == {label}
    left = teaching.forget(second.model, strict.header.classes[0])
    assert [one.label for one in left.header.taught] == [strict.header.classes[1]]


def test_what_looks_like_another_use_is_no_lesson(strict, rows):
    # rows that the model knows as one class are said to be another
    judge, values = Ensemble(strict), np.full((len(rows.x), len(features.NAMES)), np.nan)
    places = features.pick(strict.header.features)
    values[:, slice(None) if places is None else places] = rows.x
    known = [FeatureFrame(schema=features.SCHEMA, values=tuple(row)) for row in values.tolist()]
    label = strict.header.classes[0]
    other = [one for one in known if first(judge.judge(one)) != label][:120]
    found = teaching.teach(strict, other, label)
    assert "would be taken for it" in found.why or "are recognised" in found.why


def test_bad_lessons_are_refused_in_one_line(strict, lesson):
    label = strict.header.classes[0]
    for frames_, name, said in (([], label, "0 ticks"), (frames(strict, 6.0, 120, 1), "juggle", "it knows")):
        with pytest.raises(ModelError, match=said) as caught:
            teaching.teach(strict, frames_, name)
        assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="it was taught nothing"):
        teaching.forget(strict, label)
    with pytest.raises(ModelError, match=f"was not taught 'juggle'; it was taught {label}"):
        teaching.forget(lesson.model, "juggle")


@pytest.mark.parametrize(
    "changed", [{"label": "juggle"}, {"rows": 0}, {"rows": 7}, {"reach": math.nan}, {"reach": 0.0}]
)
def test_a_damaged_lesson_is_no_model(lesson, tmp_path, changed):
    told = tuple(msgspec.structs.replace(one, **changed) for one in lesson.model.header.taught)
    damaged = replace(lesson.model, header=msgspec.structs.replace(lesson.model.header, taught=told))
    with pytest.raises(ModelError, match="not a sound model artefact"):
        artefact.save(damaged, tmp_path / "damaged.npz")


def test_an_idle_machine_is_no_lesson(strict):
    idle = replace(strict, header=msgspec.structs.replace(strict.header, open_world=None))
    judge = Ensemble(idle)
    machine, places = strict.heads[0].machine, features.pick(strict.header.features)
    values = np.full((len(machine.vectors), len(features.NAMES)), np.nan)
    shown = machine.vectors * np.where(machine.scale < 1e20, machine.scale, 1.0) + machine.mean
    values[:, slice(None) if places is None else places] = shown
    seen = [FeatureFrame(schema=features.SCHEMA, values=tuple(row)) for row in values.tolist()]
    resting = [one for one in seen if first(judge.judge(one)) == artefact.IDLE]
    assert resting
    lesson = teaching.teach(idle, (resting * 120)[:120], idle.header.classes[0])
    assert lesson.taken_for == artefact.IDLE
    assert lesson.why.startswith("the model sees an idle machine")


def test_lessons_are_bounded(strict, lesson):
    told = lesson.model.header.taught * artefact.MOST_LESSONS
    many = replace(
        lesson.model,
        header=msgspec.structs.replace(lesson.model.header, taught=told),
        taught=np.concatenate([lesson.model.taught] * artefact.MOST_LESSONS),
    )
    with pytest.raises(ModelError, match="forget one first"):
        teaching.teach(many, frames(strict, -6.0, 90, 3), strict.header.classes[1])
