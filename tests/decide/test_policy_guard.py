# SPDX-License-Identifier: GPL-2.0-only
"""What the policy does with the guard's verdicts: measuring first, taking back, resting."""

from collections import Counter
from dataclasses import replace

from policy_bench import (
    BAD,
    CALM,
    CPU,
    DISK,
    FLASH,
    IDLE,
    RUSTY,
    SETUP,
    SIMPLE,
    TABLE,
    WALL_NS,
    S,
    Setup,
    ask,
    decided,
    event,
    heard,
    now,
    settled,
)

from asa.config import GuardSettings
from asa.core.decision import (
    EEVDF,
    Permit,
    Reason,
    SwitchOutcome,
    Workload,
)
from asa.decide import policy, turns
from asa.decide.books import Books
from asa.decide.penalties import Bars, Cause, barred, lower
from asa.decide.policy import MOST_REVERTS_PER_HOUR, PolicyState, first_choice
from asa.decide.signals import PLACES, SIGNALS, Signal, Signals
from asa.decide.table import Entry
from scenarios.planted import evidence

GAME = Workload("game")


def pressed(pressure):
    """A block of the guard in which nothing else was measured."""
    return tuple(pressure if place == SIGNALS.index(Signal.PRESSURE) else None for place in range(PLACES))


def test_a_class_met_first_stays_on_eevdf_until_there_is_something_to_compare_with():
    state = settled()
    for now_s in range(2, 22):
        state, verdict = ask(state, CPU, now_s, signals=CALM)
        if verdict.switch_to is not None:
            break
        assert verdict.reason is Reason.BASELINE
    assert (verdict.switch_to, now_s) == (RUSTY, 20)  # six blocks of three seconds
    assert ask(settled(), CPU, 2, signals=Signals(busy=0.5))[1].switch_to == RUSTY  # nothing is measured here
    off = Setup(guard=GuardSettings(enabled=False))
    assert ask(settled(), CPU, 2, signals=CALM, setup=off)[1].switch_to == RUSTY
    short = Setup(guard=GuardSettings(baseline_s=5.0))
    assert ask(settled(), CPU, 6.9, signals=CALM, setup=short)[1].reason is Reason.BASELINE
    assert ask(settled(), CPU, 7, signals=CALM, setup=short)[1].switch_to == RUSTY


class Run:
    """Ticks of one second; every order is carried out at once."""

    def __init__(self, setup=SETUP):
        self.state, self.bars, self.current, self.now_s, self.setup = PolicyState(), Bars(), EEVDF, 0, setup
        self.verdicts = []

    def tick(self, workload, signals):
        self.now_s += 1
        self.state, self.bars, verdict = decided(
            self.state,
            self.bars,
            workload,
            self.now_s,
            self.current,
            signals=signals,
            setup=self.setup,
        )
        self.verdicts.append((self.now_s, verdict))
        if verdict.switch_to is not None:
            done = event(SwitchOutcome.CONFIRMED, verdict.switch_to, self.now_s, old=self.current)
            self.current = verdict.switch_to
            self.state, self.bars = heard(
                self.state, self.bars, done, wall_ns=WALL_NS + self.now_s * S, setup=self.setup
            )
        return verdict

    def until_revert(self, workload, seconds=200):
        for _ in range(seconds):
            verdict = self.tick(workload, CALM if self.current == EEVDF else BAD)
            if verdict.reason is Reason.REVERTED:
                return verdict
        raise AssertionError("never")


def test_what_makes_things_worse_is_taken_back_and_barred_for_that_class():
    run = Run()
    verdict = run.until_revert(CPU)
    # the turns of a check have shown it, so that EEVDF is in force already
    assert (verdict.switch_to, run.current, run.state.running) == (None, EEVDF, EEVDF)
    assert verdict.sentence.startswith("cpu regressed under scx_rusty compared with eevdf: CPU pressure 60.0 %")
    assert verdict.sentence.endswith(": back to eevdf")
    (mark,) = run.bars.marks
    assert (mark.workload, mark.scheduler, mark.cause, mark.why) == (CPU, RUSTY, Cause.REVERTED, verdict.sentence[:-15])
    wall_ns = WALL_NS + run.now_s * S
    assert barred(run.bars, CPU, wall_ns, {}) == {RUSTY}
    assert barred(run.bars, DISK, wall_ns, {}) == frozenset()
    assert (run.state.set_aside, run.state.barred) == (frozenset(), {RUSTY})


def test_what_looks_worse_takes_turns_of_seconds_with_eevdf_before_it_is_taken_back():
    run = Run()
    run.until_revert(CPU)
    orders = [(verdict.reason, verdict.switch_to) for _, verdict in run.verdicts if verdict.switch_to is not None]
    turns = [(Reason.CHECKING, name) for name in (EEVDF, RUSTY, EEVDF, RUSTY, EEVDF, RUSTY, EEVDF)]
    assert orders == [(Reason.BETTER, RUSTY), *turns]  # pressure alone: four turns of EEVDF
    asked_s = next(now_s for now_s, verdict in run.verdicts if verdict.reason is Reason.CHECKING)
    given_s = next(now_s for now_s, verdict in run.verdicts if verdict.switch_to == RUSTY)
    assert (asked_s - given_s, run.now_s - asked_s) == (5, 28)
    assert run.state.checks.now is None
    assert run.state.previous == EEVDF  # turns are not what ran before


