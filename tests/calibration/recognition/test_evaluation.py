# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation of recognition on a made-up dataset: every figure from what was not learnt from, and kept."""

import dataclasses
import json
import math

import msgspec
import numpy as np
import pytest
from forty_labels import HOST, LAB, SMALL, forty

from asa import wire
from asa.core.errors import ModelError
from calibration import goals
from calibration.kept import collect
from calibration.recognition import evaluation as evaluate_model
from calibration.recognition import figures as evaluate_model_figures
from calibration.recognition import following as evaluate_model_voting
from calibration.recognition import page as evaluate_model_page
from calibration.recognition import plot as evaluate_model_plot
from calibration.recognition import runtimes as recognition
from calibration.recognition import tuned as evaluate_model_tuned
from calibration.recognition.figures import RecognitionFigure
from calibration.recognition.frame_cost import Cost
from calibration.recognition.papers import PAPERS, papers
from calibration.recognition.uses import UseFigure
from models import features
from models.train import evaluation, held_out
from models.train.factored import Kind
from models.train.held_out import Kept

OTHER = "host, other CPU"
FRONTS, BACKS = ("", "web"), ("", "disk", "llm")
TIMED = {RecognitionFigure.MEAN, RecognitionFigure.P99, RecognitionFigure.RSS}


def silent(_what, _share):
    pass


def all_right(data, fold, *, kinds, **_more):
    """As `evaluation.hold_out`, of models that err in no row."""
    assert kinds == (Kind.FACTORED,)
    shares = np.eye(len(data.classes))[data.y]
    return evaluation.HeldOut(
        by_member=np.stack([shares] * 3),
        blended=shares,
        of={Kind.FACTORED: shares},
        hidden={},
        known=np.ones(len(data.y), dtype=bool),
        scores=(),
        fold=fold,
        kinds=kinds * len(np.unique(fold)),
    )


def timed(asked, _tell):
    assert asked.samples is not None
    assert asked.samples.exists()
    way, hints = (Cost(step=step, mean_us=150.0, median_us=140.0, p99_us=400.0) for step in ("all", "hints"))
    return recognition.Result(began_s=0.0, took_s=1.0, model="", numpy_rss_mb=1.0, measured=(), way=(way,), hints=hints)


def options(tmp_path, **more):
    values = {"recipe": SMALL, "seed": 1, "quick": True, "jobs": 1, "kept": Kept(tmp_path / "kept")}
    return evaluate_model.Options(**{**values, "model": tmp_path / "none.npz", **more})


@pytest.fixture(scope="module")
def data():
    return forty(
        seeds=3, places=(HOST, OTHER, LAB), fronts=FRONTS, backs=BACKS, ticks=8
    )  # longer than the voting's window


@pytest.fixture(scope="module")
def result(data, tmp_path_factory):
    return evaluate_model.evaluate(data, options(tmp_path_factory.mktemp("e"), quick=False), silent)


def test_every_figure_has_a_value_or_a_reason(result):
    found = {figure.name: figure for figure in evaluate_model_figures.figures(result, None, "no table")}
    assert set(found) == set(RecognitionFigure)
    without = {name for name, figure in found.items() if figure.value is None}
    assert without == TIMED | {RecognitionFigure.BY_SCHEDULER, RecognitionFigure.OLDER}
    assert all(found[name].reason for name in without)
    assert found[RecognitionFigure.BY_SCHEDULER].reason == "no table"
    for name, figure in found.items():
        plain = goals.plain(figure)
        assert list(plain)[:5] == ["name", "value", "unit", "goal", "ok"]
        assert (plain["ok"] is None) == (name.goal.bound is None)
        assert figure.value is None or math.isfinite(figure.value)
    assert found[RecognitionFigure.BASE].value > 80  # the made-up applications are easy to tell apart
    assert found[RecognitionFigure.MEAN].ok is False  # a goal without a value is not met


