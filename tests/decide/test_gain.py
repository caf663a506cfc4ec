# SPDX-License-Identifier: GPL-2.0-only
"""The rule that a switch has to gain more than it costs: its figures, when it is silent, and what the policy says."""

from dataclasses import replace

import pytest
from policy_bench import CPU, DISK, FLASH, RUSTY, TABLE, WALL_NS, Setup, ask, event, learn, settled
from policy_bench import decided as tick

from asa.config import PolicySettings
from asa.core.decision import EEVDF, Reason, SwitchOutcome
from asa.decide import gain, learning, penalties, policy
from asa.decide.learning import Learning, Lessons, Stay
from asa.decide.penalties import Bars
from asa.decide.policy import PolicyState, Revert
from asa.decide.table import Entry
from asa.decide.tablefile import Cost
from scenarios.planted import evidence

COSTS = {RUSTY: Cost(switch_ms=50.0, overhead_pct=1.0, runs=5), EEVDF: Cost(switch_ms=4.0, overhead_pct=0.0, runs=5)}


def measured(rusty=0.80, eevdf=0.78, costs=COSTS):
    """Of the class `cpu`; scores of None are a prior's."""
    ranking = (
        Entry(scheduler="scx_rusty", why=".", score=rusty, evidence=evidence()),
        Entry(scheduler="scx_flash", why=".", evidence=evidence()),
        Entry(scheduler="eevdf", why=".", score=eevdf),
    )
    return replace(TABLE, rankings=TABLE.rankings | {CPU: ranking}, costs=costs)


def made_setup(**changes):
    return Setup(**({"table": measured()} | changes))


def weigh(table, wanted=RUSTY, current=EEVDF, stay_s=10.0):
    return gain.weigh(table, CPU, wanted=wanted, current=current, stay_s=stay_s)


def test_gain_and_cost_are_the_scores_times_seconds():
    found = weigh(measured())
    assert found.gain == pytest.approx(0.02 * 10)
    assert found.cost == pytest.approx(0.05 * 0.78 + 0.01 * 10)
    assert found.pays
    assert not weigh(measured(), stay_s=3.0).pays
    assert weigh(measured(), stay_s=3.91).pays  # 0.0391 against 0.039
    assert not weigh(measured(), stay_s=3.89).pays
    assert found.words == (
        "score 0.800 against 0.780 for an expected 10 s gains 0.2, 50 ms of switching and +1 % overhead cost 0.139"
    )


def test_hours_are_told_without_powers_of_ten():
    words = weigh(measured(rusty=0.9, costs={RUSTY: Cost(switch_ms=2500.0, runs=1)}), stay_s=36_000.0).words
    assert words == "score 0.900 against 0.780 for an expected 36000 s gains 4320, 2500 ms of switching cost 1.95"


def test_no_gain_never_pays():
    free = {RUSTY: Cost(switch_ms=0.0, overhead_pct=0.0, runs=1)}
    assert not weigh(measured(rusty=0.78, costs=free), stay_s=1e6).pays
    assert not weigh(measured(rusty=0.70, costs=free), stay_s=1e6).pays


def test_only_what_the_wanted_one_has_more_of_the_overhead_counts():
    found = weigh(measured(rusty=0.7), wanted=EEVDF, current=RUSTY)
    assert found.cost == pytest.approx(0.004 * 0.7 - 0.01 * 10)
    assert found.words.endswith("4 ms of switching and -1 % overhead cost -0.0972")


@pytest.mark.parametrize("unknown", [RUSTY, EEVDF])
def test_an_overhead_that_is_not_known_is_not_counted_and_not_told(unknown):
    costs = COSTS | {unknown: Cost(switch_ms=4.0, runs=1)}
    found = weigh(measured(rusty=0.7, costs=costs), wanted=EEVDF, current=RUSTY)
    assert found.cost == pytest.approx(0.004 * 0.7)
    assert "overhead" not in found.words
    without = {EEVDF: Cost(switch_ms=4.0, overhead_pct=0.5, runs=1)}
    assert weigh(measured(rusty=0.7, costs=without), wanted=EEVDF, current=RUSTY).overhead_pct is None


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        measured(rusty=None),
        measured(eevdf=None),
        measured(costs={}),
        measured(costs={RUSTY: Cost(overhead_pct=1.0, runs=1)}),
    ],
)
def test_too_little_known_is_silence(table):
    assert weigh(table) is None
    assert ask(settled(), CPU, 2, setup=Setup(table=table))[1].switch_to == RUSTY


def test_a_mode_is_weighed_by_its_own_score_and_its_schedulers_cost():
    fast = Entry(scheduler="scx_rusty", mode="fast", why=".", score=0.9, evidence=evidence())
    table = measured()
    table = replace(table, rankings=table.rankings | {CPU: (fast, *table.rankings[CPU])})
    found = weigh(table, wanted=fast.name)
    assert (found.score, found.switch_ms) == (0.9, 50.0)


