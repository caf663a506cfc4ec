# SPDX-License-Identifier: GPL-2.0-only
"""One question at a time: a real child, the budget, and faults."""

import os

import pytest
import waiting
from model_server import MODEL, QUESTION, Bench

from asa import wire
from asa.adviser.asking import Answer, Asker, Child, Question

S = 10**9


def test_a_child_asks_and_ends(server):
    asker = Asker(20)
    assert asker.begin(Question(url=server.url, model="", way="", remote=False, program="zap"), 0) == ""
    assert asker.busy
    found = waiting.until(lambda: asker.heard(0), "an answer")
    assert found == Answer(kind="compress", sure="high", way="schema", model=MODEL)
    assert not asker.busy


def test_a_child_that_is_given_up_is_gone():
    child = Child(wire.json_bytes(QUESTION))
    child.end()
    with pytest.raises(ProcessLookupError):
        os.kill(child._process.pid, 0)


def test_one_at_a_time_and_no_more_than_so_many_an_hour():
    bench = Bench(per_hour=2)
    assert bench.asker.may(0)
    assert bench.asker.begin(QUESTION, 0) == ""
    assert not bench.asker.may(0)
    bench.toys[0].text = b'{"kind": "none", "sure": "low", "way": "plain", "model": "a"}'
    assert bench.asker.heard(1 * S) == Answer(kind="none", sure="low", way="plain", model="a")
    assert bench.asks(10, bench.toys[0].text).kind == "none"
    assert not bench.asker.may(3599 * S)
    assert bench.asker.may(3600 * S)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"kind": 1}', b'{"error": "' + b"x" * 300 + b'"}', b"[" * 4096])
def test_what_a_child_says_is_checked_and_a_fault_is_waited_after(text):
    bench = Bench()
    assert bench.asks(0, text).error == "no answer in time"
    assert not bench.asker.may(59 * S)
    assert bench.asker.may(60 * S)
    assert bench.asks(60, b'{"error": "connection refused"}').error == "connection refused"
    assert not bench.asker.may(179 * S)
    assert bench.asker.may(180 * S)
    assert bench.asks(180, b'{"kind": "none"}').error == ""
    assert bench.asks(180, b"").error
    assert bench.asker.may(240 * S)  # an answer began the doubling anew


def test_a_child_that_never_ends_is_ended():
    bench = Bench()
    assert bench.asker.begin(QUESTION, 0) == ""
    assert bench.asker.heard(39 * S) is None
    assert bench.asker.heard(40 * S).error == "no answer in time"
    assert bench.toys[0].ended
    assert not bench.asker.busy


def test_no_child_can_be_started():
    def none(_):
        raise OSError(11, "Resource temporarily unavailable")

    asker = Asker(20, none)
    assert "cannot be started: Resource temporarily" in asker.begin(QUESTION, 0)
    assert not asker.busy
    assert not asker.may(1 * S)
