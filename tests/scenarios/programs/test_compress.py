# SPDX-License-Identifier: GPL-2.0-only
"""Packers: their steps and sizes. What all programs have in common: test_programs.py."""

import random
from pathlib import Path

import pytest

from scenarios.application import Place, Tier
from scenarios.driving import Driver
from scenarios.programs.compress import PROGRAMS

BY_NAME = {one.name: one for one in PROGRAMS}
PLACE = Place(cache=Path("/nowhere"), cpus=2, tier=Tier.REAL)


def test_files_are_packed_and_then_tested(tmp_path):
    given = {"threads": 3, "level": 4, "tests": True}
    orders = {"parameters": given, "scratch": str(tmp_path), "cache": "/nowhere", "seed": "pigz 1", "cpus": 2}
    path = tmp_path / "folder/00/0000.dat"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    packed, tested = BY_NAME["pigz"].steps(Driver(orders))
    assert packed == ("pigz", "-k", "-f", "-4", "-p3", str(path))
    assert tested == ("pigz", "-t", "-p3", f"{path}.gz")


@pytest.mark.parametrize("name", BY_NAME)
def test_sizes_follow_level_and_threads(name):
    """Never too small to be seen, never too large for a pass."""
    drawn = [BY_NAME[name].draw(random.Random(seed), PLACE) for seed in range(200)]  # noqa: S311
    assert all(0.5 <= one["size_mb"] <= 120.0 for one in drawn)
    assert len({one["level"] for one in drawn}) >= 3
    assert {one["degree"] for one in drawn} == {"light", "half", "full"}
