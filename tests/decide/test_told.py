# SPDX-License-Identifier: GPL-2.0-only
"""A client's word: bounded evidence, silent where the model says otherwise, and gone with its time."""

from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from asa import wire
from asa.core.decision import Judgement, Order, OrderKind, Probabilities, Workload
from asa.core.evidence import SURE
from asa.core.kinds import BACKGROUND, INTERACTIVE, Kind
from asa.decide import told
from asa.decide.knowledge import MOST_ADVISED
from asa.mcp import asked
from asa.requests import Hint, order

BOTH = Order(kind=OrderKind.HINT, use="browse+compile", sure=0.7, until_ns=100, client="bot", lease="one")


def judged(label, *, known=True):
    probabilities = Probabilities(classes=(Workload(label), Workload("idle")), values=(0.9, 0.1))
    return Judgement(probabilities=probabilities, score=None, known=known)


def test_it_speaks_for_both_halves_within_the_cap():
    found = told.evidence(told.of_order(BOTH))
    assert (found.interactive, found.background) == ({Kind.BROWSE: 0.7}, {Kind.COMPILE: 0.7})
    assert told.of_order(replace(BOTH, sure=1.0)).sure == MOST_ADVISED == max(SURE.values())
    assert told.evidence(None) is None
    assert told.evidence(told.of_order(replace(BOTH, use="nonsense"))).interactive == {}


def test_the_half_that_the_model_contradicts_is_silent_until_the_model_agrees_again():
    word = told.of_order(BOTH)
    for _ in range(3):
        word = told.heard(word, judged("browse+render", known=False), 1)
    assert word.kinds == (Kind.BROWSE, Kind.COMPILE), "what fits no class contradicts nothing"
    for _ in range(3):
        word = told.heard(word, judged("browse+render"), 1)
    assert word.kinds == (Kind.BROWSE, None)
    for _ in range(3):
        word = told.heard(word, judged("browse+compile"), 1)
    assert word.kinds == (Kind.BROWSE, Kind.COMPILE)


def test_it_ends_with_its_time_and_its_own_lease():
    word = told.of_order(BOTH)
    assert told.heard(word, judged("idle"), 99) is not None
    assert told.heard(word, judged("idle"), 100) is None
    assert told.lapsed(word, "another") is word
    assert told.lapsed(word, "one") is None


@pytest.mark.parametrize("sure", SURE)
def test_a_request_becomes_an_order(sure):
    found = order(Hint(use="disk", sure=sure, until_ns=5 * 10**9, client="bot", lease="x"), 0)
    assert (found.kind, found.use, found.sure, found.client, found.lease) == ("hint", "disk", SURE[sure], "bot", "x")


def test_a_client_picks_from_all_kinds_of_the_half():
    for half, field in ((INTERACTIVE, "interactive"), (BACKGROUND, "background")):
        taken = set()
        for kind in Kind:
            with suppress(msgspec.ValidationError):
                taken.add(getattr(wire.shaped({"why": ".", field: str(kind)}, asked.Hint), field))
        assert taken == set(half)
