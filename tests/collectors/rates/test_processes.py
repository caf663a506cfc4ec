# SPDX-License-Identifier: GPL-2.0-only
"""Rates of the busiest processes by hand-computed examples; who counts, from where on, and what kind it is."""

from dataclasses import replace

import pytest
from two_samples import MIB, NEW, OLD, process

from asa.core.sample import BusiestProcesses
from collectors.metrics import METRICS
from collectors.rates import derive

# two cores, 2 s: 400 ticks of capacity; 150, 50 and 25 were used, and one that was found late is left out
EXPECTED = {
    "process_top1_cpu_share": 0.375,
    "process_top2_cpu_share": 0.125,
    "process_top3_cpu_share": 0.0625,
    "process_top1_threads": 8,
    "process_top2_threads": 1,
    "process_top1_resident_bytes": 300 * MIB,
    "process_top2_resident_bytes": 20 * MIB,
    "process_top1_system_share": 0.2,
    "process_top2_system_share": 0.2,
    "process_top1_faults_per_cpu_s": 200,  # 290 and 10 in 1.5 s
    "process_top2_faults_per_cpu_s": 1000,
    "processes_busy": 3,
    "processes_hot": 1,
    "process_rest_cpu_share": 0.15,  # the machine was busy for 285 of 400 ticks
    "process_cpu_threads_1_share": 75 / 225,
    "process_cpu_threads_2_to_4_share": 0,
    "process_cpu_threads_5_to_16_share": 150 / 225,
    "process_cpu_threads_more_share": 0,
    "process_cpu_resident_to_16mib_share": 25 / 225,
    "process_cpu_resident_to_64mib_share": 50 / 225,
    "process_cpu_resident_to_256mib_share": 0,
    "process_cpu_resident_to_1gib_share": 150 / 225,
    "process_cpu_resident_larger_share": 0,
    "process_cpu_age_to_2s_share": 25 / 225,
    "process_cpu_age_to_30s_share": 50 / 225,
    "process_cpu_age_older_share": 150 / 225,
}
KINDS = {name for name in EXPECTED if name.startswith("process_cpu_")}
DESCRIBED = {
    name for name in EXPECTED if name.startswith(("process_top1", "process_top2")) and not name.endswith("_cpu_share")
}


def rates(old, new, **current):
    """Of processes that are given as (pid, start, user, system, minor faults, major faults, threads, bytes)."""
    before, now = (BusiestProcesses(processes=tuple(process(*one) for one in some)) for some in (old, new))
    return derive(replace(OLD, busiest=before), replace(NEW, busiest=now, **current))


def one(ticks, threads=1, resident=MIB, pid=1, started=5):
    """A process that used so much since the older sample, and what it was then."""
    return (pid, started, 0, 0, 0, 0, 1, 0), (pid, started, ticks, 0, 0, 0, threads, resident)


def of(*some, **current):
    return rates([old for old, _ in some], [new for _, new in some], **current)


def known(found, names=EXPECTED):
    return {name: value for name in names if (value := getattr(found, name)) is not None}


def test_every_metric_of_this_part_has_an_example():
    assert set(EXPECTED) == {metric.field for metric in METRICS if metric.part == "busiest"}


@pytest.mark.parametrize("name", EXPECTED)
def test_by_hand(name):
    assert getattr(derive(OLD, NEW), name) == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize("part", ["busiest", "cpu"])
@pytest.mark.parametrize("which", ["older", "newer"])
def test_unknown_is_unknown(part, which):
    previous, current = (replace(OLD, **{part: None}), NEW) if which == "older" else (OLD, replace(NEW, **{part: None}))
    found = known(derive(previous, current))
    if (part, which) == ("cpu", "older"):  # how many cores there are is known, how busy they were is not
        assert found.keys() == EXPECTED.keys() - {"process_rest_cpu_share"}
    else:
        assert found == {}


def test_nobody_followed_is_nobody_at_work():
    found = known(rates([], []))
    assert found.pop("process_rest_cpu_share") == pytest.approx(0.7125)
    assert found == dict.fromkeys(
        (*(f"process_top{place}_cpu_share" for place in (1, 2, 3)), "processes_busy", "processes_hot"), 0
    )
    assert known(of(one(0))).keys() == {*found, "process_rest_cpu_share"}


def test_all_of_them_found_late_tell_nothing():
    assert known(rates([], [(1, 9000, 100, 0, 0, 0, 1, MIB)])) == {}


@pytest.mark.parametrize(("started", "counts"), [(10_499, False), (10_500, True), (10_650, True)])
def test_who_began_after_the_older_sample_counts_from_nothing(started, counts):
    idle = (2, 5, 0, 0, 0, 0, 1, MIB)
    found = rates([idle], [idle, (1, started, 30, 10, 8, 2, 3, MIB)])
    assert found.process_top1_cpu_share == (0.1 if counts else 0)
    assert found.process_top1_faults_per_cpu_s == (25 if counts else None)


def test_without_the_boot_clock_only_known_ones_count_and_ages_are_unknown():
    previous, current = replace(OLD, suspended_ns=None), replace(NEW, suspended_ns=None)
    found = derive(previous, current)
    assert found.process_top2_cpu_share == 0.125
    assert found.process_top3_cpu_share == 0  # it began meanwhile
    ages = {name for name in EXPECTED if "_age_" in name}
    assert EXPECTED.keys() - known(found).keys() == ages
    # the older one is what tells who began after it, the newer one how old they are
    assert derive(replace(OLD, suspended_ns=None), NEW).process_cpu_age_older_share == 0.75
    assert derive(OLD, replace(NEW, suspended_ns=None)).process_top3_cpu_share == 0.0625


