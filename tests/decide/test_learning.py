# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of trials and of use: who serves by it, how long classes stay, how much is kept, and the file."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_bench import CPU, DISK, FLASH, RUSTY, SETUP, SIMPLE, S, Setup, now
from tried_here import PAIR, SIDE, tried

from asa import wire
from asa.config import Learn, PolicySettings
from asa.core.decision import EEVDF, Order, OrderKind, Permit, SchedulerName, Workload
from asa.core.errors import InputError
from asa.decide import learning
from asa.decide.learning import (
    FEWEST_STAYS,
    MOST_ASKED,
    MOST_BEGUN,
    MOST_STAYS,
    Learning,
    Lessons,
    Said,
    Stay,
    begin,
    proved,
    settle,
    stay_s,
)
from asa.decide.policy_state import PolicyState
from asa.decide.signals import SIGNALS
from asa.decide.trial_budget import SAVED_S, Account, Stand
from asa.decide.trial_pairs import Pair, Side, Verdict
from asa.decide.trial_signs import MOST_PAIRS

ANY = Stand(kernel="", versions={})


def knows(*asked, stand=ANY):
    return begin(Learning(asked=asked), stand)


def test_who_was_better_serves_and_who_was_better_than_that():
    assert proved(learning.NOTHING, CPU, RUSTY) == ()
    lessons = knows(tried(FLASH, in_force=RUSTY), tried(SIMPLE, in_force=FLASH), tried(EEVDF, Verdict.WORSE))
    assert proved(lessons, CPU, RUSTY) == (SIMPLE, FLASH)
    assert proved(lessons, CPU, FLASH) == (SIMPLE,)
    assert (proved(lessons, CPU, SIMPLE), proved(lessons, DISK, RUSTY)) == ((), ())
    circle = knows(tried(FLASH, in_force=RUSTY), tried(RUSTY, in_force=FLASH))
    assert proved(circle, CPU, RUSTY) == (FLASH,)


def test_of_two_alike_the_kernels_own_serves():
    own = tried(EEVDF, Verdict.ALIKE, in_force=RUSTY)
    assert proved(knows(own), CPU, RUSTY) == (EEVDF,)
    assert proved(knows(tried(RUSTY, Verdict.ALIKE)), CPU, EEVDF) == ()


def test_another_kernel_or_version_begins_anew():
    stand = Stand(kernel="7.2", versions={"scx_rusty": "a", "scx_flash": "b"})
    one = tried(FLASH, in_force=RUSTY, kernel="7.2", versions=("a", "b"))
    lessons = knows(one, stand=stand)
    assert lessons.kept.asked == (one,)
    assert begin(lessons.kept, stand).kept is lessons.kept
    for other in (
        replace(stand, kernel="7.3"),
        replace(stand, versions={"scx_rusty": "a", "scx_flash": "c"}),
        replace(stand, versions={"scx_rusty": "c", "scx_flash": "b"}),
    ):
        assert begin(lessons.kept, other).kept.asked == ()
        assert begin(lessons.kept, other).better == {}
    assert begin(lessons.kept, replace(stand, versions={})).better  # not installed any more: it harms nobody


def test_settings_that_were_read_again_with_another_version_begin_anew():
    setup = Setup(kernel="7.2", versions={"scx_flash": "b"})
    lessons = knows(tried(FLASH, kernel="7.2", versions=("", "b")), stand=Stand(kernel="7.2", versions=setup.versions))
    assert ticked(lessons, setup).better
    assert not ticked(lessons, replace(setup, versions={"scx_flash": "c"})).better
    assert not ticked(lessons, replace(setup, kernel="7.3")).better


def test_a_user_who_trusts_a_scheduler_again_has_it_asked_anew():
    said = (Said(use=CPU, candidate=FLASH, yes=False), Said(use=CPU, candidate=SIMPLE, yes=False))
    asked = (tried(FLASH, in_force=RUSTY), tried(SchedulerName("scx_flash:fast")), tried(SIMPLE))
    lessons = begin(Learning(asked=asked, said=said), ANY)
    assert learning.obey(lessons, Order(kind=OrderKind.RESUME)) is lessons
    assert learning.obey(lessons, Order(kind=OrderKind.HOLD, scheduler=FLASH)) is lessons
    assert learning.obey(lessons, Order(kind=OrderKind.RESUME, scheduler=SchedulerName("scx_none"))) is lessons
    left = learning.obey(lessons, Order(kind=OrderKind.RESUME, scheduler=FLASH))
    assert [one.candidate for one in left.kept.asked] == [SIMPLE]
    assert [one.candidate for one in left.kept.said] == [SIMPLE]
    assert left.better == {CPU: {EEVDF: SIMPLE}}


