# SPDX-License-Identifier: GPL-2.0-only
"""What daily use teaches: how much evidence moves an order and how seldom that is wrong, what is compared with what,
how long classes stay, and the file."""

import math
import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_bench import WALL_NS, Rules

from asa.config import GuardSettings, PolicySettings
from asa.core.decision import EEVDF, Order, OrderKind, Reason, SchedulerName, Workload
from asa.core.errors import InputError
from asa.decide import guard, learning
from asa.decide.guard import FEWEST_BLOCKS, MOST_BLOCKS, GuardState, Signals
from asa.decide.learning import (
    ALIKE,
    ALPHA,
    FEWEST_STAYS,
    MOST_COUNTED,
    MOST_DUELS,
    MOST_STAYS,
    PAIR_S,
    TRIAL_S,
    Duel,
    Learning,
    Lessons,
    Stay,
    begin,
    evidence,
    preferred,
    stay_s,
)
from asa.decide.policy_state import PolicyState, keep
from asa.decide.power import Power

S = 1_000_000_000
WEB, GAME = Workload("web"), Workload("game")
OLD, NEW = SchedulerName("scx_old"), SchedulerName("scx_new")
RULES = Rules(guard=GuardSettings(alpha=0.01, worse_by=0.25))
KEEP = keep(None, Reason.SERVED, "")


class Use:
    """Daily use: stretches of a class under schedulers, one after the other; a tick completes a block of the guard."""

    def __init__(self, rules=RULES, lessons=learning.NOTHING):
        self.rules, self.lessons = rules, lessons
        self.memory, self.now_s = PolicyState(workload=WEB, running=EEVDF), 0
        self.verdicts = 0

    def tick(self, scheduler, signals, judged=True, **changes):
        self.now_s += 3
        now_ns = self.now_s * S
        workload = changes.get("workload", self.memory.workload)
        before = self.memory
        seen = guard.observe(before.guard, now_ns=now_ns, workload=workload, scheduler=scheduler, signals=signals)
        after = replace(before, guard=seen, running=scheduler, **changes)
        worse = None
        if judged:
            worse = guard.judge(seen, workload=workload, scheduler=scheduler, previous=None, rules=self.rules.guard)
        self.note(before, after, KEEP if worse is None else replace(KEEP, worse=worse))
        return worse is not None

    def note(self, before, after, verdict=KEEP, elapsed_s=3.0):
        now_ns = self.now_s * S
        self.memory = after
        self.lessons = learning.note(
            self.lessons,
            before=before,
            after=after,
            verdict=verdict,
            elapsed_s=elapsed_s,
            now_ns=now_ns,
            wall_ns=WALL_NS + now_ns,
            rules=self.rules,
        )

    def stretch(self, scheduler, queue_us, blocks=MOST_BLOCKS, judged=True, **load):
        """So many blocks; it ends early when the guard takes it back. `queue_us`: a figure, or one for each tick."""
        for number in range(blocks + 1):
            value_us = queue_us(number) if callable(queue_us) else queue_us * (1 + number % 5 / 100)
            if self.tick(scheduler, Signals(run_queue_p99_us=value_us, **load), judged):
                self.verdicts += 1
                return

    def pair(self, new_us, old_us, times=1):
        for _ in range(times):
            self.stretch(EEVDF, old_us, FEWEST_BLOCKS)
            self.stretch(NEW, new_us)

    def counts(self, one=NEW, other=EEVDF, workload=WEB):
        duel = learning.duel_of(self.lessons, workload, one, other)
        if duel is None:
            return None
        return (duel.won, duel.lost, duel.alike) if duel.one == one else (duel.lost, duel.won, duel.alike)


def by_integral(won, lost):
    """The statistic as it is defined: the mean likelihood ratio over ALIKE..1."""
    steps = 20_000
    width = (1 - ALIKE) / steps
    middles = (ALIKE + width * (step + 0.5) for step in range(steps))
    return sum((p / ALIKE) ** won * ((1 - p) / (1 - ALIKE)) ** lost for p in middles) / steps


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (0, 1), (13, 0), (7, 5), (30, 20), (3, 40)])
def test_the_evidence_is_the_mean_likelihood_ratio(won, lost):
    assert evidence(won, lost) == pytest.approx(by_integral(won, lost), rel=1e-5)


