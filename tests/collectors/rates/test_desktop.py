# SPDX-License-Identifier: GPL-2.0-only
"""Rates of the focused window, of GPUs and of control groups by hand-computed examples."""

from dataclasses import replace

import pytest
from two_samples import NEW, OLD

from asa.core.sample import GroupUsage
from collectors.metrics import METRICS
from collectors.rates import derive

EXPECTED = {
    "focus_cpu_cores": 0.5,
    "focus_cpu_share": 0.25,  # of two cores
    "focus_memory_share": 0.25,
    "focus_processes": 4,
    "focus_fullscreen": 1,
    "desktop_overview": 0,
    "input_events_per_s": 3,
    "input_idle_s": 1.5,
    "gpu_processes": 2,
    "gpu_process_cpu_cores": 0.05,
    "gpu_process_cpu_share": 0.025,
    "gpu_busy_engines": 1.5,
    "gpu_memory_bytes": 3000,
    "group_top_share": 0.75,  # 0.3 s of 0.4 s
    "groups_busy": 2,
}
FOCUS_CPU = {"focus_cpu_cores", "focus_cpu_share"}
FOCUS = FOCUS_CPU | {"focus_memory_share", "focus_processes"}


def desktop(**fields):
    return derive(OLD, replace(NEW, desktop=replace(NEW.desktop, **fields)))


def focus(**fields):
    return desktop(focus=replace(NEW.desktop.focus, **fields))


def gpu(**fields):
    return derive(OLD, replace(NEW, gpu=replace(NEW.gpu, **fields)))


def groups(old, new):
    before, now = GroupUsage(cpu_us=old), GroupUsage(cpu_us=new)
    rates = derive(replace(OLD, groups=before), replace(NEW, groups=now))
    return rates.group_top_share, rates.groups_busy


def missing(rates):
    return {name for name in EXPECTED if getattr(rates, name) is None}


def test_every_metric_of_these_parts_has_an_example():
    assert set(EXPECTED) == {metric.field for metric in METRICS if metric.part in {"desktop", "gpu", "groups"}}


@pytest.mark.parametrize("name", EXPECTED)
def test_two_seconds_by_hand(name):
    assert getattr(derive(OLD, NEW), name) == pytest.approx(EXPECTED[name], rel=1e-12)


def test_another_window_is_another_counter():
    assert missing(focus(group="pid:200@9")) == FOCUS_CPU
    assert missing(focus(group="pid:100@9")) == FOCUS_CPU  # the same pid, another process
    assert missing(desktop(focus=None)) == FOCUS


def test_a_process_that_ended_takes_its_time_along():
    assert missing(focus(cpu_ns=OLD.desktop.focus.cpu_ns - 1)) == FOCUS_CPU


def test_a_process_found_late_is_no_load_that_this_machine_could_do():
    # two cores for two seconds are 4 s; half as much again is let pass for skew, as all cores at work
    old_ns = OLD.desktop.focus.cpu_ns
    assert focus(cpu_ns=old_ns + 6_000_000_000).focus_cpu_cores == 2
    assert focus(cpu_ns=old_ns + 6_000_000_000).focus_cpu_share == 1
    assert missing(focus(cpu_ns=old_ns + 6_000_000_001)) == FOCUS_CPU
    assert missing(gpu(cpu_ns=10**12)) == {"gpu_process_cpu_cores", "gpu_process_cpu_share"}


def test_more_memory_than_there_is_is_no_share():
    assert missing(focus(memory_bytes=1001)) == {"focus_memory_share"}


@pytest.mark.parametrize(
    ("field", "name"),
    [("fullscreen", "focus_fullscreen"), ("overview", "desktop_overview"), ("idle_ms", "input_idle_s")],
)
def test_what_a_desktop_cannot_tell_is_unknown(field, name):
    assert missing(desktop(**{field: None})) == {name}


def test_events_are_counted_by_one_source_only():
    assert missing(desktop(source="x11")) == {"input_events_per_s"}
    assert missing(desktop(input_events=None)) == {"input_events_per_s"}
    assert missing(desktop(input_events=99)) == {"input_events_per_s"}  # the shell began anew


def test_a_gpu_that_tells_nothing():
    assert missing(gpu(engine_ns=None)) == {"gpu_busy_engines"}
    assert missing(gpu(memory_bytes=None)) == {"gpu_memory_bytes"}
    assert missing(gpu(cpu_ns=None)) == {"gpu_process_cpu_cores", "gpu_process_cpu_share"}
    assert missing(gpu(engine_ns=0)) == {"gpu_busy_engines"}


def test_groups_that_came_went_or_came_again_are_left_out():
    assert groups((("a", 0), ("b", 5)), (("a", 10), ("b", 15), ("c", 10**9))) == (0.5, 0)
    assert groups((("a", 0), ("b", 5)), (("a", 10), ("b", 4))) == (1.0, 0)
    assert groups((("a", 0),), (("b", 10),)) == (None, None)
    assert groups((), ()) == (None, None)


def test_idle_groups_have_no_busiest():
    assert groups((("a", 3), ("b", 4)), (("a", 3), ("b", 4))) == (None, 0)


def test_a_group_is_busy_above_a_hundredth_of_a_core():
    assert groups((("a", 0), ("b", 0)), (("a", 20_000), ("b", 20_001)))[1] == 1