def test_what_is_asked_again_takes_the_old_ones_place():
    lessons = settle(knows(tried(FLASH, None, pairs=(PAIR,)), tried(SIMPLE)), tried(FLASH, Verdict.WORSE))
    assert [(one.candidate, one.verdict) for one in lessons.kept.asked] == [(SIMPLE, "better"), (FLASH, "worse")]
    assert settle(lessons, tried(FLASH)).better == {CPU: {EEVDF: FLASH}}


def test_pairs_of_other_signals_are_made_anew():
    short = Side(logs=SIDE.logs[1:], means=SIDE.means[1:])
    lessons = knows(tried(FLASH, None, pairs=(PAIR, Pair(in_force=SIDE, candidate=short))))
    assert lessons.kept.asked[0].pairs == ()
    assert knows(tried(FLASH, None, pairs=(PAIR,))).kept.asked[0].pairs == (PAIR,)


def test_what_is_kept_is_bounded():
    lessons = learning.NOTHING
    for number in range(MOST_STAYS + 5):
        lessons = stood(lessons, Workload(f"class {number}"), 10)
    assert len(lessons.kept.stays) == MOST_STAYS
    full = knows(*(tried(FLASH, use=Workload(f"class {number}")) for number in range(MOST_ASKED)))
    more = settle(full, tried(RUSTY))
    assert (len(more.kept.asked), more.kept.asked[0].use) == (MOST_ASKED, "class 1")
    long = tuple(replace(PAIR, in_force=replace(SIDE, logs=(1 / 3,) * len(SIDE.logs))) for _ in range(MOST_PAIRS - 1))
    for number in range(MOST_ASKED):
        more = settle(more, tried(SIMPLE, None, use=Workload(f"class {number}"), pairs=long))
    begun = [bool(one.pairs) for one in more.kept.asked]
    assert begun == [False] * (MOST_ASKED - MOST_BEGUN) + [True] * MOST_BEGUN
    assert len(wire.json_bytes(more.kept)) < 1 << 20


def stood(lessons, workload, seconds):
    before = PolicyState(workload=workload, since_ns=(10_000 - seconds) * S)
    after = replace(before, workload=None if workload == DISK else DISK, since_ns=10_000 * S)
    return learning.note(lessons, learning.Tick(before=before, after=after, elapsed_s=1.0, now=now(10_000)), SETUP)


def ticked(lessons, setup=SETUP, elapsed_s=1.0, **changes):
    state = replace(PolicyState(workload=CPU), **changes)
    tick = learning.Tick(before=state, after=state, elapsed_s=elapsed_s, now=now(10_000))
    return learning.note(lessons, tick, setup)


def test_time_in_which_something_might_be_tried_earns_some():
    began_ns = now(10_000).wall_ns
    assert ticked(learning.NOTHING).kept.account == Account(watched_s=1.0, credit_s=0.05, since_ns=began_ns)
    before = begin(Learning(account=Account(watched_s=9.0)), ANY)  # of a file of before: nobody noted it
    assert ticked(before).kept.account.since_ns is None
    for setup in (
        Setup(permit=Permit(switch=False)),
        Setup(shadow=True),
        Setup(policy=PolicySettings(learn=Learn.OFF)),
    ):
        assert ticked(learning.NOTHING, setup).kept == Learning()
    assert ticked(learning.NOTHING, workload=None).kept == Learning()
    assert ticked(learning.NOTHING, outside="held").kept == Learning()
    assert ticked(learning.NOTHING, elapsed_s=0.0).kept == Learning()  # after a gap
    assert begin(Learning(account=Account(credit_s=1e9)), ANY).kept.account.credit_s == SAVED_S


def test_the_expected_stay():
    assert stay_s(learning.NOTHING, CPU, age_s=1.0, dwell_s=2.0) == 2.0
    assert stay_s(learning.NOTHING, CPU, age_s=90.0, dwell_s=2.0) == 90.0
    lessons = stood(learning.NOTHING, CPU, 1)  # shorter than the dwell: nothing to switch for
    assert lessons.kept.stays == ()
    for seconds in (10, 20, 30, 40):
        lessons = stood(lessons, CPU, seconds)
    assert stay_s(lessons, CPU, age_s=2.0, dwell_s=2.0) == 2.0  # four times are too few
    lessons = stood(lessons, CPU, 50)
    assert stay_s(lessons, CPU, age_s=2.0, dwell_s=2.0) == pytest.approx(30.0)
    assert stay_s(lessons, DISK, age_s=2.0, dwell_s=2.0) == pytest.approx(30.0)  # of any class
    lessons = stood(lessons, DISK, 300)
    assert stay_s(lessons, DISK, age_s=2.0, dwell_s=2.0) == pytest.approx(450.0 / 6)
    assert stay_s(lessons, CPU, age_s=2.0, dwell_s=2.0) == pytest.approx(30.0)
    assert stay_s(lessons, CPU, age_s=31.0, dwell_s=2.0) == 31.0


