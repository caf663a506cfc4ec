# SPDX-License-Identifier: GPL-2.0-only
"""Figures of the switch benchmark come out of hand-made records as by hand."""

import json

import pytest

from asa.core.errors import AsaError
from calibration.goals import Host
from calibration.switch.benchmark import Result
from calibration.switch.figures import ClockedFigure, SwitchFigure, figures, percentile
from calibration.switch.plot import picture
from calibration.switch.report import as_json, cells, document, warnings
from calibration.switch.samples import External, Found, Kind, Lateness, Parked, Step, Swap, Switch, read, write
from scenarios.lab.emulator import Clock

A, B = "scx_a", "scx_b"
MS = 1_000_000


def switch(kind, took_ms, gap_ms, load_ms=None, old=A, new=B, **more):
    return Switch(
        kind=kind,
        old=old,
        new=new,
        took_ns=round(took_ms * MS),
        told_ns=round((took_ms + 1) * MS),
        gap_ns=None if gap_ms is None else round(gap_ms * MS),
        load_ns=None if load_ms is None else round(load_ms * MS),
        **more,
    )


def swap(confirmed_ms, old="scx_simple", new="scx_simple"):
    confirmed_ns = round(confirmed_ms * MS)
    return Swap(old=old, new=new, detached_ns=MS, attached_ns=confirmed_ns - 10, confirmed_ns=confirmed_ns)


def found(**changes):
    whole = {
        "kernel": "6.18",
        "cpus": 2,
        "rounds": 1,
        "rota": (A, B),
        "switches": (
            switch(Kind.PLAIN, 2500, 2000),
            switch(Kind.PLAIN, 3500, 3000, old=B, new=A),
            switch(Kind.PLAIN, 9999, 9999, witnessed=True, seen_gap_ns=9998 * MS),
            switch(Kind.GATED, 1508, 8, load_ms=1400, steps=(Step(name="parked", at_ns=1500 * MS),)),
            switch(Kind.GATED, 1611, 10, load_ms=1500, old=B, new=A, steps=(Step(name="parked", at_ns=1600 * MS),)),
            switch(Kind.STANDBY, 8, 7.5, steps=(Step(name="detached", at_ns=3 * MS),)),
            switch(Kind.STANDBY, 12, 11, old=B, new=A, steps=(Step(name="detached", at_ns=4 * MS),)),
            switch(Kind.STANDBY, 50, 40, witnessed=True),
        ),
        "floor": (swap(6), swap(5)),
        "kernels": (swap(7, A, B), swap(10, B, A)),
        "parked": (
            Parked(scheduler=A, load_ns=MS, rss_bytes=9_000_000, pss_bytes=5_000_000, cpu_ns=300_000, idle_ns=10**10),
            Parked(scheduler=B, load_ns=MS, rss_bytes=12_000_000, pss_bytes=6_000_000, cpu_ns=300_000, idle_ns=10**10),
        ),
        "lateness": (
            Lateness(kind=Kind.GATED, window_ns=2 * 10**9, wakeups=2000, worst_ns=7 * MS),
            Lateness(kind=Kind.GATED, window_ns=2 * 10**9, wakeups=2000, worst_ns=9 * MS),
            Lateness(kind=Kind.STANDBY, window_ns=8 * MS, wakeups=5, worst_ns=6 * MS),
            Lateness(kind=Kind.PLAIN, window_ns=3 * 10**9, wakeups=3000, worst_ns=20 * MS),
            Lateness(kind=Kind.QUIET, window_ns=5 * 10**9, wakeups=5000, worst_ns=4 * MS),
        ),
        "external": (External(change="killed", event_ms=3.5, poll_ms=40.0),),
        "troubles": (),
    }
    return Found(**(whole | changes))


def values(of, clock=Clock.PARALLEL):
    return {figure.name: figure for figure in figures(of, clock)}


def test_figures_are_what_a_hand_makes_of_the_records():
    made = values(found())
    assert list(made) == list(SwitchFigure)
    assert {name: round(figure.value, 4) for name, figure in made.items()} == {
        "gap_ratio_median": round(2500 / 9, 4),
        "gap_ratio_p99": 300.0,
        "standby_switch_p99_ms": 12.0,
        "switch_floor_p99_ms": 6.0,
        "standby_over_floor_ratio": 2.0,
        "standby_over_kernel_ratio": 1.2,
        "standby_own_ms": 1.5,  # of 8 - 7 and 12 - 10
        "gated_less_load_over_floor_ratio": round(11 / 6, 4),
        "standby_rss_mb": 12.0,
        "standby_cpu_ms": 0.6,
        "probe_worst_gated_ms": 9.0,
        "probe_worst_standby_ms": 6.0,
        "probe_worst_plain_ms": 20.0,
        "probe_worst_none_ms": 4.0,
        "external_change_seen_ms": 3.5,
    }


def test_goals_are_bounds_from_the_right_side():
    made = values(found())
    met = {name: figure.ok for name, figure in made.items() if figure.ok is not None}
    assert met == {
        "gap_ratio_median": True,
        "gap_ratio_p99": True,
        "standby_switch_p99_ms": True,
        "standby_over_floor_ratio": False,
        "gated_less_load_over_floor_ratio": False,
        "standby_rss_mb": True,
        "standby_cpu_ms": True,
        "external_change_seen_ms": True,
    }

    def judged(name, value):
        return ClockedFigure(name=name, clock=Clock.PARALLEL, value=value).ok

    assert (judged(SwitchFigure.GAP_MEDIAN, 200.0), judged(SwitchFigure.GAP_MEDIAN, 199.9)) == (True, False)
    assert (judged(SwitchFigure.STANDBY_P99, 20.0), judged(SwitchFigure.STANDBY_P99, 20.1)) == (True, False)
    assert judged(SwitchFigure.STANDBY_P99, None) is False


