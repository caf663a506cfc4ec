# SPDX-License-Identifier: GPL-2.0-only
"""Replays: the same setup gives the same decisions, another says what would have been.

The sessions are recorded by the real policy over a machine in memory.
"""

import sqlite3
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from asa.config import GuardSettings, PolicySettings, Voting
from asa.core.decision import (
    EEVDF,
    Judgement,
    Order,
    OrderKind,
    Permit,
    Probabilities,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Workload,
)
from asa.core.sample import CpuCounters, RawSample, SchedExtState
from asa.decide.table import Entry, MappingTable
from asa.journal import Journal, SessionHeader, Told
from asa.pipeline import Setup, State, step
from asa.replay import replay, usual_delays
from asa.report.reading import ticks
from scenarios.planted import evidence

A, B, IDLE = CLASSES = (Workload("a"), Workload("b"), Workload("idle"))
ONE, TWO = SchedulerName("scx_one"), SchedulerName("scx_two:fast")
MIXED = Workload("regime:mixed-computing")  # half of the one CPU computes, in every tick
RANKINGS = {A: (ONE, TWO), B: (TWO, ONE), IDLE: (EEVDF,)}
S = 10**9
CALM = [A] * 60 + [B] * 60 + [IDLE] * 60 + [A] * 60


@dataclass
class Script:
    """A classifier that says what it is told, tick by tick. None: it fits no class."""

    workloads: list
    schema: int = 0
    classes: tuple = CLASSES

    def judge(self, _):
        now = self.workloads.pop(0)
        probabilities = Probabilities(classes=CLASSES, values=tuple(float(name == now) for name in CLASSES))
        return Judgement(probabilities=probabilities, score=None, known=now is not None)


def made_setup(workloads, **changes):
    def ranking(names):
        parts = [name.partition(":") for name in names]
        return tuple(
            Entry(scheduler=name, mode=mode or "default", why=".", evidence=evidence()) for name, _, mode in parts
        )

    values = {
        "classifier": Script(list(workloads)),
        "table": MappingTable(
            path="t", machine="m", provenance="p", rankings={name: ranking(names) for name, names in RANKINGS.items()}
        ),
        "voting": Voting(window_s=2.0),
        "policy": PolicySettings(cooldown_s=10.0),
        "name_of_ops": lambda ops: {"one": ONE, "two": SchedulerName("scx_two"), "foe": None}[ops],
        "permit": Permit(switch=True),
        "guard": GuardSettings(baseline_s=0.0),
    }
    return Setup(**(values | changes))


@dataclass
class Recorder:
    """A machine that the real policy runs on, with every tick journalled."""

    path: object
    script: list
    faults: dict = field(default_factory=dict)  # tick -> (outcome, scheduler; None: the one in force)
    orders: dict = field(default_factory=dict)  # tick -> what the user said
    sizes: dict = field(default_factory=dict)  # tick -> bytes of waiting schedulers, from then on
    reload: tuple = (None, {})  # after this tick another setup is in force
    told: dict = field(default_factory=dict)  # tick -> what it goes by from the next one on, as the journal has it
    mode: str = "switching"
    changes: dict = field(default_factory=dict)

    def record(self):
        shadow = self.mode == "shadow"
        made = made_setup(self.script, shadow=shadow, **self.changes)
        state, attached, due, foreign, sizes = State(), EEVDF, None, False, {}
        with Journal.open(self.path) as journal:
            header = SessionHeader(started_ns=1, asa_version="0", host="h", kernel="6", cpus=1, mode=self.mode)
            journal.begin(header)
            for second in range(len(self.script) + 1):
                news = []
                if due is not None and second >= due[1]:
                    outcome, due = (SwitchOutcome.SHADOWED if shadow else SwitchOutcome.CONFIRMED, due[0]), None
                    news.append(self.event(second, *outcome, attached))
                    attached = attached if shadow else news[-1].new
                fault = self.faults.get(second)
                if fault is not None:
                    name = fault[1] or attached
                    news.append(self.event(second, fault[0], name, attached))
                    attached, foreign = (name, True) if fault[0] is SwitchOutcome.FOREIGN else (EEVDF, False)
                ops = {EEVDF: "", ONE: "one", TWO: "two"}.get(attached, "foe")
                sample = a_sample(second, SchedExtState(state="enabled" if ops else "disabled", ops=ops, enable_seq=1))
                orders, sizes = self.orders.get(second, ()), self.sizes.get(second, sizes)
                state = step(made, state, sample, news, orders, sizes)
                journal.add(sample, state.decision, tuple(news), orders, sizes)
                for one in self.told.get(second, ()):
                    journal.tell(Told(monotonic_ns=sample.monotonic_ns, **one))
                if second == self.reload[0]:
                    made = replace(made, **self.reload[1])
                    journal.tell(Told(monotonic_ns=sample.monotonic_ns, settings="{}"))
                if state.decision.switch_to is not None and not foreign:
                    due = (state.decision.switch_to, second + 2)
        return self.path

    @staticmethod
    def event(second, outcome, new, old):
        return SwitchEvent(
            monotonic_ns=second * S - S // 4 + 100 * S,
            outcome=outcome,
            old=old,
            new=new,
            elapsed_ns=S * 3 // 2,
            detail="",
            undo="",
        )


