# SPDX-License-Identifier: GPL-2.0-only
"""What a guest costs, from its lines; and the watchdog's evictions, from kept records."""

import json
import subprocess

import pytest

from asa.core.errors import AsaError, LabError
from calibration.lab import speed

LINES = ["begin 0 10.00", "end 0 70.00", "begin 2 71.00", "end 2 76.00", "begin 4 77.00", "end 4 82.00"]
HOST_S = [100.0, 102.0, 103.0, 108.0, 110.0, 130.0]


def test_a_pace_is_guest_seconds_for_each_of_the_hosts_cpu_time():
    idle, half, busy = speed.read_paces(list(zip(HOST_S, LINES, strict=True)), 4, (0, 2, 4))
    assert [one.guest_s_per_host_s for one in (idle, half, busy)] == [30.0, 1.0, 0.25]
    assert (busy.cpus, busy.busy) == (4, 4)


@pytest.mark.parametrize(
    ("lines", "said"),
    [(LINES[:-1], "'end', '4'"), ([*LINES, "sh: no such thing"], "expected begin or end")],
)
def test_a_guest_that_says_something_else_is_one_line(lines, said):
    with pytest.raises(LabError, match=said) as caught:
        speed.read_paces([(1.0, line) for line in lines], 4, (0, 2, 4))
    assert "\n" not in str(caught.value)


def test_the_guests_program_marks_each_step(tmp_path):
    shell = tmp_path / "sleep"
    shell.write_text("#!/bin/sh\nexit 0\n")
    shell.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    command = ["sh", "-c", speed._SCRIPT, "pace", "0", "0", "60", "1", "1", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": path}, timeout=30)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["begin", "0"],
        ["end", "0"],
        ["begin", "1"],
        ["end", "1"],
    ]


def test_steps_of_a_trial_are_what_passed_since_the_one_before():
    lines = ["begin 1", "step scheduler", "a program's word", "step applications", "step window", "end 1"]
    stamps = [(110.0 + 2.0 * number, line) for number, line in enumerate(lines)]
    steps = speed.read_steps(stamps, 100.0, 106.0)
    assert steps == {"boot": 6.0, "start": 4.0, "scheduler": 2.0, "applications": 4.0, "window": 2.0, "end": 2.0}


def kept(folder, number, **record):
    path = folder / f"run-{number}.json"
    path.write_text(json.dumps({"seed": number, "figures": [], **record}))
    return path


def test_evictions_are_counted_over_runs_that_tell(tmp_path):
    records = [
        kept(tmp_path, 1, stalled=[], good=True),
        kept(tmp_path, 2, stalled=["flash", "flash"]),
        kept(tmp_path, 3),
    ]
    found = speed.evictions(records)
    assert (found.runs, found.untold, found.schedulers) == (2, ("run-3.json",), ("flash", "flash"))
    assert found.good == 1


def test_a_damaged_record_is_named(tmp_path):
    record = kept(tmp_path, 1, stalled="flash")
    with pytest.raises(AsaError, match=r"run-1\.json: .*stalled"):
        speed.evictions([record])
    with pytest.raises(AsaError, match="No such file"):
        speed.evictions([tmp_path / "none.json"])


def test_runs_that_are_kept_are_not_played_again(tmp_path, monkeypatch):
    played = []

    def play(command, **_how):
        played.append(command[command.index("--seed") + 1])
        kept(tmp_path, int(played[-1]), stalled=[])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(speed.subprocess, "run", play)
    kept(tmp_path, 202, stalled=[])
    speed.demos(tmp_path, 3, lambda _line: None)
    assert played == ["201", "203"]


def test_a_run_without_a_record_says_what_it_said(tmp_path, monkeypatch):
    done = subprocess.CompletedProcess([], 1, "", "asa: no emulator\n")
    monkeypatch.setattr(speed.subprocess, "run", lambda *_words, **_how: done)
    with pytest.raises(AsaError, match="no emulator"):
        speed.demos(tmp_path, 1, lambda _line: None)
