# SPDX-License-Identifier: GPL-2.0-only
"""The weight of the desktop's knowledge is as large as it is right, and arrays are pooled as the agent pools a tick."""

import dataclasses

import numpy as np
import pytest
from forty_labels import forty

from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.evidence import MOST_WEIGHT, Evidence
from asa.core.kinds import Kind
from asa.core.sample import RawSample
from asa.decide import evidence
from asa.decide.hints import Hints
from models.train import hinting

SHARES = np.array([[0.6, 0.3, 0.1]] * 40)


def test_arrays_are_pooled_as_the_agent_pools_a_tick():
    classes = tuple(map(Workload, ("browse", "play+render", "idle")))
    judged = Judgement(probabilities=Probabilities(classes=classes, values=(0.6, 0.3, 0.1)), score=None, known=True)
    told = Evidence(interactive={Kind.PLAY: 0.5}, background={Kind.RENDER: 1.0})
    expected = evidence.pooled(judged, told, 1.3).probabilities.values
    found = hinting.pooled(SHARES[:1], np.array([[0.0, 1.5, 0.0]]), 1.3)[0]
    assert found == pytest.approx(expected)


def test_evidence_that_is_right_counts_in_full_and_one_that_lies_not_at_all():
    y = np.ones(40, dtype=np.intp)
    right, wrong = np.zeros((40, 3)), np.zeros((40, 3))
    right[:, 1], wrong[:, 2] = 1.0, 1.0
    assert hinting.chosen(SHARES, right, y) == MOST_WEIGHT
    assert hinting.chosen(SHARES, wrong, y) == 0.0
    assert hinting.chosen(SHARES, np.zeros((40, 3)), y) == 0.0


def test_evidence_that_is_right_at_times_counts_between():
    y = np.where(np.arange(40) % 4 == 0, 0, 1)
    speaks = np.zeros((40, 3))
    speaks[:, 1] = 1.0
    assert 0.5 < hinting.chosen(SHARES, speaks, y) < MOST_WEIGHT


def test_each_row_has_the_evidence_of_its_own_sample(monkeypatch: pytest.MonkeyPatch):
    data = forty(seeds=1, ticks=2, fronts=("", "web"), backs=("", "llm"))
    times = [sorted(data.at_ns[data.session == number].tolist()) for number in range(len(data.sessions))]
    sessions = [
        dataclasses.replace(one, samples=tuple(RawSample(monotonic_ns=at, wall_ns=at) for at in (0, *of)))
        for one, of in zip(data.sessions, times, strict=True)
    ]
    told_at = times[1][2]

    def told(before, sample, _hints, _recent):
        assert before.monotonic_ns < sample.monotonic_ns
        return (
            Evidence(interactive={Kind.BROWSE: 0.8}, background={Kind.INFER: 1.0})
            if sample.monotonic_ns == told_at
            else None
        )

    monkeypatch.setattr(evidence, "of_tick", told)
    everything = hinting.told(dataclasses.replace(data, sessions=tuple(sessions)), Hints())
    found = everything.speaks
    row = int(np.flatnonzero(data.at_ns == told_at)[0])
    assert dict(zip(data.classes, found[row].tolist(), strict=True)) == {
        "idle": 0.0,
        "llm": 1.0,
        "web": 0.8,
        "web+llm": 1.8,
    }
    assert not np.delete(found, row, axis=0).any()
    assert np.argwhere(everything.agrees).tolist() == [[row, data.classes.index("web+llm")]]
    shares = np.full(found.shape, 0.25)
    both, known = everything.over(shares, np.zeros(len(shares), dtype=bool), 1.0)
    assert np.flatnonzero(known).tolist() == [row]
    assert both[row].argmax() == data.classes.index("web+llm")
    same, unknown = everything.over(shares, np.zeros(len(shares), dtype=bool), 0.0)
    assert same is shares
    assert not unknown.any()
