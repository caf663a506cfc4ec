# SPDX-License-Identifier: GPL-2.0-only
"""Figures that are kept: each is measured by itself, and those that are not asked for stay."""

from asa.core.errors import AsaError
from calibration.goals import Named
from calibration.kept import collect, figures, read, write


class Toy(Named):
    """Two figures."""

    ONE = "one", "s", "the first", "<=", 2.0
    OTHER = "other", "s", "the second"


def fails():
    raise AsaError("no clock:\n  wind it up")


def test_what_fails_is_unknown_with_its_reason_and_costs_no_other(tmp_path):
    write(collect({Toy.ONE: fails, Toy.OTHER: lambda: (2.0, "by hand")}), tmp_path / "kept.json")
    one, other = figures(read(tmp_path / "kept.json"), Toy, "make toy")
    assert (one.value, one.reason, one.ok) == (None, "no clock: wind it up", False)
    assert (other.value, other.detail, other.reason) == (2.0, "by hand", "")


def test_a_division_by_nothing_and_a_strange_word_cost_no_other_either():
    kept = collect({Toy.ONE: lambda: (1 / 0, ""), Toy.OTHER: lambda: (float("none"), "")})
    assert kept.values == {"one": None, "other": None}
    assert kept.reasons["one"] == "division by zero"


def test_one_that_is_measured_again_takes_the_place_of_its_own_only():
    before = collect({Toy.ONE: fails, Toy.OTHER: lambda: (2.0, "by hand")})
    now = collect({Toy.ONE: lambda: (1.0, "")}, before)
    one, other = figures(now, Toy, "make toy")
    assert (one.value, one.reason, one.ok) == (1.0, "", True)
    assert other.value == 2.0


def test_where_nothing_is_kept_the_command_is_named(tmp_path):
    (tmp_path / "kept.json").write_text("{}")
    for kept in (read(tmp_path / "kept.json"), read(tmp_path / "none.json")):
        assert kept is None
        assert [figure.reason for figure in figures(kept, Toy, "make toy")] == ["not measured; run `make toy`"] * 2