def test_it_is_a_martingale_where_each_is_won_with_the_probability_of_no_difference():
    for won, lost in ((0, 0), (5, 1), (12, 0), (40, 30), (MOST_COUNTED - 1, 0)):
        following = ALIKE * evidence(won + 1, lost) + (1 - ALIKE) * evidence(won, lost + 1)
        assert following == pytest.approx(evidence(won, lost))


def test_how_much_is_enough():
    def better(won, lost):
        return a_duel(won=won, lost=lost).better

    assert [better(12, 0), better(13, 0), better(0, 13)] == ["", EEVDF, NEW]
    assert [better(16, 1), better(17, 1), better(23, 3), better(24, 3)] == ["", EEVDF, "", EEVDF]
    assert better(110, 90) == ""


def test_an_order_that_is_none_is_hardly_ever_found_however_long_one_looks():
    enough = []  # by the number of comparisons: so many won, or more
    for count in range(1, MOST_COUNTED + 1):
        least = next((won for won in range(count // 2, count + 1) if evidence(won, count - won) * ALPHA >= 1.0), None)
        enough.append(math.inf if least is None else least)
    chance, lives = random.Random(1), 3000  # noqa: S311  # the same each time
    wrong = 0
    for _ in range(lives):
        won = 0
        for least in enough:
            won += chance.random() < ALIKE
            if won >= least:
                wrong += 1
                break
    assert 0 < wrong <= lives * ALPHA


class Noise:
    """Stretches differ among each other by more than their ticks do; logarithms are normal, ticks autoregressive."""

    def __init__(self, seed, between=0.4, within=0.3, r=0.5):
        self.chance = random.Random(seed)  # noqa: S311
        self.between, self.within, self.r = between, within, r

    def stretch(self, base_us):
        level, state = self.chance.gauss(0, self.between), self.chance.gauss(0, 1)

        def value_us(_):
            nonlocal state
            state = self.r * state + math.sqrt(1 - self.r**2) * self.chance.gauss(0, 1)
            return base_us * math.exp(level + self.within * state)

        return value_us


def lived(seed, pairs, times=1.0):
    """A scheduler that makes the latency so many times as long, and the guard at work."""
    noise, use = Noise(seed), Use()
    for _ in range(pairs):
        use.stretch(EEVDF, noise.stretch(20_000.0), FEWEST_BLOCKS)
        use.stretch(NEW, noise.stretch(20_000.0 * times))
    return use


def test_schedulers_that_are_alike_are_not_ordered_also_with_a_guard_that_looks_for_the_worse():
    lives = [lived(seed, 60) for seed in range(40)]
    counts = [use.counts() for use in lives]
    assert {sum(one) for one in counts} == {60}  # each pair of stretches once
    won, lost = (sum(one[place] for one in counts) for place in (0, 1))
    assert won + lost > 1000
    # stretches differ, and the guard sees one of each: its verdicts alone would be no proof
    assert sum(use.verdicts for use in lives) > 40
    assert max(won, lost) / (won + lost) < ALIKE  # the bias is within what ALIKE allows for
    assert sum(bool(use.lessons.better) for use in lives) <= 1


@pytest.mark.parametrize(("times", "better"), [(2.0, EEVDF), (0.5, NEW)])
def test_one_that_doubles_the_latency_is_found(times, better):
    found = [lived(seed, 50, times).lessons.better for seed in range(8)]
    worse = NEW if better == EEVDF else EEVDF
    assert sum(lessons == {WEB: {worse: (better,)}} for lessons in found) >= 7


def test_two_stretches_make_one_comparison_and_are_used_up():
    use = Use()
    use.stretch(EEVDF, 9000, FEWEST_BLOCKS)
    use.stretch(NEW, 4000)
    assert use.counts() == (1, 0, 0)
    for _ in range(3):
        use.stretch(NEW, 4000)
    assert use.counts() == (1, 0, 0)
    use.stretch(EEVDF, 4000)
    assert use.counts() == (1, 0, 0)  # the other one has gone on: a trial gives one stretch
    use.stretch(NEW, 4000)
    assert use.counts() == (1, 0, 1)


def test_a_stretch_too_short_or_of_another_class_tells_nothing():
    use = Use()
    use.stretch(EEVDF, 9000, FEWEST_BLOCKS - 1)
    use.stretch(NEW, 4000)
    assert use.counts() is None
    use = Use()
    use.stretch(EEVDF, 9000)
    use.tick(EEVDF, Signals(), workload=GAME)
    use.stretch(NEW, 4000)
    assert use.counts() is use.counts(workload=GAME) is None


def test_other_loads_and_other_hours_are_not_compared():
    use = Use()
    use.stretch(EEVDF, 9000, busy=0.3)
    use.stretch(NEW, 4000, busy=0.6)
    assert use.counts() is None
    use.stretch(NEW, 4000, 1, busy=0.3)
    use.stretch(EEVDF, 9000, busy=0.6)  # which finds the busy one of before
    assert use.counts() == (1, 0, 0)
    use = Use()
    use.stretch(EEVDF, 9000)
    use.now_s += PAIR_S
    use.stretch(NEW, 4000)
    assert use.counts() is None
    assert [one.scheduler for one in use.lessons.open] == [NEW]


def test_other_power_begins_anew():
    use = Use()
    use.stretch(EEVDF, 9000)
    before = use.memory
    use.note(before, replace(before, power=Power(saver=True), guard=GuardState()))
    use.stretch(NEW, 4000)
    assert use.counts() is None


def test_what_was_measured_before_a_suspend_is_not_compared_with_what_comes_after():
    use = Use()
    use.stretch(EEVDF, 9000)
    assert use.lessons.open
    use.note(use.memory, use.memory, elapsed_s=0.0)
    assert use.lessons.open == ()
    use.stretch(NEW, 4000)
    assert use.counts() is None


def test_a_verdict_is_one_comparison_lost():
    use = Use()
    use.stretch(EEVDF, 4000)
    use.stretch(NEW, 9000)  # taken back with the first look
    assert use.verdicts == 1
    assert use.counts() == (0, 1, 0)
    use.stretch(EEVDF, 4000)  # which ends the trial of the verdict
    assert use.counts() == (0, 1, 0)
    use.stretch(NEW, 4000)
    assert use.counts() == (0, 1, 1)
    use.stretch(EEVDF, 4000)
    found = [
        use.tick(NEW, Signals(run_queue_p99_us=9000.0 + number % 5), judged=number == MOST_BLOCKS)
        for number in range(MOST_BLOCKS + 1)
    ]
    assert found[-1]  # with the last look, when the stretch is complete
    assert use.counts() == (0, 2, 1)


def test_a_verdict_that_nobody_follows_is_not_counted_again():
    use = Use()
    use.stretch(EEVDF, 4000)
    for number in range(3 * MOST_BLOCKS):  # the switch back failed: it goes on
        use.tick(NEW, Signals(run_queue_p99_us=9000.0 + number), judged=number < FEWEST_BLOCKS + 1)
    assert use.counts() == (0, 1, 0)


def test_orders_are_moved_by_enough_of_them_for_that_class_alone():
    use = Use()
    use.pair(4000, 9000, 12)
    assert use.counts() == (12, 0, 0)
    assert not use.lessons.better
    use.pair(4000, 9000)
    assert use.lessons.better == {WEB: {EEVDF: (NEW,)}}
    assert preferred(use.lessons, WEB, EEVDF, lambda _: True) == NEW
    assert preferred(use.lessons, WEB, EEVDF, lambda name: name != NEW) == EEVDF
    assert preferred(use.lessons, GAME, EEVDF, lambda _: True) == EEVDF
    assert preferred(use.lessons, WEB, NEW, lambda _: True) == NEW


def test_the_surest_of_several_is_preferred_and_a_circle_ends():
    third = SchedulerName("scx_third")
    duels = (a_duel(won=13), a_duel(one=EEVDF, other=third, lost=40), a_duel(one=third, other=NEW, won=0, lost=13))
    lessons = begin(Learning(duels=(a_duel(lost=13), a_duel(other=third, lost=40))), {})
    assert lessons.better == {WEB: {EEVDF: (third, NEW)}}
    circle = begin(Learning(duels=duels), {}).better
    assert circle == {WEB: {NEW: (EEVDF,), EEVDF: (third,), third: (NEW,)}}
    assert preferred(Lessons(better=circle), WEB, NEW, lambda _: True) == third
    assert preferred(Lessons(better=circle), WEB, third, lambda _: True) == EEVDF


def a_duel(one=EEVDF, other=NEW, won=0, lost=0, **changes):
    values = {"workload": WEB, "one_version": "", "other_version": "", "at_ns": WALL_NS, **changes}
    return Duel(one=one, other=other, won=won, lost=lost, **values)


def test_another_version_begins_anew():
    versions = {"scx_new": "v1", "scx_old": "v1"}
    use = Use(replace(RULES, versions=versions), begin(Learning(), versions))
    use.pair(4000, 9000, 13)
    kept = use.lessons.kept
    assert (kept.duels[0].one_version, kept.duels[0].other_version) == ("", "v1")
    assert begin(kept, versions).kept is kept
    assert begin(kept, {}).better  # not installed any more, or not known: it harms nobody
    assert begin(kept, versions | {"scx_new": "v2"}).kept.duels == ()
    use.rules = replace(use.rules, versions=versions | {"scx_new": "v2"})  # the settings were read again
    use.tick(NEW, Signals())
    assert use.lessons.kept.duels == ()
    assert not use.lessons.better


def test_a_user_who_trusts_a_scheduler_again_makes_it_be_learned_anew():
    lessons = begin(Learning(duels=(a_duel(lost=13), a_duel(other="scx_old:fast", lost=13))), {})
    same = learning.obey(lessons, Order(kind=OrderKind.RESUME))
    assert same is lessons
    assert learning.obey(lessons, Order(kind=OrderKind.HOLD, scheduler=NEW)) is lessons
    assert learning.obey(lessons, Order(kind=OrderKind.RESUME, scheduler=SchedulerName("scx_none"))) is lessons
    left = learning.obey(lessons, Order(kind=OrderKind.RESUME, scheduler=OLD))
    assert left.better == {WEB: {EEVDF: (NEW,)}}
    assert learning.obey(left, Order(kind=OrderKind.RESUME, scheduler=NEW)).better == {}
    use = Use()
    use.stretch(NEW, 9000)
    assert learning.obey(use.lessons, Order(kind=OrderKind.RESUME, scheduler=OLD)).open == use.lessons.open
    assert learning.obey(use.lessons, Order(kind=OrderKind.RESUME, scheduler=NEW)).open == ()


def test_nothing_is_learned_where_it_is_off():
    use = Use(replace(RULES, policy=PolicySettings(learn=False)))
    use.pair(4000, 9000, 2)
    assert use.lessons is learning.NOTHING


def stood(lessons, workload, seconds):
    use = Use(lessons=lessons)
    use.now_s = 10_000
    before = PolicyState(workload=workload, since_ns=(use.now_s - seconds) * S)
    use.note(before, replace(before, workload=None if workload == GAME else GAME, since_ns=use.now_s * S))
    return use.lessons


def test_the_expected_stay():
    assert stay_s(learning.NOTHING, WEB, age_s=1.0, dwell_s=2.0) == 2.0
    assert stay_s(learning.NOTHING, WEB, age_s=90.0, dwell_s=2.0) == 90.0
    lessons = stood(learning.NOTHING, WEB, 1)  # shorter than the dwell: nothing to switch for
    assert lessons.kept.stays == ()
    for seconds in (10, 20, 30, 40):
        lessons = stood(lessons, WEB, seconds)
    assert stay_s(lessons, WEB, age_s=2.0, dwell_s=2.0) == 2.0  # four times are too few
    lessons = stood(lessons, WEB, 50)
    assert stay_s(lessons, WEB, age_s=2.0, dwell_s=2.0) == pytest.approx(30.0)
    assert stay_s(lessons, GAME, age_s=2.0, dwell_s=2.0) == pytest.approx(30.0)  # of any class
    lessons = stood(lessons, GAME, 300)
    assert stay_s(lessons, GAME, age_s=2.0, dwell_s=2.0) == pytest.approx(450.0 / 6)
    assert stay_s(lessons, WEB, age_s=2.0, dwell_s=2.0) == pytest.approx(30.0)
    assert stay_s(lessons, WEB, age_s=31.0, dwell_s=2.0) == 31.0


def test_old_stays_fade():
    lessons = learning.NOTHING
    for _ in range(100):
        lessons = stood(lessons, WEB, 1000)
    for _ in range(100):
        lessons = stood(lessons, WEB, 10)
    assert stay_s(lessons, WEB, age_s=2.0, dwell_s=2.0) < 60.0


def test_what_is_kept_is_bounded():
    lessons = learning.NOTHING
    for number in range(MOST_STAYS + 5):
        lessons = stood(lessons, Workload(f"class {number}"), 10)
    assert len(lessons.kept.stays) == MOST_STAYS
    full = begin(Learning(duels=tuple(a_duel(workload=f"class {number}") for number in range(MOST_DUELS))), {})
    use = Use(lessons=full)
    use.pair(4000, 9000)
    assert len(use.lessons.kept.duels) == MOST_DUELS
    assert use.counts() == (1, 0, 0)
    assert learning.duel_of(use.lessons, Workload("class 0"), NEW, EEVDF) is None
    use = Use(lessons=begin(Learning(duels=(a_duel(won=MOST_COUNTED // 2, lost=MOST_COUNTED // 2),)), {}))
    use.pair(4000, 9000, 2)
    assert use.counts() == (100, 100, 0)
    use.pair(4000, 4000)
    assert use.counts() == (100, 100, 1)
    assert len(msgspec.json.encode(use.lessons.kept)) < 1 << 20


def test_what_the_guard_takes_back_is_accounted_with_what_it_can_have_cost():
    use = Use()
    use.stretch(EEVDF, 4000)
    begun_s = use.now_s
    use.memory = replace(use.memory, last_switch_ns=begun_s * S, since_ns=0)
    use.stretch(NEW, 9000)
    kept = use.lessons.kept
    assert kept.taken_back_s == kept.lost_most == use.now_s - begun_s < 3.0 * MOST_BLOCKS
    assert (kept.watched_s, kept.tried_s, kept.credit_s) == (0.0, 0.0, 0.0)


names = st.text(min_size=1, max_size=10)
kept = st.builds(
    Learning,
    duels=st.lists(
        st.builds(Duel, workload=names, one=names, other=names, won=st.integers(0, 200), at_ns=st.integers(0, 2**62)),
        max_size=4,
    ).map(tuple),
    stays=st.lists(st.builds(Stay, workload=names, count=st.integers(1, 32), mean_s=st.floats(0, 1e9)), max_size=4).map(
        tuple
    ),
    credit_s=st.floats(-1000, TRIAL_S),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("learning")


@settings(max_examples=20, deadline=None)
@given(kept)
def test_what_was_saved_is_loaded(folder, some):
    learning.save(folder / "deep/learning.json", some)
    assert learning.load(folder / "deep/learning.json") == some
    assert [path.name for path in (folder / "deep").iterdir()] == ["learning.json"]


def test_no_file_is_nothing_learned(tmp_path):
    assert learning.load(tmp_path / "none.json") == Learning()


A_DUEL = Duel(workload=WEB, one=EEVDF, other=NEW, one_version="", other_version="", at_ns=0)


def test_every_count_that_a_file_may_hold_has_its_evidence():
    for won, lost in ((MOST_COUNTED, MOST_COUNTED), (MOST_COUNTED, 0), (0, MOST_COUNTED)):
        (kept,) = begin(Learning(duels=(msgspec.structs.replace(A_DUEL, won=won, lost=lost),)), {}).kept.duels
        assert kept.better == (EEVDF if won > lost else NEW if lost > won else "")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"version": 2}',
        b'{"surprise": 1}',
        b'{"credit_s": 1e9}',
        b'{"watched_s": -1}',
        b'{"stays": [{"workload": "web", "count": 0, "mean_s": 1}]}',
        b'{"duels": [{"workload": "web"}]}',
        b'{"duels": [%s]}' % msgspec.json.encode(msgspec.structs.replace(A_DUEL, won=MOST_COUNTED + 1)),
        b'{"duels": [%s]}' % msgspec.json.encode(msgspec.structs.replace(A_DUEL, lost=10**6)),
        b'{"duels": [%s]}' % b",".join([msgspec.json.encode(A_DUEL)] * (MOST_DUELS + 1)),
        b'{"stays": [%s]}' % b",".join([b'{"workload": "web", "count": 1, "mean_s": 1}'] * (MOST_STAYS + 1)),
        b" " * ((1 << 20) + 1),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path, body):
    path = tmp_path / "learning.json"
    path.write_bytes(body)
    with pytest.raises(InputError) as caught:
        learning.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_few_stays_of_all_classes_say_nothing():
    lessons = Lessons(kept=Learning(stays=(Stay(workload=WEB, count=FEWEST_STAYS - 1, mean_s=500.0),)))
    assert stay_s(lessons, GAME, age_s=0.0, dwell_s=2.0) == 2.0