def test_what_was_held_out_is_told(result, data):
    assert (result.held_out, result.folds, result.seeds) == ("whole seeds", 3, [0, 1, 2])
    assert result.sessions == {HOST: 18, OTHER: 18, LAB: 18}
    host = evaluation.in_place(data, lambda session: not session.in_lab)
    assert sum(map(sum, result.confusion)) == (evaluation.running(data) & host).sum()
    assert {one.name for one in result.places} == {HOST, OTHER, LAB}
    drops = [one.drop_points for one in result.places]
    assert result.figures[RecognitionFigure.PLACE_DROP] == max(drops)
    assert [one.sessions for one in result.curve] == [1, 2]
    assert set(result.unknown_pct) == {"disk", "llm", "web"}


def test_a_kept_result_is_read_as_it_was_written(result, tmp_path):
    path = tmp_path / "folder" / evaluate_model_figures.file_name(result.dataset_sha256, 1, quick=False)
    evaluate_model_figures.write(path, result)
    assert evaluate_model_figures.read(path) == result
    assert evaluate_model_figures.read(tmp_path / "none.json") is None
    text = path.read_bytes()
    path.write_bytes(text[:-40])
    assert evaluate_model_figures.read(path) is None
    path.write_bytes(wire.json_bytes(msgspec.structs.replace(result, result=0)))
    assert evaluate_model_figures.read(path) is None
    names = {evaluate_model_figures.file_name("ab" * 32, seed, quick=quick) for seed in (1, 2) for quick in (0, 1)}
    assert len(names) == 4


def test_nothing_is_trained_twice(tmp_path, monkeypatch):
    data = forty(seeds=3, fronts=FRONTS, backs=BACKS, ticks=8)
    first = evaluate_model.evaluate(data, options(tmp_path), silent)
    monkeypatch.setattr(held_out, "_arrays", None)
    monkeypatch.setattr(evaluate_model_tuned, "_right", None)
    second = evaluate_model.evaluate(data, options(tmp_path), silent)
    assert first.figures == second.figures
    assert first.confusion == second.confusion


def test_classes_that_are_served_alike_count_as_one(result):
    alike = dict.fromkeys(result.classes, "eevdf")
    assert evaluate_model_figures.by_scheduler(result, alike) == (100.0, "")
    apart = {name: name for name in result.classes}
    value, _ = evaluate_model_figures.by_scheduler(result, apart)
    assert value == pytest.approx(result.figures[RecognitionFigure.BASE])
    del apart["web"]
    value, why = evaluate_model_figures.by_scheduler(result, apart)
    assert value is None
    assert why == "the mapping table has no ranking for 1 labels, web among them"


def test_one_place_and_two_sessions_have_reasons_instead_of_figures(tmp_path):
    data = forty(seeds=2, fronts=("", "web"), backs=("", "llm"))
    result = evaluate_model.evaluate(data, options(tmp_path), silent)
    for name, words in (
        (RecognitionFigure.TUNED, "three sessions"),
        (RecognitionFigure.PLACE_DROP, "all recordings are of"),
        (RecognitionFigure.LAB, "in the lab"),
    ):
        assert result.figures[name] is None
        assert words in result.reasons[name]
    assert result.lacks
    assert set(result.figures) | {RecognitionFigure.BY_SCHEDULER} == set(RecognitionFigure)


def test_a_dataset_that_cannot_judge_is_refused(tmp_path):
    data = forty(seeds=2, fronts=("", "web"), backs=("", "llm"))
    with pytest.raises(ModelError, match="one session of idle"):
        evaluate_model.evaluate(data.select(data.session != 0), options(tmp_path), silent)


def sessions(data, use):
    return set(np.unique(data.session[use]).tolist())


def test_places_are_left_out_whole():
    data = forty(seeds=3, places=(HOST, LAB), fronts=("", "web"), backs=("", "llm"))
    three = dataclasses.replace(
        data,
        sessions=tuple(
            dataclasses.replace(one, place="lab, other, 8 CPUs") if one.seed == 2 and one.in_lab else one
            for one in data.sessions
        ),
    )
    asked = evaluate_model.place_tasks(three, Kind.FLAT)
    assert set(asked) == {HOST, LAB, "lab, other, 8 CPUs", "the lab"}
    for name, task in asked.items():
        assert not sessions(three, task.train) & sessions(three, task.test)
        of = {three.sessions[one].place for one in sessions(three, task.train)}
        assert name not in of
    assert {three.sessions[one].place for one in sessions(three, asked["the lab"].train)} == {HOST}
    assert not evaluate_model.place_tasks(forty(seeds=2), Kind.FLAT)


