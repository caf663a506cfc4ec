# SPDX-License-Identifier: GPL-2.0-only
"""The figures of recognition by name, with their goals, and the result that they are kept in.

Makes figures of a kept result and a mapping table; trains nothing. Times the model's evaluation by the benchmark of
`calibration.recognition`.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np

from asa import files, wire
from asa.core.errors import AsaError, ModelError
from calibration.goals import Figure, Named, cells
from calibration.recognition import runtimes as recognition
from calibration.recognition import runtimes_report as recognition_report
from models import features
from models.artefact import Array
from models.train import ensemble
from models.train.held_out import Tell
from scenarios import catalogue

RESULT = 2
"""Of `Result`: what was kept of another number is not read."""


class RecognitionFigure(Named):
    """The figures, each with its goal."""

    BASE = (
        "accuracy_base_28_pct",
        "%",
        "28 scenarios, real programs whose recordings tell processes, whole seeds held out",
        ">=",
        97.0,
    )
    BY_SCHEDULER = (
        "accuracy_by_scheduler_pct",
        "%",
        "the same; classes that ask for one scheduler (served.yaml) count as one",
    )
    RANDOM = "accuracy_random_rows_28_pct", "%", "a third of the rows at random: what flatters"
    TUNED = "accuracy_tuned_28_pct", "%", "after fine-tuning with two sessions a label of what was held out", ">=", 99.5
    VOTED = "accuracy_voted_28_pct", "%", "after voting, ticks whose class has stood for a window", ">=", 99.0
    BASE_40 = "accuracy_base_40_pct", "%", "all 40 labels, per tick, whole seeds held out"
    WORST = "worst_class_recall_pct", "%", "recall of the label that is recognised least"
    ECE = "ece", "", "expected calibration error, 0 to 1"
    UNKNOWN = "unknown_false_accept_pct", "%", "ticks of a program kept out of training that are taken for a known use"
    MEAN = "inference_mean_ms", "ms", "from sample to probabilities, mean", "<=", 0.2
    P99 = "inference_p99_ms", "ms", "the same, 99th percentile", "<=", 0.5
    RSS = "runtime_rss_mb", "MB", "resident memory that the model and its runtime add"
    REACTION = "reaction_median_s", "s", "from a true change to the right decision, median", "<=", 3.5
    VOTING_ERROR = "voting_error_pct", "%", "ticks on a wrong class after voting", "<=", 3.0
    BASE_SESSIONS = (
        "accuracy_sessions_28_pct",
        "%",
        "as the first, whole sessions held out by one kind of model",
        ">=",
        97.0,
    )
    HOST = "accuracy_host_28_pct", "%", "as the first, all recordings of the host"
    LAB = "accuracy_lab_28_pct", "%", "as the first, stand-ins in the lab's guests"
    PLACE_DROP = "place_drop_points", "points", "lost in a place that was not learnt from, the most", "<=", 5
    FLAT = "accuracy_flat_28_pct", "%", "as the first, by a model of whole labels"
    FACTORED = "accuracy_factored_28_pct", "%", "as the first, by a model of what is in front and what works behind"
    WITHOUT_EBPF = "accuracy_without_ebpf_28_pct", "%", "as the first, where no eBPF is to be had"
    WITHOUT_GNOME = "accuracy_without_gnome_28_pct", "%", "as the first, where no desktop tells its focus"
    WITHOUT_PSI = "accuracy_without_psi_28_pct", "%", "as the first, on a kernel without pressure stall information"
    WITHOUT_PROCESSES = "accuracy_without_processes_28_pct", "%", "as the first, where single processes are not read"
    OLDER = "accuracy_older_recordings_28_pct", "%", "as the first, recordings of before single processes were read"


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place that was left out of training: accuracy there by models that know it, and by one that does not."""

    name: str
    rows: int
    known_pct: float | None
    left_out_pct: float | None
    drop_points: float | None


