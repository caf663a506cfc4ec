# SPDX-License-Identifier: GPL-2.0-only
"""A tree of processes that hold GPUs, a clock, and the collector over both; texts of drivers with figures filled in."""

import gpu_tree
import pytest
from gpu_tree import I915, XE

from asa.core.sample import GpuCounters
from collectors.procfs.gpu import GpuCollector
from collectors.procfs.nvml import Nvml

KIB = 1 << 10
S = 1_000_000_000


def i915(client=1, render=0, copy=0, memory=0, total=0):
    return I915.format(client=client, render=render, copy=copy, memory=memory, total=total)


def xe(client=1, busy=0, total=0, memory=0):
    return XE.format(client=client, busy=busy, total=total, memory=memory)


def told(processes, engine_ns, memory_bytes, cpu_ns=0):
    return GpuCounters(processes=processes, engine_ns=engine_ns, memory_bytes=memory_bytes, cpu_ns=cpu_ns)


class Bench:
    """A tree, a clock that is set by hand, and the collector over both."""

    def __init__(self, root):
        self.tree = gpu_tree.grow(root)
        self.now_ns = 100 * S
        self.nvml = None  # a stand-in for NVIDIA's library, or none is there
        nvml = Nvml(self.tree.sys, self._library)
        self.gpu = GpuCollector(self.tree.proc, self.tree.sys, lambda: self.now_ns, nvml)

    def _library(self, name):
        if self.nvml is None:
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        return self.nvml

    def read(self, after_s=0.0):
        self.now_ns += int(after_s * S)
        return self.gpu.read()["gpu"]

    def read_for(self, seconds):
        return [self.read(1) for _ in range(seconds)][-1]


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.gpu.close()
