# SPDX-License-Identifier: GPL-2.0-only
"""A real render node (the vgem module's) and a real process that holds it.

vgem prints no drm-* keys, as older drivers do not: the holder is counted, what it does stays unknown.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from asa.core.sample import GpuCounters
from collectors.procfs.gpu import GpuCollector

NODE = Path("/dev/dri/renderD128")
LIMIT_S = 60.0
HOLD = f"""
with open({str(NODE)!r}, "rb+", buffering=0):
    print("held", flush=True)
    input()
print("closed", flush=True)
input()
"""


@pytest.fixture
def gpu():
    before = NODE.exists()
    subprocess.run(["modprobe", "vgem"], check=True)
    eventually(NODE.exists)
    gpu = GpuCollector(Path("/proc"), Path("/sys"), lambda: 20 * time.monotonic_ns())  # lists processes more often
    gpu.open()
    yield gpu
    gpu.close()
    if not before:
        subprocess.run(["modprobe", "-r", "vgem"], check=True)


def eventually(what):
    end = time.monotonic() + LIMIT_S
    while not (answer := what()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


def holders(gpu):
    found = gpu.read()["gpu"]
    assert found.engine_ns is None
    assert found.memory_bytes == (None if found.processes else 0)
    return found.processes


def test_who_holds_the_render_node_is_counted(gpu):
    assert gpu.read() == {"gpu": GpuCounters(processes=0, engine_ns=None, memory_bytes=0, cpu_ns=0)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-S", "-c", HOLD], text=True, bufsize=1, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        eventually(lambda: holders(gpu) == 1)
        process.stdin.write("\n")
        assert process.stdout.readline() == "closed\n"
        eventually(lambda: holders(gpu) == 0)
        process.stdin.write("\n")