def test_the_learning_curve_learns_from_ever_more_of_the_same_sessions(data):
    fold = evaluation.by_seeds(data)
    asked = evaluate_model.curve_tasks(data, fold, Kind.FLAT)
    assert set(asked) == {(1, 0), (1, 1), (2, 0), (2, 1)}
    for (count, _), task in asked.items():
        assert not sessions(data, task.train) & sessions(data, task.test)
        assert len(sessions(data, task.train)) == 6 * 2 * count  # so many of each label and machine
        assert {data.sessions[one].place for one in sessions(data, task.train | task.test)} == {HOST, OTHER}
        assert len(np.unique(data.y[task.train])) == 6
    for fold in (0, 1):
        assert sessions(data, asked[1, fold].train) < sessions(data, asked[2, fold].train)


def test_older_recordings_are_judged_apart(data, tmp_path):
    blind = forty(seeds=3, fronts=("", "web"), backs=("", "llm"), ticks=8)
    old = np.array([session.seed == 1 for session in blind.sessions])[blind.session]
    blind.x[np.ix_(old, features.columns({features.Source.PROCESSES}))] = np.nan
    assert np.array_equal(evaluation.judged(blind), evaluation.running(blind) & ~old)
    result = evaluate_model.evaluate(blind, options(tmp_path, quick=False), silent)
    pairs = evaluation.pairs(blind)
    found = result.figures
    right = sum(
        found[name] * (pairs & use).sum()
        for name, use in ((RecognitionFigure.BASE, ~old), (RecognitionFigure.OLDER, old))
    )
    assert right == pytest.approx(found[RecognitionFigure.HOST] * pairs.sum())
    assert result.curve[-1].sessions == 1  # of the other new seed
    blind.x[:, features.columns({features.Source.PROCESSES})] = np.nan
    assert np.array_equal(evaluation.judged(blind), evaluation.running(blind))  # better than nothing


def test_own_sessions_are_of_a_machine_that_the_base_never_saw():
    data = forty(seeds=3, places=(HOST, OTHER, LAB), fronts=("", "web"), backs=("", "llm"))
    found = evaluate_model_tuned.deals(data)
    assert set(found) == {HOST, OTHER}  # nothing is like the lab's stand-ins
    for name, (base, own, test) in found.items():
        assert {data.sessions[one].place for one in sessions(data, base)} == {HOST, OTHER} - {name}
        assert not sessions(data, own) & sessions(data, test)
        assert {data.sessions[one].place for one in sessions(data, own | test)} == {name}
        assert len(sessions(data, own)) == 4 * evaluate_model_tuned.OWN
    lone = forty(seeds=5, fronts=("", "web"), backs=("", "llm"))
    found = evaluate_model_tuned.deals(lone)
    assert len(found) == 3
    for judge, parts in zip((2, 3, 4), found.values(), strict=True):
        seeds = [{lone.sessions[one].seed for one in sessions(lone, use)} for use in parts]
        assert seeds == [{0, 1}, {2, 3, 4} - {judge}, {judge}]
    assert not evaluate_model_tuned.deals(forty(seeds=4, fronts=("", "web"), backs=("", "llm")))


def test_a_machine_whose_like_lack_a_label_is_tuned_by_seeds():
    data = forty(seeds=5, places=(HOST, OTHER, LAB), fronts=("", "web"), backs=("", "llm"))
    labels = np.array([session.label for session in data.sessions])[data.session]
    lab = evaluation.in_place(data, lambda session: session.in_lab)
    found = evaluate_model_tuned.deals(data.select((labels != "web") | lab))
    assert [name.partition(", seed")[0] for name in found] == [HOST] * 3 + [OTHER] * 3 + [LAB] * 3


def test_a_seed_of_one_label_does_not_judge_tuning():
    data = forty(seeds=6, fronts=("", "web"), backs=("", "llm"))
    alone = np.array([session.seed == 5 and session.label != "web" for session in data.sessions])[data.session]
    found = evaluate_model_tuned.deals(evaluate_model_tuned.only(data, ~alone))
    assert [name.rpartition(" ")[2] for name in found] == ["2", "3", "4"]


