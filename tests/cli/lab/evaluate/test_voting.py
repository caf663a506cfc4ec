# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate voting` as it is typed, on predictions that were made up."""

import argparse
import json

import numpy as np
import pytest

from asa.cli.lab.evaluate import voting as evaluate_voting
from asa.core.errors import AsaError, ModelError
from calibration.voting import sweep as voting_sweep
from calibration.voting.filters import Method


def asa(*words):
    parser = argparse.ArgumentParser()
    evaluate_voting.register(parser.add_subparsers())
    arguments = parser.parse_args(["voting", *map(str, words)])
    return arguments.run(arguments)


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    """Of four sessions of three labels, a tenth wrong; few settings, few sequences."""
    monkeypatch.setattr(evaluate_voting, "_SPLICED", 3)
    grid = {method: {name: values[:2] for name, values in of.items()} for method, of in voting_sweep.GRID.items()}
    monkeypatch.setattr(voting_sweep, "GRID", grid)
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], 4 * 30)
    seen = np.where(rng.random(len(y)) < 0.1, (y + 1) % 3, y)
    values = np.full((len(y), 3), 0.1)
    values[np.arange(len(y)), seen] = 0.8
    path = tmp_path / "p.npz"
    np.savez(path, probabilities=values, y=y, session=np.repeat(range(12), 30), classes=["web", "blender", "idle"])
    return path


def test_lines_have_every_method_and_the_two_figures(predictions, capsys):
    assert asa("--held-out", predictions, "--json") == 0
    first = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["method"] for line in first[:-2]] == list(Method)
    assert [line["name"] for line in first[-2:]] == ["reaction_median_s", "voting_error_pct"]
    for line in first[:-2]:
        assert line["reported"]["changes"] == 3 * 5
        assert line["tick_us"] > 0
    assert asa("--held-out", predictions, "--json") == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [{**line, "tick_us": 0} for line in again] == [{**line, "tick_us": 0} for line in first]


def test_table_and_every_setting(predictions, capsys):
    assert asa("--held-out", predictions, "--all") == 0
    captured = capsys.readouterr()
    assert "set on 3 sessions, reported on 3 others, 15 changes" in captured.out
    assert "best by the rule: " in captured.out
    tried = [line for line in captured.out.splitlines() if '"validation"' in line and '"reported"' not in line]
    assert len(tried) == sum(2 ** len(of) for of in voting_sweep.GRID.values())


def test_the_page_says_what_the_table_says(predictions, capsys, tmp_path):
    page = tmp_path / "voting.md"
    assert asa("--held-out", predictions, "--page", page) == 0
    captured = capsys.readouterr()
    text = page.read_text(encoding="utf-8")
    assert "![response delay and error rate](voting.svg)" in text
    assert (tmp_path / "voting.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert all(f"| {method} |" in text for method in Method)
    told = [line for line in captured.out.splitlines() if line.startswith(("set on ", "best by the rule: "))]
    assert len(told) == 2
    assert all(f"- {line}" in text for line in told)
    assert str(predictions) in text
    with pytest.raises(AsaError, match="no page"):
        asa("--held-out", predictions, "--page", tmp_path / "none" / "voting.md")


def test_one_source_is_named(predictions, tmp_path):
    with pytest.raises(AsaError, match="name journals with marks, or --held-out FILE"):
        asa("--json")
    with pytest.raises(AsaError, match="two things"):
        asa(tmp_path / "a.journal", "--held-out", predictions)


def test_what_is_no_table_is_refused(tmp_path):
    path = tmp_path / "p.npz"
    path.write_text("no")
    with pytest.raises(ModelError, match="no table of held-out predictions"):
        asa("--held-out", path)
