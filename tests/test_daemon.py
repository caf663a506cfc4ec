# SPDX-License-Identifier: GPL-2.0-only
"""The loop: what it does with ticks, switches, signals and faults. Parts around it are scripted."""

import os
import signal
import time
from dataclasses import replace

import pytest

from asa import daemon
from asa.config import GuardSettings, PolicySettings, Voting
from asa.core.decision import (
    EEVDF,
    Judgement,
    Probabilities,
    Reason,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Workload,
)
from asa.core.errors import AsaError, JournalError, SchedulerError
from asa.core.sample import CpuCounters, RawSample, SchedExtState
from asa.daemon import Agent, Permit
from asa.decide.learning import Learning, Lessons
from asa.decide.table import Entry, MappingTable
from asa.journal import Journal, SessionHeader
from asa.pipeline import Rules
from asa.report.reading import ticks

A, B = Workload("a"), Workload("b")
ONE, TWO = SchedulerName("scx_one"), SchedulerName("scx_two")


class Clock:
    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


class Machine:
    """Sampler, classifier and switcher in one: a kernel that obeys at once, or as told."""

    schema = 0
    classes = (A, B)

    def __init__(self):
        self.ops, self.sequence, self.ticks, self.orders, self.rested = "", 0, 0, [], 0
        self.refuse: set[str] = set()
        self.news: list[SwitchEvent] = []

    def sample(self):
        self.ticks += 1
        ticks = (self.ticks, 0, 0, self.ticks, 0, 0, 0, 0)
        cpu = CpuCounters(
            total=ticks,
            cores=((0, ticks),),
            interrupts=0,
            context_switches=0,
            forks=0,
            softirqs=(0,) * 10,
            runnable=1,
            blocked=0,
        )
        state = SchedExtState(state="enabled" if self.ops else "disabled", ops=self.ops, enable_seq=self.sequence)
        return RawSample(monotonic_ns=time.monotonic_ns(), wall_ns=time.time_ns(), cpu=cpu, sched_ext=state)

    def judge(self, frame):
        probabilities = Probabilities(classes=self.classes, values=(1.0, 0.0))
        return Judgement(probabilities=probabilities, score=None, known=True)

    def begin(self, target, why=""):
        self.orders.append(target)
        if target in self.refuse:
            raise SchedulerError(scheduler=target, reason="not installed")
        old = SchedulerName(f"scx_{self.ops}") if self.ops else EEVDF
        self.ops, self.sequence = target.removeprefix("scx_"), self.sequence + 1
        self.news.append(self.event(SwitchOutcome.CONFIRMED, old, target))

    def event(self, outcome, old, new):
        return SwitchEvent(
            monotonic_ns=time.monotonic_ns(),
            outcome=outcome,
            old=old,
            new=new,
            elapsed_ns=1,
            detail=f"{new} {outcome}",
            undo="",
        )

    def poll(self):
        return self.news.pop(0) if self.news else None

    def busy(self):
        return False

    def keep_ready(self, wanted):
        self.wanted = wanted

    def standbys(self):
        return ()

    def descriptors(self):
        return ()

    def look_in_s(self):
        return None

    def current(self):
        return SchedulerName(f"scx_{self.ops}") if self.ops else EEVDF

    def rest(self):
        self.rested += 1
        self.ops = ""
        return True


def table(*ranking):
    entries = tuple(Entry(scheduler=name, why=".") for name in ranking)
    return MappingTable(path="t", machine="m", provenance="p", rankings={A: entries, B: entries})


class Bench:
    def __init__(self, *ranking):
        self.machine, self.said, self.seen = Machine(), [], []
        self.at: dict[int, object] = {}
        self.agent = Agent(
            rules=self.rules(*ranking),
            sampler=self.machine,
            switcher=self.machine,
            clock=Clock(),
            interval_s=0.02,
            journal=None,
            say=self.said.append,
            publish=self.publish,
            reload=lambda: self.rules(*ranking),
        )

    def rules(self, *ranking):
        return Rules(
            classifier=self.machine,
            table=table(*ranking),
            voting=Voting(threshold=0.1),
            policy=PolicySettings(cooldown_s=0.0, dwell_s=0.0),
            name_of_ops=lambda ops: SchedulerName(f"scx_{ops}") if ops in ("one", "two") else None,
            may_switch=True,
            guard=GuardSettings(baseline_s=0.0),
        )

    def publish(self, agent, decision):
        self.seen.append(decision)
        action = self.at.get(len(self.seen))
        if action is not None:
            action()

    def run(self, ticks):
        self.at[ticks] = lambda: os.kill(os.getpid(), signal.SIGINT)
        self.agent.run(limit_s=20.0)
        assert len(self.seen) == ticks


