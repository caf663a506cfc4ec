# SPDX-License-Identifier: GPL-2.0-only
"""How long the helper is waited for, and what is tried again: it may take minutes, and a word of it may never come."""

from types import SimpleNamespace

from asa.act.helper_link import HelperLink
from asa.act.remote import RemoteSwitcher
from asa.act.remote_probes import ProbeFetch
from asa.bus import CallError
from asa.clock import SystemClock
from asa.core.decision import SchedulerName
from asa.core.helper_api import PROBES_LIMIT_S, Failure, LeaseFacts


def test_orders_and_probes_wait_as_long_as_the_probes_may_take(tmp_path):
    limits_s = {}

    def send(*words, limit_s, **_):
        limits_s[words[3]] = limit_s

    link = HelperLink(lambda: None, SystemClock(), print)
    link.facts, link._bus = LeaseFacts(way="gated", no_gate="", approved=()), SimpleNamespace(send=send)
    switcher = RemoteSwitcher(
        link=link, portfolio=SimpleNamespace(), clock=SystemClock(), sys=tmp_path, answer_limit_s=0.0
    )
    link.probes(lambda _: None)
    switcher.begin(SchedulerName("scx_flash"))
    assert limits_s == {"Probes": PROBES_LIMIT_S, "Switch": PROBES_LIMIT_S}
    assert switcher.busy()
    link.advance = lambda: None
    assert switcher.poll() is None  # its own limit begins when the helper has taken the order
    switcher._answered(())
    assert "did not say" in switcher.poll().detail


class Clock:
    """Time that a test moves."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic_ns(self):
        return int(self.now_s * 1e9)


class Side:
    """A link with a lease on a bus that a test answers for."""

    def __init__(self, sys):
        self.calls, self.clock = [], Clock()
        self.link = HelperLink(lambda: None, self.clock, lambda _: None)
        self.link.facts = LeaseFacts(way="gated", no_gate="", approved=("scx_flash",))
        self.link._again_ns = self.clock.monotonic_ns() + int(600e9)
        self.link._bus = SimpleNamespace(send=self.send, advance=lambda: None, due_in_s=lambda: None)
        self.switcher = RemoteSwitcher(
            link=self.link, portfolio=SimpleNamespace(), clock=self.clock, sys=sys, answer_limit_s=1.0
        )

    def send(self, *words, then, **_):
        self.calls.append((words[3], then))

    def names(self):
        return [name for name, _ in self.calls]


def test_a_lease_that_the_helper_denies_is_asked_for_again(tmp_path):
    side = Side(tmp_path)
    side.switcher.begin(SchedulerName("scx_flash"))
    side.calls[-1][1](CallError(Failure.NO_LEASE, "only who has the lease may do this"))
    assert side.link.facts is None
    assert "has ended" in side.link.lacking
    side.clock.now_s += 2.0
    side.link.advance()
    assert side.names() == ["Switch", "Acquire"]


def test_standbys_that_were_refused_are_asked_for_again(tmp_path):
    side, wanted = Side(tmp_path), (SchedulerName("scx_flash"),)
    side.switcher.keep_ready(wanted)
    side.calls[-1][1](CallError(Failure.BUSY, "ask again later"))
    side.clock.now_s += 5.0
    side.switcher.keep_ready(wanted)
    assert side.names() == ["KeepReady"]
    side.clock.now_s += 30.0
    side.switcher.keep_ready(wanted)
    assert side.names() == ["KeepReady"] * 2
    side.calls[-1][1](())
    side.clock.now_s += 60.0
    side.switcher.keep_ready(wanted)
    assert side.names() == ["KeepReady"] * 2


def test_probes_that_were_refused_under_a_lease_are_asked_for_again(tmp_path):
    side = Side(tmp_path)
    fetch = ProbeFetch(side.link)
    fetch._ask()
    side.calls[-1][1](CallError(Failure.NOT_AUTHORIZED, "polkit did not answer in time"))
    side.link.advance()
    assert side.names() == ["Probes"]
    side.clock.now_s += 601.0
    side.link.advance()
    side.link.advance()
    assert side.names() == ["Probes"] * 2
