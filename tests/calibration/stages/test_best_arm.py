# SPDX-License-Identifier: GPL-2.0-only
"""The best-arm rule on simulated schedulers: how often it is wrong, and what its runs are worth beside even ones."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.decision import EEVDF, SchedulerName, Workload
from calibration.stages.best_arm import Candidates, Rule, next_trials, verdict
from calibration.stages.ranking import Expected, ranking

ALL = (EEVDF, *(SchedulerName(f"scx_{letter}") for letter in "abcdefg"))
NAMES = ALL[:5]
WEB, GAME = Workload("web+archive"), Workload("game+llm")


class Machine:
    """Scores of each class and scheduler; a block adds its own level, a cell its own error."""

    def __init__(self, true, *, noise, seed):
        self.true = true
        self.noise = noise
        self.rng = random.Random(seed)  # noqa: S311
        self.blocks = {workload: {} for workload in true}
        self.trials = 0

    def play(self, workload, names):
        blocks = self.blocks[workload]
        level = self.rng.gauss(0.0, 0.2)
        blocks[str(workload), "run", len(blocks) + 1] = {
            name: self.true[workload][name] + level + self.rng.gauss(0.0, self.noise) for name in names
        }
        self.trials += len(names)

    def ranked(self):
        return {workload: ranking(blocks, self.noise) for workload, blocks in self.blocks.items() if blocks}

    def regret(self, candidates):
        found = self.ranked()
        chosen = {one: verdict(one, found.get(one, ()), candidates[one]).leader for one in self.true}
        return statistics.fmean(max(scores.values()) - scores[chosen[one]] for one, scores in self.true.items())


def adaptive(machine, candidates, budget, rule=None):
    while machine.trials < budget:
        wishes = next_trials(machine.ranked(), candidates, (rule or Rule()).most, rule)[:1]
        if not wishes:
            break
        for wish in wishes:
            machine.play(wish.workload, wish.names)


def evenly(machine, candidates, budget):
    while machine.trials < budget:
        for workload, given_ in candidates.items():
            machine.play(workload, given_.names)


def drawn(rng, classes):
    return {
        Workload(f"class {number}"): {name: 0.5 + rng.uniform(0.0, 0.2) for name in ALL} for number in range(classes)
    }


def test_the_best_is_found_and_rarely_another_is_taken_for_it():
    rule, wrong, settled = Rule(delta=0.1, margin=0.005), 0, 0
    runs = 30
    for seed in range(runs):
        # four that are equally worse: the hardest case
        true = {WEB: dict.fromkeys(NAMES, 0.6) | {NAMES[3]: 0.6 + 4 * rule.margin}}
        machine = Machine(true, noise=0.006, seed=seed)
        candidates = {WEB: Candidates(names=NAMES)}
        adaptive(machine, candidates, 120, rule)
        found = verdict(WEB, machine.ranked()[WEB], candidates[WEB], rule)
        if found.settled:
            settled += 1
            wrong += found.leader != NAMES[3]
    assert settled >= 0.9 * runs
    assert wrong <= rule.delta * runs


def test_uneven_runs_are_worth_more_than_even_ones():
    ours, even = [], []
    for seed in range(12):
        true = drawn(random.Random(seed), 3)  # noqa: S311
        candidates = {one: Candidates(names=ALL) for one in true}
        for list_, spend in ((ours, adaptive), (even, evenly)):
            machine = Machine(true, noise=0.05, seed=seed)
            spend(machine, candidates, 120)
            assert 120 <= machine.trials < 120 + len(ALL)
            list_.append(machine.regret(candidates))
    assert statistics.fmean(ours) < 0.5 * statistics.fmean(even), (statistics.fmean(ours), statistics.fmean(even))


def test_a_class_that_is_clear_gets_fewer_runs_than_one_that_is_close():
    clear = {EEVDF: 0.3, NAMES[1]: 0.9}
    close = {EEVDF: 0.60, NAMES[1]: 0.62}
    machine = Machine({WEB: clear, GAME: close}, noise=0.02, seed=1)
    candidates = {one: Candidates(names=NAMES[:2]) for one in (WEB, GAME)}
    adaptive(machine, candidates, 60)
    assert len(machine.blocks[WEB]) < len(machine.blocks[GAME])
    assert verdict(WEB, machine.ranked()[WEB], candidates[WEB]).settled


def test_what_is_not_known_yet_comes_first_and_eevdf_is_in_it():
    believed = {NAMES[2]: Expected(gain=0.1, error=0.03), NAMES[3]: Expected(gain=0.05, error=0.03)}
    candidates = {WEB: Candidates(names=NAMES, expected=believed), GAME: Candidates(names=NAMES)}
    (first,) = next_trials({}, candidates, 7)
    assert first.workload == GAME
    assert first.names == NAMES[:4]
    both = next_trials({}, candidates, 8)
    assert [wish.workload for wish in both] == [GAME, WEB]
    assert both[1].names[:2] == (NAMES[2], EEVDF)


def test_nothing_is_wished_without_budget_rivals_or_doubt():
    candidates = {WEB: Candidates(names=NAMES)}
    assert next_trials({}, candidates, 1) == ()
    assert next_trials({}, {WEB: Candidates(names=(EEVDF,))}, 10) == ()
    blocks = {(str(WEB), "run", number): {EEVDF: 0.5, NAMES[1]: 0.9} for number in range(8)}
    ranked = {WEB: ranking(blocks, 0.01)}
    assert next_trials(ranked, {WEB: Candidates(names=NAMES[:2])}, 10) == ()


def test_two_runs_settle_nothing():
    blocks = {(str(WEB), "run", number): {EEVDF: 0.50, NAMES[1]: 0.60 + number / 50} for number in range(2)}
    found = verdict(WEB, ranking(blocks, 0.05), Candidates(names=NAMES[:2]))
    assert (found.leader, found.open, found.blocks) == (NAMES[1], (EEVDF,), 2)


@given(
    st.dictionaries(st.integers(1, 6), st.lists(st.floats(0.0, 1.0, width=32), min_size=5, max_size=5), max_size=6),
    st.integers(0, 30),
)
def test_a_wish_is_always_for_candidates_of_its_class_within_the_budget(rows, budget):
    blocks = {(str(WEB), "run", number): dict(zip(NAMES, row, strict=True)) for number, row in rows.items()}
    ranked = {WEB: ranking(blocks, 0.05)} if blocks else {}
    candidates = {WEB: Candidates(names=NAMES[1:4]), GAME: Candidates(names=NAMES)}
    found = next_trials(ranked, candidates, budget)
    assert sum(len(wish.names) for wish in found) <= budget
    assert len({wish.workload for wish in found}) == len(found)
    for wish in found:
        assert 2 <= len(set(wish.names)) == len(wish.names) <= Rule().most
        assert set(wish.names) <= set(candidates[wish.workload].names)
    assert [wish.worth for wish in found] == sorted((wish.worth for wish in found), reverse=True)


def test_a_rule_that_is_surer_asks_for_more():
    blocks = {(str(WEB), "run", number): {EEVDF: 0.50, NAMES[1]: 0.60 + number / 100} for number in range(5)}
    found = ranking(blocks, 0.05)
    candidates = Candidates(names=NAMES[:2])
    assert verdict(WEB, found, candidates, Rule(delta=0.2)).settled
    assert not verdict(WEB, found, candidates, Rule(delta=1e-6)).settled


@pytest.mark.parametrize("rivals", [2, 5])
def test_who_was_not_played_stays_open(rivals):
    blocks = {(str(WEB), "run", number): {EEVDF: 0.5, NAMES[1]: 0.9} for number in range(8)}
    found = verdict(WEB, ranking(blocks, 0.01), Candidates(names=NAMES[:rivals]))
    assert found.open == NAMES[2:rivals]