def test_it_switches_and_puts_the_kernel_back():
    bench = Bench("scx_one")
    bench.run(6)
    assert bench.machine.orders == [ONE]
    assert bench.seen[-1].current == ONE
    assert bench.machine.rested == 1
    assert bench.agent.counts.switches == 1
    assert "eevdf -> scx_one" in bench.agent.counts.last_event


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it(sign):
    bench = Bench("scx_one")
    bench.at[2] = lambda: os.kill(os.getpid(), sign)
    bench.agent.run(limit_s=20.0)
    assert len(bench.seen) == 2
    assert bench.machine.rested == 1


def test_handlers_are_given_back():
    before = signal.getsignal(signal.SIGINT)
    Bench("scx_one").run(2)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_was_learned_is_kept_at_the_end_and_only_when_it_changed(monkeypatch):
    bench, kept = Bench("scx_one"), []
    bench.agent.keep_learning = kept.append
    bench.run(4)
    assert kept == []
    bench, new = Bench("scx_one"), Learning(tried_s=5.0)

    def learned():
        bench.agent.state = replace(bench.agent.state, lessons=Lessons(kept=new))

    bench.agent.keep_learning = kept.append
    bench.at[2] = learned
    bench.run(4)
    assert kept == [new]
    monkeypatch.setattr("asa.daemon._KEEP_S", 0.05)  # and now and then, should the agent be killed
    bench.seen.clear()
    bench.at = {2: lambda: setattr(bench.agent, "state", replace(bench.agent.state, lessons=Lessons()))}
    bench.at[8] = lambda: kept.append("then")
    bench.run(10)
    assert kept[1:] == [Learning(), "then"]


def test_what_a_trial_costs_is_on_the_disk_before_it_begins(monkeypatch):
    def tried(*given):
        state = step(*given)
        if state.decision.switch_to is None:
            return state
        paid = Lessons(kept=Learning(credit_s=0.5))
        return replace(state, decision=replace(state.decision, reason=Reason.TRYING), lessons=paid)

    step, kept = daemon.step, []
    monkeypatch.setattr(daemon, "step", tried)
    bench = Bench("scx_one")
    bench.agent.keep_learning = lambda learned: kept.append((learned.credit_s, list(bench.machine.orders)))
    bench.run(6)
    assert kept == [(0.5, [])]
    assert bench.machine.orders == [ONE]


def test_what_cannot_be_kept_is_said(monkeypatch):
    bench = Bench("scx_one")

    def full(_):
        raise AsaError("the disk is full")

    bench.agent.keep_learning = full
    bench.at[2] = lambda: setattr(bench.agent, "state", replace(bench.agent.state, lessons=Lessons(kept=Learning())))
    bench.run(4)
    assert "the disk is full; it is kept for this run only" in bench.said


def test_what_cannot_start_is_set_aside_and_the_next_serves():
    bench = Bench("scx_one", "scx_two")
    bench.machine.refuse.add(ONE)
    bench.run(8)
    assert bench.machine.orders == [ONE, TWO]
    assert bench.seen[-1].current == TWO
    assert any("not installed; set aside" in line or "scx_one: not installed" in line for line in bench.said)


def test_what_cannot_start_leaves_the_running_one_in_force():
    bench = Bench("scx_one")
    bench.agent.reload = lambda: bench.rules("scx_two")  # now every class wants a scheduler that is not there
    bench.machine.refuse.add(TWO)
    bench.at[4] = lambda: os.kill(os.getpid(), signal.SIGHUP)
    bench.run(10)
    assert bench.machine.orders == [ONE, TWO, EEVDF]  # and then the resting place
    assert any("scx_two: not installed; set aside, scx_one stays" in line for line in bench.said)


def test_a_lost_scheduler_is_not_started_again():
    bench = Bench("scx_one", "scx_two")

    def vanish():
        bench.machine.ops = ""  # sysfs shows it some ticks before the process has ended

    bench.at[5] = vanish
    bench.at[8] = lambda: bench.machine.news.append(bench.machine.event(SwitchOutcome.LOST, ONE, ONE))
    bench.run(12)
    assert bench.machine.orders == [ONE, TWO]


def test_a_stranger_means_hands_off():
    bench = Bench("scx_one")
    bench.machine.ops = "layered"
    bench.machine.news.append(bench.machine.event(SwitchOutcome.FOREIGN, EEVDF, SchedulerName("layered")))
    bench.run(6)
    assert bench.machine.orders == []
    assert bench.agent.state.memory.stranger


def test_reload_keeps_what_is_in_force_when_the_new_settings_are_wrong():
    bench = Bench("scx_one")
    rules = bench.agent.rules

    def broken():
        raise AsaError("asa.yaml: interval_s: 'x' is not accepted")

    bench.agent.reload = broken
    bench.at[2] = lambda: os.kill(os.getpid(), signal.SIGHUP)
    bench.run(6)
    assert bench.agent.rules is rules
    assert any("keeping the settings in force" in line for line in bench.said)


def test_reload_takes_new_rules_and_tries_again_what_was_set_aside():
    bench = Bench("scx_one")
    bench.machine.refuse.add(ONE)

    def again():
        bench.machine.refuse.clear()
        os.kill(os.getpid(), signal.SIGHUP)

    bench.at[4] = again
    bench.run(10)
    assert bench.machine.orders == [ONE, ONE]
    assert bench.seen[-1].current == ONE


