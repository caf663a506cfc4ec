# SPDX-License-Identifier: GPL-2.0-only
"""Turns on the CPU by process: whose were long, who was made to leave, and what is not known of whom."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_samples import NEW, OLD
from two_samples import bursts as of

from collectors.rates import Rates, derive
from collectors.rates import bursts as rates_of
from collectors.rates.bursts import turned

MS = 1_000_000
ALL = {name for name in Rates.__dataclass_fields__ if name.startswith("turns_")}
OURS = {name for name in ALL if not name.startswith(("turns_longest", "turns_shortest"))}
SPREAD = {name for name in OURS if name.startswith("turns_to_")} | {"turns_longer_share"}


def bursts(old, new, elapsed_s):
    fields = {}
    rates_of.bursts(fields, turned(old, new), elapsed_s)
    return fields


def test_the_three_that_used_the_most():
    old = of((1, 100 * MS, 10, 1), (2, 5 * MS, 5, 5), (4, 7 * MS, 1, 1))
    new = of((1, 400 * MS, 40, 16), (2, 45 * MS, 85, 5), (3, 600 * MS, 60, 60), (4, 47 * MS, 11, 2))
    fields = bursts(old, new, 1.0)
    assert fields == {
        "turns_top1_mean_us": 10_000.0,  # the third one, new in this sample
        "turns_top1_involuntary_share": 1.0,
        "turns_top2_mean_us": 10_000.0,
        "turns_top2_involuntary_share": 0.5,
        "turns_top3_mean_us": 500.0,  # 40 ms in 80 turns: as much as process 4 in ten, and more of them
        "turns_top3_involuntary_share": 0.0,
        "turns_to_65us_share": 0.0,
        "turns_to_262us_share": 0.0,
        "turns_to_1ms_share": pytest.approx(40 / 980),
        "turns_to_4ms_share": pytest.approx(40 / 980),
        "turns_longer_share": pytest.approx(900 / 980),
        "turns_forced_share": pytest.approx(900 / 980),  # half of its turns is enough
    }


@pytest.mark.parametrize(
    ("mean_us", "field"),
    [
        (60, "turns_to_65us_share"),
        (70, "turns_to_262us_share"),
        (262, "turns_to_262us_share"),
        (263, "turns_to_1ms_share"),
        (1_100, "turns_to_4ms_share"),
        (4_195, "turns_longer_share"),
    ],
)
def test_edges(mean_us, field):
    fields = bursts(of(), of((1, mean_us * 1_000 * 50, 50, 0)), 1.0)
    assert [name for name, share in fields.items() if name in SPREAD and share] == [field]


def test_who_used_less_than_a_hundredth_of_a_core_has_no_kind():
    fields = bursts(of(), of((1, 19 * MS, 10, 0)), 2.0)
    assert "turns_top1_mean_us" not in fields
    assert fields["turns_to_4ms_share"] == 1.0
    assert bursts(of(), of((1, 20 * MS, 10, 0)), 2.0)["turns_top1_mean_us"] == 2_000.0


def test_what_went_back_or_stood_still_is_not_known():
    old = of((1, 100 * MS, 10, 1), (2, 5 * MS, 5, 5), (3, 5 * MS, 5, 5))
    assert bursts(old, of((1, 90 * MS, 12, 1), (2, 5 * MS, 5, 5), (3, 50 * MS, 9, 4)), 1.0) == {}
    assert bursts(old, of(), 1.0) == {}


def test_they_are_part_of_the_rates():
    rates = derive(OLD, NEW)
    assert all(getattr(rates, name) is not None for name in OURS)
    assert len(OURS) == 12
    rates = derive(replace(OLD, process_bursts=None), NEW)
    assert all(getattr(rates, name) is None for name in ALL)


COUNTERS = st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 4), max_size=5, unique_by=lambda one: one[0]).map(
    lambda processes: of(*processes)
)


@given(old=COUNTERS, new=COUNTERS, elapsed_s=st.floats(0.01, 10))
def test_any_counters_give_shares_that_are_shares(old, new, elapsed_s):
    fields = bursts(old, new, elapsed_s)
    assert set(fields) <= OURS
    assert all(0.0 <= value <= 1.0 for name, value in fields.items() if name.endswith("_share"))
    spread = [value for name, value in fields.items() if name in SPREAD]
    assert not spread or sum(spread) == pytest.approx(1.0)
