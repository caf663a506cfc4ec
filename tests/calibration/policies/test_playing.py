# SPDX-License-Identifier: GPL-2.0-only
"""Figures of composed schedulers: the batch's program for real, and what is made of readings that are made up."""

import subprocess

import pytest

from asa.core.errors import AsaError
from calibration import programs
from calibration.composing import spec
from calibration.policies import agreement, control, longtail, playing
from calibration.policies.played import Played, Reading, read, write
from scenarios.conditions import Conditions
from scenarios.lab.emulator import Clock

MS = 1_000_000


def played(readings):
    return Played(
        kernel="6.18",
        cpus=4,
        under=Conditions(clock=Clock.PARALLEL, tick_hz=1000, machine="alike-4"),
        names={},
        readings=tuple(readings),
    )


def reading(subject, number, label, play, **values):
    return Reading(subject=subject, round=number, label=label, play=play, values=values)


def test_a_batch_tells_when_its_jobs_ended_and_refuses_what_is_no_number(tmp_path):
    program = programs.compiled(playing._BATCH, tmp_path, programs.STATIC)
    done = subprocess.run([program, "6", "5", "200", "1"], capture_output=True, text=True, check=True)
    told = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
    assert 0 < told["long_began_ns"] < told["makespan_ns"]
    assert 0 < told["short_ended_ns"] <= told["makespan_ns"]
    bad = subprocess.run([program, "6", "five", "200", "1"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stderr) == (1, "batch: RATIO: five: give 1 to 1000\n")


def test_gains_are_of_the_same_round_and_play(monkeypatch):
    own, ours, oracle = (100, 200, 400), (95, 188, 380), (90, 180, 360)
    rows = [
        reading(subject, number, label, play, makespan_ns=value * MS * play, long_began_ns=MS)
        for subject, values in (("eevdf", own), (longtail._LJF, ours), (longtail._ORACLE, oracle))
        for number, value in enumerate(values, 1)
        for label in ("hundred", "twenty")
        for play in (1, 2)
    ]
    monkeypatch.setattr(playing, "played", lambda *_: played(rows))
    assert longtail.ljf(print)[0] == pytest.approx((5.0 + 6.0 + 5.0) / 3)
    assert longtail.oracle(print)[0] == pytest.approx(10.0)


def test_the_control_is_compared_by_each_figure(monkeypatch):
    names = {"throughput": "jobs", "messaging": "messages"}
    rows = [
        reading(subject, number, mode, 1, elapsed_ns=10**9, **{what: round(value * factor)})
        for subject, factor in (("vtime", 1.01), ("scx_simple", 1.0))
        for number, value in enumerate((10_000, 20_000, 30_000), 1)
        for mode, what in names.items()
    ]
    wanted = [one for one in control.metrics() if one.mode in names]
    monkeypatch.setattr(playing, "played", lambda *_: played(rows))
    monkeypatch.setattr(control, "metrics", lambda: wanted)
    value, said = control.difference(print)
    assert value == pytest.approx(1.0)
    assert "messages +1.0" in said
    rows.clear()
    with pytest.raises(AsaError, match="too few rounds"):
        control.difference(print)


def test_ranks_count_only_where_the_model_tells_two_apart():
    assert agreement.ranked([1.0, 2.0, 3.0], [10.0, 30.0, 20.0]) == (pytest.approx(1 / 3), 3)
    assert agreement.ranked([1.0, 1.01, 3.0], [20.0, 10.0, 30.0]) == (1.0, 2)
    with pytest.raises(AsaError, match="tells no composition"):
        agreement.ranked([1.0, 1.0], [1.0, 2.0])


def test_all_points_of_the_agreement_are_compositions_that_can_be():
    for name, numbers in agreement.POINTS:
        assert spec.load(name, numbers).name == f"scx_compose_{name}"
    spec.check(playing.ORACLE, "")


def test_what_was_played_is_read_again(tmp_path):
    path = tmp_path / "one.json"
    some = played([reading("eevdf", 1, "hundred", 1, makespan_ns=5)])
    write(some, path)
    assert read(path) == some
    path.write_bytes(b"{")
    with pytest.raises(AsaError, match="nothing played that can be read"):
        read(path)
