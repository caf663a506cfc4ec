# SPDX-License-Identifier: GPL-2.0-only
"""This host's own /proc, compared with a second reader of the same facts: psutil.

Counters are read before and after psutil reads them, so its figure has to lie between ours.
"""

from pathlib import Path

import psutil
import pytest

from asa.clock import SystemClock
from asa.config import CollectSettings, Ebpf
from collectors.procfs.interfaces import Interfaces
from collectors.procfs.process import ProcessCollector
from collectors.sampler import HostSampler, standard

PROC, SYS = Path("/proc"), Path("/sys")
PLAIN = CollectSettings(ebpf=Ebpf.OFF, desktop=False, gpu=False, groups=False, processes=False, timer=False)
TICKS_PER_S = 100  # USER_HZ on every architecture we build for


@pytest.fixture
def sampler():
    sampler = HostSampler(standard(PROC, SYS, PLAIN), SystemClock())
    sampler.open()
    yield sampler
    sampler.close()


def between(sampler, ours, theirs):
    before = ours(sampler.sample())
    figure = theirs()
    after = ours(sampler.sample())
    assert before <= figure <= after


def test_cores(sampler):
    assert len(sampler.sample().cpu.cores) == psutil.cpu_count(logical=True)


@pytest.mark.parametrize(("column", "name"), [(0, "user"), (1, "nice"), (2, "system")])
def test_processor_time(sampler, column, name):
    between(
        sampler,
        lambda sample: sample.cpu.total[column],
        lambda: round(getattr(psutil.cpu_times(), name) * TICKS_PER_S),
    )


@pytest.mark.parametrize(("ours", "theirs"), [("context_switches", "ctx_switches"), ("interrupts", "interrupts")])
def test_events(sampler, ours, theirs):
    between(sampler, lambda sample: getattr(sample.cpu, ours), lambda: getattr(psutil.cpu_stats(), theirs))


def test_memory(sampler):
    memory, theirs = sampler.sample().memory, psutil.virtual_memory()
    assert memory.total_bytes == theirs.total
    assert memory.swap_total_bytes == psutil.swap_memory().total
    tolerance = 0.05 * theirs.total  # other programs allocate between the two readings
    assert memory.free_bytes == pytest.approx(theirs.free, abs=tolerance)
    assert memory.available_bytes == pytest.approx(theirs.available, abs=tolerance)
    least, most = theirs.cached - theirs.slab, theirs.cached  # theirs has the reclaimable part of the slabs in it
    assert least - tolerance <= memory.cached_bytes <= most + tolerance
    assert memory.buffers_bytes == pytest.approx(theirs.buffers, abs=tolerance)


@pytest.mark.parametrize(
    ("ours", "theirs", "unit"),
    [
        ("reads", "read_count", 1),
        ("writes", "write_count", 1),
        ("read_sectors", "read_bytes", 512),
        ("write_sectors", "write_bytes", 512),
        ("busy_ms", "busy_time", 1),
    ],
)
def test_disks(sampler, ours, theirs, unit):
    physical = [entry.name for entry in (SYS / "block").iterdir() if (entry / "device").exists()]
    if not physical:
        pytest.skip("no physical disk here; a machine that boots from one runs this")

    def figure():
        disks = psutil.disk_io_counters(perdisk=True, nowrap=False)
        return sum(getattr(disks[name], theirs) for name in physical) // unit

    between(sampler, lambda sample: getattr(sample.disk, ours), figure)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("received_bytes", "bytes_recv"),
        ("received_packets", "packets_recv"),
        ("sent_bytes", "bytes_sent"),
        ("sent_packets", "packets_sent"),
    ],
)
def test_network(sampler, ours, theirs):
    def counted():
        each = psutil.net_io_counters(pernic=True, nowrap=False)
        return sum(getattr(each[name], theirs) for name in Interfaces(SYS).counted(tuple(each)))

    between(sampler, lambda sample: getattr(sample.network, ours), counted)


def test_listening_sockets():
    for _ in range(5):  # others may open and close sockets between the two readings
        sampler = HostSampler(standard(PROC, SYS, PLAIN), SystemClock())  # a new one reads the tables at once
        sampler.open()
        ours = sampler.sample().connections.listening
        sampler.close()
        theirs = sum(connection.status == "LISTEN" for connection in psutil.net_connections("tcp"))
        if ours == theirs:
            break
    assert ours == theirs


def test_processes_follow_those_we_start():
    collector = ProcessCollector(PROC, SYS)
    collector.open()
    try:
        differences = []
        for _ in range(5):  # the machine is shared: others start and end programs meanwhile
            differences.append(abs(collector.read()["process"].processes - len(psutil.pids())))
            children = [psutil.Popen(["sleep", "60"]) for _ in range(40)]
            differences.append(abs(collector.read()["process"].processes - len(psutil.pids())))
            for child in children:
                child.kill()
                child.wait()
            differences.append(abs(collector.read()["process"].processes - len(psutil.pids())))
        assert sorted(differences)[len(differences) // 2] <= 3
        assert max(differences) < 30  # 40 unseen children would show
    finally:
        collector.close()


def test_what_the_host_has_is_there(sampler):
    sample = sampler.sample()
    assert sampler.failing == {}
    for name in ("cpu", "process", "memory", "paging", "network", "connections"):
        assert getattr(sample, name) is not None, name
    assert sample.process.processes is not None
    assert sample.memory.available_bytes is not None
    assert sample.network.tcp_in_segments is not None
    assert sample.connections.established is not None
    assert (sample.disk is not None) == bool(Path("/proc/diskstats").read_text())
    assert (sample.pressure is not None) == Path("/proc/pressure/cpu").exists()
    assert (sample.sched_ext is not None) == Path("/sys/kernel/sched_ext/state").exists()
    assert ("sched_ext" in sampler.missing) == (sample.sched_ext is None)
