# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab train` from packed recordings to an artefact that the runtime loads, and its one-line complaints."""

import argparse
import json
import lzma
import random
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made_up_model import Size, made_up

from asa.cli.lab import train
from asa.core.decision import Workload
from asa.core.errors import JournalError, ModelError
from asa.core.mark import SEQUENCE, Mark, Phase
from asa.core.sample import CpuCounters, ProcessState, RawSample
from asa.journal import Journal, SessionHeader
from calibration.recognition import frame_cost, sources
from calibration.recognition.frame_cost import Cost
from calibration.voting import streams as voting_streams
from collectors import rates
from models import artefact, features
from models.runtime import Ensemble

CPUS = 2
# user, system, idle ticks and context switches a second and core
LOADS = {"cpu": (97, 2, 1, 60), "idle": (1, 1, 98, 90), "wakeup": (20, 70, 10, 90_000)}


def samples(label: str, seed: int, count: int = 14) -> list[RawSample]:
    """A session whose counters grow as the label says, with some chance in it."""
    chance = random.Random(f"{label} {seed}")  # noqa: S311
    user = system = idle = switches = 0
    made = []
    for second in range(count):
        loads = [int(load * chance.uniform(0.8, 1.2)) for load in LOADS[label]]
        user, system, idle, switches = user + loads[0], system + loads[1], idle + loads[2], switches + loads[3] * CPUS
        core = (user, 0, system, idle, 0, 0, 0, 0)
        cpu = CpuCounters(
            total=tuple(CPUS * ticks for ticks in core),
            cores=tuple((number, core) for number in range(CPUS)),
            interrupts=switches // 2,
            context_switches=switches,
            forks=second,
            softirqs=(0, second, 0, 0, 0, 0, 0, switches // 4, 0, second),
            runnable=2,
            blocked=0,
        )
        process = ProcessState(processes=100, threads=200, runnable_threads=2)
        at_ns = seed * 1_000_000_000_000 + second * 1_000_000_000
        made.append(RawSample(monotonic_ns=at_ns, wall_ns=at_ns + len(label), cpu=cpu, process=process))
    return made


def record(path: Path, label: str, seed: int, host: str = "lab, 2 cpus") -> None:
    """One packed recording of one session."""
    with Journal.open(path.with_suffix(".sqlite")) as journal:
        journal.begin(
            SessionHeader(started_ns=seed, asa_version="0", host=host, kernel="6.18", cpus=CPUS, label=label, seed=seed)
        )
        for sample in samples(label, seed):
            journal.add(sample)
        journal.pack(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for label in LOADS:
        for seed in range(3):
            record(folder / f"{label}-{seed}.journal.xz", label, seed)
            record(folder / f"host-{label}-{seed}.journal.xz", label, seed + 10, "host, generated")
    return folder


def arguments(folder: Path, out: Path, **more) -> argparse.Namespace:
    words = {"recordings": folder, "out": out, "card": None, "held_out": None, "seed": 1, "jobs": 1, "json": False}
    words |= {"kind": "both"}
    return argparse.Namespace(**{**words, "keep": folder / "kept", **more})


def test_the_time_told_is_that_of_the_whole_way_from_a_sample(tmp_path, monkeypatch):
    asked = []

    def measured(given, judge, rounds, plan):
        assert plan.names > judge.__self__.fields  # as the agent derives them
        asked.append((len(given), rounds))
        return (Cost(step="all", mean_us=150.0, median_us=140.0, p99_us=400.0),)

    monkeypatch.setattr(frame_cost, "measure", measured)
    small = made_up(Size(rounds=2, boosted_leaves=4, forest_trees=2, forest_leaves=4, vectors=5), seed=1)
    artefact.save(small, tmp_path / "small.npz")
    sessions = [SimpleNamespace(samples=tuple(samples("cpu", 1, count))) for count in (10, 20)]
    assert train._inference_ms(SimpleNamespace(sessions=sessions), tmp_path / "small.npz") == (0.15, 0.4)
    assert asked == [(20, 100)]


def test_trains_writes_and_reports(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out, card, predictions = tmp_path / "model.npz", tmp_path / "docs/card.md", tmp_path / "p.npz"
    assert train.run(arguments(folder, out, card=card, held_out=predictions, json=True)) == 0
    printed = capsys.readouterr()
    assert "fold 6 of 6" in printed.err  # a seed each
    figures = {line["name"]: line for line in map(json.loads, printed.out.splitlines())}
    assert set(figures) == {
        "accuracy_heldout_pct",
        "accuracy_heldout_lab_pct",
        "accuracy_heldout_host_pct",
        "accuracy_heldout_28_pct",
        "accuracy_base_28_pct",
        "accuracy_flat_pct",
        "accuracy_factored_pct",
        "accuracy_random_rows_pct",
        "worst_class_recall_pct",
        "ece",
        "inference_mean_ms",
        "inference_p99_ms",
    }
    assert figures["accuracy_factored_pct"]["value"] is None  # these labels have no parts
    beside = json.loads(out.with_suffix(".json").read_text())
    assert beside["accuracy_heldout_pct"] == pytest.approx(figures["accuracy_heldout_pct"]["value"], abs=1e-3)
    assert "accuracy_factored_pct" not in beside
    streams = voting_streams.held_out(predictions)
    assert {str(name): len(found) for name, found in streams.items()} == dict.fromkeys(LOADS, 6)
    assert figures["accuracy_heldout_pct"]["value"] > 95  # the generated loads are easy to tell apart
    assert figures["accuracy_heldout_pct"]["ok"] is (figures["accuracy_heldout_pct"]["value"] >= 97)
    assert (
        figures["inference_mean_ms"]["value"] > 0
    )  # how they compare is the machine's affair: one stall lifts the mean
    assert figures["inference_p99_ms"]["value"] > 0
    text = card.read_text()
    assert "| wakeup | 3 / 39 | 3 / 39 |" in text
    assert "are of the serial clock (`icount`), at 250 Hz" in text
    assert f"{figures['accuracy_heldout_lab_pct']['value']:.2f}" in text

    model = Ensemble.load(out)
    assert model.classes == tuple(sorted(LOADS))
    for label in LOADS:
        unseen = samples(label, 99)
        window = features.Window()
        for previous, sample in pairwise(unseen[:6]):
            derived = rates.derive(previous, sample)
            assert derived is not None
            window = features.push(window, sample.monotonic_ns, derived, CPUS)
        predicted = model.predict(features.frame(window))
        assert max(predicted.classes, key=predicted.of) == Workload(label)


def test_prints_tables_for_people(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert train.run(arguments(folder, tmp_path / "model.npz")) == 0  # what was held out is kept: by the test above
    printed = capsys.readouterr()
    for word in ("xgboost", "forest", "svm", "ensemble", "host, generated", "recall", "accuracy_heldout_pct"):
        assert word in printed.out
    assert "fewer than" not in printed.err


def test_one_kind_alone_is_tried(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    card = tmp_path / "card.md"
    assert train.run(arguments(folder, tmp_path / "model.npz", card=card, kind="flat", json=True)) == 0
    assert "`asa lab train --seed 1 --kind flat " in card.read_text()
    with pytest.raises(ModelError, match="not combinations of two factors"):
        train.run(arguments(folder, tmp_path / "none.npz", kind="factored"))
    assert not (tmp_path / "none.npz").exists()


def test_the_parser_knows_the_command():
    parser = argparse.ArgumentParser()
    train.register(parser.add_subparsers())
    words = ["--recordings", "r", "--out", "o", "--card", "c", "--seed", "7", "--held-out", "h", "--json"]
    assert parser.parse_args(["train", "--kind", "factored"]).kind == "factored"
    parsed = parser.parse_args(["train", *words])
    assert parsed.held_out == Path("h")
    assert (parsed.recordings, parsed.out, parsed.card, parsed.seed) == (Path("r"), Path("o"), Path("c"), 7)
    assert parsed.kind == "both"
    assert parsed.run is train.run


def test_an_empty_folder_is_one_line(tmp_path: Path):
    with pytest.raises(ModelError, match=r"no \*\.journal\.xz in it"):
        train.run(arguments(tmp_path / "none", tmp_path / "model.npz"))


def test_a_damaged_recording_is_named(folder: Path, tmp_path: Path):
    content = (folder / "cpu-0.journal.xz").read_bytes()
    (tmp_path / "cut.journal.xz").write_bytes(content[: len(content) // 2])
    with pytest.raises(JournalError, match=r"cut\.journal\.xz"):
        list(sources.recordings(tmp_path))


def test_a_recording_of_another_version_is_named(folder: Path, tmp_path: Path):
    with Journal.unpack(folder / "cpu-0.journal.xz") as journal:
        journal._db.execute("UPDATE sample SET body = x'80' WHERE id = 3")  # an empty map: no field at all
        (tmp_path / "old.journal.xz").write_bytes(lzma.compress(journal._db.serialize()))
    with pytest.raises(JournalError, match=r"old\.journal\.xz: .* sample 3 is not of this version"):
        list(sources.recordings(tmp_path))


def test_too_few_sessions_are_told_of_in_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    few = tmp_path / "few"
    few.mkdir()
    for label in LOADS:
        for seed in range(2):
            record(few / f"{label}-{seed}.journal.xz", label, seed)
    assert train.run(arguments(few, tmp_path / "model.npz")) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "fewer than 3 sessions" in line]
    assert len(lines) == 1
    (few / "cpu-1.journal.xz").unlink()
    with pytest.raises(ModelError, match="one session of cpu"):
        train.run(arguments(few, tmp_path / "other.npz"))
    assert not (tmp_path / "other.npz").exists()


def test_the_same_seed_gives_the_same_file(folder: Path, tmp_path: Path):
    made = []
    for name in ("a", "b"):
        train.run(arguments(folder, tmp_path / f"{name}.npz"))
        made.append(artefact.load(tmp_path / f"{name}.npz"))
    first, second = made
    assert np.array_equal(first.heads[0].trees.slot, second.heads[0].trees.slot)
    assert np.array_equal(first.heads[0].machine.coefficients, second.heads[0].machine.coefficients)
    assert first.header.open_world == second.header.open_world


def test_a_scenario_keeps_its_marks_and_a_sequence_is_left_out(tmp_path: Path):
    with Journal.open(tmp_path / "s.sqlite") as journal:
        for number, label in enumerate(("cpu", SEQUENCE)):
            journal.begin(
                SessionHeader(
                    started_ns=number,
                    asa_version="0",
                    host="lab, made up",
                    kernel="6.18",
                    cpus=4,
                    label=label,
                    seed=3,
                    tier="lab",
                    scheduler="eevdf",
                )
            )
            journal.mark([Mark(monotonic_ns=5, phase=Phase.RUNNING, background="cpu")])
            for sample in samples("cpu", number):
                journal.add(sample)
        journal.pack(tmp_path / "s.journal.xz")
    for path in (tmp_path, tmp_path / "s.sqlite"):
        (found,) = sources.recordings(path)
        assert (found.place, found.tier, found.scheduler) == ("lab, made up, 4 CPUs", "lab", "eevdf")
        assert [mark.phase for mark in found.marks] == [Phase.RUNNING]


def test_a_place_that_cannot_be_written_is_named_before_training(folder: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"file/model\.npz: cannot be written"):
        train.run(arguments(folder, tmp_path / "file/model.npz"))
