# SPDX-License-Identifier: GPL-2.0-only
"""Live learning in the whole step: what a run of the agent teaches the next one, and that a journal replays to the same
decisions with it."""

from dataclasses import replace

import msgspec
import pytest
from pipeline_machine import ONE, TWO, A, B, Machine

from asa import assembly, wire
from asa.config import PolicySettings
from asa.core.decision import EEVDF, Order, OrderKind, Reason, SwitchOutcome
from asa.decide import learning
from asa.decide.account import Accountant
from asa.decide.books import Books
from asa.decide.learning import TRIAL_S, Comparison, Learning, begin
from asa.decide.policy_state import Now
from asa.decide.table import Entry
from asa.decide.tablefile import Cost
from asa.journal import Journal, SessionHeader
from asa.pipeline import State
from asa.replay import replay
from asa.report.reading import ticks

OWN = Entry(scheduler="eevdf", why=".")
ALLOWED = PolicySettings(cooldown_s=10.0, explore_share=0.1)


def bad_one(scheduler):
    return 0.7 if scheduler == ONE else 0.1


def test_what_is_worse_run_after_run_is_not_chosen_any_more():
    kept, runs = Learning(), 0
    while True:
        machine = Machine()  # the bar of the last run has passed, say: its standing is left out
        machine.state = State(books=Books(lessons=begin(kept, machine.setup.versions)))
        decisions = machine.run(90, A, bad_one)
        if not any(decision.reason is Reason.REVERTED for decision in decisions):
            break
        runs += 1
        assert runs < 20
        kept = wire.from_json(wire.json_bytes(machine.state.books.lessons.kept), Learning)
    assert runs == 13
    assert machine.attached == EEVDF
    assert {decision.wanted for decision in decisions[10:]} == {EEVDF}
    assert {decision.switch_to for decision in decisions} == {None}
    (first, *others) = places(machine)
    assert (first.scheduler, first.learned) == (EEVDF, "better here than scx_one in 13 of 13 comparisons")
    assert [place.scheduler for place in others] == [ONE, TWO, "scx_three"]
    machine.orders = [Order(kind=OrderKind.RESUME, scheduler=ONE)]  # and the user would like to see it again
    assert ONE in {decision.wanted for decision in machine.run(3, A, bad_one)}


def places(machine):
    now_ns = machine.state.sample.monotonic_ns
    return account(machine, now_ns).ranking


def account(machine, now_ns=0):
    state = machine.state
    return Accountant().account(state.books, Now(monotonic_ns=now_ns, wall_ns=10**18), machine.setup)


def test_the_account_tells_what_was_learned_and_what_it_cost():
    machine = Machine()
    machine.run(90, A, bad_one)
    told = account(machine).learned
    assert (told.comparisons, told.moved, told.allowed_share, told.tried_s) == (1, 0, 0.0, 0.0)
    (one,) = told.here
    assert (one.one, one.other, one.won, one.lost, one.better) == (EEVDF, ONE, 1, 0, "")
    assert 18 <= told.taken_back_s == told.lost_most < 70
    machine.setup = replace(machine.setup, policy=PolicySettings(learn=False))
    assert account(machine).learned is None


def test_learning_can_be_off():
    machine = Machine()
    beaten = Comparison(workload=A, one=EEVDF, other=ONE, one_version="", other_version="", won=40, at_ns=0)
    machine.state = State(books=Books(lessons=begin(Learning(duels=(beaten,)), {})))
    machine.setup = replace(machine.setup, policy=PolicySettings(cooldown_s=10.0, learn=False))
    machine.run(60, A)
    assert machine.attached == ONE
    assert machine.state.books.lessons.kept.duels == (beaten,)


def recorded(path, machine, kept):
    """A session in which classes come and go, others are tried and one is taken back, with its journal."""
    lessons = begin(kept, machine.setup.versions)
    machine.state = State(books=Books(lessons=lessons))
    with Journal.open(path) as journal:
        journal.begin(
            SessionHeader(
                started_ns=1,
                asa_version="0",
                host="h",
                kernel="6",
                cpus=1,
                mode="switching",
                learning=wire.json_text(lessons.kept),
            )
        )
        script = [A] * 400 + [B] * 300 + [A] * 900 + [B, A] * 20 + [A] * 200
        for workload in script:
            machine.workload, news = workload, tuple(machine.news)
            decision = machine.tick(bad_one(machine.attached))
            journal.add(machine.state.sample, decision, news)
            if decision.switch_to is not None:
                machine.report(SwitchOutcome.CONFIRMED, decision.switch_to)
    return script


class Script:
    """The machine's classes once more."""

    schema = 0

    def __init__(self, machine, script):
        self.machine, self.script, self.classes = machine, list(script), machine.classes

    def judge(self, frame):
        self.machine.workload = self.script.pop(0)
        return self.machine.judge(frame)


def scored(machine):
    table = machine.setup.table
    rankings = {
        workload: tuple(
            msgspec.structs.replace(entry, score=0.9 - place / 100) for place, entry in enumerate((*entries, OWN))
        )
        for workload, entries in table.rankings.items()
        if entries[0].name != EEVDF
    }
    costs = {
        ONE: Cost(switch_ms=2000.0, overhead_pct=0.1, runs=3),
        TWO: Cost(switch_ms=2000.0, overhead_pct=0.1, runs=3),
    }
    return replace(table, rankings=table.rankings | rankings, costs=costs)


def test_a_journal_replays_to_the_same_decisions(tmp_path):
    machine = Machine()
    machine.setup = replace(machine.setup, policy=ALLOWED, table=scored(machine))
    beaten = Comparison(workload=B, one=ONE, other=TWO, one_version="", other_version="", won=13, at_ns=0)
    script = recorded(tmp_path / "j", machine, Learning(credit_s=TRIAL_S, duels=(beaten,)))
    setup = replace(machine.setup, classifier=Script(machine, script[1:]))
    with Journal.look(tmp_path / "j") as journal:
        learned = wire.from_json(journal.sessions()[0].header.learning, Learning)
        reasons = {decision.reason for decision in journal.decisions(1)}
        assert {Reason.TRYING, Reason.COST, Reason.REVERTED, Reason.BETTER} <= reasons
        again = replay(ticks(journal, 1), setup, State(books=Books(lessons=begin(learned, setup.versions))), {})
        assert (again.compared, again.differing) == (len(script), 0), again.by_field
        setup = replace(machine.setup, classifier=Script(machine, script[1:]))
        assert replay(ticks(journal, 1), setup, State(), {}).differing > 0  # it is what was learned that it needs


@pytest.mark.parametrize("body", ["", '{"version": 7}'])
def test_a_damaged_file_is_said_in_one_line_and_moved_away(tmp_path, body):
    path, said = tmp_path / "learning.json", []
    path.write_text(body)
    setup = Machine().setup
    assert assembly._lessons(path, setup, said.append) == begin(Learning(), setup.versions)
    assert [str(path) in line and "starting without" in line for line in said] == [True]
    assert [one.name for one in tmp_path.iterdir()] == ["learning.damaged"]
    learning.save(path, Learning(credit_s=5.0))
    assert assembly._lessons(path, setup, said.append).kept.credit_s == 5.0
    assert len(said) == 1
