# SPDX-License-Identifier: GPL-2.0-only
"""Change points by CUSUM: a step is one, noise within the slack is none, and a burst lasts until it is over."""

from asa.core.decision import Probabilities, Workload
from calibration.knowledge import changes

A, B = Workload("a"), Workload("b")


def tick(share):
    return Probabilities(classes=(A, B), values=(share, 1.0 - share))


def test_a_steady_rate_and_one_within_the_slack_are_no_change():
    assert not any(one for one, _ in changes.of_rates([100.0] * 50))
    assert not any(one for one, _ in changes.of_rates([100.0, 120.0, 85.0] * 20))


def test_a_step_up_is_one_change_and_a_burst_until_the_rate_is_as_before():
    found = list(changes.of_rates([10.0] * 10 + [100.0] * 5 + [11.0] * 10))
    assert next(place for place, (change, _) in enumerate(found) if change) == 10
    assert [place for place, (_, burst) in enumerate(found) if burst] == [10, 11, 12, 13, 14]


def test_a_step_down_is_a_change_and_no_burst():
    found = list(changes.of_rates([100.0] * 10 + [1.0] * 10))
    assert any(change for change, _ in found[10:])
    assert not any(burst for _, burst in found)


def test_a_rate_that_is_not_known_begins_anew():
    assert not any(change for change, _ in changes.of_rates([10.0] * 5 + [None] + [1000.0] * 5))


def test_classes_change_when_another_one_is_fifty_times_as_probable_and_not_by_one_doubtful_tick():
    sure = [tick(0.95)] * 5 + [tick(0.02)] * 3
    assert [place for place, change in enumerate(changes.of_classes(sure)) if change] == [5]
    assert not any(changes.of_classes([tick(0.95)] * 5 + [tick(0.4)] + [tick(0.95)] * 5))
    slow = [tick(0.95)] * 5 + [tick(0.2)] * 6
    assert [place for place, change in enumerate(changes.of_classes(slow)) if change] == [8], "0.89 nats a tick"


def test_a_gap_in_the_classes_begins_anew():
    assert not any(changes.of_classes([tick(0.95), None, tick(0.05), None, tick(0.95)]))
