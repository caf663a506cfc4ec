# SPDX-License-Identifier: GPL-2.0-only
"""Situations of no kind: what the seed draws, and each for a pass."""

import random
from pathlib import Path

import pytest
from playing import works

from scenarios.application import Place, Tier
from scenarios.programs.other import PROGRAMS

BY_NAME = {one.name: one for one in PROGRAMS}
PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)


@pytest.mark.apps
@pytest.mark.parametrize("name", BY_NAME)
def test_works_and_leaves_nothing(name, tmp_path):
    works(BY_NAME[name], tmp_path, cpu_s=0.01)


@pytest.mark.parametrize("name", BY_NAME)
def test_seeds_make_sessions_of_all_degrees_that_differ(name):
    drawn = [BY_NAME[name].draw(random.Random(seed), PLACE) for seed in range(100)]  # noqa: S311
    assert drawn[3] == BY_NAME[name].draw(random.Random(3), PLACE)  # noqa: S311
    assert {each["degree"] for each in drawn} == {"light", "half", "full"}
    assert len({repr(each) for each in drawn}) > 90
