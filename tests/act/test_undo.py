# SPDX-License-Identifier: GPL-2.0-only
"""The undo journal ends exactly the process that was noted."""

import os
import signal
import subprocess

from asa.act.undo import UndoJournal, start_ticks


def sleeper(*, deaf=False):
    code = "import signal, time; print(flush=True); time.sleep(60)"
    if deaf:
        code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {code}"
    child = subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # it is up, its signal handling settled
    return child


def test_what_was_left_is_stopped(tmp_path):
    child = sleeper()
    UndoJournal(tmp_path / "undo.json").note("scx_test", child.pid)
    said = UndoJournal(tmp_path / "undo.json").recover(limit_s=5.0)
    assert child.wait(5) == -signal.SIGINT
    assert said is not None
    assert "scx_test" in said
    assert not (tmp_path / "undo.json").exists()


def test_one_that_ignores_sigint_is_killed(tmp_path):
    child = sleeper(deaf=True)
    journal = UndoJournal(tmp_path / "undo.json")
    journal.note("scx_test", child.pid)
    journal.recover(limit_s=0.2)
    assert child.wait(5) == -signal.SIGKILL


def test_a_recycled_pid_is_left_alone(tmp_path):
    child = sleeper()
    path = tmp_path / "undo.json"
    UndoJournal(path).note("scx_test", child.pid)
    path.write_text(path.read_text().replace(str(start_ticks(child.pid)), "1"))
    assert UndoJournal(path).recover(limit_s=0.2) is None
    assert child.poll() is None
    child.kill()
    child.wait()


def test_nothing_noted_and_damaged_files(tmp_path):
    journal = UndoJournal(tmp_path / "undo.json")
    assert journal.recover(1.0) is None
    (tmp_path / "undo.json").write_text("{half")
    assert journal.recover(1.0) is None
    journal.note("scx_gone", 2**22 + 1)  # no such process
    assert journal.leftover() is None


def test_own_start_time_is_known():
    assert start_ticks(os.getpid()) == start_ticks(os.getpid())
    assert start_ticks(2**22 + 1) is None
