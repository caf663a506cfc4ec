# SPDX-License-Identifier: GPL-2.0-only
"""What the eBPF programs count on this machine, against what its kernel counts elsewhere; both backends."""

import os
from pathlib import Path

import probe_checks
import pytest
import second_source

from asa.config import Ebpf

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="loading eBPF programs needs root: sudo make test"),
]


@pytest.fixture(scope="module")
def loads(tmp_path_factory):
    second_source.mount_tracefs()
    return probe_checks.compiled(tmp_path_factory.mktemp("loads"))


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """A file on this machine's disk, written down."""
    file = tmp_path_factory.mktemp("blocks") / "blocks"
    with file.open("wb") as made:
        made.write(os.urandom(probe_checks.BLOCKS_BYTES))
        made.flush()
        os.fsync(made.fileno())
    return file


@pytest.fixture(scope="module", params=[Ebpf.CORE, Ebpf.BCC])
def scene(request, loads, blocks):
    with probe_checks.scene(request.param, loads, blocks, emulated=False) as made:
        yield made


@pytest.mark.parametrize("check", probe_checks.CHECKS, ids=lambda check: check.__name__)
def test_counts_agree(scene, check):
    check(scene)


def test_counts_agree_on_kernels_before_5_18(loads, blocks):
    """There, BCC's programs of the scheduler read records instead of arguments; this kernel has both."""
    with probe_checks.scene(Ebpf.BCC, loads, blocks, emulated=False, by_record=True) as made:
        for check in probe_checks.OF_THE_SCHEDULER:
            check(made)


def test_only_what_this_kernel_cannot_tell_is_unknown(scene):
    """This kernel may be without kprobes, and BCC looks into no structure of the kernel; all else is known."""
    expected = set(probe_checks.BCC_CANNOT) if scene.backend is Ebpf.BCC else set()
    if not Path("/sys/bus/event_source/devices/kprobe").exists():
        expected |= {"input_keys", "input_motions"}
    assert probe_checks.unknown(scene) == expected
