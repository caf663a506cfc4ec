# SPDX-License-Identifier: GPL-2.0-only
"""Another benchmark's measures: energy by the machine's description as by hand, and its figures beside ours."""

import argparse

import msgspec
import pytest

from asa import paths
from asa.cli.lab.bench import scale as bench_scale
from calibration.outside import evidence
from calibration.scale import benchmark, foreign
from calibration.scale.samples import FOREIGN, FOREIGN_METRICS, METRICS, USUAL, Found, Mode, Turn, write
from scenarios import guests
from scenarios.conditions import Conditions
from scenarios.lab import machines

MS = 1_000_000


def turn(scheduler, play, *, trip_us, busy):
    trip = {"samples": 1_000, "p50_ns": trip_us * 1_000, "p99_ns": 2 * trip_us * 1_000, "took_ns": 500 * MS}
    readings = dict.fromkeys(FOREIGN, trip | {f"busy_ns_{cpu}": 500 * MS for cpu in range(2)})
    idle = {"switches": 50, "elapsed_ns": 500 * MS, "took_ns": 500 * MS, "busy_ns_0": int(busy * 500 * MS)}
    readings |= {Mode.IDLE: idle, Mode.DEADLINES: {"periods": 10, "missed": 1, "jittered": 1}}
    return Turn(scheduler=scheduler, round=1, play=play, readings=readings)


def found(**changes):
    plays = [("eevdf", 10, 0.0), ("scx_a", 20, 0.1)]
    whole = {
        "kernel": "6.18",
        "cpus": 2,
        "under": Conditions(clock="parallel", tick_hz=1000, machine="alike-2"),
        "program": "a hash",
        "seconds": 0.5,
        "versions": {"eevdf": "6.18", "scx_a": "1.0"},
        "turns": tuple(turn(name, play, trip_us=us, busy=busy) for name, us, busy in plays for play in (1, 2, 3)),
    }
    return Found(**(whole | changes))


def by_name(made):
    return {(one.metric.name, one.scheduler): one.value for one in made}


def test_energy_is_the_machines_idle_power_and_that_of_its_busy_cores():
    power = guests.power(machines.alike(2))
    made = by_name(foreign.averages([found()]))
    whole_w = power.idle_w + sum(core.busy_w for core in power.cores)
    assert made["pipe_energy", "eevdf"] == pytest.approx(whole_w * 0.5 / 1_000)
    assert made["idle_power", "eevdf"] == pytest.approx(power.idle_w)
    assert made["idle_power", "scx_a"] == pytest.approx(power.idle_w + 0.1 * power.cores[0].busy_w)
    assert made["idle_switches", "eevdf"] == pytest.approx(100.0)


def test_without_a_word_of_busy_cpus_no_energy_is_made_up():
    blind = msgspec.structs.replace(
        found(), turns=(Turn(scheduler="eevdf", round=1, readings={Mode.IDLE: {"switches": 1, "took_ns": MS}}),)
    )
    assert by_name(foreign.averages([blind]))["idle_power", "eevdf"] is None


def test_each_published_figure_of_the_like_stands_beside_ours_in_our_unit(tmp_path, capsys):
    write(found(), tmp_path / "alike-2-1000.json")
    parser = argparse.ArgumentParser()
    bench_scale.register(parser.add_subparsers())
    out = tmp_path / "foreign.md"
    arguments = parser.parse_args(["scale", "--foreign", "--from", str(tmp_path), "--out", str(out)])
    assert arguments.run(arguments) == 0
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".svg"] == []
    text = out.read_text()
    assert all(f"## {metric.name}, {metric.unit}" in text for metric in FOREIGN_METRICS)
    section = text.partition("## socket_p50, ms")[2].partition("## ")[0]
    assert "| eevdf | 0.0100 ± 0.0000 |" in section
    assert "| scx_pandemonium | 0.013 |" in section
    published = evidence.read(paths.mapping_tables() / "evidence.yaml").rows
    theirs = {row.id for row in published if "pandemonium" in row.source and row.lab}
    assert {row_id for row_id in theirs if f"Published ({row_id})" in text} == theirs
    assert "scale_idle_power_W_eevdf_2_cpus" in capsys.readouterr().out


def test_usual_and_foreign_modes_are_two_runs_that_share_no_record(tmp_path):
    assert set(USUAL) | set(FOREIGN) == set(Mode)
    assert {metric.mode for metric in METRICS} == set(USUAL)
    assert {metric.mode for metric in FOREIGN_METRICS} == set(FOREIGN)
    usual, other, places = benchmark.Options(), benchmark.Options(modes=FOREIGN), paths.Places(state=tmp_path)
    assert usual.records(places) != other.records(places)
    assert found().played(FOREIGN)
    assert not found().played(USUAL)
    assert {one.cpus for one in benchmark.planned_foreign()} == {2, 4, 8, 12}
