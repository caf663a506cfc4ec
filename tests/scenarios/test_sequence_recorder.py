# SPDX-License-Identifier: GPL-2.0-only
"""Sequences: what a seed draws, and one recorded with drivers of a few lines and this machine's own collectors."""

import json
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import no_orphans

from asa.clock import SystemClock
from asa.config import CollectSettings, Ebpf
from asa.core.mark import SEQUENCE, Phase
from asa.journal import Journal
from calibration.voting.streams import spans
from collectors.sampler import HostSampler, standard
from scenarios.application import Application, Failure, Place, Role, Tier
from scenarios.catalogue import SCENARIOS, Scenario
from scenarios.recorder import Machine, Result
from scenarios.sequence_recorder import SequenceRecorder, draw

LABELS = [one.label for one in SCENARIOS]
WORK = (
    "from scenarios.driving import *; import os; d = Driver.begin(); d.ready({'%s': '3.1'})\n"
    "while d.pause(0.1): d.measured('a_ms', 1)\n"
)
CRASH = "from scenarios.driving import *; d = Driver.begin(); d.ready({}); d.pause(0.3); fail('out of paper')"


@given(st.integers(0, 10**6), st.integers(1, 12), st.permutations(LABELS))
def test_a_seed_draws_one_sequence(seed, steps, labels):
    plan = draw(labels, seed=seed, seconds=30.0, steps=steps)
    assert plan == draw(LABELS, seed=seed, seconds=30.0, steps=steps)
    assert len(plan) == steps
    assert all(20.0 <= step.seconds <= 40.0 for step in plan)
    assert all(first.label != second.label for first, second in pairwise(plan))


def test_sequences_reach_everything_and_half_of_the_changes_are_small():
    plans = [draw(LABELS, seed=seed, seconds=30.0) for seed in range(200)]
    assert {step.label for plan in plans for step in plan} == set(LABELS)
    changes = [(a.label, b.label) for plan in plans for a, b in pairwise(plan)]
    small = [len(set(a.split("+")) ^ set(b.split("+")) - {"idle"}) <= 2 for a, b in changes]
    assert 0.4 < sum(small) / len(small) < 0.8


def test_one_label_is_no_sequence():
    with pytest.raises(ValueError, match="name two at least"):
        draw(["web", "web"], seed=1, seconds=30.0)


def made(name, role, script=None):
    return Application(
        name=name,
        role=role,
        metrics=("a_ms",),
        packages=("one",),
        programs=("setpriv",),
        draw=lambda rng, place: {"size": rng.randrange(10**9)},
        command=lambda place, given: (sys.executable, "-c", script or WORK % name),
    )


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "j.journal") as opened:
        yield opened


@pytest.fixture
def recorder(tmp_path, journal):
    """Makes one for these applications alone and in pairs; at the end no process is left, nor a scratch folder."""
    collectors = standard(Path("/proc"), Path("/sys"), CollectSettings(ebpf=Ebpf.OFF, timer=False))
    with no_orphans(), closing(HostSampler(collectors, SystemClock())) as sampler:
        sampler.open()

        def make(*applications, labels):
            known = {one.name: one for one in applications}

            def find(label):
                parts = tuple(known[name] for name in label.split("+") if name != "idle")
                return Scenario(interactive="", background="", number=None), parts

            return SequenceRecorder(
                journal=journal,
                sampler=sampler,
                clock=SystemClock(),
                machine=Machine(host="host, Test CPU", kernel="6.18.0", cpus=2),
                tier="lab",
                tries=3,
                find=find,
                place=lambda one: Place(cache=tmp_path / "cache", cpus=2, tier=Tier.LAB),
                folder=tmp_path / "scratch",
                rest_s=0.5,
                noise_limit_pct=1000.0,  # whoever else tests on this machine
                most_busy_before=1.0,
                most_steal=1.0,
                fewest_samples=0.1,
                labels=labels,
                steps=4,
            )

        yield make
    assert list(tmp_path.glob("scratch/*")) == []


@pytest.mark.apps
def test_marks_tell_what_was_there_and_what_played_on(recorder, journal):
    labels = ["web", "web+blender", "idle"]
    seed = next(
        one
        for one in range(1000)
        if [step.label for step in draw(labels, seed=one, seconds=2, steps=4)] == ["web", "web+blender", "idle", "web"]
    )
    parts = made("web", Role.INTERACTIVE), made("blender", Role.BACKGROUND)
    (outcome,) = recorder(*parts, labels=labels).campaign(
        [SEQUENCE], sessions=1, seconds=2, seed=seed, on_start=lambda *_: None, on_outcome=lambda _: None
    )
    assert (outcome.result, outcome.reason) == (Result.KEPT, "")
    (session,) = journal.sessions()
    marks = list(journal.marks(session.number))
    assert outcome.samples == len(list(journal.samples(session.number)))
    assert (session.header.label, session.header.seed) == ("sequence", seed)
    assert [(mark.phase, mark.interactive, mark.background) for mark in marks] == [
        (Phase.BEFORE, "", ""),
        (Phase.STARTING, "web", ""),
        (Phase.RUNNING, "web", ""),
        (Phase.STARTING, "web", "blender"),  # the browser is not started again
        (Phase.RUNNING, "web", "blender"),
        (Phase.ENDING, "web", "blender"),
        (Phase.ENDING, "", "blender"),
        (Phase.STARTING, "", ""),  # the housekeeping of a machine at rest
        (Phase.RUNNING, "", ""),
        (Phase.ENDING, "", ""),
        (Phase.STARTING, "web", ""),
        (Phase.RUNNING, "web", ""),
        (Phase.ENDING, "web", ""),
        (Phase.AFTER, "", ""),
    ]
    found = spans(marks, marks[-1].monotonic_ns + 1)
    assert [one.workload for one in found] == ["idle", "web", "web+blender", "idle", "web", "idle"]
    parameters = json.loads(session.header.parameters)
    assert [one["label"] for one in parameters] == ["web", "web+blender", "idle", "web"]
    assert parameters[0]["web"] == parameters[1]["web"] != parameters[3]["web"]
    planned = [step.seconds for step in draw(labels, seed=seed, seconds=2, steps=4)]
    lasted = [(one.end_ns - one.start_ns) / 1e9 for one in found[1:-1]]
    assert all(length >= wanted - 0.01 for length, wanted in zip(lasted, planned, strict=True))


@pytest.mark.apps
def test_a_crash_drops_the_sequence(recorder, journal):
    parts = made("web", Role.INTERACTIVE), made("blender", Role.BACKGROUND, CRASH)
    outcome = recorder(*parts, labels=["web", "web+blender"]).record(SEQUENCE, seed=1, seconds=3)
    assert (outcome.result, outcome.failure) == (Result.DROPPED, Failure.CRASHED)
    assert journal.sessions() == []
