# SPDX-License-Identifier: GPL-2.0-only
"""Films that players share. What all programs have in common: test_programs.py."""

import pytest

from scenarios.driving import Driver
from scenarios.programs.staged import Stage
from scenarios.programs.watch import film


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
