# SPDX-License-Identifier: GPL-2.0-only
"""What the eBPF programs count on this machine, against what its kernel counts elsewhere; both backends."""

import os
import subprocess
import time
from pathlib import Path

import probe_checks
import probe_scene
import pytest
import second_source

from asa.config import Ebpf
from calibration.overhead import load as overhead_load
from collectors.ebpf import layout
from collectors.ebpf.reader import StatsReader

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test"),
]


@pytest.fixture(scope="module")
def loads(tmp_path_factory):
    second_source.mount_tracefs()
    return probe_scene.compiled(tmp_path_factory.mktemp("loads"))


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """A file on this machine's disk, written down."""
    file = tmp_path_factory.mktemp("blocks") / "blocks"
    with file.open("wb") as made:
        made.write(os.urandom(probe_scene.BLOCKS_BYTES))
        made.flush()
        os.fsync(made.fileno())
    return file


@pytest.fixture(scope="module", params=[Ebpf.CORE, Ebpf.BCC])
def scene(request, loads, blocks):
    with probe_scene.scene(request.param, loads, blocks, emulated=False) as made:
        yield made


@pytest.mark.parametrize("check", probe_checks.CHECKS, ids=lambda check: check.__name__)
def test_counts_agree(scene, check):
    try:
        check(scene)
    except AssertionError:  # on a busy host the two sources are not read at the same moment; a fault shows twice
        check(scene)


def test_counts_agree_on_kernels_before_5_18(loads, blocks):
    """There, BCC's programs of the scheduler read records instead of arguments; this kernel has both."""
    with probe_scene.scene(Ebpf.BCC, loads, blocks, emulated=False, by_record=True) as made:
        for check in probe_checks.OF_THE_SCHEDULER:
            check(made)
        assert probe_scene.unknown(made) >= probe_scene.BY_RECORD_CANNOT
        assert "futex waits" in made.lacking


def test_only_what_this_kernel_cannot_tell_is_unknown(scene):
    """This kernel may be without kprobes, and BCC looks into no structure of the kernel; all else is known."""
    expected = set(probe_scene.BCC_CANNOT) if scene.backend is Ebpf.BCC else set()
    if not Path("/sys/bus/event_source/devices/kprobe").exists():
        expected |= {"input_keys", "input_motions"}
    assert probe_scene.unknown(scene) == expected


@pytest.mark.parametrize("backend", [Ebpf.CORE, Ebpf.BCC])
def test_events_that_are_sampled_stand_for_all(backend, loads, tmp_path):
    """As the agent runs them: at 40,000 switches a second one wakeup in 16 is timed, and counts for as many."""
    program = overhead_load.build(tmp_path)
    probes = probe_scene.opened(backend)
    reader = StatsReader(probes)
    try:
        with overhead_load.switches_per_s(program, overhead_load.last_cpu(), 40_000):
            for _ in range(3):
                time.sleep(1.0)
                before = reader.read()  # settles the share
            assert reader.timed_share["sample"] <= 1 / 8
            began = second_source.stat("ctxt")
            time.sleep(4.0)
            after = reader.read()
            switches = second_source.stat("ctxt") - began
    finally:
        reader.close()
        probes.close()
    wakeups = after.wakeups - before.wakeups
    timed = sum(after.wakeup_latency_hist) - sum(before.wakeup_latency_hist)
    bursts = sum(after.burst_hist) - sum(before.burst_hist)
    # some 10,000 draws: a standard error of 1 %; a task that sleeps on before it ran has no latency
    assert 0.9 * wakeups <= timed <= 1.05 * wakeups, (timed, wakeups)
    assert 0.4 * switches <= bursts <= 1.05 * switches, (bursts, switches)  # idling is no burst


@pytest.fixture
def merging(tmp_path):
    """A loop device with an I/O scheduler, which joins neighbours that wait there."""
    file = tmp_path / "merging"
    with file.open("wb") as made:
        made.truncate(64 << 20)
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
    device = Path(subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip())
    queue = Path("/sys/block", device.name, "queue")
    (queue / "scheduler").write_text("mq-deadline")
    (queue / "nr_requests").write_text("256")
    yield device
    (queue / "scheduler").write_text("none")
    subprocess.run(["losetup", "--detach", str(device)], check=True)


def test_requests_that_were_merged_or_moved_leave_no_start_behind(scene, merging):
    def write(seed, size):
        load = ["--rw=randwrite", "--bs=4k", "--size=16m", f"--io_size={size}", f"--randseed={seed}", "--numjobs=2"]
        engine = ["--ioengine=libaio", "--direct=1", "--iodepth=1024", "--iodepth_batch=1"]
        command = ["fio", "--name=merging", f"--filename={merging}", *load, *engine, "--minimal"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def merged():
        return int(Path("/sys/block", merging.name, "stat").read_text().split()[5])

    for seed in range(4):
        write(seed, "64m")
    assert merged() > 100
    between = time.monotonic()
    before = scene.reader.read()
    write(4, "16m")  # on the same places, in a shorter time than has gone by since
    after = scene.reader.read()
    length_ns = (time.monotonic() - between) * 1e9
    slots = zip(before.block_latency_hist, after.block_latency_hist, layout.LATENCY_STARTS_NS, strict=True)
    assert after.block_completed - before.block_completed > 1000
    assert not sum(new - old for old, new, start in slots if start > length_ns)
