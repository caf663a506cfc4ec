# SPDX-License-Identifier: GPL-2.0-only
"""Forty lines of pandas give the figures that the laboratory prints."""

import subprocess
import sys
from pathlib import Path

import pytest
from matrix_rounds import rounds

import asa
from calibration.oracle import gains
from calibration.oracle import rounds as kept

EXAMPLE = Path(asa.__file__).parents[1] / "docs" / "headlines.py"
LEADS = {
    "web+disk": {"scx_a": {"vm120": 12.0, "vm122": -6.0}, "scx_b": 4.0, "eevdf": 0.0},
    "web+llm": {"scx_a": -3.0, "scx_b": 5.0},
    "game+disk": {"scx_a": 2.0, "scx_b": -5.0},
    "audio+disk": {"scx_a": -2.0, "scx_b": -2.0},
}


def test_the_example_prints_the_headline_figures_of_rounds(tmp_path):
    rows = [
        *rounds(LEADS, machines=("vm120", "vm122"), seeds=(1, 2), count=3, noise=0.03),
        *rounds({"web+disk": {"scx_c": 20.0}}, count=3, part="others"),  # one seed, one machine
    ]
    kept.write(tmp_path / kept.ROUNDS, rows)
    assert len(EXAMPLE.read_text().splitlines()) <= 45
    said = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / kept.ROUNDS)], capture_output=True, text=True, check=True
    )
    printed = {name: float(value) for name, value in map(str.split, said.stdout.splitlines())}
    expected = {
        "oracle_gain_pct": gains.oracle_gain,
        "oracle_over_best_static_pct": gains.over_best_static,
        "table_share_of_oracle_pct": gains.table_share,
    }
    assert set(printed) == set(expected)
    for name, count in expected.items():
        assert printed[name] == pytest.approx(count(lambda: rows)[0], abs=1e-3), name
