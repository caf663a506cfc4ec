# SPDX-License-Identifier: GPL-2.0-only
"""Where the gate cannot be used: it is found out beforehand, and a launch that fails at it leaves nothing."""

import builtins
import errno
import os
import sys
from pathlib import Path

import pytest

from asa.act.gate import launch, unusable
from asa.act.portfolio import Opened
from asa.core.errors import SchedulerError

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the gate needs mounts; run the tests as root"),
]
GATE = sys.modules["asa.act.gate.launch"]


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Stands for sched_ext's, which this kernel may not have."""
    path = tmp_path / "state"
    path.write_text("enabled\n")
    monkeypatch.setattr(GATE, "_STATE", path)
    return path


def open_descriptors():
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def test_it_is_tried_on_a_child_and_leaves_nothing(state, tmp_path):
    before = open_descriptors()
    assert unusable(tmp_path / "run") == ""
    assert open_descriptors() == before
    state.unlink()
    assert "a bind mount over" in unusable(tmp_path / "run")
    assert open_descriptors() == before


def test_a_kernel_that_lets_nobody_read_a_calls_arguments_has_no_gate(state, tmp_path, monkeypatch):
    """As kernel.yama.ptrace_scope 3 does: a call of which nothing can be read would wait for its answer for ever."""
    real, tried = builtins.open, []

    def refused(path, *more, **named):
        if str(path).startswith("/proc/") and str(path).endswith("/mem"):
            tried.append(path)
            assert Path(path).exists()  # the child is still there
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *more, **named)

    monkeypatch.setattr(builtins, "open", refused)
    before = open_descriptors()
    said = unusable(tmp_path / "run")
    assert said == f"{tried[0]}: Permission denied; a kernel.yama.ptrace_scope above 1 forbids it, set it to 1"
    assert open_descriptors() == before


def test_a_launch_that_fails_at_the_gate_leaves_no_descriptor(state, tmp_path):
    state.unlink()
    before = open_descriptors()
    opened = Opened(fd=os.open("/bin/true", os.O_RDONLY), path=Path("/bin/true"), argv=("true",))
    with pytest.raises(SchedulerError, match=r"the gate cannot be used: .*a bind mount over"):
        launch(opened, tmp_path / "log", tmp_path / "run")
    assert open_descriptors() == before
