# SPDX-License-Identifier: GPL-2.0-only
"""What the agent shows the model, tick by tick, is what training shows it."""

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from asa import paths
from asa.act.portfolio import Portfolio
from asa.config import PolicySettings, Voting
from asa.core.decision import Judgement, Permit, Probabilities, Workload
from asa.decide import table
from asa.decide.signals import of_rates
from asa.journal import Journal
from asa.pipeline import PLAN, Setup, State, step
from collectors import rates
from collectors.rates import Rates, derive
from models.features.tick import FIELDS, values
from models.train import dataset
from models.train.dataset import Recording

ROOT = Path(__file__).resolve().parents[1]


class Looking:
    """A classifier that remembers what it was shown."""

    def __init__(self):
        self.frames = []

    def judge(self, frame):
        self.frames.append(frame)
        probabilities = Probabilities(classes=(Workload("idle"),), values=(1.0,))
        return Judgement(probabilities=probabilities, score=None, known=True)


def shown(samples):
    classifier = Looking()
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    setup = Setup(
        classifier=classifier,
        table=table.load(paths.mapping_tables() / "default.yaml", portfolio.modes()),
        voting=Voting(),
        policy=PolicySettings(),
        name_of_ops=lambda ops: None,
        permit=Permit(switch=False, stand_by=True),
    )
    state = State()
    for sample in samples:
        state = step(setup, state, sample)
    return classifier.frames, state


@pytest.fixture(scope="module")
def samples():
    with Journal.unpack(ROOT / "models/recordings/host.journal.xz") as journal:
        return list(journal.samples(next(iter(journal.sessions())).number))


def trained(samples):
    made = Recording(source="", label="cpu", place="host", seed=1, started_ns=0, parameters="", samples=tuple(samples))
    later = [replace(sample, wall_ns=sample.wall_ns + 1) for sample in samples]
    other = replace(made, label="idle", samples=tuple(later))
    data = dataset.assemble([made, other], least_sessions=1)
    return data.x[data.session == 0]


def same(frames, rows):
    live = np.array([frame.values for frame in frames], dtype=np.float64).astype(np.float32)
    return np.array_equal(live, rows, equal_nan=True)


def test_live_and_training_see_the_same(samples):
    frames, state = shown(samples)
    assert len(frames) == len(samples) - 1
    assert same(frames, trained(samples))
    assert len(state.seen.times_ns) == 6


def test_also_across_a_gap_and_without_the_processors_counters(samples):
    blind = [*samples[:6], replace(samples[6], cpu=None), *samples[7:10]]
    slept = [replace(sample, monotonic_ns=sample.monotonic_ns + 60_000_000_000) for sample in samples[10:]]
    frames, state = shown([*blind, *slept])
    assert len(frames) == len(samples) - 1 - 2  # the blind tick, and the one across the gap
    assert same(frames, trained([*blind, *slept]))
    assert state.seen.times_ns[0] >= slept[1].monotonic_ns


def test_after_a_gap_nothing_is_left_of_before(samples):
    slept = [replace(sample, monotonic_ns=sample.monotonic_ns + 60_000_000_000) for sample in samples[8:]]
    frames, _ = shown([*samples[:8], *slept])
    fresh, _ = shown(slept)
    assert len(frames[7:]) == len(fresh) > 0
    pairs = ((one.values, other.values) for one, other in zip(frames[7:], fresh, strict=True))
    assert all(np.array_equal(*pair, equal_nan=True) for pair in pairs)


def test_a_step_looks_at_nothing_that_is_not_planned(samples, monkeypatch):
    noted = set()

    class Noting(Rates):
        def __getattribute__(self, name):
            noted.add(name)
            return super().__getattribute__(name)

    def noting(previous, sample, plan):
        made = object.__new__(Noting)
        made.__dict__.update(vars(derive(previous, sample, plan)))
        return made

    monkeypatch.setattr(rates, "derive", noting)
    shown(samples[:20])
    looked_at = noted & {field.name for field in fields(Rates)}
    assert "pressure_memory_some_share" in looked_at
    assert looked_at | set(FIELDS) <= PLAN.names


def test_a_plan_changes_nothing_of_what_a_step_sees(samples):
    for previous, sample in pairwise(samples):
        everything, planned = derive(previous, sample), derive(previous, sample, PLAN)
        assert of_rates(planned, 2) == of_rates(everything, 2)
        assert np.array_equal(values(planned, 2), values(everything, 2), equal_nan=True)
