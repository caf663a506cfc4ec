# SPDX-License-Identifier: GPL-2.0-only
"""The account of the policy's memories: each is filled by what fills it in the agent."""

from dataclasses import replace

from policy_bench import heard
from tried_here import PAIR, tried

from asa.config import Learn, PolicySettings, QuarantineSettings, Voting
from asa.core.decision import (
    EEVDF,
    ExitKind,
    Permit,
    SchedulerExit,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Way,
    Workload,
)
from asa.decide import guard, learning, penalties, policy
from asa.decide.account import Accountant, ranking, showings, switched, trying
from asa.decide.books import Books
from asa.decide.learning import Learning
from asa.decide.penalties import Bars
from asa.decide.policy import PolicyState, Revert
from asa.decide.policy_state import Now, Upcoming
from asa.decide.signals import Signal, Signals
from asa.decide.table import Entry, MappingTable
from asa.decide.trial import Plan, TrialTick, begin
from asa.decide.trial_budget import Account, Stand
from asa.decide.trial_pairs import Verdict
from asa.pipeline import Setup
from scenarios.planted import evidence

S = 1_000_000_000
WALL_NS = 1_790_000_000 * S
CPU, IDLE = Workload("cpu"), Workload("idle")
RUSTY, FLASH = SchedulerName("scx_rusty"), SchedulerName("scx_flash")
TABLE = MappingTable(
    path="t.yaml",
    machine="test",
    provenance="test",
    rankings={
        IDLE: (Entry(scheduler="eevdf", why="idle wants nothing"),),
        CPU: (
            Entry(scheduler="scx_rusty", why="fast", evidence=evidence()),
            Entry(scheduler="scx_flash", why="second", evidence=evidence()),
        ),
    },
)
SETUP = Setup(
    classifier=None,
    table=TABLE,
    voting=Voting(),
    policy=PolicySettings(),
    name_of_ops=SchedulerName,
    permit=Permit(switch=True),
    quarantine=QuarantineSettings(backoff_s=30.0),
)
NOTHING = Bars()
EXIT = SchedulerExit(kind=ExitKind.ERROR, reason="invalid CPU 99", source="the scheduler")


def event(outcome, at_s, new=RUSTY, **more):
    values = {"old": EEVDF, "elapsed_ns": 5 * S, "detail": "ended", "undo": "", **more}
    return SwitchEvent(monotonic_ns=int(at_s * S), outcome=outcome, new=new, **values)


def fail(memory, kept, at_s, new=RUSTY):
    return heard(
        memory, kept, event(SwitchOutcome.FAILED, at_s, new, exit=EXIT), wall_ns=WALL_NS + int(at_s * S), setup=SETUP
    )


def at(now_s):
    return Now(monotonic_ns=int(now_s * S), wall_ns=WALL_NS + int(now_s * S))


def places(memory, kept=NOTHING, now_s=0):
    return ranking(Books(policy=memory, bars=kept), at(now_s), SETUP)


def test_the_ranking_is_the_tables_with_the_kernels_own_at_the_end():
    found = places(PolicyState(workload=CPU))
    assert [(place.scheduler, place.out, place.until_ns) for place in found] == [
        (RUSTY, "", None),
        (FLASH, "", None),
        (EEVDF, "", None),
    ]
    assert [place.why.partition(";")[0] for place in found][:2] == ["fast", "second"]
    assert [place.why for place in places(PolicyState(workload=IDLE))] == ["idle wants nothing"]


def test_on_battery_saver_the_ranking_is_the_one_that_counts_then():
    memory = PolicyState(workload=CPU)
    accountant = Accountant()
    assert [place.scheduler for place in account(memory, accountant=accountant).ranking] == [RUSTY, FLASH, EEVDF]
    saving = account(policy.powered(memory, True, None), accountant=accountant).ranking
    assert [place.scheduler for place in saving] == [EEVDF, RUSTY, FLASH]
    assert all(place.why.endswith("; not on battery saver") for place in saving[1:])


def test_without_a_class_or_without_its_ranking_there_is_none():
    assert places(PolicyState()) == ()
    assert places(PolicyState(workload=Workload("unknown"))) == ()


def test_one_that_failed_is_out_until_its_backoff_ends():
    memory, kept = fail(PolicyState(workload=CPU), Bars(), 10)
    rusty, flash, _ = places(memory, kept, 20)
    assert rusty.out == "failed once: invalid CPU 99"
    assert rusty.until_ns == WALL_NS + 40 * S
    assert flash.out == ""
    assert places(memory, kept, 40)[0].out == ""
    assert RUSTY in memory.quarantine.out(39 * S)
    assert RUSTY not in memory.quarantine.out(40 * S)


