# SPDX-License-Identifier: GPL-2.0-only
"""A stage with a bus of its own for each test of the helper's service, and what callers with the lease do on it."""

import json

import pytest
from helper_bus import PrivateBus
from stage import Stage

from asa.bus import CallError


@pytest.fixture
def private_bus():
    bus = PrivateBus()
    yield bus
    bus.end()


@pytest.fixture
def stage(private_bus):
    stage = Stage(private_bus.folder, private_bus.address)
    yield stage
    stage.end()


def failure(answer):
    assert isinstance(answer, CallError), answer
    return answer.name


def leased(stage, uid=0):
    """A caller that has the lease, and what it hears."""
    bus = stage.connect(uid)
    events, lost = stage.hear(bus, "Event"), stage.hear(bus, "LeaseLost")
    answer = stage.call(bus, "Acquire")
    assert isinstance(answer, tuple), answer
    (facts,) = answer
    return bus, json.loads(facts), events, lost


def switched(stage, bus, events, name, why="for a test"):
    count = len(events)
    assert stage.call(bus, "Switch", "ss", name, why) == ()
    stage.turn(lambda: len(events) > count, f"the event of {name}")
    return json.loads(events[-1])
