# SPDX-License-Identifier: GPL-2.0-only
"""sched_ext's folder in its states, as seen on Linux 6.18 with scx_simple."""

import shutil

import proc_tree
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asa.core.errors import SourceError
from asa.core.sample import SchedExtState
from collectors.schedext import SchedExtCollector


def opened(tree):
    collector = SchedExtCollector(tree.proc, tree.sys)
    collector.open()
    return collector


def test_life_of_a_scheduler(laptop):
    folder = proc_tree.attach(laptop, state="disabled", ops=None, enable_seq=0)
    shutil.rmtree(folder / "root")
    collector = opened(laptop)
    assert collector.read()["sched_ext"] == SchedExtState(state="disabled", ops="", enable_seq=0)
    proc_tree.attach(laptop, state="enabling", ops="simple", enable_seq=0)
    assert collector.read()["sched_ext"] == SchedExtState(state="enabling", ops="simple", enable_seq=0)
    name = "bpfland_1.1.4_x86_64_unknown_linux_gnu"
    proc_tree.attach(laptop, state="enabled", ops=name, enable_seq=1)
    assert collector.read()["sched_ext"] == SchedExtState(state="enabled", ops=name, enable_seq=1)
    proc_tree.attach(laptop, state="disabling", ops=None, enable_seq=1)
    assert collector.read()["sched_ext"] == SchedExtState(state="disabling", ops="", enable_seq=1)


def test_a_kernel_without_sched_ext_says_what_is_needed(laptop):
    with pytest.raises(SourceError, match="CONFIG_SCHED_CLASS_EXT"):
        opened(laptop)


@pytest.mark.parametrize(
    ("state", "ops", "enable_seq"),
    [
        ("ENABLED", "simple", 1),
        ("enabled\nenabled", "simple", 1),
        ("", "simple", 1),
        ("enabled", "sim\x1bple", 1),
        ("enabled", "sché", 1),
        ("enabled", "s" * 128, 1),
        ("enabled", "simple", -1),
        ("enabled", "simple", 1 << 64),
    ],
)
def test_what_the_kernel_never_writes_is_refused(laptop, state, ops, enable_seq):
    proc_tree.attach(laptop, state=state, ops=ops, enable_seq=enable_seq)
    with pytest.raises(SourceError):
        opened(laptop)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["state", "enable_seq", "root/ops"]), text=st.binary(max_size=200))
def test_any_bytes(laptop, name, text):
    folder = proc_tree.attach(laptop, state="enabled", ops="simple", enable_seq=1)
    collector = opened(laptop)
    (folder / name).write_bytes(text)
    try:
        state = collector.read()["sched_ext"]
    except SourceError:
        pass
    else:
        assert state.state.isalpha()
        assert state.ops.isprintable()
        assert 0 <= state.enable_seq < 1 << 64
    collector.close()
