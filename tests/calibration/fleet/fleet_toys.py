# SPDX-License-Identifier: GPL-2.0-only
"""Who plays the tasks of a fleet in tests: no guest, a line in a log for each, and a result for each trial."""

import os
import threading
import time
from pathlib import Path

from calibration.fleet.task import Played
from scenarios.runner_plan import Outcome, Result

LOG, SLOW_S, HELD = "ASA_TEST_LOG", "ASA_TEST_SLOW_S", "ASA_TEST_HELD"


def play(task):
    """As `fleet_task.play`; says in the file ASA_TEST_LOG what is begun and what is done, and takes ASA_TEST_SLOW_S."""
    _say(f"begin {os.getpid()} {task.name}")
    time.sleep(float(os.environ.get(SLOW_S, "0")))
    results = tuple(result(trial) for trial in task.trials)
    _say(f"end {os.getpid()} {task.name}")
    return Played(task=task.name, machine=task.machine.name, host="here", results=results)


def keeping(task, *, keep):
    """As `fleet_task.play` on this host; what is begun after ASA_TEST_HELD tasks says so and never ends."""
    if len(said(Path(os.environ[LOG]), "end")) >= int(os.environ[HELD]):
        _say(f"begin {os.getpid()} {task.name}")
        _say(f"held {os.getpid()} {task.name}")
        threading.Event().wait()
    played = play(task)
    for one in played.results:
        keep(one)
    return played


def result(trial, outcome=Outcome.DONE):
    return Result(trial=trial, outcome=outcome, attempts=1, started_ns=time.time_ns(), took_s=1.0, window_s=1.0)


def _say(line):
    descriptor = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def said(path: Path, word: str) -> list[list[str]]:
    """Lines of the log that begin with `word`: process, machine, repeat, label."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[1:] for line in lines if line.startswith(f"{word} ")]