def a_sample(second, state):
    now = (100 + second, 0, 0, 100 + second, 0, 0, 0, 0)
    cpu = CpuCounters(
        total=now,
        cores=((0, now),),
        interrupts=0,
        context_switches=0,
        forks=0,
        softirqs=(0,) * 10,
        runnable=1,
        blocked=0,
    )
    return RawSample(monotonic_ns=(100 + second) * S, wall_ns=10**18 + second * S, cpu=cpu, sched_ext=state)


def again(path, script, renew=lambda setup, _: setup, **changes):
    with Journal.look(path) as journal:
        delays = usual_delays(journal.events(1))
        return replay(ticks(journal, 1), made_setup(script, **changes), State(), delays, renew)


@pytest.mark.parametrize("mode", ["switching", "shadow"])
def test_the_same_rules_decide_the_same(tmp_path, mode):
    path = Recorder(tmp_path / "j", CALM, mode=mode).record()
    found = again(path, CALM, shadow=mode == "shadow")
    assert found.ticks == found.compared == len(CALM) + 1
    assert (found.differing, found.by_field, found.first, found.assumed_ticks) == (0, {}, (), 0)
    assert found.recorded_switches == found.replayed_switches == found.same_switches == 4
    assert found.moved == found.saved == found.added == ()


def test_failures_and_strangers_replay_as_they_came(tmp_path):
    faults = {30: (SwitchOutcome.LOST, None), 90: (SwitchOutcome.LOST, None), 200: (SwitchOutcome.FOREIGN, "foe")}
    path = Recorder(tmp_path / "j", CALM, faults).record()
    found = again(path, CALM)
    assert found.recorded_switches > 4
    assert (found.differing, found.assumed_ticks) == (0, 0)


def test_what_the_user_said_is_said_again(tmp_path):
    hold, by_hand, on = (
        Order(kind=OrderKind.HOLD),
        Order(kind=OrderKind.SWITCH, scheduler=TWO),
        Order(kind=OrderKind.RESUME),
    )
    orders = {40: (hold,), 100: (on,), 140: (by_hand,), 200: (on,)}
    path = Recorder(tmp_path / "j", CALM, orders=orders).record()
    found = again(path, CALM)
    assert (found.differing, found.assumed_ticks) == (0, 0)
    assert found.recorded_switches > 3
    with Journal.look(path) as journal:
        deaf = [replace(tick, orders=()) for tick in ticks(journal, 1)]
    assert replay(deaf, made_setup(CALM), State(), {}).differing > 100


def test_an_event_is_heard_in_the_tick_that_heard_it(tmp_path):
    path = Recorder(tmp_path / "j", CALM).record()
    with sqlite3.connect(path) as db:  # an event older than a tick that had not heard of it yet
        db.execute("UPDATE event SET heard_ns = heard_ns + 1000000000 WHERE id = 1")
    with Journal.look(path) as journal:
        heard = [tick.sample.monotonic_ns for tick in ticks(journal, 1) if tick.news]
        assert heard[0] - next(journal.events(1)).monotonic_ns == S + S // 4


def test_sizes_of_standbys_are_known_again(tmp_path):
    changes = {"permit": Permit(switch=True, stand_by=True)}
    recorder = Recorder(tmp_path / "j", CALM * 2, sizes={150: {ONE: 10**9, TWO: 10**9}}, changes=changes)
    path = recorder.record()
    found = again(path, CALM * 2, **changes)
    assert found.differing == 0
    with Journal.look(path) as journal:
        assert any(decision.standbys for decision in journal.decisions(1))
        weightless = [replace(tick, sizes={}) for tick in ticks(journal, 1)]
    assert replay(weightless, made_setup(CALM * 2, **changes), State(), {}).by_field["standbys"] > 0


def test_settings_that_were_read_again_are_gone_by_from_the_next_tick(tmp_path):
    later = {"policy": PolicySettings(cooldown_s=10.0, dwell_s=9.0)}
    path = Recorder(tmp_path / "j", CALM, reload=(100, later)).record()
    renewed = []

    def renew(made, told):
        renewed.append(told)
        return replace(made, **later)

    assert again(path, CALM, renew).differing == 0
    assert [one.monotonic_ns for one in renewed] == [200 * S]
    assert again(path, CALM).differing > 0


def test_what_was_told_in_one_tick_counts_together(tmp_path):
    told = [{"settings": "{}", "table": "t"}, {"may_switch": False}, {"may_stand_by": True, "table": "u"}]
    path = Recorder(tmp_path / "j", CALM[:20], told={5: told}).record()
    with Journal.look(path) as journal:
        (one,) = [tick.renewed for tick in ticks(journal, 1) if tick.renewed is not None]
    assert (one.settings, one.table, one.may_switch, one.may_stand_by) == ("{}", "u", False, True)


