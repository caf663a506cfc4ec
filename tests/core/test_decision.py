# SPDX-License-Identifier: GPL-2.0-only
"""A scheduler with its mode is one value, and its text at once."""

from asa.core.decision import EEVDF, SchedulerName

LAVD, FAST = SchedulerName("scx_lavd"), SchedulerName("scx_lavd:performance")


def test_parts():
    assert (FAST.bare, FAST.mode) == ("scx_lavd", "performance")
    assert (LAVD.bare, LAVD.mode) == ("scx_lavd", "default")
    assert isinstance(FAST.bare, SchedulerName)
    assert (EEVDF.bare, EEVDF.mode) == ("eevdf", "default")


def test_made_of_parts():
    assert SchedulerName.of("scx_lavd", "performance") == FAST
    assert SchedulerName.of("scx_lavd", "default") == SchedulerName.of("scx_lavd") == LAVD


def test_compares_sorts_and_hashes_as_its_text():
    assert FAST == "scx_lavd:performance"
    assert {"scx_lavd:performance": 1}[FAST] == 1
    assert sorted((FAST, EEVDF, LAVD)) == ["eevdf", "scx_lavd", "scx_lavd:performance"]


def test_a_scheduler_without_a_mode_stands_for_all_of_them():
    assert FAST.answers_to("scx_lavd")
    assert FAST.answers_to(FAST)
    assert LAVD.answers_to("scx_lavd")
    assert not LAVD.answers_to(FAST)
    assert not FAST.answers_to("scx_lav")
