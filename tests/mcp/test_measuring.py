# SPDX-License-Identifier: GPL-2.0-only
"""What a trial of a client comes to: turns with answers that are known."""

import pytest

from asa.mcp.asked import Intent, Rail
from asa.mcp.measuring import FEWEST, MOST_WAITED, ORDER, Turn, broken, frozen, judge


def turns(*values, metric="wakeup_p99_us", ticks=FEWEST):
    made = []
    for candidate, value in zip(ORDER, values, strict=False):
        turn = Turn(candidate=candidate)
        for _ in range(ticks):
            turn.add({metric: value, "underruns": None})
        made.append(turn)
    return made


@pytest.mark.parametrize(
    ("values", "direction", "least", "verdict", "gain"),
    [
        ((100.0, 90.0, 80.0, 100.0), "lower", 5, "reached", 15.0),
        ((100.0, 90.0, 80.0, 100.0), "lower", 16, "missed", 15.0),
        ((100.0, 90.0, 80.0, 100.0), "higher", 0, "missed", -15.0),
        ((100.0, 150.0, 150.0, 100.0), "higher", 50, "reached", 50.0),
        ((100.0, 100.0, 100.0, 100.0), "lower", 0, "missed", 0.0),
        ((100.0, 80.0, 120.0, 100.0), "lower", 0, "inconclusive", 0.0),
        ((0.0, 1.0, 1.0, 100.0), "lower", 0, "inconclusive", None),
        # a load that grows steadily: each turn is 10 % above the one before it in the first one's terms
        ((100.0, 110.0, 120.0, 130.0), "lower", 0, "inconclusive", -1.154),
    ],
)
def test_verdicts(values, direction, least, verdict, gain):
    found = judge(Intent(metric="wakeup_p99_us", direction=direction, least_gain_pct=least), turns(*values))
    assert found.verdict == verdict
    assert found.gain_pct == (None if gain is None else pytest.approx(gain, abs=1e-3))


def test_too_few_ticks_say_nothing_and_a_turn_does_not_wait_for_ever():
    few = turns(100.0, 50.0, 50.0, 100.0, ticks=FEWEST - 1)
    assert judge(Intent(metric="wakeup_p99_us"), few).verdict == "inconclusive"
    assert not few[0].enough("wakeup_p99_us")
    assert turns(1.0)[0].enough("wakeup_p99_us")
    assert not turns(1.0, ticks=MOST_WAITED - 1)[0].enough("underruns")
    assert turns(1.0, ticks=MOST_WAITED)[0].enough("underruns")


def test_a_rail_is_of_the_candidates_turn():
    intent = Intent(metric="underruns", guard_rails=(Rail(metric="wakeup_p99_us", most_growth_pct=20),))
    assert "120" in broken(intent, turns(100.0, 121.0))
    assert not broken(intent, turns(100.0, 120.0))
    assert not broken(intent, turns(100.0, 100.0, 100.0, 500.0))
    assert not broken(intent, turns(100.0, 121.0, metric="cpu_pressure"))


def test_the_hash_is_of_the_content_whatever_the_order():
    assert frozen({"a": 1, "b": [2]}) == frozen({"b": [2], "a": 1}) != frozen({"a": 2, "b": [2]})
    assert len(frozen({})) == 64
