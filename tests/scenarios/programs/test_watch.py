# SPDX-License-Identifier: GPL-2.0-only
"""Programs to watch: what the seed draws, and each for some seconds."""

import random
from pathlib import Path

import pytest
from playing import works

from asa.core.kinds import Kind
from scenarios.application import Place, Role, Tier
from scenarios.driving import Driver
from scenarios.programs.staged import Stage
from scenarios.programs.watch import PROGRAMS, film

BY_NAME = {one.name: one for one in PROGRAMS}
PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)


@pytest.mark.apps
@pytest.mark.parametrize("name", BY_NAME)
def test_works_and_leaves_nothing(name, tmp_path):
    works(BY_NAME[name], tmp_path, cpu_s=0.01)


@pytest.mark.parametrize("name", BY_NAME)
def test_seeds_make_sessions_of_all_degrees_that_differ(name):
    one = BY_NAME[name]
    drawn = [one.draw(random.Random(seed), PLACE) for seed in range(100)]  # noqa: S311
    assert one.kind is Kind.WATCH
    assert one.role is Role.INTERACTIVE
    assert drawn[3] == one.draw(random.Random(3), PLACE)  # noqa: S311
    assert {each["degree"] for each in drawn} == {"light", "half", "full"}
    assert len({repr(each) for each in drawn}) > 90


@pytest.mark.apps
def test_a_film_is_made_once_and_half_a_film_is_not_kept(tmp_path):
    given = {"codec": "mpeg2", "film": "426x240", "grain": 0, "frames_per_s": 25}
    orders = {"parameters": given, "scratch": str(tmp_path), "cache": str(tmp_path / "mpv"), "seed": "x", "cpus": 2}
    made = film(Stage(Driver(orders), None))
    assert made.parent == tmp_path / "films"
    before = made.stat().st_mtime_ns
    assert film(Stage(Driver(orders), None)).stat().st_mtime_ns == before
    orders["parameters"] = {**given, "film": "0x0"}
    with pytest.raises(SystemExit):
        film(Stage(Driver(orders), None))
    assert list(made.parent.iterdir()) == [made]
