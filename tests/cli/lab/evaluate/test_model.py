# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate model` as it is typed, on a made-up dataset: lines, page, and what is kept."""

import json

import pytest
from forty_labels import SMALL, forty

from asa import paths
from asa.cli.grammar import Parser
from asa.cli.lab import evaluate, train
from asa.core.errors import AsaError, InputError
from calibration.recognition import evaluation as evaluate_model
from calibration.recognition import sources
from calibration.recognition.figures import RecognitionFigure
from models.train import dataset, held_out

TABLE = """\
version: 1
machine: {name: made up}
provenance: made up
classes:
"""


def asa(*words):
    top = Parser(prog="asa")
    evaluate.register(top.add_subparsers(dest="command"))
    arguments = top.parse_args(["evaluate", "model", *map(str, words)])
    return arguments.run(arguments)


@pytest.fixture(scope="module")
def data():
    return forty(seeds=2, ticks=12, fronts=("", "web"), backs=("", "disk", "llm"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where results are kept: what one test has trained, the next ones read."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def words(data, kept, monkeypatch):
    """No model to time."""
    monkeypatch.setattr(evaluate_model, "QUICK", SMALL)
    monkeypatch.setattr(sources, "recordings", lambda _folder: [])
    monkeypatch.setattr(dataset, "assemble", lambda _recordings, **_how: data)
    return ("--quick", "--jobs", 1, "--keep", kept, "--model", kept / "none.npz")


def test_lines_page_and_a_second_call_that_trains_nothing(words, tmp_path, capsys, monkeypatch):
    assert asa(*words, "--json") == 0
    first = capsys.readouterr()
    lines = [json.loads(line) for line in first.out.splitlines()]
    assert [line["name"] for line in lines] == [str(name) for name in RecognitionFigure]
    by_name = {line["name"]: line for line in lines}
    assert by_name["accuracy_base_28_pct"]["value"] > 50
    assert by_name["accuracy_by_scheduler_pct"]["value"] >= by_name["accuracy_base_28_pct"]["value"]
    assert "kept in" in first.err
    monkeypatch.setattr(held_out, "_arrays", None)
    assert asa(*words, "--json") == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "as kept in" in again.err
    page = tmp_path / "recognition.md"
    assert asa(*words, "--page", page) == 0
    shown = capsys.readouterr().out
    assert "held out: whole seeds in 2 folds (seeds 0, 1)" in shown
    assert "accuracy_base_28_pct" in shown
    assert "recognition-confusion.svg" in page.read_text()
    assert (tmp_path / "recognition-confusion.svg").stat().st_size > 1000


def test_what_was_found_by_a_named_model_is_not_read_as_anothers(words, kept, tmp_path, capsys):
    assert asa(*words, "--json") == 0
    capsys.readouterr()
    *others, _, _ = words
    assert asa(*others, "--model", tmp_path / "another.npz", "--json") == 0
    assert "as kept in" not in capsys.readouterr().err
    assert len(list(kept.glob("*-quick*.json"))) == 2


def test_a_table_of_these_labels_gives_the_figure_by_scheduler(words, data, tmp_path, capsys):
    path = tmp_path / "table.yaml"
    entries = "".join(f'  {name}: [{{scheduler: eevdf, why: "made up"}}]\n' for name in data.classes)
    path.write_text(TABLE + entries)
    assert asa(*words, "--table", path, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert next(line for line in lines if line["name"] == "accuracy_by_scheduler_pct")["value"] == 100.0
    path.write_text(TABLE + "".join(line for line in entries.splitlines(keepends=True) if "web+llm" not in line))
    assert asa(*words, "--table", path, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert next(line for line in lines if line["name"] == "accuracy_by_scheduler_pct")["value"] == 100.0  # by its parts
    path.write_text(TABLE + entries.partition("\n")[0] + "\n")
    assert asa(*words, "--table", path, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert next(line for line in lines if line["name"] == "accuracy_by_scheduler_pct")["value"] is None
    with pytest.raises((AsaError, InputError)):
        asa(*words, "--table", tmp_path / "none.yaml")


def test_a_page_in_no_folder_is_named_before_training(words, tmp_path):
    with pytest.raises(AsaError, match="its folder is not there"):
        asa(*words, "--page", tmp_path / "none/page.md")


def test_the_package_is_where_recordings_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "base_model", lambda: tmp_path / "artefacts/base.npz")
    top = Parser(prog="asa")
    evaluate.register(top.add_subparsers(dest="command"))
    arguments = top.parse_args(["evaluate", "model"])
    assert train.folder(arguments) == tmp_path / "recordings"
    assert train.scenarios(arguments) == tmp_path / "recordings/scenarios"
    arguments = top.parse_args(["evaluate", "model", "--recordings", str(tmp_path)])
    assert train.folder(arguments) == train.scenarios(arguments) == tmp_path
