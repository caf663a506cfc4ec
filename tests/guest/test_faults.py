# SPDX-License-Identifier: GPL-2.0-only
"""Faults at each step of a switch, with real schedulers: what the kernel then runs, and that nothing stays behind.

Runs as root inside the lab. Here the switcher is driven by itself; `test_agent_faults.py` has the whole agent.
"""

import hashlib
import json
import os
import shutil
import signal
import time
import traceback
from contextlib import suppress
from pathlib import Path

import pytest
import standins
from agents import (
    LIMIT_S,
    OWNER,
    SECOND_CPU,
    SYS,
    attached,
    clean_machine,
    event_of,
    events_until,
    eventually,
    gated,
    other_portfolio,
    pid_of,
    scheduler_processes,
    settings_now,
    start_by_hand,
    switched,
)

from asa import paths
from asa.act import settings
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.priority import Pace
from asa.act.undo import UndoJournal
from asa.core.decision import EEVDF, ExitKind, SchedulerName, SwitchOutcome, Way
from asa.core.errors import SchedulerError

SIMPLE, FIFO, FLASH = SchedulerName("scx_simple"), SchedulerName("scx_simple:fifo"), SchedulerName("scx_flash")
STEPS = ("launched", "parked", "expedited", "detached", "released", "attached", "settled")
CONFIRMED, REFUSED, FAILED, LOST = (
    SwitchOutcome.CONFIRMED,
    SwitchOutcome.REFUSED,
    SwitchOutcome.FAILED,
    SwitchOutcome.LOST,
)


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


class Fault:
    """Does something once, at one step of a switch."""

    def __init__(self):
        self.step, self.do = "", None

    def __call__(self, step):
        if step == self.step:
            self.step = ""
            self.do()


@pytest.fixture
def fault():
    return Fault()


@pytest.fixture
def make(tmp_path, fault):
    """Makes a switcher, which comes to rest after the test."""
    made = []

    def make(portfolio=None, **limits):
        made.append(gated(tmp_path, portfolio, fault, **limits))
        return made[-1]

    yield make
    left = [switcher for switcher in made if not switcher.rest()]
    assert not left


@pytest.fixture
def switcher(make):
    return make()


def kill(name):
    pid = pid_of(name)
    with suppress(ProcessLookupError):  # it has ended already
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def qos():
    return {value for name, value in settings_now().items() if name.endswith("pm_qos_resume_latency_us")}


def as_it_should_be():
    """What is attached has its process and its settings, and there is nothing else."""
    state = sched_ext_state(SYS)
    if state.state not in ("enabled", "disabled") or settings_now()[settings.RCU_EXPEDITED] != "0":
        return False
    return len(scheduler_processes()) == bool(attached()) and qos() == {"32" if "flash" in attached() else "0"}


# What may come of it: outcomes of the switch from scx_simple to scx_flash and of what ended beside it, and what runs.
# Where two are given, the dead process may or may not have been noticed before the old one was taken out.
OLD_DIES = {step: [([LOST, CONFIRMED], "flash"), ([CONFIRMED], "flash")] for step in STEPS}
NEW_DIES = {
    "launched": [([REFUSED], "simple")],
    "parked": [([REFUSED], "simple"), ([FAILED], "")],
    "expedited": [([REFUSED], "simple"), ([FAILED], "")],
    "detached": [([FAILED], "")],
    "released": [([FAILED], ""), ([CONFIRMED, LOST], "")],
    "attached": [([CONFIRMED, LOST], "")],
    "settled": [([CONFIRMED, LOST], "")],
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("victim", "allowed"), [(SIMPLE, OLD_DIES), (FLASH, NEW_DIES)], ids=["old", "new"])
def test_a_scheduler_killed_at_each_step(switcher, fault, victim, allowed, step):
    switched(switcher, SIMPLE)
    hit = []
    fault.step, fault.do = step, lambda: (hit.append(step), kill(victim))
    switcher.begin(FLASH)
    events = events_until(switcher, lambda: hit and not switcher.busy() and as_it_should_be())
    came = [event.outcome for event in events], attached().partition("_")[0]
    assert came in allowed[step], events
    assert all(event.new == FLASH for event in events if event.outcome is not LOST)
    assert switcher.current() == {"simple": SIMPLE, "flash": FLASH, "": EEVDF}[came[1]]
    following = FIFO if came[1] == "simple" else SIMPLE
    assert switched(switcher, following).gap_ns < 5e9


