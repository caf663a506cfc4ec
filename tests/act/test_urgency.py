# SPDX-License-Identifier: GPL-2.0-only
"""Priorities: the agent's own, and those of a process that is hurried."""

import os
import subprocess
import sys

import pytest

from asa.act.urgency import Pace, go_first, set_pace

FIRST = (
    "import os, subprocess, sys\n"
    "from asa.act.urgency import go_first\n"
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
    child = subprocess.Popen(["sleep", "60"])
    for pace, nice in ((Pace.HURRIED, -15), (Pace.PATIENT, 10), (Pace.ORDINARY, 0)):
        set_pace(child.pid, pace)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == nice
    child.kill()
    child.wait()
    set_pace(child.pid, Pace.HURRIED)  # one that has gone is no error


def test_what_is_not_allowed_is_no_error(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert not go_first()
