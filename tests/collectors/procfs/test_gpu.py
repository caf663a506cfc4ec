# SPDX-License-Identifier: GPL-2.0-only
"""Who holds a GPU and what it does: DRM fdinfo in a tree of processes that come and go."""

import os

import pytest
from gpu_bench import KIB, S, bench, i915, told, xe
from gpu_tree import AMDGPU

from asa.core.errors import SourceError
from collectors.procfs.gpu import GpuCollector

__all__ = ["bench"]  # a fixture
TICK_NS = S // os.sysconf("SC_CLK_TCK")


def test_nobody_holds_it(bench):
    bench.tree.start(10, files=3)
    bench.gpu.open()
    assert bench.read() == told(0, None, 0)


def test_no_gpu(tmp_path):
    with pytest.raises(SourceError, match="no GPU with a DRM driver"):
        GpuCollector(tmp_path, tmp_path).open()
    for node in ("version", "card0-eDP-1"):  # drm without a device, and a connector alone
        (tmp_path / "class/drm" / node).mkdir(parents=True)
    with pytest.raises(SourceError, match="no GPU with a DRM driver"):
        GpuCollector(tmp_path, tmp_path).open()


def test_busy_time_counts_from_the_first_sight(bench):
    bench.tree.start(10, files=3)
    bench.tree.hold(10, 7, i915(render=5 * S, copy=S, memory=64, total=512))
    bench.gpu.open()
    assert bench.read() == told(1, 0, 64 * KIB)
    bench.tree.hold(10, 7, i915(render=5 * S + 300, copy=S + 20, memory=32, total=512))
    assert bench.read(1) == told(1, 320, 32 * KIB)


def test_one_client_behind_many_descriptors_counts_once(bench):
    for pid, numbers in ((10, (4, 5)), (11, (4,))):  # a duplicate, and one inherited by a child
        bench.tree.start(pid)
        for number in numbers:
            bench.tree.hold(pid, number, i915(client=3, render=1000, memory=8))
    bench.tree.start(12)
    bench.tree.hold(12, 4, AMDGPU.format(client=3, render=1000, memory=4))  # the same id on another device
    bench.gpu.open()
    assert bench.read() == told(3, 0, 12 * KIB)


def test_who_inherited_the_client_goes_on_telling_of_it(bench):
    for pid in (10, 11):
        bench.tree.start(pid)
        bench.tree.hold(pid, 4, i915(client=3, memory=8))
    bench.gpu.open()
    bench.read()
    bench.tree.end(10)
    bench.read(1)
    assert bench.read(1).memory_bytes == 8 * KIB
    assert bench.read_for(5) == told(1, 0, 8 * KIB)
    bench.tree.end(11)
    assert bench.read_for(5) == told(0, 0, 0)


def test_all_holders_end_at_once(bench):
    for pid in range(10, 30):
        bench.tree.start(pid)
        bench.tree.hold(pid, 4, "")
    bench.gpu.open()
    assert bench.read().processes == 20
    for pid in range(10, 30):
        bench.tree.end(pid)
    assert bench.read_for(4).processes == 0


def test_busy_time_never_falls_when_a_client_goes(bench):
    for pid in (10, 11):
        bench.tree.start(pid)
        bench.tree.hold(pid, 4, i915(client=pid, render=pid * S))
    bench.gpu.open()
    for pid in (10, 11):
        bench.tree.hold(pid, 4, i915(client=pid, render=pid * S + 500))
    assert bench.read(1).engine_ns == 1000
    bench.tree.end(11)
    assert bench.read(1).engine_ns == 1000
    bench.tree.hold(10, 4, i915(client=10, render=10 * S + 700))
    assert bench.read(1).engine_ns == 1200


def test_a_value_that_goes_back_waits_until_it_has_caught_up(bench):
    bench.tree.start(10)
    seen = []
    for render in (1000, 1500, 1200, 1400, 1600):
        bench.tree.hold(10, 4, i915(render=render))
        if not seen:
            bench.gpu.open()
        seen.append(bench.read(1).engine_ns)
    assert seen == [0, 500, 500, 500, 600]


def test_a_descriptor_that_becomes_another_file_is_let_go(bench):
    bench.tree.start(10)
    bench.tree.hold(10, 4, i915(client=1, render=1000, memory=8))
    bench.gpu.open()
    bench.read()
    bench.tree.hold(10, 4, i915(client=2, render=10**15, memory=16))  # closed and opened again between two reads
    assert bench.read(1).engine_ns == 0
    assert bench.read(1) == told(1, 0, 16 * KIB)
    bench.tree.drop(10, 4)
    (bench.tree.proc / "10/fd/4").symlink_to("socket:[1]")
    assert bench.read_for(6) == told(0, 0, 0)


def test_cycles_become_time(bench):
    bench.tree.start(10)
    bench.tree.hold(10, 4, xe(busy=5000, total=1_000_000, memory=4))
    bench.gpu.open()
    assert bench.read() == told(1, 0, 4 * KIB)
    bench.tree.hold(10, 4, xe(busy=6000, total=1_004_000))
    assert bench.read(2).engine_ns == S // 2  # a quarter of two seconds
    bench.tree.hold(10, 4, xe(busy=99000, total=1_006_000))  # cannot be: more than all
    assert bench.read(1).engine_ns == S // 2 + S
    bench.tree.hold(10, 4, xe(busy=0, total=10))  # the GPU was reset
    assert bench.read(1).engine_ns == S // 2 + S
    bench.tree.hold(10, 4, xe(busy=1000, total=2010))
    assert bench.read(1).engine_ns == 2 * S
    bench.tree.hold(10, 4, xe(busy=1000, total=2010))  # a clock that stands still
    assert bench.read(1).engine_ns == 2 * S


