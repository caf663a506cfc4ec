# SPDX-License-Identifier: GPL-2.0-only
"""Priorities: the agent's own, and those of a process that is hurried."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asa.act import priority
from asa.act.priority import Pace, go_first, set_pace

FIRST = (
    "import os, subprocess, sys\n"
    "from asa.act.priority import go_first\n"
    "print(go_first(), os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR, flush=True)\n"
    "subprocess.run([sys.executable, '-c', 'import os; print(os.sched_getscheduler(0) == os.SCHED_OTHER)'])\n"
)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test")
def test_the_agent_goes_first_and_its_children_do_not():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test")
def test_hurried_ordinary_and_patient():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    group = Path(f"/proc/{child.pid}/autogroup")  # without CONFIG_SCHED_AUTOGROUP there is none
    for pace, nice in ((Pace.HURRIED, -15), (Pace.PATIENT, 10), (Pace.ORDINARY, 0)):
        set_pace(child.pid, pace)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == nice
        assert not group.exists() or group.read_text().split()[-1] == str(max(nice, 0))
    child.kill()
    child.wait()
    set_pace(child.pid, Pace.HURRIED)  # one that has gone is no error


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test")
def test_a_session_that_it_does_not_lead_is_left_alone():
    before = Path("/proc/self/autogroup").read_text() if Path("/proc/self/autogroup").exists() else ""
    with subprocess.Popen(["sleep", "60"]) as child:
        set_pace(child.pid, Pace.PATIENT)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == Pace.PATIENT
        assert not before or Path("/proc/self/autogroup").read_text() == before
        child.kill()


def test_nobody_steps_back_who_could_not_come_forth_again(monkeypatch):
    monkeypatch.setattr(priority, "_may_raise", lambda: False)
    with subprocess.Popen(["sleep", "60"]) as child:
        set_pace(child.pid, Pace.PATIENT)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == os.getpriority(os.PRIO_PROCESS, 0)
        child.kill()


def test_what_is_not_allowed_is_no_error(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert not go_first()
