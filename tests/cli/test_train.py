# SPDX-License-Identifier: GPL-2.0-only
"""`asa train` from packed recordings to an artefact that the runtime loads, and its one-line complaints."""

import argparse
import json
import lzma
import random
from itertools import pairwise
from pathlib import Path

import pytest

from asa.cli import train
from asa.core.decision import Workload
from asa.core.errors import JournalError, ModelError
from asa.core.sample import CpuCounters, ProcessState, RawSample
from asa.journal import Journal, SessionHeader
from collectors import rates
from models import features
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
    return argparse.Namespace(**{"recordings": folder, "out": out, "card": None, "seed": 1, "json": False, **more})


def test_trains_writes_and_reports(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out, card = tmp_path / "model.npz", tmp_path / "docs/card.md"
    assert train.run(arguments(folder, out, card=card, json=True)) == 0
    figures = {line["name"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert set(figures) == {
        "accuracy_heldout_pct",
        "accuracy_heldout_lab_pct",
        "accuracy_heldout_host_pct",
        "accuracy_random_rows_pct",
        "worst_class_recall_pct",
        "inference_mean_ms",
        "inference_p99_ms",
    }
    assert figures["accuracy_heldout_pct"]["value"] > 95  # the generated loads are easy to tell apart
    assert figures["accuracy_heldout_pct"]["ok"] is (figures["accuracy_heldout_pct"]["value"] >= 97)
    assert (
        figures["inference_mean_ms"]["value"] > 0
    )  # how they compare is the machine's affair: one stall lifts the mean
    assert figures["inference_p99_ms"]["value"] > 0
    text = card.read_text()
    assert "| wakeup | 3 / 39 | 3 / 39 |" in text
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
    assert train.run(arguments(folder, tmp_path / "model.npz")) == 0
    printed = capsys.readouterr()
    for word in ("xgboost", "forest", "svm", "ensemble", "host, generated", "recall", "accuracy_heldout_pct"):
        assert word in printed.out
    assert "fold 3 of 3" in printed.err


def test_the_parser_knows_the_command():
    parser = argparse.ArgumentParser()
    train.register(parser.add_subparsers())
    parsed = parser.parse_args(["train", "--recordings", "r", "--out", "o", "--card", "c", "--seed", "7", "--json"])
    assert (parsed.recordings, parsed.out, parsed.card, parsed.seed) == (Path("r"), Path("o"), Path("c"), 7)
    assert parsed.run is train.run


def test_an_empty_folder_is_one_line(tmp_path: Path):
    with pytest.raises(ModelError, match=r"no \*\.journal\.xz in it"):
        train.run(arguments(tmp_path / "none", tmp_path / "model.npz"))


def test_a_damaged_recording_is_named(folder: Path, tmp_path: Path):
    content = (folder / "cpu-0.journal.xz").read_bytes()
    (tmp_path / "cut.journal.xz").write_bytes(content[: len(content) // 2])
    with pytest.raises(JournalError, match=r"cut\.journal\.xz"):
        list(train.recordings(tmp_path))


def test_a_recording_of_another_version_is_named(folder: Path, tmp_path: Path):
    with Journal.unpack(folder / "cpu-0.journal.xz") as journal:
        journal._db.execute("UPDATE sample SET body = x'80' WHERE id = 3")  # an empty map: no field at all
        (tmp_path / "old.journal.xz").write_bytes(lzma.compress(journal._db.serialize()))
    with pytest.raises(JournalError, match=r"old\.journal\.xz: .* sample 3 is not of this version"):
        list(train.recordings(tmp_path))
