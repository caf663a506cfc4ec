# SPDX-License-Identifier: GPL-2.0-only
"""What daily use teaches: how long classes stay, how much is kept, and the file."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_use import GAME, NEW, WEB, S, Use, a_duel

from asa import wire
from asa.core.decision import EEVDF, Workload
from asa.core.errors import InputError
from asa.decide import learning
from asa.decide.learning import (
    FEWEST_STAYS,
    MOST_COUNTED,
    MOST_DUELS,
    MOST_STAYS,
    TRIAL_S,
    Comparison,
    Learning,
    Lessons,
    Stay,
    begin,
    stay_s,
)
from asa.decide.policy_state import PolicyState


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
    assert learning.comparison_of(use.lessons, Workload("class 0"), NEW, EEVDF) is None
    use = Use(lessons=begin(Learning(duels=(a_duel(won=MOST_COUNTED // 2, lost=MOST_COUNTED // 2),)), {}))
    use.pair(4000, 9000, 2)
    assert use.counts() == (100, 100, 0)
    use.pair(4000, 4000)
    assert use.counts() == (100, 100, 1)
    assert len(wire.json_bytes(use.lessons.kept)) < 1 << 20


names = st.text(min_size=1, max_size=10)
kept = st.builds(
    Learning,
    duels=st.lists(
        st.builds(
            Comparison, workload=names, one=names, other=names, won=st.integers(0, 200), at_ns=st.integers(0, 2**62)
        ),
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


A_DUEL = Comparison(workload=WEB, one=EEVDF, other=NEW, one_version="", other_version="", at_ns=0)


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
        b'{"duels": [%s]}' % wire.json_bytes(msgspec.structs.replace(A_DUEL, won=MOST_COUNTED + 1)),
        b'{"duels": [%s]}' % wire.json_bytes(msgspec.structs.replace(A_DUEL, lost=10**6)),
        b'{"duels": [%s]}' % b",".join([wire.json_bytes(A_DUEL)] * (MOST_DUELS + 1)),
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