@pytest.mark.parametrize("step", STEPS)
def test_an_agent_killed_at_each_step(tmp_path, step):
    agent = os.fork()
    if agent == 0:
        try:
            fault = Fault()
            switcher = gated(tmp_path, on_step=fault)
            switched(switcher, SIMPLE)
            switcher.keep_ready((FIFO,))
            events_until(switcher, lambda: switcher.standbys()[0].ready)
            fault.step, fault.do = step, lambda: os.kill(os.getpid(), signal.SIGKILL)
            switcher.begin(FLASH)
            event_of(switcher)
        except Exception:  # noqa: BLE001  # in a child, where nobody else tells of it
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(agent, 0)[1]) == -signal.SIGKILL
    assert eventually(lambda: not scheduler_processes(), 20.0), scheduler_processes()  # by themselves
    assert eventually(lambda: attached() == "", 5.0)
    undo = UndoJournal(tmp_path / "undo.json")
    assert eventually(lambda: undo.leftover() == (), 5.0)  # one that ends has no command line, and is no zombie yet
    undo.recover(LIMIT_S)
    assert qos() == {"0"}
    assert settings_now()[settings.RCU_EXPEDITED] == "0"
    assert not (tmp_path / "undo.json").exists()


def instead_of(name, folder, standin):
    """The host's portfolio, with a stand-in for one of them."""
    cache = other_portfolio(folder, **{name: standin(folder)})
    return Portfolio.load(paths.manifest(), cache / "asa/scx", owners=[OWNER])


@pytest.mark.parametrize(
    ("standin", "outcome", "said"),
    [
        (standins.sleeps, REFUSED, "was not ready to attach within 15 s and was stopped"),
        (standins.quits, REFUSED, "ended by itself with code 7; it said: 'Error: I never work'"),
        (standins.attaches_nothing, FAILED, "did not attach within 15 s"),
        (standins.dies_at_its_attach, FAILED, "ended by itself with code 7; it said: 'Error: I never work'"),
    ],
    ids=["never attaches", "dies while it loads", "attaches nothing", "dies at its attach"],
)
def test_one_that_does_not_come_up(tmp_path, make, standin, outcome, said):
    switcher = make(instead_of(FLASH, tmp_path, standin), attach_limit_s=15.0)
    switched(switcher, SIMPLE)
    switcher.begin(FLASH)
    event = event_of(switcher)
    assert (event.outcome, event.old, event.new) == (outcome, SIMPLE, FLASH)
    assert said in event.detail
    assert (event.gap_ns is None) == (outcome is REFUSED)
    assert attached() == ("simple" if outcome is REFUSED else "")
    assert not events_until(switcher, as_it_should_be)


def test_one_that_stalls_is_taken_out_by_the_kernel(tmp_path, make):
    switcher = make(instead_of(SIMPLE, tmp_path, standins.loses))
    switched(switcher, SIMPLE)
    victim = os.fork()
    if victim == 0:
        os.sched_setscheduler(0, 7, os.sched_param(0))  # SCHED_EXT
        for _ in range(100):
            time.sleep(0.01)  # and is not woken again
        os._exit(0)
    event = event_of(switcher)
    assert (event.outcome, event.new) == (LOST, SIMPLE)
    assert event.exit.kind is ExitKind.STALL
    assert event.exit.source == "the kernel's log"
    assert "failed to run for" in event.exit.reason
    assert attached() == ""
    assert os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == 0  # it goes on under the kernel's own
    switched(switcher, FLASH)


