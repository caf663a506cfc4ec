# SPDX-License-Identifier: GPL-2.0-only
"""Who reads the probes, and when they go: with the last reader, and with the seat of anybody who was given them."""

import pytest

from asa.helper.observers import Observers

ADA, BEN, ROOT = 1000, 1001, None


class Fakes:
    """Probes that only say whether they are loaded, and a bus that writes down."""

    def __init__(self):
        self.loaded = False
        self.told = []

    def open(self):
        self.loaded = True
        return self

    def close(self):
        self.loaded = False

    def emit(self, path, interface, member, signature, body, to=""):
        self.told.append((member, to))


@pytest.fixture
def fakes():
    return Fakes()


@pytest.fixture
def observers(fakes):
    return Observers(bus=fakes, probes=fakes)


def test_with_the_last_they_go(observers, fakes):
    observers.add(":1.1", ADA)
    observers.add(":1.2", ROOT)
    observers.drop(":1.1")
    observers.drop(":1.1")
    assert fakes.loaded
    observers.drop(":1.2")
    assert not fakes.loaded
    assert fakes.told == []


def test_who_leaves_the_seat_sees_no_more(observers, fakes):
    observers.add(":1.1", ADA)
    observers.add(":1.2", ROOT)
    observers.seats_changed(frozenset({ADA, BEN}))
    observers.seats_changed(None)
    assert fakes.loaded
    observers.seats_changed(frozenset({BEN}))
    assert not fakes.loaded
    assert fakes.told == [("ProbesLost", ":1.1"), ("ProbesLost", ":1.2")]


def test_nor_does_who_has_left_the_bus_before(observers, fakes):
    """A descriptor outlives the connection that it came by, and somebody else keeps the programs loaded."""
    observers.add(":1.1", ADA)
    observers.add(":1.2", ROOT)
    observers.drop(":1.1")
    observers.seats_changed(frozenset({BEN}))
    assert not fakes.loaded
    assert fakes.told == [("ProbesLost", ":1.2")]
    observers.add(":1.2", ROOT)  # these ada never had
    observers.seats_changed(frozenset({BEN}))
    assert fakes.loaded
