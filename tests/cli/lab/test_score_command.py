# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab score`: the table and the curves as they are shown and written, and the two documents made of them."""

import argparse
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from asa.cli import main
from asa.cli.lab import score
from asa.core.errors import AsaError
from calibration.scoring.table import APPLICATIONS, SOURCES

DOCS = Path(__file__).resolve().parents[3] / "docs"
NAMES = {f"{name}.{metric.name}" for name, application in APPLICATIONS.items() for metric in application.metrics}


def asa(*words):
    """Run the command in this process."""
    parser = argparse.ArgumentParser(prog="asa")
    score.register(parser.add_subparsers())
    arguments = parser.parse_args(["score", *map(str, words)])
    return arguments.run(arguments)


def test_it_is_a_command():
    assert "score" in main.LAB_COMMANDS


def test_the_document_is_current(capsys):
    assert asa("show", "--markdown") == 0
    written = (DOCS / "scoring.md").read_text()
    assert capsys.readouterr().out == written, "make it anew: asa lab score show --markdown > docs/scoring.md"


def test_the_picture_is_current(capsys):
    assert asa("plot") == 0
    assert capsys.readouterr().out == (DOCS / "scoring.svg").read_text(), "asa lab score plot --out docs/scoring.svg"


def test_the_document_names_everything():
    text = (DOCS / "scoring.md").read_text()
    for application in APPLICATIONS.values():
        assert f"## {application.name}: {application.title}" in text
        assert all(f"| `{metric.name}` | {metric.unit} |" in text for metric in application.metrics)
        assert all(metric.reason in text for metric in application.metrics)
    assert all(f"- {key}: {words}" in text for key, words in SOURCES.items())
    assert {row.count("|") for row in text.splitlines() if row.startswith("| ")} == {17}


def test_the_table_for_people(capsys):
    assert asa("show") == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name.partition('.')[2]} " in said for name in NAMES)
    assert all(f"[{key}] " in said for key in SOURCES)
    assert max(map(len, said.splitlines())) <= 120


def test_one_application(capsys):
    assert asa("show", "audio") == 0
    said = capsys.readouterr().out
    assert said.startswith("audio: Audio Remix (interactive)\n  underruns_per_min ")
    assert "good 1, bad 3, theta 2, f 1 1/min; k 2.2, gamma 1\n" in said
    assert "stability: 1/2 at 25 %; k 0.0016, gamma 2, weight 0.2\n" in said
    assert "click_ms" not in said
    assert "[seow]" not in said  # sources of what is shown alone


def test_the_table_for_programs(capsys):
    assert asa("show", "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert {f"{row['application']}.{row['name']}" for row in found["metrics"]} == NAMES
    click = next(row for row in found["metrics"] if row["name"] == "click_ms")
    assert (click["theta"], click["f"], click["better"], click["k_stability"]) == (350.0, 150.0, "smaller", 150.0**-2)
    loss = next(row for row in found["metrics"] if row["name"] == "udp_loss_pct")
    assert (loss["spread"], loss["k_stability"], loss["gamma_stability"]) == (None, None, None)
    assert set(found["sources"]) == set(SOURCES)
    assert found["role_weight"] == {"interactive": 0.7, "background": 0.3}
    assert asa("show", "web", "--json") == 0
    assert {row["application"] for row in json.loads(capsys.readouterr().out)["metrics"]} == {"web"}


def test_the_curves_as_points(capsys):
    assert asa("plot", "--json") == 0
    found = json.loads(capsys.readouterr().out)["curves"]
    values = [curve for curve in found if curve["edges"] is not None]
    assert {user for curve in values for user in curve["users"]} == NAMES
    for curve in found:
        scores = [score for _, score in curve["points"]]
        assert scores == sorted(scores, reverse=scores[0] > scores[-1])
        assert min(scores) >= 0.0
        assert max(scores) <= 1.0


def test_the_picture_is_svg_within_its_box(tmp_path):
    path = tmp_path / "curves.svg"
    assert asa("plot", "--out", path) == 0
    root = ElementTree.parse(path).getroot()  # noqa: S314  # ours
    _, _, width, height = map(float, root.get("viewBox").split())
    lines = root.findall(".//{*}polyline")
    titles = [title.text for title in root.findall(".//{*}title")]
    assert len(lines) == len(titles) > 5
    assert {name for title in titles for name in title.split(", ")} == NAMES
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        assert all(0.0 <= x <= width and 0.0 <= y <= height for x, y in points)


def test_what_it_does_not_take(tmp_path):
    with pytest.raises(AsaError, match=r"^'webb' is not scored; the applications are web, game, "):
        asa("show", "webb")
    with pytest.raises(AsaError, match="whole document"):
        asa("show", "web", "--markdown")
    with pytest.raises(AsaError, match="cannot be written"):
        asa("plot", "--out", tmp_path / "none" / "curves.svg")
    with pytest.raises(SystemExit):
        asa("show", "--json", "--markdown")
