# SPDX-License-Identifier: GPL-2.0-only
"""The costs of a tick's steps are those of the ticks that were judged, and add up."""

from dataclasses import replace
from pathlib import Path

import pytest

from asa.core.errors import ModelError
from asa.journal import Journal
from calibration.recognition import frame_cost
from models import features

RECORDING = Path(__file__).resolve().parents[3] / "models/recordings/host.journal.xz"


@pytest.fixture(scope="module")
def samples():
    with Journal.unpack(RECORDING) as journal:
        return list(journal.samples(next(iter(journal.sessions())).number))


def test_steps_add_up_to_the_whole(samples):
    seen = []
    found = {cost.step: cost for cost in frame_cost.measure(samples, seen.append, rounds=1)}
    assert len(seen) == 2 * (len(samples) - 1)
    assert {one.schema for one in seen} == {features.SCHEMA}
    assert tuple(found) == frame_cost.STEPS
    parts = sum(found[step].mean_us for step in frame_cost.STEPS[:-1])
    assert found["all"].mean_us == pytest.approx(parts)
    assert all(0 < cost.median_us <= cost.p99_us for cost in found.values())


def test_ticks_that_the_agent_would_not_judge_are_not_timed(samples):
    blind = [replace(sample, cpu=None) for sample in samples]
    assert len(frame_cost._round(samples, id)) == len(samples) - 1
    assert len(frame_cost._round([*samples[:4], blind[4]], id)) == 3
    with pytest.raises(ModelError, match="no two consecutive"):
        frame_cost.measure(blind, id)
