# SPDX-License-Identifier: GPL-2.0-only
"""The comparison of runtimes: what it evaluates is the same model, and what it writes says so."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xgboost
from made_up_model import Size, made_up
from waiting import until

from asa import paths
from asa.cli.lab.bench import recognition as bench_recognition
from asa.core.errors import AsaError, InputError, ModelError
from calibration.goals import Host
from calibration.recognition import candidates as recognition_candidates
from calibration.recognition import runtimes as recognition
from calibration.recognition import runtimes_report as recognition_report
from calibration.recognition.candidates import Candidate, frames_of
from calibration.recognition.frame_cost import STEPS, Cost
from calibration.recognition.runtimes import Measured, Options, Result, Spent, Turn
from models import artefact
from models.artefact import Artefact
from models.runtime import Ensemble
from models.trees import spread

SMALL = Size(rounds=4, boosted_leaves=6, forest_trees=5, forest_leaves=8, vectors=7)
MACHINE = Host(cpu="a CPU", cpus=2, kernel="6.12", version="1.0", command="asa lab bench recognition")


@pytest.fixture(scope="module")
def small() -> Artefact:
    return made_up(SMALL, seed=5)


def test_a_made_up_model_is_a_sound_one_of_40_labels(small: Artefact, tmp_path: Path):
    artefact.save(small, tmp_path / "small.npz")
    loaded = artefact.load(tmp_path / "small.npz")
    assert len(loaded.header.classes) == 40
    judged = Ensemble(loaded, None).judge(frames_of(loaded)[0])
    assert sum(judged.probabilities.values) == pytest.approx(1.0)
    assert judged.score == pytest.approx(0.0, abs=1.0)
    assert judged.known  # the frame is one of its own vectors, of the first head at least
    _, depth = spread(
        loaded.heads[0].trees.child,
        loaded.heads[0].trees.slot < 3 * len(loaded.fill),
        loaded.heads[0].trees.root,
    )
    assert depth.max() <= SMALL.depth
    assert depth[: SMALL.rounds].max() <= 5


def rows_with_holes(model: Artefact) -> np.ndarray:
    chance = np.random.default_rng(1)
    rows = np.array([frame.values for frame in frames_of(model)], dtype=np.float32)
    rows[chance.random(rows.shape) < 0.2] = np.nan
    return rows


def test_xgboost_is_given_the_same_trees(small: Artefact, tmp_path: Path):
    # made-up splits all send the missing left; here every other one sends them right
    for trees in recognition_candidates.boosted(small):
        width = len(small.fill)
        trees.slot[(trees.slot < width) & (np.arange(len(trees.slot)) % 2 == 0)] += width
        file = tmp_path / "model.json"
        file.write_text(json.dumps(recognition_candidates.as_xgboost(trees, width)))
        booster = xgboost.Booster({"nthread": 1}, model_file=str(file))
        rows = rows_with_holes(small)
        margins = booster.predict(xgboost.DMatrix(rows, nthread=1), output_margin=True)
        assert np.abs(margins - by_hand(trees, rows)).max() < 1e-5
        assert len({tuple(row) for row in margins.round(6).tolist()}) > 10  # or any trees would do


def by_hand(trees, rows: np.ndarray) -> np.ndarray:
    found = np.tile(trees.base.astype(float), (len(rows), 1))
    width = rows.shape[1]
    for number, row in enumerate(rows):
        for root, group in zip(trees.root, trees.group, strict=True):
            node = root
            while (slot := int(trees.slot[node])) < 3 * width:
                value = row[slot % width]
                left = slot < width if np.isnan(value) else value < trees.threshold[node]
                node = trees.child[node] + (not left)
            found[number, group] += trees.boosted_leaf[trees.child[node]]
    return found


def test_the_common_part_is_the_boosted_trees_of_the_whole(small: Artefact):
    frame = frames_of(small)[3]
    whole = Ensemble(small, None).members(frame)
    part = Ensemble(recognition_candidates.only_boosted(small), None).members(frame)
    for one, other, size in zip(whole, part, (5, 8), strict=True):
        assert one[0] == pytest.approx(other[0])
        assert other[1] == pytest.approx(np.full(size, 1.0 / size))


def spent(median: float, cpu: float = 1.0) -> Spent:
    return Spent(mean_ms=median, median_ms=median, p99_ms=3 * median, cpu_mean_ms=cpu)


def turn(boosted: float, whole: float | None = None, share: float = 0.5) -> Turn:
    return Turn(
        import_ms=1.0,
        load_ms=2.0,
        rss_mb=3.0,
        install_mb=4.0,
        shares=((share, 1.0 - share),),
        boosted=spent(boosted),
        whole=None if whole is None else spent(whole),
    )


def result(**changes) -> Result:
    measured = (
        Measured(candidate=Candidate.NUMPY, turns=(turn(0.4, 0.8), turn(1.2, 1.6), turn(0.4, 0.4)), prepare_s=0.0),
        Measured(candidate=Candidate.COMPILED, turns=(turn(0.1, 0.1), turn(0.3, 0.4), turn(0.2, 0.4)), prepare_s=1.0),
        Measured(candidate=Candidate.XGBOOST, missing="xgboost-cpu is not installed"),
        Measured(candidate=Candidate.GTIL, turns=(turn(0.8, share=0.6),), prepare_s=1.0),
    )
    way = tuple(Cost(step=step, mean_us=100.0, median_us=90.0, p99_us=600.0) for step in STEPS)
    fields = {"began_s": 0.0, "took_s": 90.0, "model": "made up", "numpy_rss_mb": 30.0, "measured": measured}
    hints = Cost(step="hints", mean_us=20.0, median_us=15.0, p99_us=50.0)
    fields |= {"way": way, "way_of": "host.journal.xz", "hints": hints}
    return Result(**{**fields, **changes})


def test_figures_are_of_the_whole_way_and_of_what_is_kept():
    by_name = {one.name: one for one in recognition_report.figures(result())}
    assert by_name["inference_mean_ms"].value == pytest.approx(0.1)
    assert by_name["inference_mean_ms"].ok
    assert by_name["inference_p99_ms"].value == pytest.approx(0.6)
    assert by_name["inference_p99_ms"].ok is False
    assert (by_name["hint_mean_us"].value, by_name["hint_p99_us"].value) == (20.0, 50.0)
    assert by_name["runtime_rss_mb"].value == 3.0
    assert by_name["runtime_rss_mb"].ok is None


def test_ratios_are_of_the_same_round():
    lines = {one["candidate"]: one for one in map(json.loads, recognition_report.lines(result())) if "candidate" in one}
    assert lines["compiled"]["whole_ratio"] == 0.25  # of 1/8, 1/4 and 1; the ratio of the medians would be 1/2
    assert lines["compiled"]["boosted_ratio"] == 0.25
    assert lines["treelite"]["boosted_ratio"] == 2.0
    assert lines["treelite"]["whole_ratio"] is None
    assert lines["xgboost"]["missing"] == "xgboost-cpu is not installed"
    assert lines["xgboost"]["boosted_mean_ms"] is None


def test_what_is_missing_or_says_something_else_is_told():
    text = "\n".join(recognition_report.warnings(result()))
    assert "xgboost: xgboost-cpu is not installed" in text
    assert "treelite says something else than numpy: 0.1 apart" in text
    assert "compiled says" not in text


def test_nothing_kept_gives_figures_without_values():
    nothing = result(measured=(), way=(), way_of="no recording", hints=None)
    lines = [json.loads(line) for line in recognition_report.lines(nothing)]
    assert [one["value"] for one in lines] == [None] * 3
    assert [one["ok"] for one in lines] == [False, False, None]
    assert [one["reason"] for one in lines] == ["no recording", "no recording", "compiled: not asked for"]


def test_the_document_has_every_candidate_and_whole_rows():
    text = recognition_report.document(result(), MACHINE)
    for candidate in Candidate:
        assert f"- {candidate}: " in text
    wide = [
        line for line in text.splitlines() if line.startswith(("| numpy", "| compiled", "| xgboost", "| candidate"))
    ]
    assert {line.count("|") for line in wide} == {len(recognition_report.TITLES) + 1}
    assert "**Doubtful or missing**: xgboost" in text


def bench(*words: str) -> int:
    top = argparse.ArgumentParser()
    bench_recognition.register(top.add_subparsers())
    arguments = top.parse_args(["recognition", *words])
    return arguments.run(arguments)


def test_from_end_to_end_in_its_shortest_form(small: Artefact, tmp_path: Path, capsys):
    artefact.save(small, tmp_path / "small.npz")
    words = [
        "--model",
        str(tmp_path / "small.npz"),
        "--turns",
        "100",
        "--rounds",
        "1",
        "--only",
        "compiled,numpy,tl2cgen",
        "--samples",
        str(paths.base_model().parents[1] / "recordings/host.journal.xz"),
    ]
    assert bench(*words, "--out", str(tmp_path / "runtime.md"), "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_name = {one.get("name") or one["candidate"]: one for one in lines}
    assert by_name["inference_mean_ms"]["value"] > 0.0
    assert by_name["compiled"]["difference"] < 1e-9
    assert by_name["compiled"]["whole_ratio"] > 0.0
    assert by_name["tl2cgen"].get("missing") == "tl2cgen is not installed" or by_name["tl2cgen"]["boosted_ratio"] > 0.0
    text = (tmp_path / "runtime.md").read_text()
    assert "small.npz" in text
    assert "- the way from the sample: host.journal.xz, a session of " in text
    assert "\n| the model | " in text


@pytest.mark.parametrize(
    ("words", "error", "match"),
    [
        (("--only", "numpy,abacus"), InputError, "abacus"),
        (("--out", "/nowhere/at/all.md"), AsaError, "cannot be written"),
        (("--only", "numpy", "--model", "/nowhere.npz"), ModelError, "No such file"),
        (("--only", "numpy", "--python", "/nowhere/python"), AsaError, "--python"),
    ],
)
def test_one_line_for_what_cannot_be(words, error, match):
    with pytest.raises(error, match=match) as caught:
        bench(*words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [("--turns", "3"), ("--turns", "many"), ("--rounds", "0")])
def test_numbers_out_of_range(words, capsys):
    with pytest.raises(SystemExit):
        bench(*words)
    assert words[0] in capsys.readouterr().err


def test_a_candidate_that_fails_is_named_and_the_others_go_on(monkeypatch, small: Artefact, tmp_path: Path):
    spent_in = dict.fromkeys(("mean_ms", "median_ms", "p99_ms", "cpu_mean_ms"), 1.0)
    turned = {**dict.fromkeys(("import_ms", "load_ms", "rss_mb", "install_mb"), 1.0), "shares": [[1.0]]}

    def answer(command, _):
        if "xgboost" in command:
            return 1, "", "first\nSegmentation fault"
        return 0, json.dumps({"prepare_s": 0.0} if "prepare" in command else {**turned, "boosted": spent_in}), ""

    monkeypatch.setattr(recognition, "_finished", answer)
    model = tmp_path / "small.npz"
    artefact.save(small, model)
    chosen = (Candidate.XGBOOST, Candidate.NUMPY)
    options = Options(model=model, candidates=chosen, rounds=2, python=Path(sys.executable))
    found = recognition.measure(options, lambda *_: None)
    xgb, ours = found.measured
    assert xgb.missing == "it failed: Segmentation fault"
    assert not xgb.turns
    assert len(ours.turns) == 2


def test_what_takes_too_long_ends_with_all_that_it_started(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(recognition, "_LONGEST_S", 1.0)
    child = tmp_path / "child"
    command = ["sh", "-c", f"sleep 1000 & echo $! > {child}; wait"]
    assert recognition._finished(command, {"PATH": "/usr/bin:/bin"}) == (None, "", "")
    number = child.read_text().strip()
    until(lambda: not alive(number), "its child ends")


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ticks_are_timed_of_what_the_agent_reads(tmp_path, monkeypatch):
    """Sequences tell single processes; the first recordings of scenarios do not."""
    monkeypatch.setattr(paths, "base_model", lambda: tmp_path / "artefacts/base.npz")
    assert recognition.recording() is None
    for name in ("host.journal.xz", "scenarios/host-10.journal.xz", "sequences/host-110.journal.xz"):
        path = tmp_path / "recordings" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        assert recognition.recording() == path
