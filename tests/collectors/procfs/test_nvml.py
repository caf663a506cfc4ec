# SPDX-License-Identifier: GPL-2.0-only
"""NVIDIA's GPUs by the driver's library: a stand-in of its documented ABI, compiled here, behind the collector."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from gpu_bench import S, bench

from collectors.procfs.nvml import Nvml, _Process

__all__ = ["bench"]  # a fixture
SOURCE = Path(__file__).with_name("nvml_standin.c")
MIB = 1 << 20


class Standin(ctypes.Structure):
    _fields_ = (
        ("init", ctypes.c_int),
        ("use", ctypes.c_int),
        ("devices", ctypes.c_uint),
        ("busy", ctypes.c_uint),
        ("computes", ctypes.c_uint),
        ("draws", ctypes.c_uint),
        ("compute", _Process * 4),
        ("draw", _Process * 4),
        ("begun", ctypes.c_int),
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True)
    return path


@pytest.fixture
def nvidia(built, bench):
    """The stand-in's state; the bench's processes may hold /dev/nvidia0."""
    library = ctypes.CDLL(str(built))
    told = Standin.in_dll(library, "standin")
    ctypes.memset(ctypes.byref(told), 0, ctypes.sizeof(told))
    told.devices, told.busy = 1, 40
    bench.nvml = library
    return told


def computing(told, *processes):
    for place, (pid, used_bytes) in enumerate(processes):
        told.compute[place] = _Process(pid, used_bytes, 0, 0)
    told.computes = len(processes)


def test_the_collector_tells_of_nvidias_gpu_by_the_library(bench, nvidia):
    computing(nvidia, (10, 300 * MIB), (77, 20 * MIB))
    bench.tree.start(10)
    bench.tree.hold(10, 7, "", "/dev/nvidia0")
    bench.gpu.open()
    first = bench.read()
    assert (first.processes, first.memory_bytes, first.engine_ns) == (2, 320 * MIB, 0)
    second = bench.read(2)
    assert second.engine_ns == int(0.4 * 2 * S)
    assert nvidia.begun == 1
    bench.gpu.close()
    assert nvidia.begun == 0


def test_it_is_let_go_when_nobody_uses_it_and_what_was_counted_stays(bench, nvidia):
    bench.tree.start(10)
    bench.tree.hold(10, 7, "", "/dev/nvidiactl")
    bench.gpu.open()
    bench.read()
    busy_ns = bench.read(1).engine_ns
    assert busy_ns == int(0.4 * S)
    bench.tree.end(10)
    after = bench.read_for(9)
    assert nvidia.begun == 0
    assert after.processes == 0
    assert after.engine_ns >= busy_ns
    assert bench.read_for(5).engine_ns == after.engine_ns


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (None, "libnvidia-ml.so.1: cannot open shared object file"),
        ({"init": 18}, "does not begin: Driver/library version mismatch"),
        ({"devices": 0}, "knows of no GPU"),
        ({"use": 15}, "refuses to tell"),
    ],
)
def test_without_its_word_the_use_is_unknown_and_that_is_said(bench, nvidia, change, why):
    if change is None:
        bench.nvml = None
    for name, value in (change or {}).items():
        setattr(nvidia, name, value)
    bench.tree.start(10)
    bench.tree.hold(10, 7, "", "/dev/nvidia0")
    bench.gpu.open()
    told = bench.read()
    assert (told.processes, told.engine_ns, told.memory_bytes, told.cpu_ns) == (None, None, None, None)
    assert why in bench.gpu.lacking["NVIDIA GPU"]
    assert nvidia.begun == 0


def test_a_library_that_comes_back_is_asked_again_after_a_minute(bench, nvidia):
    nvidia.init = 18
    bench.tree.start(10)
    bench.tree.hold(10, 7, "", "/dev/nvidia0")
    bench.gpu.open()
    assert bench.read().processes is None
    nvidia.init = 0
    assert bench.read(30).processes is None
    assert bench.read(40).processes == 1
    assert "NVIDIA GPU" not in bench.gpu.lacking


def test_what_another_driver_does_not_tell_stays_unknown(bench, nvidia):
    bench.tree.start(10)
    bench.tree.hold(10, 7, "", "/dev/nvidia0")
    bench.tree.hold(10, 8, "", "/dev/kfd")
    bench.gpu.open()
    assert bench.read().processes is None


@pytest.fixture
def alone(built, tmp_path):
    """The reader of the library alone, its state, and a tree of PCI devices."""
    library = ctypes.CDLL(str(built))
    told = Standin.in_dll(library, "standin")
    ctypes.memset(ctypes.byref(told), 0, ctypes.sizeof(told))
    told.devices, told.busy = 2, 100
    loads = []
    return Nvml(tmp_path, lambda name: loads.append(name) or library), told, tmp_path / "bus/pci/devices", loads


def device(folder, vendor, kind, status):
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")
    (folder / "power").mkdir()
    (folder / "power/runtime_status").write_text(f"{status}\n")


def test_a_suspended_gpu_is_not_woken(alone):
    nvml, told, devices, loads = alone
    device(devices / "0000:00:02.0", "0x8086", "0x030000", "active")
    device(devices / "0000:01:00.0", "0x10de", "0x030200", "suspended")
    device(devices / "0000:01:00.1", "0x10de", "0x040300", "active")  # its sound
    assert nvml.read(0).busy_ns == 0
    assert (loads, told.begun) == ([], 0)
    (devices / "0000:01:00.0/power/runtime_status").write_text("active\n")
    assert nvml.read(S).pids == frozenset()
    assert (loads, told.begun) == (["libnvidia-ml.so.1"], 1)
    assert nvml.read(2 * S).busy_ns == 2 * S  # two GPUs, all of a second
    (devices / "0000:01:00.0/power/runtime_status").write_text("suspended\n")
    assert nvml.read(3 * S).busy_ns == 2 * S
    assert told.begun == 0


def test_memory_that_is_not_told_is_unknown_and_one_in_both_lists_counts_once(alone):
    nvml, told, *_ = alone
    computing(told, (5, (1 << 64) - 1))
    assert nvml.read(0).memory_bytes is None
    told.devices = 1
    nvml.rest()
    computing(told, (5, 7 * MIB))
    told.draw[0], told.draws = _Process(5, 7 * MIB, 0, 0), 1
    use = nvml.read(S)
    assert (use.pids, use.memory_bytes) == (frozenset({5}), 7 * MIB)