def test_the_seeds_that_judge_tuning_are_unknown_on_other_machines_too():
    both = forty(seeds=5, places=(HOST, LAB), fronts=("", "web"), backs=("", "llm"))
    labels = np.array([session.label for session in both.sessions])[both.session]
    place = np.array([session.place for session in both.sessions])[both.session]
    data = evaluate_model_tuned.only(both, (labels != "web") | (place == HOST))
    base, own, test = evaluate_model_tuned.deals(data)[f"{HOST}, seed 4"]
    seeds = [{data.sessions[one].seed for one in sessions(data, use)} for use in (base, own, test)]
    assert seeds == [{0, 1}, {2, 3}, {4}]
    assert {data.sessions[one].place for one in sessions(data, base)} == {HOST, LAB}


def test_what_is_timed_is_the_whole_way_from_a_recorded_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(recognition, "measure", timed)
    found = evaluate_model_figures.runtime(tmp_path / "any.npz", quick=True, tell=silent)
    assert (found[RecognitionFigure.MEAN], found[RecognitionFigure.P99]) == (0.15, 0.4)


def test_no_session_chooses_the_voting_and_reports_it(data):
    found = evaluation.hold_out(data, evaluation.by_seeds(data), recipe=SMALL, seed=1, most=2)
    assert set(np.unique(found.fold)) == {-1, 0, 1}
    known = np.ones(len(data.y), dtype=bool)
    known[data.session == 2] = False
    streams = evaluate_model_voting.spliced(data, found, known, 3)
    assert [one.group for one in streams] == ["a"] * 3 + ["b"] * 3
    sides = [
        {probabilities.values for one in streams if one.group == side for _, probabilities in one.ticks}
        for side in ("a", "b")
    ]
    assert not {values for values in sides[0] if values[-1] < 1} & {values for values in sides[1] if values[-1] < 1}
    assert streams[0].ticks[0][1].classes[-1] == "unknown"


def test_page_and_pictures_come_from_the_kept_result(result, tmp_path):
    table = dict.fromkeys(result.classes, "eevdf")
    figures = evaluate_model_figures.figures(result, table)
    for what in evaluate_model_plot.PICTURES:
        for again in ("a", "b"):
            evaluate_model_plot.draw(tmp_path / f"{what}-{again}.svg", what, result)
        assert (tmp_path / f"{what}-a.svg").read_bytes() == (tmp_path / f"{what}-b.svg").read_bytes()
    pictures = {what: f"{what}-a.svg" for what in evaluate_model_plot.PICTURES}
    text = evaluate_model_page.page(result, figures, pictures, command="asa lab evaluate model")
    base = result.figures[RecognitionFigure.BASE]
    assert f"| accuracy_base_28_pct | {base:.4g} % | >= 97 % |" in text
    assert "| accuracy_by_scheduler_pct | 100 % |" in text
    for words in ("![confusion](confusion-a.svg)", HOST, LAB, "whole seeds", result.dataset_sha256, "| llm |"):
        assert words in text
    assert json.dumps(goals.plain(figures[0])).startswith('{"name": "accuracy_base_28_pct", "value": ')


def test_each_of_the_papers_figures_is_measured_by_itself(data, tmp_path, monkeypatch):
    asked = []

    def assembled():
        asked.append(1)
        return data

    counts = papers(assembled, options(tmp_path), silent)
    assert set(counts) == set(PAPERS)
    monkeypatch.setattr(recognition, "measure", timed)
    monkeypatch.setattr(evaluation, "hold_out", all_right)
    monkeypatch.setattr(evaluate_model_voting, "_recorded", lambda _paths, _model: [])
    quick = (UseFigure.MEAN, UseFigure.P99, UseFigure.REACTION, UseFigure.VOTING_ERROR)
    kept = collect({name: counts[name] for name in quick})
    assert asked == []  # no recording is assembled for what needs none
    assert (kept.values[UseFigure.MEAN], kept.values[UseFigure.P99]) == (0.15, 0.4)
    assert kept.reasons[UseFigure.REACTION].startswith("no recorded sequence to follow")
    value, words = counts[UseFigure.PAPERS]()
    assert value == 100.0
    assert "3 folds of seeds" in words
    assert counts[UseFigure.PAPERS_VOTED]()[0] == 100.0
    assert asked == [1]
