# SPDX-License-Identifier: GPL-2.0-only
"""The threshold of the unknown by what it costs: the cheapest of all, and what its cost ratio rests on."""

import dataclasses
import math
from statistics import fmean

import numpy as np
import pytest
from forty_labels import forty
from hypothesis import given
from hypothesis import strategies as st

from asa import paths, wire
from calibration.outside import evidence
from models.artefact import Score
from models.train import cost, dataset, held_out
from models.train.cost import Verdicts
from models.train.ensemble import Recipe, Rows

RECIPE = Recipe()
FOURS = st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.floats(0.1, 3.0)), min_size=1, max_size=40)


def verdicts(scores, wrong, weight=None):
    values = np.asarray(scores, dtype=float)
    return Verdicts(
        scores=dict.fromkeys(Score, values),
        wrong=np.asarray(wrong, dtype=bool),
        weight=np.ones(len(values)) if weight is None else np.asarray(weight, dtype=float),
    )


def mean_cost(scores, wrong, weight, least, wrong_cost):
    known = scores >= least
    return float(np.average(np.where(known, np.where(wrong, wrong_cost, 0.0), 1.0), weights=weight))


@given(FOURS, st.floats(1.5, 10.0))
def test_no_threshold_is_cheaper(rows, wrong_cost):
    scores, wrong, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    found = cost.cheapest(scores, wrong > 0, weight, wrong_cost)
    assert math.isfinite(found.least)
    assert found.cost == pytest.approx(mean_cost(scores, wrong > 0, weight, found.least, wrong_cost))
    for least in (*scores, scores.max() + 1.0, scores.min() - 1.0):
        assert found.cost <= mean_cost(scores, wrong > 0, weight, least, wrong_cost) + 1e-9


def test_a_row_is_known_where_enough_are_right():
    scores = np.repeat([4.0, 3.0, 2.0, 1.0], 10)
    wrong = np.concatenate([np.arange(10) < count for count in (0, 1, 3, 9)])
    weight = np.ones(40)
    # with a cost of 5 what is right in four of five is worth being known; of the third step seven of ten are
    assert cost.cheapest(scores, wrong, weight, 5.0).least == 2.5
    assert cost.cheapest(scores, wrong, weight, 2.0).least == 1.5
    assert cost.cheapest(scores, wrong, weight, 50.0).least == 3.5
    assert cost.cheapest(scores, np.zeros(40, dtype=bool), weight, 5.0).least == 1.0


def test_where_all_is_wrong_nothing_is_known():
    found = cost.cheapest(np.array([1.0, 2.0, 3.0]), np.ones(3, dtype=bool), np.ones(3), 5.0)
    assert found.cost == 1.0
    assert 3.0 < found.least < 3.1


def test_what_is_new_makes_the_threshold_rise():
    scores = np.linspace(0.0, 1.0, 101)
    known, strange = verdicts(scores, np.zeros(101)), verdicts(scores, np.ones(101))
    alone = cost.thresholds(known, [], [], RECIPE)
    assert {one.cost for one in alone.values()} == {None}
    assert alone[Score.ENERGY].least == pytest.approx(1.0 - cost.KNOWN_SHARE)
    near = cost.thresholds(known, [], [verdicts(scores / 12, np.ones(101))], RECIPE)
    assert near[Score.ENERGY].least == pytest.approx(0.084, abs=0.01)  # all that is new is below it
    right = cost.thresholds(known, [verdicts(scores, np.zeros(101))], [], RECIPE)
    assert right[Score.ENERGY].least == 0.0
    often = cost.thresholds(known, [strange], [], RECIPE)[Score.ENERGY]
    assert often.least == pytest.approx(1.0 - cost.KNOWN_SHARE)  # what is known stays so, whatever it costs
    shares = np.repeat([0.4, 0.5], 101)
    both, wrong = np.concatenate([scores, scores]), np.repeat([False, True], 101)
    assert often.cost == pytest.approx(mean_cost(both, wrong, shares, often.least, RECIPE.wrong_cost))


def test_the_weights_of_several_trainings_are_those_of_their_rows():
    known = verdicts([1.0, 0.9], [False, False])
    parts = [verdicts([0.5], [True], [1.0]), verdicts([0.2], [False], [9.0])]
    whole = verdicts([0.5, 0.2], [True, False], [1.0, 9.0])
    assert cost.thresholds(known, parts, [], RECIPE) == cost.thresholds(known, [whole], [], RECIPE)


def test_wrong_is_what_another_scheduler_serves():
    truth, said = np.array([0, 0, 1, 2]), np.array([0, 1, 2, 0])
    values = {"x": np.zeros((4, 1)), "y": truth, "weight": np.ones(4), "fold": np.zeros(4), "classes": 3}
    assert cost.wrong(Rows(**values), truth, said).tolist() == [False, True, True, True]
    served = np.array([0, 0, 1])  # the first two classes have one scheduler
    assert cost.wrong(Rows(**values, served=served), truth, said).tolist() == [False, False, True, True]


