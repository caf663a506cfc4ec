# SPDX-License-Identifier: GPL-2.0-only
"""Plants of bad schedulers: which are played, what is kept, and what figures say of that. No guest is booted."""

import json
from collections import Counter

import pytest

from asa.core import kinds
from asa.core.errors import AsaError, ModelError
from asa.paths import base_model
from calibration.harmless import __main__ as command
from calibration.harmless import planting, plants
from calibration.harmless.benchmark import HarmlessFigure
from calibration.harmless.plants import EACH, LOADS, MISSED_S, Plant, Played, Sort
from models.runtime import Ensemble
from scenarios.lab.starver import build

PROM = """\
asa_scale_wakeup_p99_seconds{scheduler="eevdf",cpus="4",guest="4 CPUs"} 9
asa_scale_wakeup_p99_seconds{scheduler="scx_a",cpus="4",guest="4 CPUs"} 0.01
asa_scale_wakeup_p99_seconds{scheduler="scx_b",cpus="4",guest="4 CPUs"} 0.02
asa_scale_wakeup_p99_seconds{scheduler="scx_c",cpus="4",guest="4 CPUs, 250 Hz"} 0.9
asa_scale_wakeup_p99_seconds{scheduler="scx_b:fast",cpus="8",guest="8 CPUs"} 0.9
asa_scale_wakeup_p99_seconds{scheduler="scx_a",cpus="8",guest="8 CPUs"} 0.03
"""


def played(seconds, load="web+disk", number=0, sort=Sort.BAD, under_s=None):
    plant = Plant(sort=sort, load=load, number=number, cpus=4, scheduler="scx_b")
    return Played(plant=plant, seconds=seconds, under_s=under_s, before_s=30.0, said="", longest_tick_s=1.25)


def test_the_worst_is_the_one_under_which_a_woken_task_waits_longest():
    assert planting.worst(PROM) == {4: "scx_b", 8: "scx_a"}
    with pytest.raises(ModelError, match="no wakeup_p99 with 8 CPUs; run `make bench-scale`"):
        planting.worst(PROM.replace('cpus="8"', 'cpus="6"'))
    assert set(planting.worst(planting.SCALE.read_text())) >= {4, 8}


def test_each_load_has_as_many_plants_and_each_machine_half():
    every = planting.every(Sort.BAD)
    assert (len(every), len({one.id for one in every})) == (len(LOADS) * EACH, len(LOADS) * EACH)
    assert set(Counter(one.load for one in every).values()) == {EACH}
    assert Counter(one.cpus for one in every) == {4: 20, 8: 20}
    assert {one.load for one in every[: len(LOADS)]} == set(LOADS)  # the first ones tell of all loads
    starving = planting.every(Sort.STARVER)
    assert len({one.id for one in starving}) == len(starving)


def test_the_model_knows_each_load():
    classes = Ensemble.load(base_model()).classes
    assert {kinds.among(load, classes) for load in (*LOADS, kinds.IDLE)} <= set(classes)


def test_what_is_kept_is_not_played_again_and_one_takes_the_place_of_its_like(tmp_path):
    path = tmp_path / "plants.json"
    assert plants.read(path) == []
    plants.keep(played(30.0), path)
    plants.keep(played(12.0, number=1), path)
    plants.keep(played(20.0), path)
    kept = plants.read(path)
    assert [(one.plant.number, one.seconds) for one in kept] == [(0, 20.0), (1, 12.0)]
    again = Plant(sort=Sort.BAD, load="web+disk", number=2, cpus=4, scheduler="scx_b")
    assert plants.left([*(one.plant for one in kept), again], kept) == [again]
    path.write_text("[{}]")
    with pytest.raises(AsaError, match="move it away to begin anew"):
        plants.read(path)


def test_seconds_are_those_in_which_it_was_in_force():
    kept = [played(24.0, under_s=9.0), played(40.0, number=1, under_s=17.0), played(30.0, number=2, under_s=13.0)]
    assert plants.median_s(kept, Sort.BAD, 40) == (
        13.0,
        "3 of 40 plants, 1 loads, 4 CPUs, scx_b; gone for good after 30.0 s (median)",
    )
    assert plants.most_s(kept, Sort.BAD, 40)[0] == 17.0
    assert plants.most_s([played(None, under_s=50.0)], Sort.BAD, 40)[0] == MISSED_S


def test_figures_count_what_was_missed_with_the_whole_time():
    kept = [played(10.0), played(20.0, number=1), played(None, number=2), played(4.0, sort=Sort.STARVER)]
    assert plants.median_s(kept, Sort.BAD, 40)[0] == 20.0
    longest, words = plants.most_s(kept, Sort.BAD, 40)
    assert (longest, words) == (
        MISSED_S,
        "3 of 40 plants, 1 loads, 4 CPUs, scx_b; bad-4-web+disk-2, ticks up to 1.2 s apart",
    )
    assert plants.missed(kept, Sort.BAD, 40)[0] == 1.0
    assert plants.most_s(kept, Sort.STARVER, 16)[0] == 4.0
    with pytest.raises(ModelError, match="no plant of starver is kept"):
        plants.median_s(kept[:3], Sort.STARVER, 16)


def test_with_no_plays_the_figures_are_those_of_what_is_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plants, "read", lambda: [played(10.0), played(None, number=1)])
    names = "planted_bad_missed,planted_starver_seconds_max"
    assert command.main(["--measure", "--plays", "0", "--only", names, "--kept", str(tmp_path / "kept.json")]) == 0
    bad, starver = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (bad["value"], starver["value"]) == (1.0, None)
    assert starver["reason"] == "no plant of starver is kept; run `python -m calibration.harmless --measure`"


def test_a_number_of_plays_is_not_below_zero(capsys):
    with pytest.raises(SystemExit):
        command.main(["--measure", "--plays", "-1"])
    assert "--plays: -1" in capsys.readouterr().err


def test_the_scheduler_that_starves_is_in_no_portfolio_and_has_its_flag():
    source = next(path for path in build._SOURCES if path.suffixes == [".c"]).read_text()
    assert '"s:h"' in source
    assert build.NAME not in (base_model().parents[2] / "scx_bin/manifest.yaml").read_text()
    assert HarmlessFigure.STARVER_MOST.goal.bound == 5.0