def test_old_stays_fade():
    lessons = learning.NOTHING
    for _ in range(100):
        lessons = stood(lessons, CPU, 1000)
    for _ in range(100):
        lessons = stood(lessons, CPU, 10)
    assert stay_s(lessons, CPU, age_s=2.0, dwell_s=2.0) < 60.0


def test_few_stays_of_all_classes_say_nothing():
    lessons = Lessons(kept=Learning(stays=(Stay(workload=CPU, count=FEWEST_STAYS - 1, mean_s=500.0),)))
    assert stay_s(lessons, DISK, age_s=0.0, dwell_s=2.0) == 2.0


names = st.text(min_size=1, max_size=10)
sides = st.builds(
    Side, logs=st.tuples(*[st.none() | st.floats(-9, 9)] * len(SIGNALS)), means=st.tuples(*[st.none()] * len(SIGNALS))
)
kept = st.builds(
    Learning,
    asked=st.lists(
        st.builds(
            tried,
            names.map(SchedulerName),
            st.sampled_from([None, *Verdict]),
            use=names.map(Workload),
            pairs=st.lists(st.builds(Pair, in_force=sides, candidate=sides), max_size=3).map(tuple),
        ),
        max_size=4,
    ).map(tuple),
    said=st.lists(st.builds(Said, use=names, candidate=names.map(SchedulerName), yes=st.booleans()), max_size=4).map(
        tuple
    ),
    stays=st.lists(st.builds(Stay, workload=names, count=st.integers(1, 32), mean_s=st.floats(0, 1e9)), max_size=4).map(
        tuple
    ),
    account=st.builds(Account, credit_s=st.floats(-1000, SAVED_S), switched_ns=st.lists(st.integers(0, 9)).map(tuple)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("learning")


@settings(max_examples=20, deadline=None)
@given(kept)
def test_what_was_saved_is_loaded(folder, some):
    learning.save(folder / "deep/learning.json", some)
    found = learning.load(folder / "deep/learning.json")
    assert found == some
    assert all(type(one.candidate) is SchedulerName for one in found.asked)
    assert [path.name for path in (folder / "deep").iterdir()] == ["learning.json"]


def test_no_file_is_nothing_learned(tmp_path):
    assert learning.load(tmp_path / "none.json") == Learning()


BEFORE = b"""{"version": 1, "duels": [{"workload": "cpu", "one": "eevdf", "other": "scx_flash", "one_version": "",
"other_version": "v", "won": 40, "lost": 0, "alike": 3, "at_ns": 7}], "stays": [{"workload": "cpu", "count": 3,
"mean_s": 20.0}], "watched_s": 9.0, "tried_s": 1.0, "credit_s": 90.0, "taken_back_s": 0.0, "lost_most": 2.0}"""


def test_of_a_file_of_before_the_stays_are_taken(tmp_path):
    path = tmp_path / "learning.json"
    path.write_bytes(BEFORE)
    want = Learning(stays=(Stay(workload="cpu", count=3, mean_s=20.0),))
    assert learning.load(path) == learning.of_text(BEFORE) == want
    assert learning.of_text(b"{}") == Learning()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"version": 3}',
        b'{"surprise": 1}',
        b'{"version": 1, "stays": 5}',
        b'{"account": {"credit_s": "much"}}',
        b'{"stays": [{"workload": "web", "count": 0, "mean_s": 1}]}',
        b'{"asked": [{"use": "web"}]}',
        b'{"asked": [%s]}' % wire.json_bytes(tried(FLASH, pairs=(PAIR,) * (MOST_PAIRS + 1))),
        b'{"asked": [%s]}' % wire.json_bytes(tried(FLASH, tried_s=-1.0)),
        b'{"asked": [%s]}' % wire.json_bytes(tried(FLASH, broken=9)),
        b'{"asked": [%s]}' % b",".join([wire.json_bytes(tried(FLASH))] * (MOST_ASKED + 1)),
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
