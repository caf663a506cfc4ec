# SPDX-License-Identifier: GPL-2.0-only
"""All programs of kinds: what the seed draws, and each for a pass."""

import importlib
import random
from pathlib import Path

import pytest
from playing import works

from asa.core.kinds import INTERACTIVE, Kind
from scenarios import catalogue
from scenarios.application import Place, Role, Tier

BY_NAME = {one.name: one for one in catalogue.of_modules()}
PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)
# Of light sessions. What waits for a disk may need no CPU time; a pass of an inference is a time, others may have it.
LEAST_CPU_S = {Kind.DISK: 0.0, Kind.INFER: 0.002, **dict.fromkeys(INTERACTIVE, 0.01)}
WRITTEN_BYTES = {Kind.DISK: 100_000}


@pytest.mark.apps
@pytest.mark.parametrize("name", BY_NAME)
def test_works_and_leaves_nothing(name, tmp_path):
    one = BY_NAME[name]
    works(one, tmp_path, cpu_s=LEAST_CPU_S.get(one.kind, 0.02), written_bytes=WRITTEN_BYTES.get(one.kind, 0))


@pytest.mark.parametrize("name", BY_NAME)
def test_seeds_make_sessions_of_all_degrees_that_differ(name):
    one = BY_NAME[name]
    drawn = [one.draw(random.Random(seed), PLACE) for seed in range(100)]  # noqa: S311
    assert (one.role is Role.INTERACTIVE) == (one.kind in INTERACTIVE)
    assert drawn[3] == one.draw(random.Random(3), PLACE)  # noqa: S311
    assert {each["degree"] for each in drawn} == {"light", "half", "full"}
    assert len({repr(each) for each in drawn}) > 90


@pytest.mark.parametrize("kind", Kind)
def test_a_module_has_programs_of_its_kind(kind):
    found = importlib.import_module(f"scenarios.programs.{kind}").PROGRAMS
    assert {one.kind for one in found} == {kind}