def test_another_scheduler_started_by_hand(switcher, fault):
    switched(switcher, FLASH)
    stranger = start_by_hand(SIMPLE)
    assert not events_until(switcher, lambda: stranger.poll() is not None)  # the kernel has room for one
    assert stranger.returncode != 0
    assert attached().startswith("flash")
    assert switcher.current() == FLASH
    switched(switcher, EEVDF)
    stranger = start_by_hand(SIMPLE)
    fault.step, fault.do = "parked", lambda: eventually(lambda: attached() == "simple")
    for target in (FLASH, FLASH, EEVDF):  # it comes while ours loads; it is there; it is not ours to take out
        switcher.begin(target)
        event = event_of(switcher)
        assert (event.outcome, event.new) == (SwitchOutcome.FOREIGN, SIMPLE)
        assert attached() == "simple"
        assert not switcher.busy()
    fault.step = ""  # the first may have been given up before it was parked
    stranger.send_signal(signal.SIGINT)
    assert stranger.wait(LIMIT_S) == 0
    assert not events_until(switcher, lambda: attached() == "")
    switched(switcher, SIMPLE)


def test_sysrq_while_the_next_loads_is_for_both(switcher, fault):
    switched(switcher, SIMPLE)
    fault.step, fault.do = "launched", lambda: Path("/proc/sysrq-trigger").write_text("S")
    switcher.begin(FLASH)
    events = [event_of(switcher), event_of(switcher)]
    assert [(event.outcome, event.new) for event in events] == [(REFUSED, FLASH), (LOST, SIMPLE)]
    assert {event.exit.kind for event in events} == {ExitKind.SYSRQ}
    assert not events_until(switcher, as_it_should_be)
    assert attached() == ""


def test_a_binary_replaced_between_check_and_run(tmp_path, make, monkeypatch):
    original, replacement = tmp_path / "scx_simple", tmp_path / "replacement"
    records = json.loads((paths.default().schedulers / "installed.json").read_text())
    shutil.copy(records["schedulers"]["scx_simple"]["path"], original)
    sha256 = hashlib.sha256(original.read_bytes()).hexdigest()
    replacement.write_text(f"#!/bin/sh\ntouch {tmp_path}/it-ran\nexec sleep 1000\n")
    replacement.chmod(0o755)
    cache = other_portfolio(tmp_path, scx_simple=original)
    portfolio = Portfolio.load(paths.manifest(), cache / "asa/scx", owners=[OWNER])
    check = portfolio.open

    def check_then_replace(*words):
        opened = check(*words)
        replacement.rename(original)
        return opened

    monkeypatch.setattr(portfolio, "open", check_then_replace)
    switcher = make(portfolio)
    switched(switcher, SIMPLE)
    assert hashlib.sha256(Path(f"/proc/{pid_of(SIMPLE)}/exe").read_bytes()).hexdigest() == sha256
    with pytest.raises(SchedulerError, match="is not the recorded file"):
        switcher.begin(FIFO)
    assert not switcher.busy()
    assert attached() == "simple"
    assert not (tmp_path / "it-ran").exists()


@pytest.fixture
def second_cpu():
    yield
    SECOND_CPU.write_text("1")


def flip():
    SECOND_CPU.write_text("0")
    SECOND_CPU.write_text("1")


@pytest.mark.parametrize("step", ["parked", "attached"])
@pytest.mark.parametrize(("first", "then"), [(SIMPLE, FLASH), (FLASH, SIMPLE)], ids=["to flash", "to simple"])
def test_a_processor_that_goes_and_comes_during_a_switch(switcher, fault, second_cpu, first, then, step):
    switched(switcher, first)
    fault.step, fault.do = step, flip
    switcher.begin(then)
    event = event_of(switcher)
    assert (event.outcome, event.new) == (CONFIRMED, then), event
    assert not events_until(switcher, as_it_should_be)  # it may have to load itself anew, which is no failure
    assert attached().startswith(then.removeprefix("scx_"))
    assert switched(switcher, first).gap_ns < 5e9


def test_one_that_starts_over_for_a_processor_is_still_ours(switcher, second_cpu):
    switched(switcher, SIMPLE)
    sequence = sched_ext_state(SYS).enable_seq
    SECOND_CPU.write_text("0")
    assert not events_until(switcher, lambda: sched_ext_state(SYS).enable_seq > sequence and attached() == "simple")
    assert switched(switcher, FLASH).gap_ns < 5e9  # its link is another one now


