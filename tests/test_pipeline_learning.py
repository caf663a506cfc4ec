# SPDX-License-Identifier: GPL-2.0-only
"""Trials in the whole step: what a run of the agent finds serves in the next one, a journal replays to the same turns,
and what must not be disturbed is not."""

from dataclasses import replace

import pytest
from pipeline_machine import ONE, STANDING_BY, TWO, A, B, Machine

from asa import assembly, wire
from asa.config import Learn, PolicySettings, StandbySettings
from asa.core.decision import EEVDF, ExitKind, Order, OrderKind, Reason, SwitchOutcome
from asa.decide import learning
from asa.decide.books import Books
from asa.decide.learning import Learning, begin
from asa.decide.trial import FRESH_S
from asa.decide.trial_budget import SAVED_S, Account, Stand
from asa.decide.trial_pairs import Verdict
from asa.journal import Journal, SessionHeader
from asa.pipeline import State
from asa.replay import replay
from asa.report.reading import ticks

ANY = Stand(kernel="", versions={})
RICH = Learning(account=Account(credit_s=SAVED_S))
FRESH = int(FRESH_S)


def begins(kept=RICH, learn=Learn.ON):
    """A machine whose switcher loads what is to stand by within a tick."""
    machine = Machine()
    machine.setup = replace(
        machine.setup, permit=STANDING_BY, policy=PolicySettings(cooldown_s=10.0, dwell_s=2.0, learn=learn)
    )
    machine.state = State(books=Books(lessons=begin(kept, ANY)))
    return machine


def lives(machine, seconds, workload, pressure, journal=None):
    """So many ticks, every switch done at once."""
    machine.workload, decisions = workload, []
    for second in range(seconds):
        machine.sizes = dict.fromkeys(machine.state.readiness.chosen, 5_000_000)
        wobble = second * 7 % 11 / 200
        news, orders = tuple(machine.news), tuple(machine.orders)
        decisions.append(machine.tick(pressure(machine.attached) + wobble))
        if journal is not None:
            journal.add(machine.state.sample, decisions[-1], news, orders, machine.sizes)
        if decisions[-1].switch_to is not None:
            machine.report(SwitchOutcome.CONFIRMED, decisions[-1].switch_to)
    return decisions


def alike(_):
    return 0.3


def bad_one(scheduler):
    return 0.09 if scheduler == ONE else 0.0  # the guard counts what is felt: a tenth


def tried_in(decisions):
    return [one.switch_to for one in decisions if one.reason is Reason.TRYING and one.switch_to is not None]


def asked(machine):
    return {(one.in_force, one.candidate): one for one in machine.state.books.lessons.kept.asked}


def test_what_a_trial_found_serves_in_the_next_run_too():
    machine = begins(Learning())
    assert not tried_in(lives(machine, FRESH, A, bad_one))
    machine.orders = [Order(kind=OrderKind.TRY, scheduler=TWO)]
    decisions = lives(machine, 600, A, bad_one)
    assert {ONE, TWO} <= set(tried_in(decisions))
    found = asked(machine)[ONE, TWO]
    assert found.verdict is Verdict.BETTER
    assert found.effect.low > 0.2
    assert machine.attached == TWO
    kept = learning.of_text(wire.json_bytes(machine.state.books.lessons.kept))
    assert {one.switch_to for one in lives(begins(kept), 50, A, bad_one)} == {None, TWO}
    assert {one.switch_to for one in lives(begins(kept, Learn.OFF), 50, A, bad_one)} == {None, ONE}
    moved = Learning(asked=tuple(replace(one, kernel="7.2") for one in kept.asked))
    other = begins(moved)
    other.setup = replace(other.setup, kernel="7.3")
    assert {one.switch_to for one in lives(other, 50, A, bad_one)} == {None, ONE}
    assert asked(other) == {}


def test_by_itself_one_begins_after_the_first_minute_and_with_its_candidate_loaded():
    machine = begins()
    assert not tried_in(lives(machine, FRESH, A, alike))
    machine.setup = replace(machine.setup, standby=StandbySettings(count=1))
    decisions = lives(machine, 200, A, alike)
    turns = [place for place, one in enumerate(decisions) if one.switch_to in (ONE, TWO) and place]
    assert all(decisions[place].switch_to in decisions[place - 1].standbys for place in turns)
    assert set(tried_in(decisions)) == {ONE, TWO}
    assert all(machine.state.books.policy.costs.taken_ns[name, True] for name in (ONE, TWO))


def test_a_suspend_begins_the_first_minute_anew():
    machine = begins()
    lives(machine, 50, A, alike)
    machine.suspended_s = 900
    assert not tried_in(lives(machine, FRESH, A, alike))
    assert tried_in(lives(machine, 60, A, alike))