def test_a_number_that_belongs_to_another_by_now_is_another_process():
    found = rates([(1, 5, 500, 0, 0, 0, 1, MIB)], [(1, 10_600, 20, 0, 0, 0, 1, MIB)])
    assert found.process_top1_cpu_share == 0.05
    assert found.process_cpu_age_to_2s_share == 1
    assert known(rates([(1, 5, 500, 0, 0, 0, 1, MIB)], [(1, 6, 520, 0, 0, 0, 1, MIB)])) == {}


@pytest.mark.parametrize("place", [2, 3, 4, 5])
def test_a_counter_that_went_back_leaves_its_process_out(place):
    new = [1, 5, 100, 100, 100, 100, 1, MIB]
    old = list(new)
    old[place] += 1
    idle = (2, 5, 0, 0, 0, 0, 1, MIB)
    new[2] += 50  # so that the sum has grown
    new[3] += 0 if place == 3 else 50
    old[2] += 60 if place == 2 else 0
    if place in {4, 5}:
        new[9 - place] += 50
    assert rates([idle, old], [idle, new]).process_top1_cpu_share == 0
    assert known(rates([old], [new])) == {}


def test_more_than_all_cores_can_do_is_no_use():
    assert of(one(600)).process_top1_cpu_share == 1  # half as much again is let pass for skew
    assert known(of(one(601))) == {}
    found = of(one(601), one(100, pid=2))
    assert found.process_top1_cpu_share == 0.25
    assert found.processes_hot == 1


@pytest.mark.parametrize(("ticks", "busy", "hot"), [(9, 0, 0), (10, 1, 0), (99, 1, 0), (100, 1, 1)])
def test_busy_and_hot_are_parts_of_one_core(ticks, busy, hot):
    found = of(one(ticks))
    assert (found.processes_busy, found.processes_hot) == (busy, hot)


def test_a_second_need_not_be_one_to_the_millisecond():
    found = of(one(10), monotonic_ns=NEW.monotonic_ns + 10_000_000)
    assert found.processes_busy == 1
    assert known(of(one(2), monotonic_ns=NEW.monotonic_ns + 10_000_000), DESCRIBED)


def test_in_a_short_tick_one_that_did_nothing_is_not_busy():
    found = of(one(0), one(1, pid=2), monotonic_ns=OLD.monotonic_ns + 100_000_000)
    assert found.processes_busy == 1


def test_who_hardly_does_anything_is_not_described():
    assert known(of(one(1)), DESCRIBED) == {}
    assert len(known(of(one(2)), DESCRIBED)) == 4
    found = of(one(2), one(1, pid=2))
    assert found.process_top1_threads == 1
    assert found.process_top2_threads is None
    assert found.process_top2_cpu_share == 1 / 400


@pytest.mark.parametrize(
    ("threads", "kind"),
    [(0, "1"), (1, "1"), (2, "2_to_4"), (4, "2_to_4"), (5, "5_to_16"), (16, "5_to_16"), (17, "more"), (9999, "more")],
)
def test_threads(threads, kind):
    assert getattr(of(one(50, threads=threads)), f"process_cpu_threads_{kind}_share") == 1


@pytest.mark.parametrize(
    ("resident", "kind"),
    [
        (0, "to_16mib"),
        (16 * MIB, "to_16mib"),
        (16 * MIB + 1, "to_64mib"),
        (64 * MIB, "to_64mib"),
        (256 * MIB, "to_256mib"),
        (1024 * MIB, "to_1gib"),
        (1024 * MIB + 1, "larger"),
    ],
)
def test_sizes(resident, kind):
    assert getattr(of(one(50, resident=resident)), f"process_cpu_resident_{kind}_share") == 1


@pytest.mark.parametrize(
    ("age_s", "kind"), [(-1, "to_2s"), (0, "to_2s"), (2, "to_2s"), (2.01, "to_30s"), (30, "to_30s"), (30.01, "older")]
)
def test_ages(age_s, kind):
    assert getattr(of(one(50, started=round(10_700 - 100 * age_s))), f"process_cpu_age_{kind}_share") == 1


def test_kinds_are_weighed_by_cpu_time():
    found = of(one(30, threads=1), one(10, threads=20, pid=2), one(0, threads=3, pid=3))
    assert found.process_cpu_threads_1_share == 0.75
    assert found.process_cpu_threads_more_share == 0.25
    assert found.process_cpu_threads_2_to_4_share == 0
    assert sum(known(found, KINDS).values()) == pytest.approx(3)


def test_the_rest_is_never_negative_and_unknown_with_its_parts():
    assert of(one(400)).process_rest_cpu_share == 0
    total = list(NEW.cpu.total)
    total[0] = OLD.cpu.total[0] - 1  # user time went back
    found = of(one(50), cpu=replace(NEW.cpu, total=tuple(total)))
    assert found.process_rest_cpu_share is None
    assert found.process_top1_cpu_share == 0.125
    fewer = replace(NEW.cpu, cores=NEW.cpu.cores[:1])  # a core went
    found = of(one(50), cpu=fewer)
    assert found.process_rest_cpu_share is None
    assert found.process_top1_cpu_share == 0.25  # of those that are there now
    assert known(of(one(50), cpu=replace(NEW.cpu, cores=()))) == {}
    assert known(of(cpu=replace(NEW.cpu, cores=()))) == {}
