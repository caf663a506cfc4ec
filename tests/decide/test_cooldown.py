# SPDX-License-Identifier: GPL-2.0-only
"""The cooldown by what switches have taken: per scheduler and by whether it stood by, within its bounds."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from policy_bench import CPU, DISK, FLASH, RUSTY, SETUP, SIMPLE, ask, event, learn, settled

from asa.config import PolicySettings
from asa.core.decision import EEVDF, Reason, SwitchOutcome, Way
from asa.decide import cooldown
from asa.decide.cooldown import Costs

AUTO = replace(SETUP, policy=PolicySettings(cooldown_s="auto", dwell_s=0.0))


def costs(*seconds, new=RUSTY, way=Way.STANDBY):
    found = Costs()
    for one in seconds:
        found = cooldown.note(found, event(SwitchOutcome.CONFIRMED, new, 0, elapsed_s=one, way=way))
    return found


def auto_s(found, target=RUSTY, *, stands_by=True):
    return cooldown.cooldown_s(found, target, stands_by=stands_by, setting="auto")


def test_what_was_not_measured_waits_the_longest():
    assert auto_s(Costs()) == 10.0
    assert auto_s(costs(0.02), FLASH) == 10.0
    assert auto_s(costs(0.02), stands_by=False) == 10.0


def test_twenty_times_the_median_within_the_bounds():
    assert auto_s(costs(0.02)) == 1.0
    assert auto_s(costs(0.1)) == 2.0
    assert auto_s(costs(0.1, 0.1, 0.1, 8.0)) == 2.0  # one in a moment of load does not decide
    assert auto_s(costs(3.0)) == 10.0


def test_only_the_last_ones_count():
    assert auto_s(costs(*[3.0] * 50, *[0.1] * 5)) == 2.0
    assert auto_s(costs(*[0.1] * 50, *[3.0] * 5)) == 10.0


def test_each_way_has_its_own():
    found = cooldown.note(costs(0.05), event(SwitchOutcome.CONFIRMED, RUSTY, 0, elapsed_s=0.3, way=Way.GATED))
    assert (auto_s(found), auto_s(found, stands_by=False)) == (1.0, 6.0)


def test_one_to_what_was_in_force_tells_nothing():
    done = event(SwitchOutcome.CONFIRMED, RUSTY, 0, old=RUSTY, elapsed_s=0.0)
    assert cooldown.note(Costs(), done) == Costs()


def test_a_setting_stands_for_all():
    assert cooldown.cooldown_s(costs(0.02), RUSTY, stands_by=True, setting=3.0) == 3.0
    assert (cooldown.longest_s(3.0), cooldown.longest_s("auto")) == (3.0, 10.0)


@given(st.lists(st.floats(0.0, 1e4), max_size=20), st.booleans())
def test_the_bounds_hold(seconds, stands_by):
    assert 1.0 <= auto_s(costs(*seconds), stands_by=stands_by) <= 10.0


def test_the_policy_waits_less_for_one_that_stands_by():
    state = settled()
    for at_s, new, old in ((10, RUSTY, EEVDF), (100, SIMPLE, RUSTY), (200, RUSTY, SIMPLE)):
        done = event(SwitchOutcome.CONFIRMED, new, at_s, old=old, elapsed_s=0.02, way=Way.STANDBY)
        state = learn(state, done)
    _, verdict = ask(state, DISK, 200.9, current=RUSTY, setup=AUTO, ready=(SIMPLE,))
    assert verdict.reason is Reason.COOLDOWN
    assert ask(state, DISK, 201, current=RUSTY, setup=AUTO, ready=(SIMPLE,))[1].switch_to == SIMPLE
    assert ask(state, DISK, 209.9, current=RUSTY, setup=AUTO)[1].reason is Reason.COOLDOWN  # it would load first
    assert ask(state, DISK, 210, current=RUSTY, setup=AUTO)[1].switch_to == SIMPLE


def test_by_default_a_switch_that_takes_seconds_is_followed_after_ten():
    state = learn(settled(), event(SwitchOutcome.CONFIRMED, RUSTY, 3, elapsed_s=5.0))
    state = learn(state, event(SwitchOutcome.CONFIRMED, EEVDF, 20, old=RUSTY, elapsed_s=0.01))
    assert ask(state, CPU, 29.9, setup=AUTO)[1].reason is Reason.COOLDOWN
    assert ask(state, CPU, 30, setup=AUTO)[1].switch_to == RUSTY
