# SPDX-License-Identifier: GPL-2.0-only
"""The undo journal ends exactly the processes that were noted, and a killed agent leaves nothing."""

import os
import signal
import time

import pytest
from undo_machine import BEFORE, QOS, machine
from waiting import LIMIT_S

from asa.act.undo import UndoJournal, start_ticks
from asa.core.errors import AsaError

__all__ = ["machine"]  # a fixture


def test_what_was_left_is_stopped(machine):
    child, other = machine.process(), machine.process()
    first = machine.journal()
    first.note("scx_test", child.pid)
    first.note("scx_other", other.pid)
    assert [one.scheduler for one in machine.journal().leftover()] == ["scx_test", "scx_other"]
    said = machine.journal().recover(limit_s=20.0)
    assert (child.wait(LIMIT_S), other.wait(LIMIT_S)) == (-signal.SIGINT, -signal.SIGINT)
    assert said == (
        f"an earlier agent had left scx_test (pid {child.pid}), scx_other (pid {other.pid}) running; they were stopped"
    )
    assert not machine.path.exists()
    assert machine.journal().recover(1.0) is None


def test_one_that_was_forgotten_goes_on(machine):
    child, other = machine.process(), machine.process()
    first = machine.journal()
    first.note("scx_test", child.pid)
    first.note("scx_other", other.pid)
    first.forget(child.pid)
    machine.journal().recover(limit_s=20.0)
    assert other.wait(LIMIT_S) == -signal.SIGINT
    assert child.poll() is None


def test_one_that_ignores_sigint_is_killed(machine):
    child = machine.process(deaf=True)
    machine.journal().note("scx_test", child.pid)
    machine.journal().recover(limit_s=0.2)
    assert child.wait(LIMIT_S) == -signal.SIGKILL


def test_one_that_nothing_ends_stays_noted(machine, monkeypatch):
    child = machine.process()
    machine.journal().note("scx_test", child.pid)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)  # as one in an uninterruptible sleep
    said = machine.journal().recover(limit_s=0.01)
    assert said is not None
    assert f"not even SIGKILL ends {child.pid}" in said
    assert [one.pid for one in machine.journal().leftover()] == [child.pid]


def test_a_recycled_pid_is_left_alone(machine):
    child = machine.process()
    machine.journal().note("scx_test", child.pid)
    text = machine.path.read_text()
    machine.path.write_text(text.replace(str(start_ticks(child.pid)), "1"))
    assert machine.journal().recover(limit_s=0.2) is None
    assert child.poll() is None


def test_the_agent_never_ends_itself(machine):
    machine.journal().note("scx_test", os.getpid())
    assert machine.journal().recover(limit_s=0.2) is None


def test_one_that_is_gone_is_not_noted(machine):
    journal = machine.journal()
    assert journal.recover(1.0) is None
    journal.note("scx_gone", 2**22 + 1)  # no such process
    assert journal.leftover() == ()
    journal.forget(2**22 + 1)


def test_own_start_time_is_known():
    assert start_ticks(os.getpid()) == start_ticks(os.getpid())
    assert start_ticks(2**22 + 1) is None


def test_there_is_a_bound(machine, tmp_path):
    journal = UndoJournal(machine.path, proc=tmp_path / "proc")
    for pid in range(100, 165):
        stat = tmp_path / f"proc/{pid}/stat"
        stat.parent.mkdir(parents=True)
        stat.write_text(f"{pid} (x) S {'1 ' * 40}")
    for pid in range(100, 164):
        journal.note("scx_test", pid)
    with pytest.raises(AsaError, match="64 schedulers of ours are running"):
        journal.note("scx_test", 164)
    (tmp_path / "proc/100/stat").unlink()
    journal.note("scx_test", 164)  # the ones that are gone make room
    assert len(UndoJournal(machine.path, proc=tmp_path / "proc").leftover()) == 64


def test_a_journal_that_cannot_be_written_is_an_error(machine):
    machine.path.parent.write_text("not a folder")
    for call in (lambda: machine.journal().note("scx_test", os.getpid()), machine.journal().keep_settings):
        with pytest.raises(AsaError, match=r"undo\.json: cannot write the undo journal"):
            call()


STEPS = ("kept", "launched", "set", "settled", "expedited", "applied", "relaxed", "forgotten")


@pytest.mark.parametrize("last", STEPS)
def test_killed_after_each_step_nothing_is_left(machine, last):
    parked = machine.process()
    agent = os.fork()
    if agent == 0:  # the agent: does its steps and is killed by SIGKILL after one of them
        journal = machine.journal()
        steps = {
            "kept": journal.keep_settings,
            "launched": lambda: journal.note("scx_flash", parked.pid),
            "set": lambda: [machine.set(name, "32") for name in QOS],
            "settled": lambda: journal.settled(parked.pid),
            "expedited": journal.expedite,
            "applied": lambda: journal.apply(parked.pid),
            "relaxed": journal.relax,
            "forgotten": lambda: journal.forget(parked.pid),
        }
        for name, step in steps.items():
            step()
            if name == last:
                os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(agent, 0)[1]) == signal.SIGKILL
    said = machine.journal().recover(20.0)
    assert machine.now() == BEFORE
    assert not machine.path.exists()
    if last not in ("kept", "forgotten"):
        assert parked.wait(LIMIT_S) == -signal.SIGINT
        assert said is not None
        assert f"an earlier agent had left scx_flash (pid {parked.pid}) running; it was stopped" in said


def test_noting_is_cheap(machine):
    journal = machine.journal()
    journal.keep_settings()
    child = machine.process()
    spent = []
    for _ in range(50):
        start_s = time.thread_time()
        journal.note("scx_test", child.pid)
        journal.forget(child.pid)
        spent.append(time.thread_time() - start_s)
    assert min(spent) < 0.005  # 0.15 ms on an idle machine; a synchronous write to a disk would take longer