def test_one_that_is_starting_over_does_not_come_back(switcher, second_cpu):
    switched(switcher, SIMPLE)
    simple, sequence = pid_of(SIMPLE), sched_ext_state(SYS).enable_seq
    SECOND_CPU.write_text("0")
    assert eventually(lambda: attached() == "")
    os.kill(simple, signal.SIGSTOP)  # in the middle of it
    try:
        switched(switcher, EEVDF)
    finally:
        os.kill(simple, signal.SIGCONT)
    assert not events_until(switcher, lambda: simple not in scheduler_processes())
    assert (sched_ext_state(SYS).enable_seq, attached()) == (sequence, "")


def test_standbys_are_loaded_for_the_processors_there_are(switcher, second_cpu):
    switched(switcher, SIMPLE)
    switcher.keep_ready((FLASH,))
    events_until(switcher, lambda: switcher.standbys()[0].ready)
    before = pid_of(FLASH)
    flip()
    events_until(switcher, lambda: attached() == "simple")
    switcher.keep_ready((FLASH,))
    events_until(switcher, lambda: before not in scheduler_processes())
    switcher.keep_ready((FLASH,))
    events_until(switcher, lambda: switcher.standbys() and switcher.standbys()[0].ready)
    assert pid_of(FLASH) != before
    assert switched(switcher, FLASH).way is Way.STANDBY


def test_a_standby_loads_behind_ordinary_tasks_and_serves_as_one(switcher):
    switched(switcher, SIMPLE)
    switcher.keep_ready((FLASH,))
    assert os.getpriority(os.PRIO_PROCESS, pid_of(FLASH)) == Pace.PATIENT
    events_until(switcher, lambda: switcher.standbys()[0].ready)
    assert switched(switcher, FLASH).way is Way.STANDBY
    assert os.getpriority(os.PRIO_PROCESS, pid_of(FLASH)) == Pace.ORDINARY


def test_a_standby_that_dies_is_replaced_without_a_word(switcher):
    switched(switcher, SIMPLE)
    switcher.keep_ready((FLASH,))
    events_until(switcher, lambda: switcher.standbys()[0].ready)
    before = pid_of(FLASH)
    os.kill(before, signal.SIGKILL)
    assert not events_until(switcher, lambda: not switcher.standbys())
    switcher.keep_ready((FLASH,))
    assert not events_until(switcher, lambda: switcher.standbys()[0].ready)
    os.kill(pid_of(FLASH), signal.SIGKILL)
    assert not events_until(switcher, lambda: not switcher.standbys())
    switcher.keep_ready((FLASH,))
    assert switcher.standbys() == ()  # not again and again
    assert switched(switcher, FLASH).way is Way.GATED  # but when it is wanted


def test_a_standby_that_died_just_before_it_was_wanted_is_loaded_again(switcher):
    switched(switcher, SIMPLE)
    switcher.keep_ready((FLASH,))
    events_until(switcher, lambda: switcher.standbys()[0].ready)
    gate = switcher._pool.get(FLASH)
    os.kill(pid_of(FLASH), signal.SIGKILL)
    assert eventually(lambda: not gate.waits())
    event = switched(switcher, FLASH)
    assert event.way is Way.GATED
    assert event.gap_ns < event.load.wall_ns  # the old one stayed meanwhile


def test_a_standby_that_was_stopped_and_goes_on_still_waits(switcher):
    switcher.keep_ready((FLASH,))
    events_until(switcher, lambda: switcher.standbys()[0].ready)
    gate = switcher._pool.get(FLASH)
    os.kill(pid_of(FLASH), signal.SIGSTOP)  # a suspend stops it in the same way
    events_until(switcher, lambda: not gate.waits())
    os.kill(pid_of(FLASH), signal.SIGCONT)
    assert not events_until(switcher, gate.waits)
    assert attached() == ""  # it did not attach by itself
    assert switched(switcher, FLASH).way is Way.STANDBY