def test_a_longer_dwell_moves_switches(tmp_path):
    path = Recorder(tmp_path / "j", CALM).record()
    found = again(path, CALM, policy=PolicySettings(cooldown_s=10.0, dwell_s=12.0))
    assert [order.scheduler for order in found.moved] == [ONE, TWO, EEVDF, ONE]
    assert {order.moved_s for order in found.moved} == {10.0}
    assert found.saved == found.added == ()
    assert found.by_field["reason"] > 30
    before_s, after_s = found.schedulers[ONE]
    assert before_s - after_s == pytest.approx(10.0, abs=3.0)  # moved at its begin, ended later
    assert 40 <= found.assumed_ticks <= 60  # after each switch the two are together again


def test_a_dwell_that_is_never_over_saves_every_switch(tmp_path):
    path = Recorder(tmp_path / "j", CALM).record()
    found = again(path, CALM, policy=PolicySettings(dwell_s=3600.0))
    assert [order.scheduler for order in found.saved] == [ONE, TWO, EEVDF, ONE]
    assert found.replayed_switches == 0
    assert found.schedulers[TWO][1] == found.schedulers[ONE][1] == 0.0
    assert found.schedulers[EEVDF][1] == len(CALM)


def test_another_model_adds_switches_which_come_up_by_assumption(tmp_path):
    path = Recorder(tmp_path / "j", CALM).record()
    other = [A] * 60 + [B] * 30 + [A] * 30 + [IDLE] * 60 + [A] * 60
    found = again(path, other)
    assert [order.scheduler for order in found.added] == [ONE]
    assert found.added[0].at_ns == pytest.approx(10**18 + 93 * S, abs=3 * S)
    assert found.same_switches == 4
    assert found.schedulers[ONE][1] - found.schedulers[ONE][0] == pytest.approx(30.0, abs=2.0)
    first = found.first[0]
    assert (first.recorded.workload, first.replayed.workload) == ("b", "a")
    assert not any(one.replayed.reason == "busy" and one.replayed.current == EEVDF for one in found.first)


def test_what_was_lost_is_lost_by_the_replay_too(tmp_path):
    path = Recorder(tmp_path / "j", CALM, {64: (SwitchOutcome.LOST, ONE)}).record()  # on the way from one to two
    other = [A] * 110 + [B] * 10 + [IDLE] * 60 + [A] * 60
    found = again(path, other)  # which stays with one: it is gone all the same
    gone = next(one for one in found.first if one.replayed.current == EEVDF)
    assert gone.at_ns == 10**18 + 64 * S
    assert TWO in {order.scheduler for order in found.moved}


def test_a_session_without_its_first_ticks_goes_on_from_what_was_in_force(tmp_path):
    path = Recorder(tmp_path / "j", CALM).record()
    with Journal.look(path) as journal:
        late = [tick for tick in ticks(journal, 1) if tick.sample.monotonic_ns >= 130 * S]
    found = replay(late, made_setup(CALM[30:]), State(), {})
    assert late[0].decision.current == ONE
    assert found.same_switches == 3
    assert found.saved == found.added == found.moved == ()


def test_a_recording_without_decisions_is_decided_and_not_compared(tmp_path):
    with Journal.open(tmp_path / "j") as journal:
        journal.begin(SessionHeader(started_ns=1, asa_version="0", host="h", kernel="6", cpus=1, label="a"))
        for second in range(31):
            journal.add(a_sample(second, SchedExtState(state="disabled", ops="", enable_seq=0)))
    found = again(tmp_path / "j", [A] * 30)
    assert (found.ticks, found.compared, found.differing) == (31, 0, 0)
    assert [order.scheduler for order in found.added] == [ONE]


def test_what_is_unknown_replays_with_its_regime(tmp_path):
    script = [A] * 20 + [None] * 60 + [B] * 20
    path = Recorder(tmp_path / "j", script).record()
    found = again(path, script)
    assert (found.differing, found.recorded_switches) == (0, 3)  # to one, back to the kernel's own, to two
    with Journal.look(path) as journal:
        told = [one.vote.regime for one in journal.decisions(1)]
    assert told[70] == MIXED
    assert told[15] is told[95] is None


def test_a_journal_of_before_tells_no_regime_and_is_no_different(tmp_path):
    script = [A] * 20 + [None] * 60
    path = Recorder(tmp_path / "j", script).record()
    db = sqlite3.connect(path)
    for number, body in db.execute("SELECT id, body FROM decision").fetchall():
        plain = msgspec.msgpack.decode(body)
        del plain["vote"]["regime"]
        db.execute("UPDATE decision SET body = ? WHERE id = ?", (msgspec.msgpack.encode(plain), number))
    db.commit()
    db.close()
    found = again(path, script)
    assert (found.ticks, found.differing) == (81, 0)


def test_a_table_that_ranks_a_regime_switches_for_it_in_a_replay(tmp_path):
    script = [A] * 20 + [None] * 60
    path = Recorder(tmp_path / "j", script).record()
    table = made_setup(script).table
    ranked = replace(
        table,
        rankings={**table.rankings, MIXED: (Entry(scheduler="scx_two", mode="fast", why=".", evidence=evidence()),)},
    )
    found = again(path, script, table=ranked)
    assert [order.scheduler for order in found.added] == [TWO]
    assert found.first[0].replayed.workload == MIXED
