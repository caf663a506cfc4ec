# SPDX-License-Identifier: GPL-2.0-only
"""The user's word through the real loop: from the request's file by SIGUSR1 to the order for the switcher."""

import os
import signal
import threading
import time
from itertools import pairwise

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


def test_two_samples_never_stand_close_together_whenever_somebody_asks(bench):
    bench.agent.interval_s = 0.4
    began_ns, at_s = [], []

    def note():
        now_ns = bench.agent.state.sample.monotonic_ns
        began_ns.append(now_ns)
        at_s.append((now_ns - began_ns[0]) / 1e9)

    def asked_right_after_a_tick():
        note()
        ask(bench, requests.Resume())

    def asked_right_before_the_next():
        note()
        threading.Timer(0.35, ask, (bench, requests.Resume())).start()

    bench.at |= {1: asked_right_after_a_tick, 2: note, 3: asked_right_before_the_next, 4: note}
    bench.at[5] = lambda: (note(), os.kill(os.getpid(), signal.SIGINT))
    bench.agent.run(limit_s=20.0)
    gaps_s = [b - a for a, b in pairwise(at_s)]
    assert min(gaps_s) >= 0.19, gaps_s  # half an interval; the clock is read before the sample
    assert at_s[1] < 0.39, "whoever asks is heard before the regular tick"
    assert at_s[4] - at_s[3] > 0.41, "the regular tick right behind is left out"