def test_a_switch_waits_until_it_pays_and_says_the_figures():
    state, verdict = ask(settled(), CPU, 2, setup=made_setup())
    assert (verdict.reason, verdict.wanted, verdict.switch_to) == (Reason.COST, RUSTY, None)
    assert verdict.sentence == (
        "scx_rusty would gain less than the switch costs (score 0.800 against 0.780 for an expected 2 s "
        "gains 0.04, 50 ms of switching and +1 % overhead cost 0.059)"
    )
    assert state.pending is None
    state, verdict = ask(state, CPU, 3, setup=made_setup())
    assert verdict.reason is Reason.COST
    state, verdict = ask(state, CPU, 4, setup=made_setup())  # it has stood for 4 s, and may stay as long again
    assert (verdict.reason, verdict.switch_to) == (Reason.BETTER, RUSTY)
    assert verdict.sentence.startswith(
        "scx_rusty suits cpu better than eevdf: score 0.800 against 0.780 for an expected 4 s gains 0.08, "
    )
    assert state.pending == RUSTY


def decided(lessons, now_s=2):
    _, _, verdict = tick(settled(), Bars(), CPU, now_s, EEVDF, setup=made_setup(), lessons=lessons)
    return verdict


def test_the_expected_stay_is_what_was_learned():
    long = Lessons(kept=Learning(stays=(Stay(workload=CPU, count=5, mean_s=300.0),)))
    assert decided(long).switch_to == RUSTY
    assert "for an expected 300 s" in decided(long).sentence
    short = Lessons(kept=Learning(stays=(Stay(workload=CPU, count=5, mean_s=3.0),)))
    assert decided(short).reason is Reason.COST
    assert decided(short, 4).switch_to == RUSTY  # longer than ever: the mean does not hold it up


def test_an_unsettled_rule_comes_after_dwell_and_cooldown():
    state = learn(replace(settled(), pending=EEVDF), event(SwitchOutcome.CONFIRMED, EEVDF, 1))
    assert ask(state, CPU, 1.5, setup=made_setup())[1].reason is Reason.DWELL
    assert ask(state, CPU, 3.0, setup=made_setup())[1].reason is Reason.COOLDOWN


def test_the_rule_can_be_off():
    off = made_setup(policy=PolicySettings(cooldown_s=10.0, weigh_cost=False))
    assert ask(settled(), CPU, 2, setup=off)[1].switch_to == RUSTY
    assert ask(settled(), CPU, 2, setup=off)[1].sentence == "scx_rusty suits cpu better than eevdf"


def test_one_that_may_not_serve_is_left_whatever_that_costs():
    dear = {FLASH: Cost(switch_ms=1e6, runs=1), EEVDF: Cost(switch_ms=1e6, runs=1)}
    table = measured(eevdf=0.79, costs=dear)
    barred = penalties.lower(Bars(), workload=CPU, scheduler=RUSTY, version="", wall_ns=WALL_NS, why=".")
    ranking = tuple(entry for entry in table.rankings[CPU] if entry.name != FLASH)
    state = replace(settled(), running=RUSTY)
    table = replace(table, rankings=table.rankings | {CPU: ranking})
    assert ask(state, CPU, 5, current=RUSTY, bars=barred, setup=Setup(table=table))[1].switch_to == EEVDF


def test_what_a_class_keeps_to_after_a_revert_is_not_weighed():
    dear = {EEVDF: Cost(switch_ms=1e6, runs=1), RUSTY: Cost(switch_ms=1e6, runs=1)}
    state = replace(settled(), running=RUSTY, reverts=(Revert(workload=CPU, back=EEVDF, count=1, at_ns=0),))
    assert ask(state, CPU, 5, current=RUSTY, setup=Setup(table=measured(costs=dear)))[1].switch_to == EEVDF


def test_battery_saver_is_not_weighed():
    frugal = Entry(scheduler="scx_flash", mode="powersave", why=".", efficient=True, score=0.1, evidence=evidence())
    table = measured(costs={frugal.name: Cost(switch_ms=1e6, runs=1)})
    table = replace(table, rankings=table.rankings | {CPU: (*table.rankings[CPU], frugal)})
    state = replace(policy.powered(settled(), True, None), running=RUSTY)
    assert ask(state, CPU, 5, current=RUSTY, setup=Setup(table=table))[1].switch_to == frugal.name


def test_what_was_learned_is_not_weighed_by_scores_that_it_contradicts():
    better = {CPU: {RUSTY: EEVDF}}
    state = replace(settled(), running=RUSTY)
    dear = {EEVDF: Cost(switch_ms=1e6, runs=1)}
    for lessons, expected in ((Lessons(better=better), EEVDF), (learning.NOTHING, None)):
        _, _, verdict = tick(state, Bars(), CPU, 5, RUSTY, setup=Setup(table=measured(costs=dear)), lessons=lessons)
        assert verdict.switch_to == expected


def test_another_class_that_wants_the_same_causes_nothing():
    state = replace(PolicyState(), running=RUSTY, workload=DISK, since_ns=0)
    assert ask(state, CPU, 9, current=RUSTY, setup=made_setup())[1].reason is Reason.SERVED