def test_one_that_the_helper_did_not_start_has_not_failed():
    untried = SchedulerExit(kind=ExitKind.WITHDRAWN, reason="not approved", source="the daemon")
    refused = event(SwitchOutcome.REFUSED, 10, exit=untried)
    memory, kept = heard(PolicyState(workload=CPU), Bars(), refused, wall_ns=WALL_NS, setup=SETUP)
    assert places(memory, kept, 20)[0].out == "not started: not approved"


def test_one_that_failed_too_often_is_out_until_lifted():
    memory, kept = PolicyState(workload=CPU), Bars()
    for at_s in (10, 100, 200):
        memory, kept = fail(memory, kept, at_s)
    rusty = places(memory, kept, 10_000)[0]
    assert (rusty.out, rusty.until_ns) == ("off after 3 failures: invalid CPU 99", None)
    assert places(memory, penalties.lift(kept, RUSTY), 10_000)[0].out == ""


def lowered(kept=NOTHING, workload=CPU):
    return penalties.lower(kept, workload=workload, scheduler=RUSTY, version="", wall_ns=WALL_NS, why="it waits")


def test_one_that_the_guard_took_back_is_out_for_that_class_alone():
    rusty = places(PolicyState(workload=CPU), lowered())[0]
    assert (rusty.out, rusty.until_ns) == ("worse here: it waits", WALL_NS + 600 * S)
    assert places(PolicyState(workload=CPU), lowered(), 600)[0].out == ""
    assert places(PolicyState(workload=CPU), lowered(workload=IDLE))[0].out == ""


def test_of_two_reasons_the_one_that_lasts_longer_is_told():
    memory, _ = fail(PolicyState(workload=CPU), Bars(), 10)
    assert places(memory, lowered(), 20)[0].out == "worse here: it waits"
    longer = replace(
        memory, quarantine=replace(memory.quarantine, outs=(replace(memory.quarantine.outs[0], until_ns=9000 * S),))
    )
    assert places(longer, lowered(), 20)[0].out == "failed once: invalid CPU 99"