def test_the_time_of_a_switch_has_its_goal_under_the_parallel_clock_alone():
    wall = values(found(), Clock.WALL)[SwitchFigure.STANDBY_P99]
    assert (wall.value, wall.goal.bound, wall.ok) == (12.0, None, None)
    line = json.loads(as_json(wall))
    assert (line["name"], line["goal"], line["ok"]) == ("standby_switch_p99_ms_wall", None, None)
    line = json.loads(as_json(values(found())[SwitchFigure.STANDBY_P99]))
    assert (line["name"], line["goal"], line["ok"]) == ("standby_switch_p99_ms", 20.0, True)


def test_ten_milliseconds_of_processor_time_while_waiting_are_not_nothing():
    busy = Parked(scheduler=A, load_ns=MS, rss_bytes=1, pss_bytes=1, cpu_ns=10_000_000, idle_ns=10**10)
    figure = values(found(parked=(busy,)))[SwitchFigure.IDLE_CPU]
    assert (figure.value, figure.ok) == (10.0, False)


def test_what_was_not_recorded_is_unknown_and_says_so():
    made = values(found(switches=(), floor=(), kernels=(), parked=(), lateness=(), external=()))
    assert {figure.value for figure in made.values()} == {None}
    assert all(figure.reason for figure in made.values())
    assert made[SwitchFigure.OVER_FLOOR].reason == "switches to a standby: none was measured"
    untold = values(found(switches=(switch(Kind.PLAIN, 5, None), switch(Kind.GATED, 5, 5))))[SwitchFigure.GAP_MEDIAN]
    assert (untold.value, untold.reason) == (None, "gaps of plain switches: none was measured")


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.99, 4), (1.0, 4)])
def test_percentiles_are_values_that_occurred(share, value):
    assert percentile([4, 2, 3, 1], share) == value


def test_records_survive_their_file(tmp_path):
    path = tmp_path / "found.json"
    write(found(), path)
    assert read(path) == found()
    path.write_text('{"kernel": 1}')
    with pytest.raises(AsaError, match=r"found\.json: no samples of the switch benchmark: Expected `str`"):
        read(path)
    with pytest.raises(AsaError, match="No such file"):
        read(tmp_path / "none")


MACHINE = Host(cpu="a cpu", cpus=2, kernel="6.1", version="0.1.0", command="asa lab bench switch")


def result(**changes):
    one = found(**changes)
    return Result(began_s=0.0, switches=2, emulator="QEMU 10.0.0", found={Clock.PARALLEL: one, Clock.WALL: one})


def test_the_document_has_every_figure_and_what_lies_behind_it():
    text = document(result(), MACHINE, image="figures.svg")
    assert all(f"- `{name}`: " in text and f"| {name} | wall |" in text for name in SwitchFigure)
    assert "![Switches of each kind, and their gaps](figures.svg)" in text
    assert "| scx_a | scx_b | 2500.00 (2000.00) | 1508.00 (8.00) | 8.00 (7.50) | 7.00 |" in text
    assert "| detached | 3.50 | 4.00 |" in text
    assert "| confirmed | 10.00 | 12.00 |" in text
    assert "| the loop has the event | 11.00 | 13.00 |" in text
    assert "| plain | scx_a | scx_b | 9999.00 | 9999.00 | 9998.00 |" in text
    assert "| quiet | 5000 | 5000 | 4.00 |" in text
    assert "Doubtful" not in text
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert len(lines) == 2 * len(SwitchFigure)
    assert len({line["name"] for line in lines}) == len(lines)
    assert all(len(line) <= 120 for line in text.split("## How")[1].split("```")[0].splitlines())


def test_the_document_of_a_run_that_found_nothing_is_written_all_the_same():
    text = document(
        result(switches=(), floor=(), kernels=(), parked=(), lateness=(), external=()), MACHINE, image="figures.svg"
    )
    assert (
        "| gap_ratio_median | parallel | unknown | >= 200 times | no | gaps of plain switches: none was measured |"
        in text
    )


def test_troubles_and_missing_switches_are_warned_of():
    assert warnings(result()) == []
    kept = tuple(one for one in found().switches if one.kind is not Kind.GATED)
    told = warnings(result(switches=kept, troubles=("gated: scx_a did not load",)))
    assert told[0] == "parallel: gated: scx_a did not load"
    assert "parallel: 0 of 2 switches (gated)" in told
    assert "**Doubtful**: wall: 0 of 2 switches (gated)." in document(result(switches=kept), MACHINE, image="x")


def test_cells_show_the_side_of_the_goal():
    made = values(found())
    assert cells(made[SwitchFigure.GAP_P99])[2:5] == ("300.000 times", ">= 100 times", "yes")
    assert cells(made[SwitchFigure.FLOOR_P99])[2:5] == ("6.000 ms", "", "")
    assert cells(made[SwitchFigure.OVER_FLOOR])[2:5] == ("2.000 times", "<= 1.5 times", "no")


def test_the_picture_has_a_dot_for_each_switch():
    text = picture({Clock.PARALLEL: found()})
    assert text.startswith("<svg ")
    assert text.count("<circle ") == 2 * 6 + 4  # six timed switches and their gaps, four exchanges of the kernel
    assert picture({Clock.WALL: found(switches=(), floor=(), kernels=())}).count("<circle ") == 0
