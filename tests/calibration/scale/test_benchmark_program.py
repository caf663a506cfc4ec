# SPDX-License-Identifier: GPL-2.0-only
"""The scale benchmark's C program and who runs it: each mode gives its metrics, and what it starts ends with it."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from waiting import until

from asa.core.errors import AsaError
from calibration.scale import benchmark as scale
from calibration.scale import guest as scale_guest
from calibration.scale.samples import ENERGY, FOREIGN_METRICS, METRICS, Mode

SECONDS = 0.3
STALL_S = 1.0


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return scale.build(tmp_path_factory.mktemp("scale"))


def members(session):
    """Processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == session and words[0] != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("mode", Mode)
def test_each_mode_gives_all_of_its_metrics(program, mode):
    measured = {*METRICS, *FOREIGN_METRICS}
    for _ in range(3):  # a host that stands still for the whole time leaves no sample
        reading = scale_guest.mode_run(program, mode, SECONDS)
        values = {metric.name: metric.value({ENERGY: 1, **reading}) for metric in measured if metric.mode is mode}
        if None not in values.values():
            break
    assert values
    assert all(value is not None and value >= 0.0 for value in values.values())
    assert all(value > 0.0 for name, value in values.items() if not name.startswith("deadlines_"))
    assert reading["took_ns"] > 0.9 * SECONDS * 1e9
    assert all(0 <= value <= reading["took_ns"] for name, value in reading.items() if name.startswith("busy_ns_"))
    if "p99_ns" in reading:
        assert reading["p50_ns"] <= reading["p99_ns"] <= reading["worst_ns"]


def test_periods_that_were_slept_through_count_as_late_and_as_one_wakeup(program):
    command = [str(program), "wakeup", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        status = Path(f"/proc/{process.pid}/status")

        def wakeups():
            return int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])

        until(lambda: wakeups() > 20, "it measures")
        process.send_signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        process.send_signal(signal.SIGCONT)
        reading = scale_guest.parsed(process.communicate(timeout=60)[0])
    assert reading["late_samples"] > 1080  # of 1298
    assert reading["late_p99_ns"] > 0.9 * STALL_S * 1e9
    slept = STALL_S * 1e9 / 2_311_000
    assert reading["samples"] < reading["late_samples"] - 0.9 * slept
    assert reading["worst_ns"] > 0.9 * STALL_S * 1e9
    assert reading["p50_ns"] < 0.1 * STALL_S * 1e9


def test_a_late_frame_makes_no_other_one_late(program):
    command = [str(program), "deadlines", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        time.sleep(1.0)
        process.send_signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        process.send_signal(signal.SIGCONT)
        reading = scale_guest.parsed(process.communicate(timeout=60)[0])
    slept = 4 * STALL_S * 1e9 / 16_666_667
    assert reading["periods"] < 4 * 3e9 / 16_666_667 - 0.8 * slept
    assert reading["missed"] >= 4


def test_hogs_end_with_a_program_that_is_killed(program):
    process = subprocess.Popen([str(program), "burst", "60"], start_new_session=True)
    until(lambda: len(members(process.pid)) > (os.cpu_count() or 1) + 1, "hogs and a storm")
    process.kill()
    process.wait()
    until(lambda: not members(process.pid), "all of it is gone")


def script(folder, text):
    path = folder / "scale"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_mode_that_does_not_end_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(scale_guest, "_EXTRA_S", 0.2)
    hangs = script(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 600 & sleep 600")
    with pytest.raises(AsaError, match=r"wakeup was not done 0\.2 s after its 1 s"):
        scale_guest.mode_run(hangs, Mode.WAKEUP, 1.0)
    session = int((tmp_path / "pid").read_text())
    until(lambda: not members(session), "all of it is gone")


@pytest.mark.parametrize(
    ("text", "words"),
    [("echo no room >&2; exit 3", "ended with code 3: 'no room'"), ("echo p50_ns", r"pipe said 'p50_ns\\n'")],
)
def test_a_mode_that_fails_says_so(tmp_path, text, words):
    with pytest.raises(AsaError, match=words):
        scale_guest.mode_run(script(tmp_path, text), Mode.PIPE, 0.1)


@pytest.mark.parametrize("words", [(), ("wakeup",), ("wakeup", "0"), ("wakeup", "61"), ("wakeup", "nan"), ("x", "1")])
def test_the_program_refuses_what_it_cannot_do(program, words):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: scale throughput|")