def watched(ticks=21, scheduler=RUSTY, state=None):
    memory = PolicyState(workload=CPU, running=scheduler) if state is None else state
    seen = memory.guard
    for tick in range(ticks):
        signals = Signals(run_queue_p99_us=1000.0 * (tick // 3 % 3 + 1), timer_late_us=None, cpu_pressure=0.5)
        seen = guard.observe(seen, now_ns=tick * S, workload=CPU, scheduler=scheduler, signals=signals)
    return replace(memory, guard=seen)


def test_the_guards_figures_are_medians_of_its_blocks():
    (rusty,) = showings(watched())
    assert (rusty.scheduler, rusty.blocks) == (RUSTY, 6)
    known = {name: value for name, value in rusty.medians.items() if value is not None}
    assert known == {"run-queue-p99": 2000.0, "cpu-pressure": 0.5}
    assert set(rusty.medians) == set(Signal)
    both = watched(scheduler=RUSTY, state=replace(watched(scheduler=EEVDF), running=RUSTY))
    assert [showing.scheduler for showing in showings(both)] == [EEVDF, RUSTY]
    assert showings(replace(both, workload=IDLE)) == ()


def account(memory, kept=NOTHING, now_s=0, accountant=None):
    accountant = accountant or Accountant()
    return accountant.account(Books(policy=memory, bars=kept, lessons=learning.NOTHING), at(now_s), SETUP)


def test_how_far_the_trial_is():
    assert (account(watched(21)).guard_blocks, account(watched(21)).guard_next_look) == (6, 10)
    assert (account(watched(10)).guard_blocks, account(watched(10)).guard_next_look) == (3, 6)
    over = account(watched(80))
    assert over.guard_blocks > 20
    assert over.guard_next_look is None
    assert account(watched(21, EEVDF)).guard_next_look is None  # which is never judged
    assert account(replace(watched(21), workload=IDLE)).guard_next_look is None


def test_what_a_class_keeps_to_after_a_revert():
    memory = replace(PolicyState(workload=CPU), reverts=(Revert(workload=CPU, back=FLASH, count=1, at_ns=0),))
    assert account(memory, now_s=1).keeps_to == FLASH
    assert account(memory, now_s=4000).keeps_to == ""
    assert account(replace(memory, workload=IDLE), now_s=1).keeps_to == ""


def test_an_accountant_tells_what_changed_and_works_out_only_that():
    accountant = Accountant()
    memory, kept = fail(PolicyState(workload=CPU), Bars(), 10)
    memory = replace(memory, set_aside=memory.quarantine.out(11 * S), barred=frozenset({FLASH}))
    first = account(memory, kept, 11, accountant)
    assert first.ranking[0].out
    assert first.barred == (FLASH,)
    again = account(replace(memory, since_ns=5), kept, 12, accountant)
    assert again.ranking is first.ranking
    over = account(replace(memory, set_aside=frozenset()), kept, 41, accountant)
    assert over.ranking[0].out == ""
    assert account(replace(memory, workload=IDLE), kept, 12, accountant).ranking[0].scheduler == EEVDF


def test_events_on_the_clock_on_the_wall():
    (one, two) = switched(
        [
            (WALL_NS, event(SwitchOutcome.CONFIRMED, 4, gap_ns=7, way=Way.STANDBY, why="better")),
            (WALL_NS + 8 * S, event(SwitchOutcome.LOST, 6, exit=EXIT)),
        ]
    )
    assert (one.at_ns, two.at_ns) == (WALL_NS, WALL_NS + 8 * S)
    assert (one.outcome, one.old, one.new, one.way, one.why) == ("confirmed", EEVDF, RUSTY, "standby", "better")
    assert (one.elapsed_ns, one.gap_ns, one.ended, one.detail) == (5 * S, 7, "", "ended")
    assert two.ended == "error: invalid CPU 99 (by the scheduler)"


def test_of_what_was_learned_the_time_alone_is_told_anew_in_each_tick():
    accountant, memory = Accountant(), PolicyState(workload=CPU)

    def told(asked, **spent):
        lessons = learning.Lessons(kept=Learning(asked=asked, account=Account(**spent)))
        return accountant.account(Books(policy=memory, lessons=lessons), at(0), SETUP).learned

    asked = (tried(RUSTY), tried(FLASH, Verdict.WORSE), tried(FLASH, None, use=IDLE))
    first, again = told(asked), told(asked, watched_s=50.0, tried_s=4.0, switched_ns=(WALL_NS, 5))
    assert (first.learn, first.asked, first.better, first.worse, first.alike, first.watched_s) == ("on", 3, 1, 1, 0, 0)
    assert (again.watched_s, again.tried_s, again.switches, again.most_switches) == (50.0, 4.0, 1, 12)
    assert again.here is first.here
    (better, worse) = again.here
    assert (better.candidate, better.in_force, better.verdict, better.pairs) == (RUSTY, EEVDF, "better", 9)
    assert (better.share, better.low, better.high, better.at_ns) == (0.2, 0.1, 0.3, 10**18)
    assert (worse.candidate, worse.verdict) == (FLASH, "worse")
    assert told(()).asked == 0


def test_who_was_better_in_a_trial_stands_first_with_its_figures():
    lessons = learning.begin(Learning(asked=(tried(FLASH, in_force=RUSTY),)), Stand(kernel="", versions={}))
    books = Books(policy=PolicyState(workload=CPU), lessons=lessons)
    first, second, _ = ranking(books, at(0), SETUP)
    assert (first.scheduler, second.scheduler) == (FLASH, RUSTY)
    assert first.learned.startswith(
        "measured here: +20 % of the wait saved against scx_rusty (+10 % to +30 %), 9 pairs"
    )
    assert second.learned == ""
    off = replace(SETUP, policy=PolicySettings(learn=Learn.OFF))
    assert [place.learned for place in ranking(books, at(0), off)] == ["", "", ""]


def test_the_trial_that_is_next_and_the_one_under_way():
    assert trying(PolicyState()) is None
    upcoming = Upcoming(use=CPU, in_force=EEVDF, candidate=FLASH, block_s=12.0, before=(PAIR,), why_not="not yet")
    found = trying(PolicyState(upcoming=upcoming))
    assert (found.under_way, found.candidate, found.pairs, found.why_not) == (False, FLASH, 1, "not yet")
    plan = Plan(use=CPU, in_force=EEVDF, candidate=FLASH, block_s=12.0, seed=1)
    tick = TrialTick(
        now_ns=0, wall_ns=0, suspended_ns=0, awake_s=99.0, use=CPU, in_force=EEVDF, signals=Signals(cpu_pressure=0.1)
    )
    found = trying(PolicyState(trial=begin(plan, tick), upcoming=upcoming))
    assert (found.under_way, found.pairs, found.most_pairs, found.block_s) == (True, 0, 24, 12.0)
