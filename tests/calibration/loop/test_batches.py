# SPDX-License-Identifier: GPL-2.0-only
"""Batches as a use of the loop: what is asked of a guest, and what its readings come to. No guest is booted."""

import argparse

import pytest

from asa import paths
from asa.cli.lab import agent
from asa.core.errors import AsaError
from calibration.loop import batches, controller, lab
from calibration.loop.planner import Nearest
from calibration.loop.stage import Budget, Stage
from calibration.loop.story import Candidate
from calibration.policies import longtail, playing
from calibration.policies.played import Measure, Played, Reading, Subject, read, write
from scenarios.conditions import Conditions
from scenarios.lab.emulator import Clock

MS = 1_000_000
TOOK_MS = {"eevdf": 200.0, "scx_slow": 210.0, "ljf": 180.0, "fifo": 198.0}
UNDER = Conditions(clock=Clock.PARALLEL, tick_hz=1000, machine="alike-4")


class Bench:
    def __init__(self, *_):
        pass

    def own(self):
        return Subject(name="eevdf")

    def composed(self, which):
        return Subject(name=which, ops=f"compose_{which}", command=("x",))

    def known(self, name):
        if name == "scx_absent":
            raise AsaError("scx_absent: it is not installed")
        return Subject(name=name, ops="slow", command=("x",))

    def batch(self, label, ratio, unit_us, plays):
        return Measure(label=label, command=("batch", str(ratio), str(unit_us)), plays=plays)


@pytest.fixture
def arena(tmp_path, monkeypatch):
    asked = []

    def boot(_, folder, orders, __):
        asked.append(orders)
        readings = [
            Reading(
                subject=subject.name,
                round=number,
                label=longtail.HUNDRED,
                play=play,
                values={longtail.ENDED: round(TOOK_MS[subject.name] * MS * (1 + number / 10) / play)},
            )
            for subject in orders.subjects
            if subject.name in TOOK_MS
            for number in range(1, orders.rounds + 1)
            for play in range(1, orders.measures[0].plays + 1)
        ]
        troubles = tuple(f"round 1: {one.name}: it stalled" for one in orders.subjects if one.name not in TOOK_MS)
        played = Played(kernel="k", cpus=4, under=UNDER, names={}, readings=tuple(readings), troubles=troubles)
        write(played, folder / playing.PLAYED)

    monkeypatch.setattr(batches.guests, "ready", lambda *_: None)
    monkeypatch.setattr(playing, "Bench", Bench)
    monkeypatch.setattr(playing, "boot", boot)
    made = batches.Batches(rounds=2, out=tmp_path / "guests", places=paths.default(), tell=print)
    return made, asked


def test_all_candidates_of_a_trial_play_in_one_guest_against_the_kernels_own(arena):
    made, asked = arena
    names = ("scx_slow", "scx_compose_ljf", "scx_absent", "scx_compose_edf")
    slow, ljf, absent, broken = made.gains([Candidate(scheduler=name) for name in names], 7)
    assert (slow.gain_pct, ljf.gain_pct, ljf.over_router_pct) == pytest.approx((-5.0, 10.0, 10.0))
    assert (absent.gain_pct, absent.trouble) == (None, "scx_absent: it is not installed")
    assert (broken.gain_pct, broken.trouble) == (None, "round 1: edf: it stalled")
    (orders,) = asked
    assert [one.name for one in orders.subjects] == ["eevdf", "scx_slow", "ljf", "edf"]
    assert (orders.seed, orders.rounds, orders.measures[0].plays) == (7, 2, longtail.KNOWN)
    (folder,) = made.out.iterdir()
    assert read(folder / playing.PLAYED).troubles == ("round 1: edf: it stalled",)


def test_the_command_has_batches_as_a_use(tmp_path):
    asked = argparse.Namespace(here=False, use="batches", out=tmp_path, rounds=2)
    made = agent._arena(asked, paths.default(), lambda *_: None)
    assert isinstance(made, batches.Batches)
    assert (made.rounds, made.observe().use, made.observe().router) == (2, "batches", "eevdf")


def test_nothing_that_can_be_tried_boots_no_guest(arena):
    made, asked = arena
    (found,) = made.gains([Candidate(scheduler="scx_absent")], 1)
    assert (found.gain_pct, asked) == (None, [])


def test_the_loop_finds_the_template_that_ends_batches_soonest(arena, tmp_path):
    made, _ = arena
    known = batches.repository(lab.portfolio(paths.default()), [])
    names = ("scx_slow", "scx_compose_ljf", "scx_compose_fifo")
    stage = Stage(made, Budget(trials=12, minutes=60.0, tokens=0, kept_back=5), tmp_path / "trials.jsonl")
    few = Nearest(batches.Repository(policies=dict.fromkeys(names, ""), knobs={}), 1)
    found = controller.run(stage, made.observe(), few, 1, lambda _: None)
    assert found.chosen == Candidate(scheduler="scx_compose_ljf")
    assert found.gain_pct == pytest.approx(10.0)
    assert set(known.policies) >= {f"scx_compose_{name}" for name in ("fifo", "ljf", "sjf", "vtime")}
    assert not [name for name in known.policies if ":" in name or name == "eevdf"]
