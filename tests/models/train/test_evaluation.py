# SPDX-License-Identifier: GPL-2.0-only
"""Figures come from held-out sessions only, and say what they claim."""

import dataclasses

import numpy as np
import pytest
from forty_labels import HOST, LAB, SMALL, forty

from asa.config import Voting
from asa.core.errors import ModelError
from asa.core.mark import Phase
from models import features
from models.train import ensemble, evaluation, held_out, novelty, training
from models.train.dataset import PHASES, Dataset, Recording
from models.train.evaluation import HeldOut
from models.train.factored import Kind
from models.train.held_out import Kept, Task

TINY = dataclasses.replace(SMALL, rounds=3, forest_trees=8)
CLASSES = ("cpu", "disk", "idle")
TICKS = 12


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Rows that know their session (columns 0 and 2 to 11) better than their class (column 1, noisy)."""
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
    for column in (0, *range(2, 12)):
        x[:, column] = chance.permutation(len(sessions))[session] * 10
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


def certain(data: Dataset, recognised: np.ndarray) -> np.ndarray:
    """Predictions that are sure of the given classes."""
    return np.eye(len(data.classes))[recognised]


def predicted(data: Dataset, fold: np.ndarray | None = None, **more) -> HeldOut:
    fold = evaluation.by_sessions(data) if fold is None else fold
    return evaluation.hold_out(data, fold, recipe=TINY, seed=1, **more)


def test_no_prediction_comes_from_a_model_that_saw_its_session(data: Dataset, monkeypatch: pytest.MonkeyPatch):
    seen: list[set[bytes]] = []
    train = ensemble.train

    def spy(rows, use, space, recipe, seed):
        seen.append({row.tobytes() for row in rows.x[use]})
        return train(rows, use, space, recipe, seed)

    monkeypatch.setattr(ensemble, "train", spy)
    said: list[str] = []
    found = predicted(data, tell=lambda what, _share: said.append(what))
    assert said == [f"fold {number} of 3 ({number} of 3)" for number in (1, 2, 3)]
    each = 3 + len(held_out.rows_of(data, found.fold != 0).away)  # two inner ones, the last, and those without a kind
    assert each == 5
    assert len(seen) == 3 * each
    for number in range(3):
        test = {row.tobytes() for row in data.x[found.fold == number]}
        of_fold = seen[each * number : each * (number + 1)]
        assert not any(test & known for known in of_fold)
        # some of them stand there a second time, as a machine without eBPF sees them
        assert len(of_fold[2]) == (len(data.y) - len(test)) + -(-(len(data.y) - len(test)) // held_out.BLIND_EVERY)
    assert np.allclose(found.blended.sum(axis=1), 1.0, atol=1e-5)
    assert found.kinds == (Kind.FLAT,) * 3  # these labels have no parts


def test_a_session_on_both_sides_is_refused(data: Dataset):
    half = np.arange(len(data.y)) % 2 == 0
    task = Task(name="by rows", train=half, test=~half)
    with pytest.raises(ModelError, match=r"'cpu', seed 0, is on both sides") as caught:
        held_out.run(data, [task], recipe=TINY, seed=1)
    assert "\n" not in str(caught.value)


def test_a_copy_of_a_session_on_the_other_side_is_refused():
    data = forty(fronts=("", "web"), backs=("", "llm"))
    copy = dataclasses.replace(data.sessions[0], source="copy.xz", label="web", seed=9)
    data = dataclasses.replace(data, sessions=(*data.sessions[:5], copy, *data.sessions[6:]))
    with pytest.raises(ModelError, match="on both sides"):
        held_out.apart(data, data.session == 0, data.session == 5)
    held_out.apart(data, data.session == 1, data.session == 5)


def test_rows_at_random_flatter(data: Dataset):
    recipe = dataclasses.replace(TINY, rounds=40, boosted_depth=5)  # enough to learn the sessions by heart
    fold = evaluation.by_sessions(data)
    honest = evaluation.accuracy_pct(evaluation.hold_out(data, fold, recipe=recipe, seed=1).blended, data.y)
    task = evaluation.random_rows(data, 1, Kind.FLAT)
    flattering = held_out.run(data, [task], recipe=recipe, seed=1)[0]
    assert evaluation.accuracy_pct(flattering.blended, data.y[task.test]) > honest + 5


def test_what_was_done_is_not_done_again(data: Dataset, tmp_path, monkeypatch: pytest.MonkeyPatch):
    first = predicted(data, kept=Kept(tmp_path))
    monkeypatch.setattr(held_out, "_arrays", None)
    second = predicted(data, kept=Kept(tmp_path))
    assert np.array_equal(first.blended, second.blended)
    assert first.kinds == second.kinds
    other = dataclasses.replace(data, sha256="00" * 32)
    with pytest.raises(TypeError):  # another dataset is trained on
        predicted(other, kept=Kept(tmp_path))
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TypeError):  # so is one of which what was kept is cut off
        predicted(data, kept=Kept(tmp_path))


def test_what_cannot_be_read_of_what_was_kept_is_none(tmp_path):
    kept = Kept(tmp_path)
    kept.put("whole", {"a": np.arange(1000)})
    whole = (tmp_path / "whole.npz").read_bytes()
    np.save(tmp_path / "array.npy", np.arange(9))
    damaged = bytearray(whole)
    damaged[60:200] = bytes(140)
    contents = (b"", b"garbage", whole[:90], bytes(damaged), (tmp_path / "array.npy").read_bytes())
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.npz").write_bytes(content)
        assert kept.get(str(number)) is None
    assert kept.get("whole") is not None


def test_the_same_in_several_processes(data: Dataset):
    first, second = predicted(data), predicted(data, jobs=2)
    assert np.allclose(first.blended, second.blended, atol=1e-6)


@pytest.fixture(scope="module")
def whole() -> tuple[Dataset, HeldOut]:
    data = forty(places=(HOST,), seeds=3)
    found = evaluation.hold_out(data, evaluation.by_seeds(data), recipe=SMALL, seed=1, hidden=("ebpf",))
    return data, found


def test_both_kinds_are_judged_and_one_is_preferred(whole):
    data, found = whole
    running = evaluation.running(data)
    assert set(found.of) == set(Kind)
    right = {kind: evaluation.accuracy_pct(of[running], data.y[running]) for kind, of in found.of.items()}
    assert right[Kind.FACTORED] > 80  # the made-up parts are easy to tell apart
    for number, kind in enumerate(found.kinds):
        rows = found.fold == number
        assert np.array_equal(found.blended[rows], found.of[kind][rows])
        seeds = {data.sessions[one].seed for one in np.unique(data.session[rows])}
        assert seeds == {number}  # a whole seed, of all labels
    blind = evaluation.accuracy_pct(found.hidden["ebpf"][running], data.y[running])
    assert blind <= right[Kind.FACTORED] + 1


def test_folds_without_a_second_session_still_train():
    data = forty(seeds=2, fronts=("", "web", "game"), backs=("", "llm", "disk"))
    rows = held_out.rows_of(data, evaluation.by_seeds(data) == 0)
    assert np.bincount(rows.fold).min() > 0
    assert len(np.unique(rows.fold)) == held_out.MOST_INNER
    found = evaluation.hold_out(data, evaluation.by_seeds(data), recipe=TINY, seed=1)
    assert np.isfinite(found.blended).all()


def test_a_program_kept_out_is_no_class_of_the_model(whole):
    data, _ = whole
    asked = novelty.tasks(data, Kind.FACTORED, most=2)
    assert list(asked) == ["archive", "blender"]
    task = asked["blender"]
    names = {data.sessions[one].label for one in np.unique(data.session[task.train])}
    assert not any("blender" in name for name in names)
    assert {data.sessions[one].label for one in np.unique(data.session[task.test])} == {
        "blender",
        *(f"{front}+blender" for front in ("audio", "game", "office", "web")),
    }
    found = held_out.run(data, [task], recipe=TINY, seed=1)[0]
    assert found.kind is Kind.FACTORED
    of_blender = ["blender" in name for name in data.classes]
    assert not found.blended[:, of_blender].any()
    assert np.allclose(found.blended.sum(axis=1), 1.0, atol=1e-5)


def test_what_is_accepted_is_told_by_program():
    new = novelty.Novelty(accepted={"a": 0.4, "b": 0.5, "c": 0.5})
    assert new.by_program_pct == pytest.approx({"a": 40.0, "b": 50.0, "c": 50.0})
    assert new.false_accept_pct == pytest.approx(140 / 3)
    assert new.programs == ("a", "b", "c")
    assert novelty.Novelty(accepted={}).false_accept_pct is None


def refused(data: Dataset, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        evaluation.check(data)
    assert "\n" not in str(caught.value)


def test_datasets_that_would_make_figures_worthless():
    data = forty(seeds=2, fronts=("", "web"), backs=("", "llm"))
    evaluation.check(data)
    refused(dataclasses.replace(data, x=data.x[:, :-2]), rf"{len(features.NAMES) - 2} columns, features of schema")
    broken = data.x.copy()
    broken[3, 5] = np.inf
    refused(dataclasses.replace(data, x=broken), r"idle-0\.journal\.xz: a value that is no number")
    broken[3] = np.nan
    refused(dataclasses.replace(data, x=broken), "a row without any value")
    refused(dataclasses.replace(data, y=data.y - 1), "not certain")
    refused(data.select(data.session != 0), "one session of idle: one to learn from and one to judge by")
    pair = [number for number, one in enumerate(data.sessions) if one.label == "web+llm"]
    evaluation.check(data.select(data.session != pair[0]))  # its halves are in others
    unknown = data.x.copy()
    unknown[:, 7] = np.nan  # a source that is not there is no fault
    evaluation.check(dataclasses.replace(data, x=unknown))


def test_what_a_dataset_lacks_is_one_line():
    data = forty(seeds=2, fronts=("", "web"), backs=("", "llm"))
    assert evaluation.lacks(data).startswith(f"4 labels have fewer than 3 sessions in {HOST!r} (the fewest 2)")
    assert not evaluation.lacks(forty(seeds=3, fronts=("", "web"), backs=("", "llm")))


def test_accuracy_recall_and_confusion(data: Dataset):
    recognised = data.y.copy()
    wrong = np.flatnonzero(data.y == 2)[:18]  # 18 of 72 rows of the last class
    recognised[wrong] = 0
    found = certain(data, recognised)
    table = evaluation.confusion(data, found, evaluation.running(data))
    assert table.tolist() == [[72, 0, 0], [0, 72, 0], [18, 0, 54]]
    assert evaluation.recall_pct(table).tolist() == [100.0, 100.0, 75.0]
    assert np.isnan(evaluation.recall_pct(table * [[1], [1], [0]])[2])
    assert evaluation.accuracy_pct(found, data.y) == pytest.approx(100 * 198 / 216)


def test_calibration_error_is_confidence_less_right():
    sure = np.tile([0.9, 0.1], (100, 1))
    y = (np.arange(100) % 10 >= 7).astype(int)  # right in 70 %
    found = evaluation.reliability(sure, y)
    assert found.error == pytest.approx(0.2)
    assert found.rows.sum() == 100
    assert evaluation.reliability(sure, (np.arange(100) % 10 >= 9).astype(int)).error == pytest.approx(0.0)


def test_a_vote_forgives_a_single_wrong_tick(data: Dataset):
    recognised = data.y.copy()
    recognised[np.arange(len(data.y)) % TICKS == 9] = 1
    found = certain(data, recognised)
    assert evaluation.accuracy_pct(found, data.y) < 100
    assert evaluation.voted_pct(data, found, Voting()) == 100.0
    assert evaluation.voted_pct(data, certain(data, (data.y + 1) % 3), Voting()) == 0.0


def test_the_vote_is_judged_by_the_rows_own_class_and_by_those_asked_for(data: Dataset):
    changing = dataclasses.replace(data, y=np.where(np.arange(len(data.y)) % TICKS < 4, 2, data.y))
    assert evaluation.voted_pct(changing, certain(changing, changing.y), Voting(window_s=3.0)) == 100.0
    nothing = np.zeros(len(data.y), dtype=bool)
    assert evaluation.voted_pct(data, certain(data, data.y), Voting(), use=nothing) is None
    # of what it does not know a tick says nothing of the class
    wrong = np.arange(len(data.y)) % 2 == 1
    confused = certain(data, np.where(wrong, (data.y + 1) % 3, data.y))
    assert evaluation.voted_pct(data, confused, Voting()) < 100.0
    assert evaluation.voted_pct(data, confused, Voting(), known=~wrong) == 100.0


def test_nothing_is_decided_any_more_once_nobody_has_won_for_a_dwell(data: Dataset):
    place = np.arange(len(data.y)) % TICKS
    current, _ = evaluation.decided(data, certain(data, data.y), Voting(window_s=1.0), known=place < 5)
    assert (current == data.y)[place < 7].all()  # the fifth and sixth tick are unknown, and no dwell has passed
    assert (current == -1)[place >= 7].all()


def test_no_vote_figure_when_sessions_are_shorter_than_the_window(data: Dataset):
    assert evaluation.voted_pct(data, certain(data, data.y), Voting(window_s=60.0)) is None


def test_places_are_told_apart(data: Dataset):
    lab = evaluation.in_place(data, lambda session: session.in_lab)
    assert lab.sum() == len(data.y) // 2
    assert all(data.sessions[number].place == "lab" for number in data.session[lab])


def test_pairs_are_running_rows_of_two_programs():
    data = forty(seeds=2, places=(HOST, LAB), fronts=("", "web"), backs=("", "llm"), ticks=4)
    assert evaluation.running(data).sum() == 4 * 2 * 2 * 4
    assert evaluation.pairs(data).sum() == 2 * 2 * 4
    assert {data.classes[number] for number in data.y[evaluation.pairs(data)]} == {"web+llm"}


def test_seeds_are_held_out_where_there_are_several():
    data = forty(seeds=2, fronts=("", "web"), backs=("", "llm"))
    assert training.split(data)[1] == "whole seeds"
    one = tuple(dataclasses.replace(session, seed=4) for session in data.sessions)
    assert training.split(dataclasses.replace(data, sessions=one))[1] == "whole sessions"
