# SPDX-License-Identifier: GPL-2.0-only
"""What it takes to follow the holders of GPUs: few listings, few descriptors, and no GPU that is woken."""

import os
from pathlib import Path

from gpu_bench import KIB, S, bench, i915, told, xe

from collectors.procfs import gpu as gpu_module

__all__ = ["bench"]  # a fixture
TEXT_OF = gpu_module._text


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def noted_reads(monkeypatch):
    asked = []
    monkeypatch.setattr(gpu_module, "_text", lambda file: asked.append(file) or TEXT_OF(file))
    return asked


def test_a_suspended_gpu_is_not_woken(bench, monkeypatch):
    asked = noted_reads(monkeypatch)
    for pid in (10, 11):
        bench.tree.start(pid)
        bench.tree.hold(pid, 4, i915(client=pid, render=1000, memory=8))
    bench.tree.hold(11, 5, i915(client=3, render=1000, memory=4), device="/dev/dri/card1")
    bench.tree.power("card0", "suspended")
    bench.tree.power("renderD128", "active")
    bench.tree.power("card1", "active")
    bench.gpu.open()
    assert bench.read() == told(2, 0, 20 * KIB)
    bench.tree.power("renderD128", "suspended")
    asked.clear()
    for _ in range(20):  # some listings, each with another look at the holders
        found = bench.read(1)
    assert found == told(2, 0, 20 * KIB)
    assert len(asked) >= 20  # the other GPU's client
    assert all("11/fdinfo/5" in str(file._path) for file in asked)
    bench.tree.end(10)
    assert bench.read(1) == told(1, 0, 12 * KIB)  # its client has gone though nobody could be asked
    bench.tree.hold(11, 4, i915(client=11, render=1500, memory=2))
    bench.tree.power("renderD128", "active")
    assert bench.read(1) == told(1, 500, 6 * KIB)


def test_clients_that_begin_behind_a_suspended_gpu_are_met_when_it_wakes(bench, monkeypatch):
    asked = noted_reads(monkeypatch)
    bench.tree.power("renderD128", "suspended")
    for pid in range(10, 20):
        bench.tree.start(pid)
        bench.tree.hold(pid, 4, i915(client=pid, memory=1))
    bench.gpu.open()
    assert bench.read_for(10) == told(10, None, None)
    assert not asked
    bench.tree.power("renderD128", "active")
    assert bench.read(1).memory_bytes == 10 * KIB


def test_cycles_do_not_count_the_time_of_a_suspended_gpu(bench):
    bench.tree.start(10)
    bench.tree.power("renderD128", "active")
    bench.tree.hold(10, 4, xe(busy=1000, total=10_000))
    bench.gpu.open()
    bench.read()
    bench.tree.power("renderD128", "suspended")
    bench.read_for(600)
    bench.tree.power("renderD128", "active")
    bench.tree.hold(10, 4, xe(busy=1500, total=11_000))  # its clock stood still: half of a second, not of all
    assert bench.read(1).engine_ns == S // 2
    bench.tree.hold(10, 4, xe(busy=1750, total=12_000))
    assert bench.read(1).engine_ns == S // 2 + S // 4


def test_few_of_many_descriptors_are_listed(bench, monkeypatch):
    bench.tree.start(10, files=3000)
    bench.tree.hold(10, 5000, i915())
    scandir, listed = os.scandir, []

    class Counted:
        def __init__(self, path):
            self.entries = scandir(path)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.entries.close()

        def __iter__(self):
            for entry in self.entries:
                listed.append(entry.name)
                yield entry

    monkeypatch.setattr(os, "scandir", Counted)
    bench.gpu.open()
    assert len(listed) == 1024


def test_a_new_process_is_found_soon(bench):
    for pid in range(100, 400):
        bench.tree.start(pid)
    bench.gpu.open()
    bench.tree.start(1000)
    bench.read_for(20)
    bench.tree.hold(1000, 4, i915())  # some seconds after it began
    assert bench.read_for(20).processes == 1


def test_an_old_process_that_opens_one_is_found_in_the_end(bench):
    for pid in range(100, 180):
        bench.tree.start(pid)
    bench.gpu.open()
    bench.read_for(20)
    bench.tree.hold(177, 4, i915())
    assert bench.read_for(4 * 80 // 4 + 5).processes == 1


def test_work_in_a_tick_is_bounded(bench, monkeypatch):
    bench.gpu.open()
    bench.read()
    for pid in range(1000, 1400):
        bench.tree.start(pid, files=20)
    readlink, links = os.readlink, []
    monkeypatch.setattr(os, "readlink", lambda path: links.append(path) or readlink(path))
    worst = 0
    for _ in range(60):
        links.clear()
        bench.read(1)
        worst = max(worst, len(links))
    assert 100 < worst <= 256 + 20


def test_clients_are_bounded_and_given_back(bench):
    before = descriptors()
    bench.tree.start(10)
    for number in range(300):
        bench.tree.hold(10, number, i915(client=number, memory=1))
    bench.gpu.open()
    assert bench.read().memory_bytes == 256 * KIB
    assert descriptors() == before + 256 + 1  # and the stat of the process
    bench.gpu.close()
    bench.gpu.close()
    assert descriptors() == before


def test_ticks_open_nothing(bench):
    for pid in range(10, 20):
        bench.tree.start(pid, files=5)
        bench.tree.hold(pid, 7, i915(client=pid))
    bench.gpu.open()
    before = descriptors()
    for _ in range(50):
        bench.read(1)
    assert descriptors() == before
