# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers as sysfs of Linux 7.1 shows them: the machine's own and those of control groups."""

from pathlib import Path

import pytest

from asa.act import in_kernel

EVENTS = """SCX_EV_SELECT_CPU_FALLBACK 3
SCX_EV_BYPASS_DURATION 2500000000
SCX_EV_BYPASS_DISPATCH 12
SCX_EV_BYPASS_ACTIVATE 4
SCX_EV_INSERT_NOT_OWNED 0
SCX_EV_SUB_BYPASS_DISPATCH 0
"""


def put(folder: Path, ops: str, events: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "ops").write_text(f"{ops}\n")
    if events:
        (folder / "events").write_text(events)
    return folder


def test_nobody(tmp_path):
    assert in_kernel.schedulers(tmp_path) == ()


def test_the_machines_own_and_those_of_groups_parents_first(tmp_path):
    root = put(tmp_path / "kernel/sched_ext/root", "qmap", EVENTS)
    put(put(root / "sub/sub-812", "inner") / "sub/sub-99", "innermost", "SCX_EV_INSERT_NOT_OWNED 7\nodd line here\n")
    put(root / "sub/sub-x", "no_number")
    (root / "sub/sub-5").mkdir()  # is coming up, or going
    found = in_kernel.schedulers(tmp_path)
    assert [(one.ops, one.sub_cgroup_id) for one in found] == [("qmap", None), ("inner", 812), ("innermost", 99)]
    assert found[0].trouble == "bypassed 4 times, 2.5 s in all (loading and suspend count, too)"
    assert (found[1].events, found[1].trouble) == ({}, "")
    assert found[2].trouble == "7 tasks that were not its own to place"


def test_a_group_by_its_number(tmp_path):
    group = tmp_path / "fs/cgroup/user.slice/app.scope"
    group.mkdir(parents=True)
    assert in_kernel.group(group.stat().st_ino, tmp_path) == "/user.slice/app.scope"
    assert in_kernel.group(0, tmp_path) == ""


@pytest.mark.parametrize(("text", "cpus"), [("\n", ""), ("2-3\n", "2-3")])
def test_isolated_cpus(tmp_path, text, cpus):
    assert in_kernel.isolated(tmp_path) == ""
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    (tmp_path / "devices/system/cpu/isolated").write_text(text)
    assert in_kernel.isolated(tmp_path) == cpus
