# SPDX-License-Identifier: GPL-2.0-only
"""The loop keeps what was learned: when, and what if it cannot. Parts around it are scripted."""

from dataclasses import replace

from daemon_bench import ONE, Bench
from msgspec.structs import replace as replace_struct

from asa import daemon
from asa.config import Learn
from asa.core.decision import Reason
from asa.core.errors import AsaError
from asa.decide.learning import Learning, Lessons
from asa.decide.trial_budget import Account


def made_bench():
    """One that learns nothing of time that passes."""
    bench = Bench("scx_one")
    bench.agent.setup = replace(bench.agent.setup, policy=replace_struct(bench.agent.setup.policy, learn=Learn.OFF))
    return bench


def with_lessons(state, lessons):
    return replace(state, books=replace(state.books, lessons=lessons))


def test_what_was_learned_is_kept_at_the_end_and_only_when_it_changed(monkeypatch):
    bench, kept = made_bench(), []
    bench.agent.keep_learning = kept.append
    bench.run(4)
    assert kept == []
    bench, new = made_bench(), Learning(account=Account(tried_s=5.0))

    def learned():
        bench.agent.state = with_lessons(bench.agent.state, Lessons(kept=new))

    bench.agent.keep_learning = kept.append
    bench.at[2] = learned
    bench.run(4)
    assert kept == [new]
    monkeypatch.setattr("asa.daemon._KEEP_S", 0.05)  # and now and then, should the agent be killed
    bench.seen.clear()
    bench.at = {2: lambda: setattr(bench.agent, "state", with_lessons(bench.agent.state, Lessons()))}
    bench.at[8] = lambda: kept.append("then")
    bench.run(10)
    assert kept[1:] == [Learning(), "then"]


def test_that_a_trial_began_is_on_the_disk_before_it_switches(monkeypatch):
    def tried(*given):
        state = step(*given)
        if state.decision.switch_to is None:
            return state
        paid = Lessons(kept=Learning(account=Account(credit_s=0.5)))
        return replace(
            state, decision=replace(state.decision, reason=Reason.TRYING), books=replace(state.books, lessons=paid)
        )

    step, kept = daemon.step, []
    monkeypatch.setattr(daemon, "step", tried)
    bench = made_bench()
    bench.agent.keep_learning = lambda learned: kept.append((learned.account.credit_s, list(bench.machine.orders)))
    bench.run(6)
    assert kept == [(0.5, [])]
    assert bench.machine.orders == [ONE]


def test_what_cannot_be_kept_is_said(monkeypatch):
    bench = Bench("scx_one")

    def full(_):
        raise AsaError("the disk is full")

    bench.agent.keep_learning = full
    bench.at[2] = lambda: setattr(bench.agent, "state", with_lessons(bench.agent.state, Lessons(kept=Learning())))
    bench.run(4)
    assert "the disk is full; it is kept for this run only" in bench.said
