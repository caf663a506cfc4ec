# SPDX-License-Identifier: GPL-2.0-only
"""The user's word through the real loop: from the request's file by SIGUSR1 to the order for the switcher."""

import os
import select
import signal
import time
from dataclasses import replace

import pytest
from daemon_bench import ONE, TWO, Bench

from asa import requests
from asa.core.decision import EEVDF, Reason, SwitchOutcome


@pytest.fixture
def bench(tmp_path):
    bench = Bench("scx_one")
    bench.folder = tmp_path
    bench.agent.take_orders = lambda: tuple(requests.order(one, time.time_ns()) for one in requests.take(tmp_path))
    return bench


def ask(bench, request):
    requests.send(bench.folder, request)
    requests.wake(os.getpid())


def test_a_hold_keeps_what_runs_and_ends_when_its_time_has_come(bench):
    def taken_out():
        bench.machine.news.append(bench.machine.event(SwitchOutcome.CONFIRMED, ONE, EEVDF))
        bench.machine.ops = ""

    bench.at[5] = lambda: ask(bench, requests.Hold(until_ns=time.time_ns() + 3600 * 10**9))
    bench.at[10] = taken_out
    bench.at[20] = lambda: ask(bench, requests.Hold(until_ns=0))
    bench.run(30)
    assert {decision.reason for decision in bench.seen[12:20]} == {Reason.HOLD}
    assert "held by the user until" in bench.seen[12].sentence
    assert bench.machine.orders == [ONE, ONE]


def test_a_choice_is_ordered_in_the_tick_that_hears_it_and_stays(bench):
    bench.at[5] = lambda: ask(bench, requests.Switch(scheduler="scx_two"))
    bench.at[20] = lambda: ask(bench, requests.Resume())
    bench.run(30)
    assert bench.machine.orders == [ONE, TWO, ONE]
    heard = next(place for place, one in enumerate(bench.seen) if one.reason is Reason.BY_HAND)
    assert heard in (5, 6)
    assert {decision.reason for decision in bench.seen[heard + 1 : 20]} == {Reason.HOLD}


def test_a_choice_that_cannot_be_started_ends_on_hold(bench):
    bench.machine.refuse.add(TWO)
    bench.at[5] = lambda: ask(bench, requests.Switch(scheduler="scx_two"))
    bench.run(15)
    assert bench.machine.orders == [ONE, TWO]
    assert bench.agent.state.books.policy.hold == (
        "scx_two, chosen by hand, could not be loaded, and what ran goes on (scx_two: not installed);"
        " held by the user until `asa resume`"
    )
    assert bench.agent.state.books.policy.set_aside == frozenset()


class Time:
    """Time that passes while the loop waits, and never else; at a moment something may be done."""

    def __init__(self):
        self.now_ns, self.at = time.monotonic_ns(), {}

    def monotonic_ns(self):
        return self.now_ns

    def wall_ns(self):
        return self.now_ns + 10**18

    def select(self, reads, _writes, _errors, timeout_s):
        ready = select.select(reads, [], [], 0.0)[0]
        if ready:
            return ready, [], []
        end_ns = self.now_ns + int(timeout_s * 1e9) + 1
        due_ns = min((at_ns for at_ns in self.at if at_ns < end_ns), default=None)
        self.now_ns = end_ns if due_ns is None else due_ns
        self.at.pop(due_ns, lambda: None)()
        return select.select(reads, [], [], 0.0)[0], [], []


def test_two_samples_never_stand_close_together_whenever_somebody_asks(bench, monkeypatch):
    passing, at_s = Time(), []
    monkeypatch.setattr("asa.daemon.select", passing)
    bench.agent.clock, bench.agent.interval_s = passing, 0.4
    sample = bench.machine.sample
    bench.machine.sample = lambda: replace(sample(), monotonic_ns=passing.now_ns, wall_ns=passing.wall_ns())
    began_ns = passing.now_ns

    def note():
        at_s.append((bench.agent.state.sample.monotonic_ns - began_ns) / 1e9)

    def asked_right_after_a_tick():
        note()
        ask(bench, requests.Resume())

    def asked_right_before_the_next():
        note()
        passing.at[passing.now_ns + 350_000_000] = lambda: ask(bench, requests.Resume())

    bench.at |= {1: asked_right_after_a_tick, 2: note, 3: asked_right_before_the_next, 4: note}
    bench.at[5] = lambda: (note(), os.kill(os.getpid(), signal.SIGINT))
    bench.agent.run(limit_s=20.0)
    # who asks is heard before the regular tick, half an interval after the last; the one right behind is left out
    assert at_s == pytest.approx([0.0, 0.2, 0.8, 1.15, 1.6], abs=1e-6)