def test_a_driver_that_tells_nothing_is_only_counted(bench):
    bench.tree.start(10)
    bench.tree.hold(10, 4, "")
    bench.gpu.open()
    assert bench.read() == told(1, None, None)


def test_a_client_that_is_not_understood_hides_no_other(bench):
    bench.tree.start(10)
    bench.tree.hold(10, 4, i915(client=1, render=1000, memory=8))
    bench.tree.hold(10, 5, "drm-client-id:\t2\ndrm-engine-render:\t5 fortnights\n")
    bench.gpu.open()
    assert bench.read() == told(1, 0, 8 * KIB)
    assert "10/fd/5: fdinfo: not understood: b'5 fortnights'" in bench.gpu.lacking["gpu clients"]
    bench.tree.hold(10, 4, i915(client=1, render=1700, memory=8))
    assert bench.read(1) == told(1, 700, 8 * KIB)


def test_a_client_that_is_no_longer_understood_hides_no_other(bench):
    bench.tree.start(10)
    for client in (1, 2):
        bench.tree.hold(10, client, i915(client=client, render=1000, memory=8))
    bench.gpu.open()
    assert bench.read().memory_bytes == 16 * KIB
    bench.tree.hold(10, 1, i915(client=1, render=1300, memory=8))
    bench.tree.hold(10, 2, i915(client=2, render=1300, memory=8) + "drm-resident-x:\t5 GB\n")
    assert bench.read(1) == told(1, 300, 8 * KIB)
    said = dict(bench.gpu.lacking)
    assert "10/fd/2: fdinfo: not understood: b'5 GB'" in said["gpu clients"]
    bench.tree.drop(10, 2)
    bench.tree.hold(10, 3, "drm-client-id:\t3\ndrm-engine-render:\t5 fortnights\n")
    bench.tree.hold(10, 1, i915(client=1, render=1400, memory=8))
    assert bench.read_for(20) == told(1, 400, 8 * KIB)
    assert bench.gpu.lacking == said  # the first one; told once


def test_a_device_that_is_no_node_of_ours_is_no_path(bench):
    outside = bench.tree.sys / "class/elsewhere/device/power"
    outside.mkdir(parents=True)
    (outside / "runtime_status").write_text("suspended\n")
    bench.tree.start(10)
    bench.tree.hold(10, 4, i915(memory=8), device="/dev/dri/../elsewhere")
    bench.gpu.open()
    assert bench.read() == told(1, 0, 8 * KIB)


def test_other_peoples_processes_are_no_error(bench, monkeypatch):
    bench.tree.start(10)
    bench.tree.start(11)
    bench.tree.hold(11, 4, i915(memory=8))
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("10/fd"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    bench.gpu.open()
    assert bench.read() == told(1, 0, 8 * KIB)


def test_processor_time_of_those_who_hold_it(bench):
    for pid in (10, 11, 12):
        bench.tree.start(pid)
        bench.tree.work(pid, user=1000 * pid)
    for pid in (10, 11):
        bench.tree.hold(pid, 4, "")
    bench.gpu.open()
    assert bench.read().cpu_ns == 0
    bench.tree.work(10, user=10_000 + 3, system=2)
    bench.tree.work(11, user=11_000, system=4)
    bench.tree.work(12, user=99_000)
    assert bench.read(1).cpu_ns == 9 * TICK_NS
    bench.tree.end(10)
    bench.tree.work(11, user=11_001, system=4)
    assert bench.read(1) == told(1, None, None, 10 * TICK_NS)


def test_a_sum_over_clients_too_wide_for_the_journal(bench):
    bench.tree.start(10)
    for number in (1, 2):
        bench.tree.hold(10, number, i915(client=number, memory=1 << 53))
    bench.gpu.open()
    with pytest.raises(SourceError, match=r"memory_bytes is .* wider than any counter"):
        bench.read()


@pytest.mark.parametrize(
    "device",
    ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap2", "/dev/kfd", "/dev/dxg"],
)
def test_a_gpu_that_no_driver_tells_of_is_unknown(bench, device):
    bench.tree.start(10, files=3)
    bench.tree.hold(10, 7, "", device)
    bench.gpu.open()
    assert bench.read() == told(None, None, None, None)
    bench.tree.end(10)
    assert bench.read(5) == told(0, None, 0)


def test_a_node_without_keys_beside_it_tells_no_more(bench):
    bench.tree.start(10)
    bench.tree.hold(10, 7, "", "/dev/nvidia0")
    bench.tree.hold(10, 8, "")  # nvidia-drm's
    bench.tree.start(11)
    bench.tree.hold(11, 4, i915(memory=8))
    bench.gpu.open()
    assert bench.read() == told(None, None, None, None)


def test_a_driver_that_tells_of_the_same_process_is_enough(bench):
    bench.tree.start(10)
    bench.tree.hold(10, 7, "", "/dev/kfd")
    bench.tree.hold(10, 8, AMDGPU.format(client=3, render=1000, memory=4))
    bench.gpu.open()
    assert bench.read() == told(1, 0, 4 * KIB)


def test_other_devices_are_no_gpu(bench):
    bench.tree.start(10)
    for number, device in enumerate(("/dev/null", "/dev/kmsg", "/dev/snd/pcmC0D0p", "/home/nvidia0"), 7):
        bench.tree.hold(10, number, "", device)
    bench.gpu.open()
    assert bench.read() == told(0, None, 0)
