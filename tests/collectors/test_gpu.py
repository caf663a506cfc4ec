# SPDX-License-Identifier: GPL-2.0-only
"""Who holds a GPU and what it does: DRM fdinfo in a tree of processes that come and go."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import gpu_tree
import pytest
from gpu_tree import AMDGPU, I915, XE
from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.errors import SourceError
from asa.core.sample import GpuCounters
from collectors.procfs import gpu as gpu_module
from collectors.procfs.drm import parse_fdinfo
from collectors.procfs.gpu import GpuCollector, used_ns

KIB = 1 << 10
TEXT_OF = gpu_module._text
S = 1_000_000_000
TICK_NS = S // os.sysconf("SC_CLK_TCK")


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
        self.gpu = GpuCollector(self.tree.proc, self.tree.sys, lambda: self.now_ns)

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


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


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


def test_a_device_that_is_no_node_of_ours_is_no_path(bench):
    outside = bench.tree.sys / "class/elsewhere/device/power"
    outside.mkdir(parents=True)
    (outside / "runtime_status").write_text("suspended\n")
    bench.tree.start(10)
    bench.tree.hold(10, 4, i915(memory=8), device="/dev/dri/../elsewhere")
    bench.gpu.open()
    assert bench.read() == told(1, 0, 8 * KIB)


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


@pytest.mark.parametrize("text", [b"1 (a) S 1 2\n", b"\n", b"1 (a) S 0 0 0 0 0 0 0 0 0 0 x 5 0 0\n"])
def test_processor_time_not_understood(text):
    with pytest.raises(SourceError, match="stat: not understood"):
        used_ns(text)


@given(
    text=st.binary(max_size=200)
    | st.integers(0, 10**40).map(lambda n: gpu_tree.STAT.format(pid=1, user=n, system=n).encode())
)
def test_any_text_of_processor_time(text):
    with suppress(SourceError):
        assert used_ns(text) >= 0


def test_our_own_processor_time():
    while time.process_time() < 0.1:
        pass
    before = time.process_time()
    ours_s = used_ns(Path("/proc/self/stat").read_bytes()) / S
    assert (
        before - 0.03 <= ours_s <= time.process_time() + 0.03
    )  # it counts in ticks of 10 ms, for each of the two modes


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


@pytest.mark.parametrize(
    ("text", "engine_ns", "memory"),
    [
        (i915(render=3, copy=4, memory=2, total=9), 7, 2 * KIB),
        (AMDGPU.format(client=1, render=3, memory=2), 3, 2 * KIB),
        (xe(memory=2), None, 2 * KIB),
        ("drm-client-id:\t1\ndrm-memory-vram:\t1 MiB\ndrm-resident-vram:\t2 MiB\n", None, 2 << 20),
        ("drm-client-id:\t1\ndrm-total-memory:\t5\n", None, 5),  # a driver without drm-resident
        ("drm-client-id:\t1\ndrm-driver:\tmsm\ndrm-maxfreq-gpu:\t800000000 Hz\n", None, None),
    ],
)
def test_texts_of_drivers(text, engine_ns, memory):
    client = parse_fdinfo((gpu_tree.HEAD + text).encode())
    assert (client.engine_ns, client.memory_bytes) == (engine_ns, memory)


@pytest.mark.parametrize(
    "line",
    ["drm-engine-render:\t5", "drm-engine-render:\t5 ms", "drm-engine-render:\t-5 ns", "drm-resident-x:\t5 GB"],
)
def test_what_is_not_understood_is_an_error(line):
    with pytest.raises(SourceError, match="not understood"):
        parse_fdinfo(f"drm-client-id:\t1\n{line}\n".encode())


def numbers_in(client):
    cycles = [number for each in client.cycles.values() for number in (each.busy, each.total, each.capacity)]
    return [*cycles, client.identity[1], client.engine_ns or 0, client.memory_bytes or 0]


@settings(deadline=None)
@given(data=st.data())
def test_any_text(data):
    text = data.draw(
        st.sampled_from([i915(render=5, memory=7), xe(busy=5, total=9), AMDGPU.format(client=1, render=5, memory=7)])
    )
    whole = (gpu_tree.HEAD + text).encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    numbers = st.integers(0, 10**40).map(lambda number: str(number).encode())
    bits = st.sampled_from(
        [b"\n", b"-1", b"9" * 5000, b":", b"\x00", b"drm-engine-x:\t", b" ns\n", b"drm-resident-x: "]
    )
    garbled = whole[:start] + data.draw(st.one_of(st.binary(max_size=30), numbers, bits)) + whole[end:]
    try:
        client = parse_fdinfo(garbled)
    except SourceError:
        return
    if client is None:
        assert not re.search(rb"^drm-client-id:", garbled, re.MULTILINE)
    else:
        assert all(0 <= number < 1 << 64 for number in numbers_in(client))


def test_sums_too_wide_for_the_journal():
    keys = f"drm-engine-a:\t{1 << 63} ns\ndrm-engine-b:\t{1 << 63} ns\n"
    with pytest.raises(SourceError, match="wider than any counter"):
        parse_fdinfo(f"drm-client-id:\t1\n{keys}".encode())


def test_a_sum_over_clients_too_wide_for_the_journal(bench):
    bench.tree.start(10)
    for number in (1, 2):
        bench.tree.hold(10, number, i915(client=number, memory=1 << 53))
    bench.gpu.open()
    with pytest.raises(SourceError, match=r"memory_bytes is .* wider than any counter"):
        bench.read()


def test_long_text():
    engines = "".join(f"drm-engine-{number}:\t1 ns\n" for number in range(50_000))
    assert parse_fdinfo(f"drm-client-id:\t1\n{engines}".encode()).engine_ns == 50_000