def test_the_cost_ratio_is_that_of_the_published_figures():
    best_above, others_below, ours = [], [], {"scx_lavd", "scx_bpfland", "scx_flash", "scx_rusty", "scx_p2dq"}
    for row in evidence.read(paths.mapping_tables() / "evidence.yaml").rows:
        for one in row.at:
            effects = {name: effect for name, effect in row.effects_pct(one).items() if name in ours}
            gains = sorted(math.log1p(effect / 100.0) for effect in effects.values())
            if len(gains) > 1:
                best = max(0.0, gains[-1])
                best_above.append(best)
                others_below.append(fmean(best - gain for gain in gains[:-1]))
    assert len(best_above) >= 9
    assert fmean(best_above) == pytest.approx(0.19, abs=0.005)
    assert fmean(others_below) == pytest.approx(0.99, abs=0.005)
    assert fmean(others_below) / fmean(best_above) == pytest.approx(RECIPE.wrong_cost, rel=0.1)


@pytest.fixture(scope="module")
def data():
    return forty(seeds=2, fronts=("", "web", "game"), backs=("", "disk", "llm"))


def all_of(data):
    return np.ones(len(data.y), dtype=bool)


def test_each_kind_is_kept_out_once(data):
    rows = held_out.rows_of(data, all_of(data))
    names = np.array([one.label for one in data.sessions])[data.session]
    names = np.concatenate([names, names[:: held_out.BLIND_EVERY]])
    out = []
    for away in rows.away:
        assert not (away.learnt & (away.new | away.no_kind)).any()
        assert not away.new.any()  # one program a kind: without it there is no kind
        learnt = {part for name in set(names[away.learnt]) for part in name.split("+")}
        judged = {part for name in set(names[away.no_kind]) for part in name.split("+")}
        gone = {"web", "game", "disk", "llm"} - learnt
        assert gone <= judged
        assert all(gone & set(name.split("+")) for name in set(names[away.no_kind]))
        out += gone
    assert sorted(out) == ["disk", "game", "llm", "web"]


def named(data):
    """The same, each kind played by three programs."""

    def parameters(label, number):
        return wire.json_text({f"{kind}-{number % 3}": {"threads": 2} for kind in label.split("+") if kind != "idle"})

    numbered = enumerate(data.sessions)
    sessions = [dataclasses.replace(one, parameters=parameters(one.label, number)) for number, one in numbered]
    return dataclasses.replace(data, sessions=tuple(sessions))


def test_programs_are_kept_out_while_others_of_their_kind_are_learnt(data):
    more = named(forty(seeds=6, fronts=("", "web", "game"), backs=("", "disk", "llm")))
    rows = held_out.rows_of(more, all_of(more))
    programs = [dataset.programs_of(one) for one in more.sessions]
    session = np.concatenate([more.session, more.session[:: held_out.BLIND_EVERY]])
    kept_out = set()
    for away in rows.away:
        learnt = {one for number in set(session[away.learnt]) for one in programs[number].items()}
        new = {one for number in set(session[away.new]) for one in programs[number].items()}
        assert {kind for _, kind in new} <= {kind for _, kind in learnt}
        for number in set(session[away.new]):
            assert any(one not in learnt for one in programs[number].items())
        kept_out |= {name for name, _ in new} - {name for name, _ in learnt}
    assert kept_out == {f"{kind}-{number}" for kind in ("web", "game", "disk", "llm") for number in range(3)}


def test_a_recording_tells_its_programs_or_its_label_does(data):
    one = data.sessions[-1]
    assert one.label == "web+llm"
    assert dataset.programs_of(one) == {"web": "web", "llm": "llm"}
    whole = dataclasses.replace(one, parameters='{"firefox": {}, "llama.cpp": {"threads": 2}}')
    assert dataset.programs_of(whole) == {"firefox": "web", "llama.cpp": "llm"}
    for text in ("fio --rw=read", "[1]", '{"firefox": {}}'):
        assert dataset.programs_of(dataclasses.replace(one, parameters=text)) == {"web": "web", "llm": "llm"}
    assert dataset.programs_of(dataclasses.replace(one, label="idle")) == {}


def test_a_table_that_serves_all_alike_says_nothing(data):
    alike = dataclasses.replace(data, served=("eevdf",) * len(data.classes))
    assert held_out.rows_of(alike, all_of(data)).served is None
    assert held_out.rows_of(data, all_of(data)).served is None
    served = tuple("scx_lavd" if name.startswith("web") else "eevdf" for name in data.classes)
    found = held_out.rows_of(dataclasses.replace(data, served=served), all_of(data)).served
    assert [found[number] == found[-1] for number in range(len(served))] == [name == "scx_lavd" for name in served]
