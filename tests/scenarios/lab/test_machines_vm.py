# SPDX-License-Identifier: GPL-2.0-only
"""A described machine as guests see it: exactly these CPUs, threads, caches and speeds. What schedulers make of it."""

import json
import sys

import machine_shown
import pytest

from asa import paths
from scenarios.lab import guest, machines
from scenarios.lab.emulator import Clock

pytestmark = [pytest.mark.vm, pytest.mark.slow]

MIXED = """
note: all that a machine may differ in
memory_mb: 1536
kinds:
  fast: {speed_pct: 100, watts: 10}
  slow: {speed_pct: 50, watts: 3}
clusters:
  - [{kind: fast, cores: 1, threads: 2}, {kind: slow, cores: 1}]
  - [{kind: fast, cores: 1}]
shared_pct: 60
idle_watts: 3
sources: [a test]
"""
FAST, SLOW = range(4), range(4, 8)  # of laptop-hybrid


@pytest.fixture(scope="module")
def lab():
    return guest.ready(paths.default().cache, print, measuring=True, tick_hz=1000)


def played(lab, machine, out, *words):
    """What `machine_shown` writes."""
    said = []
    command = [sys.executable, "-P", machine_shown.__file__, words[0], str(out / "said.json"), *words[1:]]
    result = guest.run(
        command,
        lab=lab,
        out=out,
        on_output=said.append,
        machine=machine,
        clock=Clock.PARALLEL,
        limit_s=480,
    )
    assert result.exit_code == 0, said[-5:]
    return json.loads((out / "said.json").read_text())


def test_a_guest_is_what_its_file_describes(lab, tmp_path):
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED)
    mixed = machines.read(path)
    said = played(lab, mixed, tmp_path, "shown", "[[0, 2, 3], [0, 1, 2, 3]]")
    assert said["possible"] == "0-3"  # no CPU that a scheduler would keep a place for
    assert [cpu["siblings"] for cpu in said["cpus"]] == ["0-1", "0-1", "2", "3"]
    assert [cpu["cache"] for cpu in said["cpus"]] == ["0-2", "0-2", "0-2", "3"]
    assert {cpu["beyond"] for cpu in said["cpus"]} == {None}  # that one is the last level
    assert len({cpu["core"] for cpu in said["cpus"]}) == len(mixed.cores)
    alone, together = said["turns"]
    full = alone[2]
    assert [turns / full for turns in alone] == pytest.approx([1.0, 0.5, 1.0], rel=0.02)
    assert [turns / full for turns in together] == pytest.approx([0.6, 0.6, 0.5, 1.0], rel=0.02)
    shows_what_schedulers_read(said, mixed)


def shows_what_schedulers_read(said, machine):
    """Tick, capacities, frequencies and priorities, after load and after a change of all CPUs to save power."""
    assert (said["hz"], machine.tick_hz) == ("1000", 1000)
    assert said["jiffies_per_s"] == pytest.approx(1000, rel=0.02)
    assert said["ticks_per_s"] == pytest.approx(1000, rel=0.05)  # of a busy CPU: where slices end
    assert [cpu["capacity"] for cpu in said["cpus"]] == ["1024", "1024", "512", "1024"]
    assert [cpu["max_khz"] for cpu in said["cpus"]] == ["4000000", "4000000", "2000000", "4000000"]
    assert {cpu["min_khz"] for cpu in said["cpus"]} == {"400000"}
    told = {(cpu["driver"], cpu["governors"], cpu["governor"]) for cpu in said["cpus"]}
    assert told == {("asa_machine", "performance powersave", "powersave")}
    assert said["itmt"] in {"1", "Y"}  # packing by priority, since some cores have two threads
    assert said["clock"] == "tsc"  # a driver that announces changes of frequency would cost the guest its TSC


def shares(lab, out, cpus, *words):
    """Of the time at work that these CPUs had under each scheduler."""
    tasks, share, *commands = words
    found = played(lab, machines.load("laptop-hybrid"), out, "placed", tasks, share, json.dumps(commands))
    return [sum(one[cpu] for cpu in some) / sum(one) for one, some in zip(found, cpus, strict=True)]


def test_the_kernels_own_scheduler_and_bpflands_primary_domain_choose_cores(lab, tmp_path):
    """Two tasks that never sleep: fewer than there are cores of either kind."""
    bpfland = [str(paths.default().schedulers / "scx_bpfland"), "--primary-domain"]
    found = shares(
        lab, tmp_path, (FAST, FAST, SLOW), "2", "1.0", [], [*bpfland, "performance"], [*bpfland, "powersave"]
    )
    assert min(found) >= 0.85


def test_lavds_compaction_keeps_little_work_on_slow_cores(lab, tmp_path):
    lavd = str(paths.default().schedulers / "scx_lavd")  # it takes minutes to load: once, for saving power
    (found,) = shares(lab, tmp_path, (SLOW,), "2", "0.2", [lavd, "--powersave"])
    assert found >= 0.85
