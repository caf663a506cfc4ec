# SPDX-License-Identifier: GPL-2.0-only
"""The pure step: recordings of real programs in, decisions out, the same ones every time; and an hour against a machine
that does its worst."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa import paths
from asa.act.portfolio import Portfolio
from asa.config import GuardSettings, PolicySettings, QuarantineSettings, Voting
from asa.core.decision import (
    EEVDF,
    ExitKind,
    Judgement,
    Order,
    OrderKind,
    Probabilities,
    Reason,
    SchedulerExit,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Way,
    Workload,
)
from asa.core.sample import CpuCounters, PressureCounters, RawSample, SchedExtState
from asa.decide import cooldown, table
from asa.decide.filters import Method
from asa.decide.policy import MOST_REVERTS_PER_HOUR, Revert
from asa.decide.table import Entry, MappingTable
from asa.journal import Journal
from asa.pipeline import Rules, State, step
from models.runtime import Ensemble

RECORDINGS = sorted((paths.base_model().parents[1] / "recordings").glob("*.journal.xz"))


@pytest.fixture(scope="module")
def rules():
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    return Rules(
        classifier=Ensemble.load(paths.base_model()),
        table=table.load(paths.mapping_tables() / "default.yaml", portfolio.modes()),
        voting=Voting(),
        policy=PolicySettings(),
        name_of_ops=portfolio.name_of_ops,
        may_switch=True,
        guard=GuardSettings(baseline_s=0.0),
    )


@pytest.fixture(scope="module")
def session():
    """Samples of one session of `wakeup` on a kernel without sched_ext, given one."""
    with Journal.unpack(next(path for path in RECORDINGS if "host" in path.name)) as journal:
        number = next(one.number for one in journal.sessions() if one.header.label == "wakeup")
        state = SchedExtState(state="disabled", ops="", enable_seq=0)
        return [replace(sample, sched_ext=state) for sample in journal.samples(number)]


def play(rules, samples, news=()):
    state, decisions = State(), []
    for sample in samples:
        state = step(rules, state, sample, news if sample is samples[-1] else ())
        decisions.append(state.decision)
    return decisions


def test_a_recording_replays_to_the_same_decisions(rules, session):
    assert play(rules, session) == play(rules, session)


class Estranged:
    """A classifier that finds from some tick on that what it sees fits none of its classes, whatever it is like."""

    def __init__(self, known_ticks):
        self.classes, self._left = (Workload("cpu"), Workload("wakeup")), known_ticks

    def judge(self, frame):
        self._left -= 1
        values = (0.0, 1.0) if self._left >= 0 else (1.0, 0.0)
        probabilities = Probabilities(classes=self.classes, values=values)
        return Judgement(probabilities=probabilities, score=0.5, known=self._left >= 0)


@pytest.mark.parametrize("method", list(Method))
def test_what_fits_no_class_switches_nothing(rules, session, method):
    rules = replace(rules, classifier=Estranged(8), voting=Voting(method=method))
    decisions = play(rules, session)
    assert Counter(one.switch_to is not None for one in decisions)[True] == 1  # for wakeup, while it was known
    assert decisions[-1].workload == "wakeup"
    assert decisions[-1].vote.workload != "cpu"
    strange = play(replace(rules, classifier=Estranged(0)), session)
    assert all(one.switch_to is None and one.workload is None for one in strange)
    assert strange[-1].sentence == "what runs fits no class of the model"
    assert strange[-1].probabilities is not None
    nearest = play(replace(rules, classifier=Estranged(0), voting=Voting(method=method, open_world=False)), session)
    assert nearest[-1].workload == "cpu"
    assert any(one.switch_to is not None for one in nearest)


def test_a_session_is_recognised_and_switched_for_once(rules, session):
    decisions = play(rules, session)
    assert decisions[0].reason is Reason.NO_RATES
    assert decisions[-1].workload == "wakeup"
    orders = [decision for decision in decisions if decision.switch_to is not None]
    assert [order.switch_to for order in orders] == ["scx_bpfland"]  # and then it waits for word of it
    assert decisions[-1].reason is Reason.BUSY
    dwell_ns = orders[0].monotonic_ns - next(one.monotonic_ns for one in decisions if one.workload == "wakeup")
    assert dwell_ns >= rules.policy.dwell_s * 1e9


def test_a_class_met_first_is_measured_before_it_is_switched_for(rules, session):
    decisions = play(replace(rules, guard=GuardSettings()), session)
    reasons = [decision.reason for decision in decisions]
    assert Reason.BASELINE in reasons
    start_ns = decisions[reasons.index(Reason.BASELINE)].monotonic_ns
    orders = [decision for decision in decisions if decision.switch_to is not None]
    assert all(18e9 <= order.monotonic_ns - start_ns <= 21e9 for order in orders)
    assert bool(orders) == (decisions[-1].monotonic_ns - start_ns > 21e9)


def test_news_is_heard(rules, session):
    event = SwitchEvent(
        monotonic_ns=session[-2].monotonic_ns,
        outcome=SwitchOutcome.FAILED,
        old=EEVDF,
        new=SchedulerName("scx_bpfland"),
        elapsed_ns=1,
        detail="",
        undo="",
    )
    assert play(rules, session, (event,))[-1].wanted == "scx_p2dq"


def test_without_sched_ext_it_only_observes(rules, session):
    decisions = play(rules, [replace(sample, sched_ext=None) for sample in session])
    assert decisions[-1].reason is Reason.OBSERVING
    assert decisions[-1].current is None


def test_a_gap_is_not_judged(rules, session):
    later = replace(session[1], monotonic_ns=session[0].monotonic_ns + 3600 * 10**9)
    decisions = play(rules, [session[0], later])
    assert decisions[-1].probabilities is None
    assert decisions[-1].reason is Reason.NO_RATES


def test_without_a_source_it_goes_on(rules, session):
    for missing in ("disk", "network", "pressure", "process", "paging", "memory", "connections"):
        decisions = play(rules, [replace(sample, **{missing: None}) for sample in session])
        assert decisions[-1].probabilities is not None, missing
    assert play(rules, [replace(sample, cpu=None) for sample in session])[-1].reason is Reason.NO_RATES


A, B, C, IDLE = Workload("a"), Workload("b"), Workload("c"), Workload("idle")
CLASSES = (A, B, C, IDLE)
ONE, TWO, THREE = SchedulerName("scx_one"), SchedulerName("scx_two"), SchedulerName("scx_three")
RANKINGS = {A: (ONE, TWO, THREE), B: (TWO, ONE), C: (THREE, TWO), IDLE: (EEVDF,)}
S, HOUR = 10**9, 3600


@dataclass(slots=True)
class Machine:
    """A kernel, a classifier and a switcher in one, tick by tick; the test says what it shows and how switches end."""

    rules: Rules = None
    state: State = field(default_factory=State)
    workload: Workload = IDLE
    attached: SchedulerName = EEVDF
    pressed_us: int = 0  # /proc/pressure/cpu, some
    short_us: int = 0  # /proc/pressure/memory, some
    now_s: int = 0
    battery_saver: bool | None = None
    on_battery: bool | None = None
    suspended_s: int = 0
    news: list = field(default_factory=list)
    orders: list = field(default_factory=list)
    sizes: dict = field(default_factory=dict)
    standbys: tuple = ()  # that the last tick had
    stood_by: dict = field(default_factory=dict)  # second of an order -> was its target among them?
    schema = 0
    classes = CLASSES

    def __post_init__(self):
        self.rules = Rules(
            classifier=self,
            table=MappingTable(
                path="t",
                machine="m",
                provenance="p",
                rankings={
                    name: tuple(Entry(scheduler=scheduler, why=".") for scheduler in ranking)
                    for name, ranking in RANKINGS.items()
                },
            ),
            voting=Voting(window_s=2.0),
            policy=PolicySettings(cooldown_s=10.0),
            name_of_ops=lambda ops: SchedulerName(f"scx_{ops}"),
            may_switch=True,
        )

    def judge(self, _):
        probabilities = Probabilities(classes=CLASSES, values=tuple(float(name == self.workload) for name in CLASSES))
        return Judgement(probabilities=probabilities, score=None, known=True)

    def tick(self, pressure=0.0, memory=0.0):
        """One second with so much pressure, judged."""
        self.now_s += 1
        self.pressed_us += int(pressure * 1e6)
        self.short_us += int(memory * 1e6)
        ticks = (self.now_s, 0, 0, self.now_s, 0, 0, 0, 0)
        unknown = dict.fromkeys(PressureCounters.__slots__)
        pressures = unknown | {"cpu_some_us": self.pressed_us, "memory_some_us": self.short_us}
        sample = RawSample(
            monotonic_ns=self.now_s * S,
            wall_ns=10**18 + self.now_s * S,
            cpu=CpuCounters(
                total=ticks,
                cores=((0, ticks),),
                interrupts=0,
                context_switches=0,
                forks=0,
                softirqs=(0,) * 10,
                runnable=1,
                blocked=0,
            ),
            pressure=PressureCounters(**pressures),
            sched_ext=SchedExtState(
                state="disabled" if self.attached == EEVDF else "enabled",
                ops="" if self.attached == EEVDF else self.attached.removeprefix("scx_"),
                enable_seq=self.now_s,
            ),
            battery_saver=self.battery_saver,
            on_battery=self.on_battery,
            suspended_ns=self.suspended_s * S,
        )
        self.standbys = self.state.readiness.chosen
        self.state = step(self.rules, self.state, sample, self.news, self.orders, self.sizes)
        self.news, self.orders = [], []
        return self.state.decision

    def report(self, outcome, new, kind=None):
        """What became of `new`; the kernel is where that leaves it."""
        light = new == EEVDF or new in self.standbys
        event = SwitchEvent(
            monotonic_ns=self.now_s * S,
            outcome=outcome,
            old=self.attached,
            new=new,
            elapsed_ns=S // 50 if light else 6 * S,
            way=Way.STANDBY if new in self.standbys else Way.GATED,
            detail=f"{new} {outcome}",
            undo="",
            exit=None if kind is None else SchedulerExit(kind=kind, reason="as told", source="the scheduler"),
        )
        if outcome is SwitchOutcome.CONFIRMED:
            self.attached = new
        elif outcome in (SwitchOutcome.FAILED, SwitchOutcome.LOST):
            self.attached = EEVDF
        self.news.append(event)

    def run(self, seconds, workload, pressure=lambda _: 0.0, memory=0.0):
        """So many ticks of a class, every switch done at once. `pressure` by the scheduler in force."""
        self.workload = workload
        decisions = []
        for _ in range(seconds):
            decisions.append(self.tick(pressure(self.attached), memory))
            if decisions[-1].switch_to is not None:
                self.report(SwitchOutcome.CONFIRMED, decisions[-1].switch_to)
        return decisions


def test_what_the_guard_takes_back_is_remembered_in_the_standing():
    machine = Machine()
    decisions = machine.run(120, A, lambda scheduler: 0.1 if scheduler == EEVDF else 0.7)
    revert = next(decision for decision in decisions if decision.reason is Reason.REVERTED)
    assert (revert.switch_to, revert.current) == (EEVDF, ONE)
    assert "a fares worse under scx_one than under eevdf" in revert.sentence
    assert {mark.scheduler for mark in machine.state.standing.marks} >= {ONE}
    again = Machine()  # after a restart
    again.state = State(standing=machine.state.standing)
    assert ONE not in {decision.switch_to for decision in again.run(60, A)}


def test_the_guard_sees_the_switches_of_one_cpu():
    machine = Machine()
    machine.run(2, A)
    last = machine.state.sample
    cpu = replace(last.cpu, cores=tuple((core, last.cpu.total) for core in range(4)), context_switches=6000)
    sample = replace(last, monotonic_ns=last.monotonic_ns + S, wall_ns=last.wall_ns + S, cpu=cpu)
    assert step(machine.rules, machine.state, sample).signals.switches == 1500.0
    assert step(machine.rules, machine.state, replace(sample, cpu=None)).signals.switches is None


def test_standbys_follow_what_the_machine_is_used_for():
    machine = Machine()
    machine.rules = replace(machine.rules, may_stand_by=True)
    for _ in range(3):
        machine.run(60, A)
        machine.run(60, B)
    assert machine.attached == TWO
    assert machine.state.decision.standbys[0] == ONE
    machine.battery_saver = True
    assert machine.run(1, B)[-1].standbys == ()
    machine.battery_saver = False
    assert machine.run(30, B)[-1].standbys[0] == ONE
    assert machine.run(1, B, memory=0.5)[-1].standbys == ()
    assert machine.run(70, B)[-1].standbys[0] == ONE
    machine.sizes = {ONE: 10**9}
    assert ONE not in machine.run(10, B)[-1].standbys
    machine.report(SwitchOutcome.FOREIGN, SchedulerName("scx_layered"))
    assert machine.run(1, B)[-1].standbys == ()


FRUGAL = SchedulerName("scx_two:powersave")


def laptop():
    """A machine whose table has an entry for battery saver, for class A alone."""
    machine = Machine()
    frugal = Entry(scheduler="scx_two", mode="powersave", why=".", efficient=True)
    table = machine.rules.table
    table = replace(table, rankings=table.rankings | {A: (*table.rankings[A], frugal)})
    machine.rules = replace(machine.rules, table=table)
    return machine


def test_battery_saver_is_a_reason_to_switch_at_once():
    machine = laptop()
    machine.run(60, A)
    assert machine.attached == ONE
    machine.battery_saver = True
    decision = machine.run(1, A)[0]
    assert (decision.switch_to, decision.reason, decision.workload) == (FRUGAL, Reason.BETTER, A)
    assert decision.sentence == "a is served better by scx_two:powersave than by scx_one on battery saver"
    machine.attached = SchedulerName("scx_two")  # sysfs knows no modes
    assert machine.run(30, A)[-1].sentence == "scx_two:powersave serves a on battery saver"
    assert machine.run(30, B)[-1].sentence == "eevdf serves b on battery saver"
    machine.run(30, A)
    machine.attached = SchedulerName("scx_two")
    machine.battery_saver = False
    decisions = machine.run(30, A)
    assert [decision.switch_to for decision in decisions if decision.switch_to is not None] == [ONE]
    assert decisions[0].switch_to == ONE or decisions[0].reason is Reason.COOLDOWN


def test_nobody_stands_by_on_battery_saver_also_in_ticks_that_do_not_know_of_it():
    machine = laptop()
    machine.rules = replace(machine.rules, may_stand_by=True)
    machine.battery_saver = True
    machine.run(30, B)
    machine.battery_saver = None
    assert {decision.standbys for decision in machine.run(60, B)} == {()}
    machine.battery_saver = False
    assert machine.run(60, B)[-1].standbys


def test_a_plug_that_is_loose_causes_no_more_than_a_switch_in_each_cooldown():
    machine = laptop()
    machine.run(60, A)
    switches = []
    for second in range(300):
        machine.battery_saver = machine.on_battery = second % 2 == 0
        switches += [machine.now_s for decision in machine.run(1, A) if decision.switch_to is not None]
        machine.attached = SchedulerName(machine.attached.partition(":")[0])
    assert len(switches) > 5
    assert min(after - before for before, after in pairwise(switches)) >= 10


def test_the_guard_does_not_compare_across_a_change_of_power():
    machine = laptop()
    machine.on_battery = False
    machine.run(60, A, lambda _: 0.05)
    assert machine.state.memory.guard.seen
    machine.on_battery = True
    machine.run(1, A)
    assert not machine.state.memory.guard.seen
    # much worse than on mains, as it is with slow processors: nobody's fault
    decisions = machine.run(120, A, lambda _: 0.7)
    assert Reason.REVERTED not in {decision.reason for decision in decisions}
    assert machine.attached == ONE


def test_what_the_guard_kept_to_is_not_kept_to_on_battery_saver():
    machine = laptop()
    machine.run(60, A, lambda _: 0.05)
    memory = machine.state.memory
    revert = Revert(workload=A, back=THREE, count=1, at_ns=machine.now_s * S)
    machine.state = replace(machine.state, memory=replace(memory, reverts=(revert,)))
    assert machine.run(1, A)[0].wanted == THREE
    machine.battery_saver = True
    assert machine.run(1, A)[0].wanted == EEVDF


def test_what_was_seen_before_a_suspend_does_not_vote_after_it():
    machine = Machine()
    machine.run(60, A)
    assert len(machine.state.votes.window.entries) > 1
    assert machine.state.lessons.open
    assert machine.state.memory.guard.trial.blocks > 1
    machine.suspended_s = 3600  # CLOCK_MONOTONIC goes on as if nothing had been
    woken = machine.run(1, A)[0]
    assert (woken.probabilities, woken.vote.workload, woken.reason) == (None, None, Reason.NO_RATES)
    assert machine.state.votes.window.entries == ()
    assert machine.state.lessons.open == ()
    assert machine.state.memory.guard.trial is None  # the next block is of a new stretch
    decisions = machine.run(10, A)
    assert decisions[0].vote.workload == A
    assert {decision.switch_to for decision in decisions} == {None}  # what ran goes on
    assert machine.attached == ONE


def test_without_a_gate_nobody_stands_by():
    assert Machine().run(120, A)[-1].standbys == ()


def test_orders_are_heard():
    machine = Machine()
    machine.run(60, A)
    machine.report(SwitchOutcome.LOST, ONE, ExitKind.SYSRQ)
    assert machine.run(60, A)[-1].reason is Reason.HOLD
    machine.orders = [Order(kind=OrderKind.RESUME)]
    machine.run(30, A)
    assert machine.attached == ONE


def test_what_the_user_says_goes_before_what_is_recognised():
    machine = Machine()
    machine.rules = replace(machine.rules, may_stand_by=True)
    machine.run(60, A)
    assert machine.state.decision.standbys != ()
    machine.orders = [Order(kind=OrderKind.SWITCH, scheduler=THREE, until_ns=10**18 + 100 * S, until="later")]
    first = machine.run(1, A)[0]
    assert (first.switch_to, first.reason, first.wanted, machine.attached) == (THREE, Reason.BY_HAND, THREE, THREE)
    decisions = machine.run(30, B)
    assert {decision.reason for decision in decisions} == {Reason.HOLD}
    assert decisions[-1].sentence == "on hold: held by the user on scx_three until later"
    assert (decisions[-1].wanted, decisions[-1].standbys) == (TWO, ())
    machine.run(60, B)
    assert machine.attached == TWO
    machine.orders = [Order(kind=OrderKind.HOLD)]
    machine.run(60, A)
    assert machine.attached == TWO


@pytest.mark.parametrize(("setting", "most_s"), [("auto", 9), (10.0, 14)])
def test_what_stands_by_is_switched_to_sooner(setting, most_s):
    machine = Machine()
    machine.rules = replace(machine.rules, may_stand_by=True, policy=PolicySettings(cooldown_s=setting))
    for workload in (A, B, C) * 4:  # until all are measured
        machine.run(60, workload)
    machine.run(60, A)
    assert set(machine.state.decision.standbys) == {TWO, THREE}
    start_s = machine.now_s
    for workload, scheduler in ((B, TWO), (C, THREE)):
        while machine.attached != scheduler:
            machine.run(1, workload)
    assert most_s - 5 < machine.now_s - start_s <= most_s


def test_in_shadow_mode_the_choice_is_believed_and_the_truth_is_told():
    machine = Machine()
    machine.rules = replace(machine.rules, shadow=True, may_stand_by=False)
    machine.attached = SchedulerName("scx_layered")  # somebody else's: nothing is done to it
    machine.workload = A
    orders = []
    for _ in range(60):
        decision = machine.tick(0.9)
        if decision.switch_to is not None:
            orders.append(decision.switch_to)
            machine.report(SwitchOutcome.SHADOWED, decision.switch_to)
    assert orders == [ONE]
    assert (decision.reason, decision.current) == (Reason.SERVED, "scx_layered")


ENDS = [SwitchOutcome.CONFIRMED] * 6 + [SwitchOutcome.FAILED, SwitchOutcome.REFUSED, SwitchOutcome.LOST]
BLAMED = [ExitKind.ERROR, ExitKind.STALL, ExitKind.KILLED, ExitKind.QUIT]


def adversary(machine, seed, restless, hostile, failing):
    """An hour of `machine` in which classes, pressure and the ends of switches are whatever hurts. Its orders."""
    rng = random.Random(seed)  # noqa: S311  # an experiment that can be repeated
    worse = {(name, one): rng.random() < hostile for name in CLASSES for one in (ONE, TWO, THREE, EEVDF)}
    machine.workload = A
    orders = []
    for _ in range(HOUR):
        if rng.random() < restless:
            machine.workload = rng.choice(CLASSES)
            worse[machine.workload, rng.choice((ONE, TWO, THREE, EEVDF))] = rng.random() < hostile
        decision = machine.tick(0.8 if worse[machine.workload, machine.attached] else 0.05 * rng.random())
        target = decision.switch_to
        if target is not None:
            outcome = rng.choice(ENDS) if target != EEVDF and rng.random() < failing else SwitchOutcome.CONFIRMED
            if outcome is SwitchOutcome.LOST:
                machine.report(SwitchOutcome.CONFIRMED, target)
            machine.report(outcome, target, rng.choice(BLAMED) if outcome is not SwitchOutcome.CONFIRMED else None)
            machine.stood_by[machine.now_s] = target in machine.standbys
            orders.append((machine.now_s, decision, outcome))
    return orders


HOSTILITY = {
    "seed": st.integers(0, 2**32),
    "restless": st.sampled_from([0.0, 0.002, 0.02, 0.2]),
    "hostile": st.floats(0.0, 1.0),
    "failing": st.sampled_from([0.0, 0.1, 1.0]),
}


def reverts_and_failures_are_bounded(orders):
    """Gives the number of switches that no cooldown delays."""
    reverts = [decision for _, decision, _ in orders if decision.reason is Reason.REVERTED]
    for count in Counter(decision.workload for decision in reverts).values():
        assert count <= MOST_REVERTS_PER_HOUR
    for count in Counter((decision.workload, decision.current) for decision in reverts).values():
        assert count <= 3  # barred for 10, 20, 40 minutes
    bad = Counter(decision.switch_to for _, decision, end in orders if end is not SwitchOutcome.CONFIRMED)
    assert all(count <= QuarantineSettings().failures for count in bad.values())
    return len(reverts) + sum(end is SwitchOutcome.REFUSED for _, _, end in orders)


@settings(max_examples=12, deadline=None)
@given(**HOSTILITY)
def test_whatever_is_measured_switches_stay_bounded(seed, restless, hostile, failing):
    machine = Machine()
    orders = adversary(machine, seed, restless, hostile, failing)
    cooldown_s = machine.rules.policy.cooldown_s
    chosen = [(at_s, end) for at_s, decision, end in orders if decision.reason is Reason.BETTER]
    for (before_s, end), (at_s, _) in pairwise(chosen):
        if end is not SwitchOutcome.REFUSED:  # which changed nothing
            assert at_s - before_s >= cooldown_s
    assert len(orders) <= HOUR / cooldown_s + 1 + reverts_and_failures_are_bounded(orders)


@settings(max_examples=12, deadline=None)
@given(**HOSTILITY)
def test_with_a_cooldown_by_what_switches_take_too(seed, restless, hostile, failing):
    machine = Machine()
    machine.rules = replace(machine.rules, may_stand_by=True, policy=PolicySettings(cooldown_s="auto"))
    orders = adversary(machine, seed, restless, hostile, failing)
    reverts_and_failures_are_bounded(orders)
    ended_s = None
    for at_s, decision, end in orders:
        if decision.reason is Reason.BETTER and ended_s is not None:
            light = decision.switch_to == EEVDF or machine.stood_by[at_s]
            assert at_s - ended_s >= (cooldown.SHORTEST_S if light else cooldown.LONGEST_S)
        if end is not SwitchOutcome.REFUSED:
            ended_s = at_s


def test_without_a_reason_to_change_it_settles():
    """Every scheduler is worse than EEVDF for every class, for an hour: the machine ends on EEVDF and stays there."""
    machine = Machine()
    orders = [one for one in machine.run(HOUR, A, lambda name: 0.1 if name == EEVDF else 0.8) if one.switch_to]
    assert machine.attached == EEVDF
    assert len(orders) <= 2 * MOST_REVERTS_PER_HOUR
    assert [one.switch_to for one in orders][:6] == [ONE, EEVDF, TWO, EEVDF, THREE, EEVDF]
