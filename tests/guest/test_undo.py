# SPDX-License-Identifier: GPL-2.0-only
"""What real schedulers leave behind in the kernel's settings, and that the undo journal puts it back.

Runs as root inside the lab. scx_flash sets pm_qos_resume_latency_us while it loads and restores it only when it ends in
order after it was attached.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from asa import paths
from asa.act import settings
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal, start_ticks
from asa.core.decision import SchedulerName

SYS = Path("/sys")
LIMIT_S = 90.0  # emulated, on a shared host
OWNER = paths.default().cache.stat().st_uid  # who ran the tests on the host built the schedulers
QOS = "pm_qos_resume_latency_us"
FLASH = SchedulerName("scx_flash")

# The agent up to a parked scheduler, and then nothing more.
AGENT = """
import os, select, signal, sys
from pathlib import Path
from asa import paths
from asa.act.gate import Stage, launch
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal
from asa.core.decision import SchedulerName
folder, how = Path(sys.argv[1]), sys.argv[2]
portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers, owners=[int(sys.argv[3])])
undo = UndoJournal(folder / "undo.json")
undo.keep_settings()
opened, values = portfolio.open(SchedulerName("scx_flash")), undo.remembered() if how == "copies" else {}
gated = launch(opened, folder / "log", folder, values=values)
undo.note("scx_flash", gated.process.pid)
while gated.stage is not Stage.PARKED:
    select.select([gated.fileno()], [], [], 60.0)
    gated.advance()
if how == "settled":
    undo.settled(gated.process.pid)
print(gated.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
# A mount namespace with copies of the settings, then the scheduler.
COPIED = """
import os, sys
from pathlib import Path
from asa.act import settings
names = {name: settings.read(Path("/sys"), name) for name in settings.files(Path("/sys"))}
settings.give_copies(Path("/sys"), Path("/run"), names)
fd = int(sys.argv[1])
os.execv(f"/proc/self/fd/{fd}", sys.argv[2:])
"""


def now():
    return {name: settings.read(SYS, name) for name in (*settings.files(SYS), settings.RCU_EXPEDITED)}


def qos():
    return {value for name, value in now().items() if name.endswith(QOS)}


@pytest.fixture
def journal(tmp_path):
    return UndoJournal(tmp_path / "undo.json")


@pytest.fixture(autouse=True)
def unchanged():
    before = now()
    assert qos() == {"0"}
    assert before[settings.RCU_EXPEDITED] == "0"
    yield
    until(lambda: sched_ext_state(SYS).state == "disabled", "sched_ext disabled", LIMIT_S)
    assert now() == before
    assert not list(Path("/run").glob("copy-*"))


def start(name, *words, wrapper=()):
    opened = Portfolio.load(paths.manifest(), paths.default().schedulers, owners=[OWNER]).open(SchedulerName(name))
    argv = [*opened.argv, *words]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        if wrapper:
            command = [*wrapper, sys.executable, "-c", COPIED, str(opened.fd), *argv]
            return subprocess.Popen(command, pass_fds=(opened.fd,), **quiet)
        return subprocess.Popen(argv, executable=f"/proc/self/fd/{opened.fd}", pass_fds=(opened.fd,), **quiet)
    finally:
        os.close(opened.fd)


def attached(name):
    state = sched_ext_state(SYS)
    return state.state == "enabled" and state.ops.startswith(name.removeprefix("scx_"))


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "not settled"])
@pytest.mark.parametrize(
    ("name", "words", "left"),
    [("scx_flash", (), "32"), ("scx_bpfland", ("--idle-resume-us", "20"), "20"), ("scx_bpfland", (), "0")],
    ids=["flash", "bpfland told to", "bpfland"],
)
def test_what_a_killed_scheduler_leaves_is_put_back(journal, tmp_path, name, words, left, settled):
    journal.keep_settings()
    scheduler = start(name, *words)
    journal.note(name, scheduler.pid)
    until(lambda: attached(name), f"{name} attached", LIMIT_S)
    if settled:
        journal.settled(scheduler.pid)
        assert qos() == {"0"}
        journal.apply(scheduler.pid)
    assert qos() == {left}
    scheduler.kill()
    scheduler.wait(LIMIT_S)
    assert qos() == {left}  # the kernel puts nothing back
    said = UndoJournal(tmp_path / "undo.json").recover(LIMIT_S)
    assert qos() == {"0"}
    assert (said is None) == (left == "0")
    assert left == "0" or f"{QOS} of 2 CPUs: {left} -> 0" in said


def test_one_that_ends_in_order_restores_what_it_set(journal):
    journal.keep_settings()
    scheduler = start(FLASH)
    journal.note(FLASH, scheduler.pid)
    until(lambda: attached(FLASH), "flash attached", LIMIT_S)
    assert qos() == {"32"}
    scheduler.send_signal(signal.SIGINT)
    assert scheduler.wait(LIMIT_S) == 0
    assert qos() == {"0"}
    journal.forget(scheduler.pid)
    assert journal.put_back() == []


@pytest.mark.parametrize("how", ["settled", "not settled", "copies"])
def test_an_agent_killed_with_a_parked_scheduler_leaves_nothing(tmp_path, how):
    words = [sys.executable, "-c", AGENT, str(tmp_path), how, str(OWNER)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    assert qos() == ({"32"} if how == "not settled" else {"0"})
    UndoJournal(tmp_path / "undo.json").recover(LIMIT_S)
    assert start_ticks(pid) is None
    assert sched_ext_state(SYS).state == "disabled"
    assert qos() == {"0"}


def test_what_one_with_copies_sets_reaches_nobody_until_it_is_applied(journal):
    journal.keep_settings()
    scheduler = start(FLASH, wrapper=("unshare", "--mount", "--propagation", "private"))
    journal.note(FLASH, scheduler.pid)
    until(lambda: attached(FLASH), "flash attached", LIMIT_S)
    assert qos() == {"0"}
    journal.settled(scheduler.pid)
    assert qos() == {"0"}
    journal.apply(scheduler.pid)
    assert qos() == {"32"}
    scheduler.send_signal(signal.SIGINT)
    assert scheduler.wait(LIMIT_S) == 0
    assert qos() == {"32"}  # it restored its copies
    journal.forget(scheduler.pid)
    assert journal.put_back() == [f"{QOS} of 2 CPUs: 32 -> 0"]


def test_grace_periods_left_short_by_a_killed_agent_go_back(tmp_path):
    agent = os.fork()
    if agent == 0:
        UndoJournal(tmp_path / "undo.json").expedite()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(agent, 0)
    assert now()[settings.RCU_EXPEDITED] == "1"
    said = UndoJournal(tmp_path / "undo.json").recover(1.0)
    assert said == "settings it had changed: rcu_expedited: 1 -> 0"
    assert now()[settings.RCU_EXPEDITED] == "0"