def test_a_journal_that_fails_is_given_up():
    class Full:
        def add(self, *_):
            raise JournalError("journal: cannot be written: disk full")

    bench = Bench("scx_one")
    bench.agent.journal = Full()
    bench.run(4)
    assert bench.agent.journal is None
    assert sum("going on without a journal" in line for line in bench.said) == 1


class Slow:
    """A clock that takes time to look at, and stands still in between."""

    def __init__(self):
        self.now_ns = 7_000_000_123

    def monotonic_ns(self):
        self.now_ns += 30_000
        return self.now_ns


def test_ticks_do_not_drift():
    bench, clock, starts = Bench("scx_one"), Slow(), []
    bench.agent.interval_s, bench.agent.clock, bench.agent.switcher = 0.001, clock, None
    sample = bench.machine.sample

    def timed():
        starts.append(clock.now_ns)
        clock.now_ns += 400_000  # what a tick takes must not move the next one
        return sample()

    bench.machine.sample = timed
    begun_ns = clock.now_ns
    bench.run(300)
    late_ns = [start - begun_ns - tick * 1_000_000 for tick, start in enumerate(starts)]
    assert all(0 <= late < 200_000 for late in late_ns)  # a few looks at the clock
    assert max(late_ns[-10:]) < max(late_ns[:10]) + 100_000  # and no later in the end than in the beginning
    assert bench.agent.counts.overruns == 0
    assert bench.agent.counts.worst_late_ms == (max(late_ns) - 30_000) / 1e6  # due from the first look on


def test_a_tick_that_overran_makes_the_next_no_later():
    bench, clock = Bench("scx_one"), Slow()
    bench.agent.interval_s, bench.agent.clock, bench.agent.switcher = 0.001, clock, None

    def sleep_long():
        clock.now_ns += 700_000_000

    bench.at[20] = sleep_long
    bench.run(60)
    assert bench.agent.counts.overruns == 1  # this tick overran; those it missed are skipped
    assert bench.agent.counts.worst_late_ms < 1.0  # and the next began at its own time


def test_a_tick_that_begins_late_is_told(monkeypatch):
    bench, clock = Bench("scx_one"), Slow()
    bench.agent.interval_s, bench.agent.clock, bench.agent.switcher = 0.001, clock, None
    wait, waits = bench.agent._wait, []

    def late_once(inbox, next_ns):
        waits.append(next_ns)
        if len(waits) == 30:
            clock.now_ns = next_ns + 5_300_000  # the machine let us sleep for longer
        return wait(inbox, next_ns)

    monkeypatch.setattr(Agent, "_wait", lambda _, *words: late_once(*words))
    bench.run(60)
    assert 5.3 <= bench.agent.counts.worst_late_ms < 5.5


def test_late_ticks_are_skipped_and_counted():
    bench = Bench("scx_one")
    bench.agent.interval_s = 0.2  # long enough that a busy machine makes no tick late by itself
    bench.at[2] = lambda: time.sleep(0.5)  # a tick that takes more than two intervals
    bench.run(5)
    assert bench.agent.counts.overruns == 1


def test_a_descriptor_that_stays_readable_starves_nobody():
    bench = Bench(ONE)
    reader, writer = os.pipe()
    os.write(writer, b"x")
    bench.machine.descriptors = lambda: (reader,)
    bench.agent.interval_s = 0.5
    polls = []
    bench.machine.poll = lambda: polls.append(1)
    began_s, cpu_s = time.monotonic(), time.thread_time()
    bench.run(3)
    os.close(reader)
    os.close(writer)
    assert len(polls) > 2000, "each is looked at"
    assert time.thread_time() - cpu_s < 0.8 * (time.monotonic() - began_s), "and then it pauses"


def test_what_may_be_done_changes_while_it_runs(tmp_path):
    bench = Bench("scx_one")
    permits = [Permit(switch=False, stand_by=False)] * 3 + [Permit(switch=True, stand_by=True)] * 9
    bench.agent.permit = lambda: permits.pop(0)
    bench.agent.journal = Journal.open(tmp_path / "j")
    bench.agent.journal.begin(SessionHeader(started_ns=1, asa_version="0", host="h", kernel="6", cpus=1))
    bench.run(7)
    bench.agent.journal.close()
    assert {one.reason for one in bench.seen[1:3]} == {Reason.OBSERVING}
    assert bench.machine.orders == [ONE]
    with Journal.look(tmp_path / "j") as journal:
        told = [(one.may_switch, one.may_stand_by) for one in journal.told(1) if one.rules_changed()]
        assert told == [(True, True)]  # the first came before there was a sample: the session's header says it
        heard = [tick.renewed.may_switch for tick in ticks(journal, 1) if tick.renewed is not None]
        assert heard == [True]