def test_nothing_is_tried_where_the_user_forbids_it_or_something_must_not_be_disturbed(monkeypatch):
    assert not tried_in(lives(begins(learn=Learn.OFF), 300, A, alike))
    monkeypatch.setattr("asa.pipeline.disturbed.by", lambda *_: "a sound card records")
    machine = begins()
    assert not tried_in(lives(machine, 300, A, alike))
    assert machine.state.books.policy.upcoming.why_not == "a sound card records"


def test_a_lost_lease_in_a_block_voids_it():
    machine = begins()
    for _ in range(400):
        lives(machine, 1, A, alike)
        trial = machine.state.books.policy.trial
        if trial is not None and machine.attached == TWO and trial.since_ns is not None:
            break
    machine.report(SwitchOutcome.LOST, TWO, ExitKind.WITHDRAWN)
    lives(machine, 1, A, alike)
    assert machine.state.books.policy.trial is None
    assert "void by lease lost" in asked(machine)[ONE, TWO].words
    assert machine.attached == EEVDF


def header(lessons):
    return SessionHeader(
        started_ns=1,
        asa_version="0",
        host="h",
        kernel="",
        cpus=1,
        mode="switching",
        stand_by=True,
        learning=wire.json_text(lessons.kept),
    )


def test_a_journal_replays_to_the_same_turns(tmp_path):
    machine = begins()
    lessons = machine.state.books.lessons
    with Journal.open(tmp_path / "j") as journal:
        journal.begin(header(lessons))
        script = []
        for workload, seconds in ((A, 300), (B, 40), (A, 200)):
            lives(machine, seconds, workload, bad_one, journal)
            script += [workload] * seconds
        machine.orders = [Order(kind=OrderKind.TRY, scheduler=TWO)]
        lives(machine, 300, A, bad_one, journal)
        script += [A] * 300
    setup = replace(machine.setup, classifier=Script(machine, script[1:]))
    with Journal.look(tmp_path / "j") as journal:
        learned = learning.of_text(journal.sessions()[0].header.learning)
        decisions = list(journal.decisions(1))
        assert {ONE, TWO} <= set(tried_in(decisions))
        again = replay(ticks(journal, 1), setup, State(books=Books(lessons=begin(learned, ANY))), {})
        assert (again.compared, again.differing) == (len(script), 0), again.by_field
        setup = replace(machine.setup, classifier=Script(machine, script[1:]))
        assert replay(ticks(journal, 1), setup, State(), {}).differing > 0  # it is what was earned that it needs


def test_what_the_guard_takes_back_by_turns_is_taken_back_in_a_replay_too(tmp_path):
    machine = begins(Learning(), Learn.OFF)
    with Journal.open(tmp_path / "j") as journal:
        journal.begin(header(machine.state.books.lessons))
        decisions = lives(machine, 120, A, lambda scheduler: 0.4 if scheduler == ONE else 0.1, journal)
    turns = [one.switch_to for one in decisions if one.reason is Reason.CHECKING and one.switch_to is not None]
    assert turns[:3] == [EEVDF, ONE, EEVDF]
    verdict = next(one for one in decisions if one.reason is Reason.REVERTED)
    assert (verdict.switch_to, verdict.wanted) == (None, EEVDF)
    assert ONE in {mark.scheduler for mark in machine.state.books.bars.marks}
    setup = replace(machine.setup, classifier=Script(machine, [A] * 119))
    with Journal.look(tmp_path / "j") as journal:
        again = replay(ticks(journal, 1), setup, State(books=Books(lessons=begin(Learning(), ANY))), {})
        assert (again.compared, again.differing) == (120, 0), again.by_field


class Script:
    """The machine's classes once more."""

    schema = 0

    def __init__(self, machine, script):
        self.machine, self.script, self.classes = machine, list(script), machine.classes

    def judge(self, frame):
        self.machine.workload = self.script.pop(0)
        return self.machine.judge(frame)


@pytest.mark.parametrize("body", ["", '{"version": 7}'])
def test_a_damaged_file_is_said_in_one_line_and_moved_away(tmp_path, body):
    path, said = tmp_path / "learning.json", []
    path.write_text(body)
    setup = Machine().setup
    assert assembly._lessons(path, setup, said.append) == begin(Learning(), ANY)
    assert [str(path) in line and "starting without" in line for line in said] == [True]
    assert [one.name for one in tmp_path.iterdir()] == ["learning.damaged"]
    learning.save(path, RICH)
    assert assembly._lessons(path, setup, said.append).kept == RICH
    assert len(said) == 1
