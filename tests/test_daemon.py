# SPDX-License-Identifier: GPL-2.0-only
"""The loop: what it does with switches, signals, settings and faults. Parts around it are scripted."""

import os
import signal
import time

import pytest
from daemon_bench import ONE, TWO, Bench

from asa.core.decision import EEVDF, Permit, Reason, SchedulerName, SwitchOutcome
from asa.core.errors import AsaError, JournalError, SchedulerError
from asa.journal import Journal, SessionHeader
from asa.report.reading import ticks


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


def test_what_cannot_start_is_set_aside_and_the_next_serves():
    bench = Bench("scx_one", "scx_two")
    bench.machine.refuse.add(ONE)
    bench.run(8)
    assert bench.machine.orders == [ONE, TWO]
    assert bench.seen[-1].current == TWO
    assert any("not installed; set aside" in line or "scx_one: not installed" in line for line in bench.said)


def test_an_order_that_did_not_reach_its_scheduler_is_not_held_against_it(monkeypatch):
    def gone(target, why=""):
        raise SchedulerError(scheduler="the helper", reason="the bus has ended")

    bench = Bench("scx_one")
    monkeypatch.setattr(bench.machine, "begin", gone)
    bench.run(4)
    (out,) = bench.agent.state.books.policy.quarantine.outs
    assert (out.words, out.failed_ns) == ("not started: the helper: the bus has ended", ())


def test_what_cannot_start_leaves_the_running_one_in_force():
    bench = Bench("scx_one")
    bench.agent.reload = lambda: bench.made_setup("scx_two")  # now every class wants a scheduler that is not there
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
    assert bench.agent.state.books.policy.stranger


def test_reload_keeps_what_is_in_force_when_the_new_settings_are_wrong():
    bench = Bench("scx_one")
    setup = bench.agent.setup

    def broken():
        raise AsaError("asa.yaml: interval_s: 'x' is not accepted")

    bench.agent.reload = broken
    bench.at[2] = lambda: os.kill(os.getpid(), signal.SIGHUP)
    bench.run(6)
    assert bench.agent.setup is setup
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


def test_when_a_switch_was_stays_after_a_suspend():
    class Clock:
        monotonic_ns = staticmethod(time.monotonic_ns)
        asleep_ns = 0

        def wall_ns(self):
            return time.time_ns() + self.asleep_ns

    bench, began_ns = Bench("scx_one"), time.time_ns()
    bench.agent.clock = Clock()
    bench.at[5] = lambda: setattr(bench.agent.clock, "asleep_ns", 8 * 3600 * 10**9)
    bench.at[8] = lambda: bench.machine.news.append(bench.machine.event(SwitchOutcome.LOST, ONE, ONE))
    bench.run(10)
    (before_ns, up), (after_ns, lost) = bench.agent.counts.lately
    assert (up.outcome, lost.outcome) == (SwitchOutcome.CONFIRMED, SwitchOutcome.LOST)
    assert 0 <= before_ns - began_ns < 20 * 10**9
    assert 0 <= after_ns - began_ns - 8 * 3600 * 10**9 < 20 * 10**9


def test_a_journal_that_fails_is_given_up():
    class Full:
        def add(self, *_):
            raise JournalError("journal: cannot be written: disk full")

    bench = Bench("scx_one")
    bench.agent.journal = Full()
    bench.run(4)
    assert bench.agent.journal is None
    assert sum("going on without a journal" in line for line in bench.said) == 1


def test_a_journal_that_failed_is_tried_again_later(tmp_path, monkeypatch):
    class Full:
        def add(self, *_):
            raise JournalError("journal: cannot be written: disk full")

    bench, tries = Bench("scx_one"), []

    def again(agent):
        tries.append(len(bench.seen))
        if len(tries) < 2:
            return None
        journal = Journal.open(tmp_path / "j")
        journal.begin(SessionHeader(started_ns=1, asa_version="0", host="h", kernel="6", cpus=1))
        return journal

    monkeypatch.setattr("asa.daemon._KEEP_S", 4.5 * bench.agent.interval_s)
    bench.agent.journal, bench.agent.journal_again = Full(), again
    bench.run(20)
    bench.agent.journal.close()
    assert len(tries) == 2
    assert tries[0] >= 3, "not at once"
    assert sum("going on without a journal" in line for line in bench.said) == 1
    with Journal.look(tmp_path / "j") as journal:
        assert journal.ticks(1) == 20 - tries[1]


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
        told = [(one.may_switch, one.may_stand_by) for one in journal.told(1) if one.setup_changed()]
        assert told == [(True, True)]  # the first came before there was a sample: the session's header says it
        heard = [tick.renewed.may_switch for tick in ticks(journal, 1) if tick.renewed is not None]
        assert heard == [True]