def test_a_load_that_stays_under_eevdf_clears_what_looked_worse():
    run = Run()
    for _ in range(40):
        run.tick(CPU, CALM)
    assert run.current == RUSTY
    while run.current == RUSTY:
        run.tick(CPU, BAD)
    assert run.verdicts[-1][1].reason is Reason.CHECKING
    for _ in range(20):
        run.tick(CPU, BAD)
    assert (run.current, run.state.barred, run.bars) == (RUSTY, frozenset(), Bars())
    assert Reason.REVERTED not in {verdict.reason for _, verdict in run.verdicts}


def test_turns_end_where_nobody_can_act_or_the_use_changes():
    def checked():
        run = Run()
        while run.state.checks.now is None:
            run.tick(CPU, CALM if run.current == EEVDF else BAD)
        return run

    run = checked()
    assert run.tick(DISK, BAD).reason is not Reason.CHECKING
    assert run.state.checks.now is None
    run = checked()
    run.setup = replace(run.setup, guard=GuardSettings(enabled=False))
    assert run.tick(CPU, BAD).reason is not Reason.CHECKING
    run = checked()
    run.state = policy.powered(run.state, True, True)
    assert run.tick(CPU, BAD).reason is not Reason.CHECKING
    run = checked()
    assert policy.interrupted(run.state).checks.now is None
    assert policy.interrupted(run.state).checks.begun_ns  # but it was one of the three


def test_long_switches_have_no_turns():
    slow = Run()
    while slow.current == EEVDF:
        slow.tick(CPU, CALM)
    taken = {(RUSTY, False): (2 * S,)}
    slow.state = replace(slow.state, costs=replace(slow.state.costs, taken_ns=taken))
    verdict = slow.until_revert(CPU)
    assert verdict.switch_to == EEVDF  # by matching, after half a minute
    assert Reason.CHECKING not in {verdict.reason for _, verdict in slow.verdicts}


def test_who_has_to_be_loaded_for_a_turn_is_loaded_after_eevdf_s():
    waits = Setup(permit=Permit(switch=True, stand_by=True))
    run = Run(waits)
    while run.state.checks.now is None:
        run.tick(CPU, CALM if run.current == EEVDF else BAD)
    partners = []
    for _ in range(8):
        partners.append(turns.partner(run.state))
        verdict = run.tick(CPU, CALM)
    assert partners[0] is None  # while EEVDF is measured nothing is loaded
    assert partners[-1] == RUSTY
    assert (verdict.reason, verdict.switch_to, verdict.wanted) == (Reason.CHECKING, None, RUSTY)
    assert verdict.sentence.endswith("it is loaded for its turn")


def test_a_class_met_under_another_scheduler_is_measured_there_first():
    """Else nothing it gets could ever be judged: it has not been seen under EEVDF, nor under what ran before."""
    run = Run()
    for _ in range(40):
        run.tick(DISK, CALM)
    assert run.current == SIMPLE
    met_s = run.now_s + 1
    verdict = next(one for one in (run.tick(CPU, CALM) for _ in range(60)) if one.switch_to is not None)
    assert (verdict.switch_to, run.now_s - met_s) == (RUSTY, 20)  # two of dwell, six blocks of three seconds
    assert run.verdicts[-2][1].sentence == "measuring cpu under scx_simple before a switch to scx_rusty (baseline)"
    verdict = run.until_revert(CPU)
    assert verdict.switch_to == SIMPLE
    assert verdict.sentence.startswith("cpu regressed under scx_rusty compared with scx_simple: CPU pressure 60.0 %")


def test_a_class_is_measured_first_once_and_never_for_eevdf():
    rankings = {
        DISK: (Entry(scheduler="scx_flash", why=".", evidence=evidence()),),
        GAME: (Entry(scheduler="scx_simple", why=".", evidence=evidence()),),
    }
    run = Run(Setup(table=replace(TABLE, rankings=TABLE.rankings | rankings)))
    waited = Counter()
    for workload in (CPU, DISK, GAME, CPU, GAME, DISK, CPU, IDLE) * 2:
        verdicts = [run.tick(workload, CALM) for _ in range(60)]
        waited[workload] += sum(verdict.reason is Reason.BASELINE for verdict in verdicts)
        assert verdicts[-1].reason is Reason.SERVED
    assert waited[IDLE] == 0
    assert all(0 < waited[workload] <= 20 for workload in (CPU, DISK, GAME)), waited


