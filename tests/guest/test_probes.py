# SPDX-License-Identifier: GPL-2.0-only
"""What the eBPF programs count on the lab's kernel, against what it counts elsewhere; both backends.

The checks are those of the host. Here are kprobes, so that input is counted, netem for real loss, and sched_ext.
"""

import subprocess
from pathlib import Path

import probe_checks
import probe_scene
import pytest

from asa.config import Ebpf


@pytest.fixture(scope="module", autouse=True)
def modules():
    subprocess.run(["modprobe", "--all", "loop", "uinput", "sch_netem", "sch_tbf", "veth"], check=True)


@pytest.fixture(scope="module")
def loads(tmp_path_factory):
    return probe_scene.compiled(tmp_path_factory.mktemp("loads"))


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """A loop device: the lab has no disk of its own."""
    file = tmp_path_factory.mktemp("blocks") / "blocks"
    file.write_bytes(bytes(probe_scene.BLOCKS_BYTES))
    attach = ["losetup", "--find", "--show", str(file)]
    device = subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip()
    yield Path(device)
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture(scope="module", params=[Ebpf.CORE, Ebpf.BCC])
def scene(request, modules, loads, blocks):
    with probe_scene.scene(request.param, loads, blocks, emulated=True) as made:
        yield made


@pytest.mark.parametrize("check", probe_checks.CHECKS + probe_checks.NEEDS_KPROBES, ids=lambda check: check.__name__)
def test_counts_agree(scene, check):
    check(scene)


def test_everything_is_known_here(scene):
    expected = probe_scene.BCC_CANNOT if scene.backend is Ebpf.BCC else set()
    assert probe_scene.unknown(scene) == expected
