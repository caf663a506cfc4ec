# SPDX-License-Identifier: GPL-2.0-only
"""What results say of their clock: old ones get theirs, and two of different clocks or ticks are not compared."""

import msgspec
import pytest

from asa import wire
from asa.core.errors import AsaError
from scenarios import conditions
from scenarios.application import Tier
from scenarios.conditions import Conditions, said, time_of_all
from scenarios.runner_plan import Asked

PARALLEL = Conditions(clock="parallel", tick_hz=1000, machine="vm120")
REQUEST = {"tier": "lab", "scenarios": [], "schedulers": [], "repeats": 1, "seed": 0, "seconds": 1.0, "warm_up_s": 0.0}


def asked(**more):
    return wire.from_json(wire.json_bytes({**REQUEST, "cpus": 4, **more}), Asked)


def test_a_kept_request_that_says_nothing_was_of_the_serial_clock():
    assert asked().under == Conditions(clock="icount", tick_hz=250)
    assert asked(tier="real").under == Conditions(clock="wall", tick_hz=None)
    new = asked(clock="parallel", tick_hz=1000, machine="vm120")
    assert new.under == PARALLEL
    assert msgspec.structs.replace(new, seed=1).under == PARALLEL
    assert new.tier is Tier.LAB


@pytest.mark.parametrize("other", [Conditions(), Conditions(clock="parallel", tick_hz=250)])
def test_clocks_and_ticks_are_not_mixed(other):
    with pytest.raises(AsaError, match=r"b: was measured under clock .*, and a under clock parallel, 1000 Hz; name"):
        time_of_all([("a", PARALLEL), ("b", other)])


def test_machines_may_differ():
    other = msgspec.structs.replace(PARALLEL, machine="vm121")
    assert time_of_all([("a", PARALLEL), ("b", other)]) == Conditions(clock="parallel", tick_hz=1000)
    assert time_of_all([]) is None


def test_a_page_says_the_clock_of_what_it_shows():
    (serial,) = said(Conditions())
    assert "icount" in serial
    assert "say nothing of several CPUs" in serial
    assert said(PARALLEL) == ("Measured under clock parallel, 1000 Hz, machine vm120.",)
    assert said(None) == ()


@pytest.mark.parametrize(("option", "tick_hz"), [("1000", 1000), ("n", None), (None, None)])
def test_of_this_machine_the_kernel_tells_its_tick(monkeypatch, option, tick_hz):
    monkeypatch.setattr(conditions.host, "kernel_option", lambda name: option)
    assert conditions.here({}) == Conditions(clock="wall", tick_hz=tick_hz)


def test_a_guest_knows_what_it_was_told():
    assert conditions.here(conditions.told(PARALLEL)) == PARALLEL