def test_what_is_barred_from_a_class_is_not_measured_first():
    run = Run()
    for _ in range(40):
        run.tick(DISK, CALM)
    run.bars = lower(
        run.bars,
        workload=CPU,
        scheduler=SIMPLE,
        version="",
        wall_ns=WALL_NS,
        why="worse",
    )
    reasons = [run.tick(CPU, CALM).reason for _ in range(3)]
    assert reasons == [Reason.DWELL, Reason.DWELL, Reason.BETTER]
    assert run.current == RUSTY


def test_after_a_revert_the_class_rests_and_then_the_next_one_is_tried():
    run = Run()
    run.until_revert(CPU)
    reverted_s = run.now_s
    while run.tick(CPU, CALM).switch_to is None:
        assert run.now_s < reverted_s + 60
    assert (run.current, run.now_s - reverted_s) == (FLASH, 20)


def test_the_second_revert_within_a_rest_ends_on_eevdf():
    run = Run(
        Setup(
            table=replace(
                TABLE, rankings=TABLE.rankings | {DISK: (Entry(scheduler="scx_flash", why=".", evidence=evidence()),)}
            )
        )
    )
    for _ in range(80):  # flash serves the disk, and cpu without having been measured on eevdf
        run.tick(DISK, CALM)
    assert run.current == FLASH
    state = replace(run.state, reverts=(policy.Revert(workload=CPU, back=FLASH, count=5, at_ns=run.now_s * S),))
    run.state = state
    assert first_choice(Books(policy=state), CPU, now(run.now_s), SETUP, out=frozenset()) == FLASH
    assert first_choice(Books(policy=state), CPU, now(run.now_s), SETUP, out=frozenset({FLASH})) == EEVDF
    assert first_choice(Books(policy=state), DISK, now(run.now_s), run.setup, out=frozenset()) == FLASH
    seen = {(CPU, EEVDF): (pressed(0.1),) * 6, (CPU, SIMPLE): (pressed(0.05),) * 6}
    run.state = replace(state, guard=replace(state.guard, seen=seen), previous=SIMPLE)
    verdict = run.until_revert(CPU)
    assert (verdict.switch_to, run.current) == (None, EEVDF)
    assert run.state.reverts[0].count == 6
    assert run.state.reverts[0].back == EEVDF


def test_a_revert_is_not_asked_for_where_nobody_can_act():
    for change in ({"permit": Permit(switch=False)}, {"shadow": True}, {"guard": GuardSettings(enabled=False)}):
        run = Run(Setup(**change))
        run.current = RUSTY
        run.state = replace(run.state, running=RUSTY)
        run.state = replace(run.state, guard=replace(run.state.guard, seen={(CPU, EEVDF): (pressed(0.1),) * 9}))
        for _ in range(100):
            assert run.tick(CPU, BAD).switch_to is None


def test_ticks_beside_a_switch_are_not_evidence():
    run = Run()
    run.state = replace(run.state, last_switch_ns=0)
    for _ in range(10):
        run.tick(CPU, CALM)
    assert run.state.guard.trial.block.since_ns in {3 * S, 6 * S, 9 * S}  # from dwell and settling on
    state = replace(run.state, pending=RUSTY)
    assert ask(state, CPU, 12, signals=BAD)[0].guard is state.guard


def starving(run):
    return replace(CALM, waited_us=1e6) if run.current == RUSTY else CALM


def test_what_starves_is_taken_back_at_once_whatever_the_use_is():
    run = Run()
    while run.current != RUSTY:
        run.tick(CPU, CALM)
    switched_s = run.now_s
    verdicts = [run.tick(None, starving(run)) for _ in range(5)]  # nobody knows the use, as it may be then
    back = next(verdict for verdict in verdicts if verdict.switch_to is not None)
    assert (back.switch_to, back.reason) == (EEVDF, Reason.REVERTED)
    assert (
        back.sentence == "scx_rusty starves the machine: a task that could run waited for 1.0 s or more: back to eevdf"
    )
    assert verdicts.index(back) + 1 == 2  # seconds: as soon as the switch has settled
    assert switched_s + 5 >= run.now_s
    (mark,) = run.bars.marks
    assert (mark.workload, mark.scheduler, mark.cause) == (CPU, RUSTY, Cause.REVERTED)
    assert run.tick(CPU, CALM).wanted != RUSTY


def test_harm_is_not_looked_for_where_nobody_can_act():
    for change in ({"permit": Permit(switch=False)}, {"shadow": True}, {"guard": GuardSettings(enabled=False)}):
        run = Run(Setup(**change))
        run.current = RUSTY
        run.state = replace(run.state, running=RUSTY, workload=CPU)
        for _ in range(10):
            assert run.tick(CPU, starving(run)).switch_to is None


def test_the_stated_bound_is_what_the_rests_give():
    rests_s, total_s, reverts = [min(10.0 * 2**count, 3600.0) for count in range(1, 20)], 0.0, 2
    for count in range(2, 20, 2):  # two at once, then the rest of the second
        total_s += rests_s[count - 1]
        if total_s > 3600.0:
            break
        reverts += 2
    assert reverts == MOST_REVERTS_PER_HOUR
