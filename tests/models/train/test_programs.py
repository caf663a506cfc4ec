# SPDX-License-Identifier: GPL-2.0-only
"""Recordings become kinds of use, and nothing of a program that judges is learnt from, outside or inside of a fold."""

import dataclasses

import numpy as np
import pytest
from forty_labels import SMALL, forty

from asa import wire
from asa.core.mark import SEQUENCE, Mark, Phase
from models.train import dataset, ensemble, evaluation, held_out, programs
from models.train.dataset import Dataset, Recording
from models.train.factored import Kind
from models.train.held_out import Task

TINY = dataclasses.replace(SMALL, rounds=3, forest_trees=8)


def recording(label: str, parameters: str = "", marks: tuple[Mark, ...] = ()) -> Recording:
    return Recording(
        source="a.journal.xz",
        label=label,
        place="host",
        seed=1,
        started_ns=0,
        parameters=parameters,
        samples=(),
        marks=marks,
    )


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Three programs a kind, of which the pairs have all combinations in turn; disk has one."""
    made = forty(seeds=6, fronts=("", "web", "game"), backs=("", "disk", "llm"))

    def parameters(label: str, number: int) -> str:
        kinds = [kind for kind in label.split("+") if kind != "idle"]
        turns = (number % 3, number // 3 % 2)
        names = [kind if kind == "disk" else f"{kind}-{turn}" for kind, turn in zip(kinds, turns, strict=False)]
        return wire.json_text(dict.fromkeys(names, ""))

    named = [
        dataclasses.replace(one, parameters=parameters(one.label, number)) for number, one in enumerate(made.sessions)
    ]
    return dataclasses.replace(made, sessions=tuple(named))


def everything(data: Dataset) -> np.ndarray:
    return np.ones(len(data.y), dtype=bool)


def played(data: Dataset, rows: np.ndarray) -> set[str]:
    return {name for number in set(data.session[rows].tolist()) for name in dataset.programs_of(data.sessions[number])}


def test_a_label_of_applications_becomes_one_of_kinds_and_the_application_its_program():
    course = (
        Mark(monotonic_ns=1, phase=Phase.BEFORE),
        Mark(monotonic_ns=2, phase=Phase.STARTING, background="archive"),
        Mark(monotonic_ns=3, phase=Phase.RUNNING, interactive="web", background="archive"),
    )
    (one,), other = programs.of_kinds([recording("web+archive", marks=course)])
    assert not other
    assert one.label == "browse+compress"
    assert dataset.programs_of(one) == {"web": "browse", "archive": "compress"}
    assert [(mark.phase, mark.interactive, mark.background) for mark in one.marks] == [
        (Phase.BEFORE, "", ""),
        (Phase.STARTING, "", "compress"),
        (Phase.RUNNING, "browse", "compress"),
    ]


def test_programs_that_are_named_stay_and_a_session_without_marks_knows_its_halves():
    (one, idle), _ = programs.of_kinds(
        [recording("browse+encode", '{"netsurf": {}, "x265": {"threads": 2}}'), recording("idle")]
    )
    assert dataset.programs_of(one) == {"netsurf": "browse", "x265": "encode"}
    assert [(mark.interactive, mark.background) for mark in one.marks] == [("browse", "encode")]
    assert dataset.programs_of(idle) == {}
    assert idle.label == "idle"


def test_what_is_no_kind_is_kept_apart_sequences_are_left_out_and_other_labels_are_their_own():
    known, other = programs.of_kinds([recording("other", '{"apt": {}}'), recording(SEQUENCE), recording("play")])
    assert [one.label for one in known] == ["play"]
    assert [one.label for one in other] == ["other"]
    assert programs.of_kinds([recording("knitting")])[0] == [recording("knitting")]


def test_each_program_is_kept_away_once_and_no_session_of_it_is_learnt_from(data: Dataset):
    parts = programs.splits(data, everything(data))
    assert len(parts) == 3
    assert sorted(name for one in parts for name in one.away) == sorted(
        f"{kind}-{number}" for kind in ("web", "game", "llm") for number in range(3)
    )
    for one in parts:
        assert played(data, one.learnt).isdisjoint(one.away)
        assert not (one.learnt & one.test).any()
        for number in set(data.session[one.test].tolist()):
            assert dataset.programs_of(data.sessions[number]).keys() & one.away


def test_folds_inside_know_nothing_of_what_the_outer_one_keeps_away(data: Dataset):
    outer = programs.splits(data, everything(data))[0]
    for inner in programs.splits(data, outer.learnt, 3):
        assert played(data, inner.learnt | inner.test).isdisjoint(outer.away)
        assert not (inner.learnt & ~outer.learnt).any()


def test_a_kind_with_one_program_is_always_learnt(data: Dataset):
    for one in programs.splits(data, everything(data)):
        assert "disk" in played(data, one.learnt)
    alone = np.isin(data.session, [n for n, it in enumerate(data.sessions) if it.label in ("idle", "disk")])
    assert programs.splits(data, alone) == ()


def test_members_choose_on_programs_that_they_never_saw(data: Dataset, monkeypatch: pytest.MonkeyPatch):
    train, seen = ensemble.train, []

    def spied(rows, use, *others):
        seen.append((rows, use))
        return train(rows, use, *others)

    monkeypatch.setattr(ensemble, "train", spied)
    rows = held_out.rows_of(data, everything(data), by_program=True)
    assert rows.learnt is not None
    row_session = np.concatenate([data.session, data.session[:: held_out.BLIND_EVERY]])
    assert len(row_session) == len(rows.y)
    new, of_all = set(), set()
    for fold in np.unique(rows.fold).tolist():
        learnt, judged = rows.without(fold), rows.fold == fold
        assert not set(row_session[learnt].tolist()) & set(row_session[judged].tolist())
        for number in set(row_session[judged].tolist()):
            names = dataset.programs_of(data.sessions[number]).keys() - {"disk"}
            of_learnt = {
                name for one in set(row_session[learnt].tolist()) for name in dataset.programs_of(data.sessions[one])
            }
            of_all |= {number} if names else set()
            new |= {number} if names - of_learnt else set()
    assert 0.4 < len(new) / len(of_all) < 0.7  # half of them are of programs that their judge knows by other sessions
    ensemble.fit(rows, ensemble.spaces(rows, TINY, 1), TINY, 1)
    masks = [use for _, use in seen]
    assert all(np.array_equal(mask, rows.without(fold)) for fold, mask in enumerate(masks[:-1]))


def test_a_pair_that_was_never_learnt_is_recognised_by_its_halves(data: Dataset):
    pair = np.isin(data.session, [n for n, it in enumerate(data.sessions) if it.label == "web+llm"])
    task = Task(name="pair", train=~pair, test=pair & evaluation.running(data), kinds=(Kind.FACTORED,), by_program=True)
    (done,) = held_out.run(data, [task], recipe=TINY, seed=1)
    assert (done.blended.argmax(axis=1) == data.classes.index("web+llm")).mean() > 0.8


def test_what_is_kept_depends_on_the_programs(data: Dataset):
    some = everything(data)
    some[: len(some) // 2] = False
    other = dataclasses.replace(data, sessions=tuple(dataclasses.replace(one, parameters="") for one in data.sessions))
    task = Task(name="one", train=some, test=~some, by_program=True)
    assert held_out.key_of(data, task, TINY, 1) != held_out.key_of(other, task, TINY, 1)


def test_of_each_choice_of_programs_so_many_ticks_are_learnt_from(data: Dataset, monkeypatch):
    use = everything(data)
    assert held_out.thinned(data, use).all()
    monkeypatch.setattr(held_out, "MOST_TICKS", 5)
    use[data.session == 0] = False
    found = held_out.thinned(data, use)
    assert not found[~use].any()
    cells = data.played()
    for cell in np.unique(cells[use]):
        assert found[cells == cell].sum() == min(5, use[cells == cell].sum())
    two = [np.flatnonzero(found & (data.session == number)) for number in (1, 2)]
    assert all(len(rows) for rows in two)