class Curve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Accuracy with so many sessions of each label and place to learn from."""

    sessions: int
    accuracy_28_pct: float | None
    accuracy_40_pct: float | None


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that an evaluation found, as it is kept."""

    result: int = RESULT
    dataset_sha256: str
    schema: int  # of the features
    training: int  # `ensemble.TRAINING`
    seed: int
    quick: bool
    made: str  # UTC
    took_s: float
    recipe: str
    rows: int
    sessions: dict[str, int]  # by place
    seeds: list[int]
    held_out: str  # whole seeds, or whole sessions where there is one seed
    folds: int
    kind: str  # flat or factored: what most folds preferred
    kinds: list[str]
    lacks: str
    figures: dict[str, float | None]
    reasons: dict[str, str]  # of figures without a value
    classes: list[str]
    confusion: list[list[int]]  # rows by true class (down) and recognised class (across)
    worst: list[tuple[str, str, int]]  # true, recognised, rows
    reliability: list[list[float]]  # rows, mean confidence, share of right ones by bin
    places: list[Place]
    curve: list[Curve]
    unknown_pct: dict[str, float]  # accepted, by the program that was kept out
    unknown_score: str


def figures(result: Result, served: Mapping[str, str] | None, why: str = "") -> list[Figure]:
    """All of them. `served`: class -> the scheduler that the mapping table has first for it; None: `why`."""
    made = []
    for name in RecognitionFigure:
        value, reason = result.figures.get(name), result.reasons.get(name, "not measured")
        if name is RecognitionFigure.BY_SCHEDULER:
            value, reason = by_scheduler(result, served, why)
        made.append(Figure(name=name, value=value, reason="" if value is not None else reason))
    return made


def by_scheduler(result: Result, served: Mapping[str, str] | None, why: str = "") -> tuple[float | None, str]:
    """Share of the 28 scenarios' rows that come to the right scheduler, in per cent, or why there is none."""
    scenarios = {scenario.label for scenario in catalogue.PAIRS}
    table, pair = np.array(result.confusion), np.array([name in scenarios for name in result.classes])
    if served is None:
        return None, why or "no mapping table"
    missing = [name for name in result.classes if name not in served]
    if missing:
        return None, f"the mapping table has no ranking for {len(missing)} labels, {missing[0]} among them"
    if not pair.any() or not table[pair].sum():
        return None, "no row of two programs was held out"
    names = np.array([served[name] for name in result.classes])
    right = names[:, None] == names[None, :]
    return float((table * right)[pair].sum() / table[pair].sum() * 100), ""


def recall_pct(result: Result) -> list[tuple[str, float, int]]:
    """Class, its recall and its rows, the worst first; classes without rows are left out."""
    table: Array = np.array(result.confusion)
    count = table.sum(axis=1)
    found = [
        (name, float(table[place, place] / count[place] * 100), int(count[place]))
        for place, name in enumerate(result.classes)
        if count[place]
    ]
    return sorted(found, key=lambda one: one[1])


def runtime(model: Path, *, quick: bool, tell: Tell) -> dict[RecognitionFigure, float | None]:
    """What a tick costs from its sample to probabilities, and memory; None where it cannot be measured."""
    options = recognition.Options(
        model=model,
        candidates=(recognition.KEPT,),
        turns=200 if quick else 1_000,
        rounds=1 if quick else 3,
        samples=recognition.recording(),
    )
    names = {str(name): name for name in (RecognitionFigure.MEAN, RecognitionFigure.P99, RecognitionFigure.RSS)}
    try:
        found = recognition_report.figures(recognition.measure(options, tell))
    except AsaError:
        return dict.fromkeys(names.values())
    return {names[str(figure.name)]: figure.value for figure in found if str(figure.name) in names}


def read(path: Path) -> Result | None:
    """A kept result; None where there is none, or one of another version."""
    try:
        found = wire.from_json(path.read_bytes(), Result)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.result == RESULT else None


def write(path: Path, result: Result) -> None:
    """Whole or not at all. Raises ModelError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, msgspec.json.format(wire.json_bytes(result), indent=1) + b"\n", mode=0o644)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}; name another place") from error


def file_name(dataset_sha256: str, seed: int, *, quick: bool, given: str = "") -> str:
    """Of a kept result: by the dataset, the code's versions, the seed, and a hash of what else was given."""
    code = f"{RESULT}.{ensemble.TRAINING}.{features.SCHEMA}"
    return f"{dataset_sha256[:16]}-{code}-{seed}{'-quick' if quick else ''}{given and f'-{given[:16]}'}.json"


def rows(found: Iterable[Figure]) -> Iterator[tuple[str, ...]]:
    """For people: name, value, goal, whether it is met, what it is or why it is not there."""
    return (cells(figure, ".4g", figure.goal.what) for figure in found)
