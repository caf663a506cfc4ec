# SPDX-License-Identifier: GPL-2.0-only
"""A tick leaves nothing to the garbage collector: what only that finds may stay in an agent for hours."""

import gc
from pathlib import Path

import pytest

from asa.clock import SystemClock
from asa.config import CollectSettings, Ebpf
from collectors.sampler import HostSampler, standard


@pytest.mark.parametrize("kind", ["x11", "wayland"])
def test_sampling_this_host_leaves_no_garbage(monkeypatch, tmp_path, kind):
    monkeypatch.setenv("XDG_SESSION_TYPE", kind)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path}/none")  # a bus that is named and not there
    monkeypatch.setenv("DISPLAY", ":4711")
    sampler = HostSampler(standard(Path("/proc"), Path("/sys"), CollectSettings(ebpf=Ebpf.OFF)), SystemClock())
    gc.collect()
    gc.disable()
    try:
        sampler.open()
        for _ in range(5):
            sampler.sample()
        assert gc.collect() == 0
    finally:
        gc.enable()
        sampler.close()
