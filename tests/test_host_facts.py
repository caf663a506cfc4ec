# SPDX-License-Identifier: GPL-2.0-only
"""Facts of machines over trees of /proc and /sys as they show them: a hybrid laptop, a phone's cores, a lab guest."""

import os
from pathlib import Path

import pytest

from asa.host import Facts, Kind, capabilities, facts

CPU = "sys/devices/system/cpu"


def grown(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return facts(root / "proc", root / "sys")


def cpu(number, core, last, *, level=3, khz=None, capacity=None):
    """Files of one CPU: `core` and `last` are the CPUs that share its core and its last-level cache."""
    files = {
        f"{CPU}/cpu{number}/topology/core_cpus_list": core,
        f"{CPU}/cpu{number}/cache/index0/level": 1,
        f"{CPU}/cpu{number}/cache/index0/type": "Data",
        f"{CPU}/cpu{number}/cache/index0/shared_cpu_list": core,
        f"{CPU}/cpu{number}/cache/index1/level": level,
        f"{CPU}/cpu{number}/cache/index1/type": "Unified",
        f"{CPU}/cpu{number}/cache/index1/shared_cpu_list": last,
        f"{CPU}/cpu{number}/cache/index2/level": 9,  # never one of data
        f"{CPU}/cpu{number}/cache/index2/type": "Instruction",
        f"{CPU}/cpu{number}/cache/index2/shared_cpu_list": number,
    }
    if khz is not None:
        files[f"{CPU}/cpu{number}/cpufreq/cpuinfo_max_freq"] = khz
    if capacity is not None:
        files[f"{CPU}/cpu{number}/cpu_capacity"] = capacity
    return files


HYBRID = {  # two fast cores of two threads, one of them favoured; four slow ones; two without the third level of cache
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel(R) Core(TM) Ultra 5\nmodel name\t: other",
    "proc/meminfo": "MemTotal:       16021864 kB\nMemFree:  1 kB",
    "proc/sys/kernel/osrelease": "6.18.5-amd64",
    f"{CPU}/online": "0-9",
    **cpu(0, "0-1", "0-7", khz=4_800_000),
    **cpu(1, "0-1", "0-7", khz=4_800_000),
    **cpu(2, "2-3", "0-7", khz=4_600_000),
    **cpu(3, "2-3", "0-7", khz=4_600_000),
    **{name: text for n in range(4, 8) for name, text in cpu(n, n, "0-7", khz=3_600_000).items()},
    **{name: text for n in (8, 9) for name, text in cpu(n, n, "8-9", level=2, khz=2_500_000).items()},
}


def test_a_hybrid_laptop(tmp_path):
    assert grown(tmp_path, HYBRID) == Facts(
        cpu_model="Intel(R) Core(TM) Ultra 5",
        cpus=10,
        cores=8,
        smt=True,
        kinds=(Kind(cores=2, max_mhz=4800), Kind(cores=4, max_mhz=3600), Kind(cores=2, max_mhz=2500)),
        caches=2,
        memory_gb=16.4,
        kernel="6.18.5-amd64",
    )


def test_a_cpu_that_is_offline_does_not_count(tmp_path):
    found = grown(tmp_path, HYBRID | {f"{CPU}/online": "0,2,4-7"})
    assert (found.cpus, found.cores, found.smt, found.caches) == (6, 6, False, 1)
    assert found.kinds == (Kind(cores=2, max_mhz=4800), Kind(cores=4, max_mhz=3600))


def test_where_capacity_differs_it_tells(tmp_path):
    big = {n: cpu(n, n, "0-3", khz=2_800_000, capacity=1024) for n in (0, 1)}
    little = {n: cpu(n, n, "0-3", khz=2_800_000, capacity=446) for n in (2, 3)}
    found = grown(tmp_path, {f"{CPU}/online": "0-3"} | big[0] | big[1] | little[2] | little[3])
    wanted = (Kind(cores=2, max_mhz=2800, capacity=1024), Kind(cores=2, max_mhz=2800, capacity=446))
    assert found.kinds == wanted


def test_alike_by_capacity_and_no_frequency_is_unknown(tmp_path):
    # x86 says 1024 of every CPU also where it does not know
    found = grown(
        tmp_path, {f"{CPU}/online": "0-1"} | cpu(0, 0, "0-1", capacity=1024) | cpu(1, 1, "0-1", capacity=1024)
    )
    assert (found.cores, found.smt, found.kinds, found.caches) == (2, False, None, 1)


def test_nothing_there_is_unknown(tmp_path):
    assert grown(tmp_path, {}) == Facts(cpu_model=os.uname().machine)
    damaged = {
        "proc/meminfo": "MemTotal: much kB",
        f"{CPU}/online": "0-x",
        "proc/sys/kernel/osrelease": "",
    }
    assert grown(tmp_path, damaged) == Facts(cpu_model=os.uname().machine)


def test_one_cpu_that_does_not_tell_leaves_it_unknown(tmp_path):
    files = {f"{CPU}/online": "0-1"} | cpu(0, 0, 0, khz=3_000_000)
    found = grown(tmp_path, files)
    assert (found.cpus, found.cores, found.smt, found.kinds, found.caches) == (2, None, None, None, None)


@pytest.mark.skipif(not Path("/sys/devices/system/cpu/online").exists(), reason="needs /sys")
def test_this_machine():
    found = facts()
    assert found.cpus == os.cpu_count()
    assert found.kernel == os.uname().release
    total_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    assert found.memory_gb == pytest.approx(total_gb, rel=0.02, abs=0.1)
    if found.cores is not None:
        assert found.smt == (found.cores < found.cpus)
        assert found.kinds is None or sum(kind.cores for kind in found.kinds) == found.cores


def test_capabilities_are_those_in_force():
    status = "Name:\tasa\nCapInh:\t0000000000000001\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000800000\n"
    assert capabilities(status) == 1 << 23
    assert capabilities(Path("/proc/self/status").read_text()) is not None
    assert capabilities("Name:\tasa\n") is None
