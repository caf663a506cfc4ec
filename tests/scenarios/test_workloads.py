# SPDX-License-Identifier: GPL-2.0-only
"""The declared workloads: same seed same programs, other seed other programs, and nothing a scheduler cannot see."""

import json
from pathlib import Path

import pytest

from scenarios import workloads
from scenarios.workloads import LABELS, PACKAGES, WORKLOADS, Setting, find, programs, variant_of

HOST = Setting(cpus=4, disk=Path("/scratch/disk"), disk_mb=256, port=5999, io_uring=True, lab=False)
LAB = Setting(cpus=2, disk=Path("/dev/vda"), disk_mb=None, port=6001, io_uring=True, lab=True)
SEEDS = range(60)


def each(setting):
    return [
        (entry, seed, program) for entry in WORKLOADS for seed in SEEDS for program in programs(entry, seed, setting)
    ]


def words(setting, label):
    return [" ".join(program.argv) for entry, _, program in each(setting) if entry.label == label]


@pytest.mark.parametrize("setting", [HOST, LAB], ids=["host", "lab"])
@pytest.mark.parametrize("entry", WORKLOADS, ids=lambda entry: entry.label)
def test_same_seed_same_programs_and_neighbours_differ(entry, setting):
    assert [programs(entry, seed, setting) for seed in SEEDS] == [programs(entry, seed, setting) for seed in SEEDS]
    count = len(entry.playable(lab=setting.lab))
    assert count >= 2
    for first in range(10):
        names = {variant_of(entry, first + i, setting).name for i in range(count)}
        assert len(names) == count, "neighbouring seeds take each variant once"
        made = {programs(entry, first + i, setting) for i in range(count)}
        assert len(made) == count


@pytest.mark.parametrize("entry", WORKLOADS, ids=lambda entry: entry.label)
def test_parameters_vary_within_a_variant(entry):
    count = len(entry.playable(lab=False))
    varied = {programs(entry, seed, HOST) for seed in SEEDS}
    assert len(varied) > count, "seeds change parameters, not only the program"


def test_labels_are_the_agreed_ones():
    assert LABELS == ("idle", "cpu", "disk", "wakeup", "network", "spawn", "frames", "cpu+disk")
    assert find("cpu").label == "cpu"
    assert find("games") is None


def test_packages_are_exactly_those_of_the_programs():
    for entry in WORKLOADS:
        used = {program.package for e, _, program in each(HOST) + each(LAB) if e is entry}
        assert used == set(entry.packages)
    assert set(PACKAGES) == {program.package for _, _, program in each(HOST)}


def test_lab_leaves_out_what_is_declared():
    assert any(line.startswith("xargs") for line in words(HOST, "spawn"))
    assert not any(line.startswith("xargs") for line in words(LAB, "spawn"))
    assert all(variant.not_in_lab == "" for entry in WORKLOADS for variant in entry.playable(lab=True))


def test_only_disk_workloads_touch_the_disk_and_past_the_cache():
    for setting in (HOST, LAB):
        for entry, _, program in each(setting):
            touches = any(str(setting.disk) in word for word in program.argv)
            assert program.uses_disk == touches == (program.argv[0] == "fio")
            assert not touches or "disk" in entry.label
            if touches:
                assert f"--filename={setting.disk}" in program.argv
                assert "--direct=1" in program.argv
                sized = [word for word in program.argv if word.startswith("--size=")]
                assert sized == ([] if setting.disk_mb is None else [f"--size={setting.disk_mb}M"])


def test_io_uring_only_where_it_works():
    assert any("io_uring" in line for line in words(HOST, "disk"))
    without = Setting(cpus=4, disk=HOST.disk, disk_mb=256, port=1, io_uring=False, lab=False)
    assert not any("io_uring" in line for line in words(without, "disk") + words(without, "cpu+disk"))


def test_both_halves_of_the_mixed_workload():
    entry = find("cpu+disk")
    for seed in SEEDS:
        names = [program.argv[0] for program in programs(entry, seed, HOST)]
        assert names.count("fio") == 1
        assert len(names) == 2


def test_network_server_comes_first_and_both_use_the_port():
    for seed in SEEDS:
        server, client = programs(find("network"), seed, HOST)
        assert "-s" in server.argv
        assert server.listens == HOST.port
        assert server.argv[server.argv.index("-p") + 1] == client.argv[client.argv.index("-p") + 1] == str(HOST.port)
        assert client.listens is None


def test_frames_leave_time_to_sleep_and_stay_in_the_ordinary_policy():
    for seed in SEEDS:
        (program,) = programs(find("frames"), seed, HOST)
        config = json.loads(program.stdin)
        assert config["global"]["default_policy"] == "SCHED_OTHER"
        tasks = config["tasks"]
        assert 2 <= len(tasks) <= 3
        for task in tasks.values():
            assert "policy" not in task
            if "timer" in task:
                assert 8_000 <= task["timer"]["period"] <= 34_000
                assert task["runtime"] < 0.7 * task["timer"]["period"]
        for name in [task["resume"] for task in tasks.values() if "resume" in task]:
            assert tasks[name]["suspend"] == name


def test_nothing_asks_for_a_realtime_policy():
    for _, _, program in each(HOST):
        line = " ".join(program.argv).lower() + program.stdin.lower()
        assert not any(word in line for word in ("fifo", "sched_rr", "deadline", "cyclictest", "chrt"))


def test_a_package_of_its_own_makes_an_entry_complete():
    assert all(workloads.find(entry.label) is entry and entry.sentence for entry in WORKLOADS)
    assert len(set(LABELS)) == len(LABELS)
