# SPDX-License-Identifier: GPL-2.0-only
"""The figures of recognition by name, with their goals, and the result that they are kept in.

Makes figures of a kept result and a mapping table; trains nothing. Times the model's evaluation by the benchmark of
`calibration.recognition`.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec
import numpy as np

from asa import wire
from asa.core.errors import AsaError, ModelError
from calibration.recognition import runtimes as recognition
from calibration.recognition import runtimes_report as recognition_report
from models import features
from models.artefact import Array
from models.train import ensemble
from models.train.held_out import Tell
from scenarios import catalogue

RESULT = 2
"""Of `Result`: what was kept of another number is not read."""


class Name(StrEnum):
    """The figures, by the names that issue trackers and JSON lines use."""

    BASE = "accuracy_base_28_pct"
    BY_SCHEDULER = "accuracy_by_scheduler_pct"
    RANDOM = "accuracy_random_rows_28_pct"
    TUNED = "accuracy_tuned_28_pct"
    VOTED = "accuracy_voted_28_pct"
    BASE_40 = "accuracy_base_40_pct"
    WORST = "worst_class_recall_pct"
    ECE = "ece"
    UNKNOWN = "unknown_false_accept_pct"
    MEAN = "inference_mean_ms"
    P99 = "inference_p99_ms"
    RSS = "runtime_rss_mb"
    REACTION = "reaction_median_s"
    VOTING_ERROR = "voting_error_pct"
    BASE_SESSIONS = "accuracy_sessions_28_pct"
    HOST = "accuracy_host_28_pct"
    LAB = "accuracy_lab_28_pct"
    PLACE_DROP = "place_drop_points"
    FLAT = "accuracy_flat_28_pct"
    FACTORED = "accuracy_factored_28_pct"
    WITHOUT_EBPF = "accuracy_without_ebpf_28_pct"
    WITHOUT_GNOME = "accuracy_without_gnome_28_pct"
    WITHOUT_PSI = "accuracy_without_psi_28_pct"
    WITHOUT_PROCESSES = "accuracy_without_processes_28_pct"
    OLDER = "accuracy_older_recordings_28_pct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is, and its bound; None: it is there to be compared with."""

    unit: str
    what: str
    bound: float | None = None
    least: bool = True

    @property
    def sign(self) -> str:
        """The side of the bound that is wanted."""
        return ">=" if self.least else "<="


GOALS: Mapping[Name, Goal] = {
    Name.BASE: Goal(
        unit="%", what="28 scenarios, real programs whose recordings tell processes, whole seeds held out", bound=97.0
    ),
    Name.BY_SCHEDULER: Goal(unit="%", what="the same; classes that the mapping table serves alike count as one"),
    Name.RANDOM: Goal(unit="%", what="a third of the rows at random: what flatters"),
    Name.TUNED: Goal(unit="%", what="after fine-tuning with two sessions a label of what was held out", bound=99.5),
    Name.VOTED: Goal(unit="%", what="after voting, ticks whose class has stood for a window", bound=99.0),
    Name.BASE_40: Goal(unit="%", what="all 40 labels, per tick, whole seeds held out"),
    Name.WORST: Goal(unit="%", what="recall of the label that is recognised least"),
    Name.ECE: Goal(unit="", what="expected calibration error, 0 to 1"),
    Name.UNKNOWN: Goal(unit="%", what="ticks of a program kept out of training that are taken for a known use"),
    Name.MEAN: Goal(unit="ms", what="from sample to probabilities, mean", bound=0.2, least=False),
    Name.P99: Goal(unit="ms", what="the same, 99th percentile", bound=0.5, least=False),
    Name.RSS: Goal(unit="MB", what="resident memory that the model and its runtime add"),
    Name.REACTION: Goal(unit="s", what="from a true change to the right decision, median", bound=3.5, least=False),
    Name.VOTING_ERROR: Goal(unit="%", what="ticks on a wrong class after voting", bound=3.0, least=False),
    Name.BASE_SESSIONS: Goal(unit="%", what="as the first, whole sessions held out by one kind of model", bound=97.0),
    Name.HOST: Goal(unit="%", what="as the first, all recordings of the host"),
    Name.LAB: Goal(unit="%", what="as the first, stand-ins in the lab's guests"),
    Name.PLACE_DROP: Goal(
        unit="points", what="lost in a place that was not learnt from, the most", bound=5, least=False
    ),
    Name.FLAT: Goal(unit="%", what="as the first, by a model of whole labels"),
    Name.FACTORED: Goal(unit="%", what="as the first, by a model of what is in front and what works behind"),
    Name.WITHOUT_EBPF: Goal(unit="%", what="as the first, where no eBPF is to be had"),
    Name.WITHOUT_GNOME: Goal(unit="%", what="as the first, where no desktop tells its focus"),
    Name.WITHOUT_PSI: Goal(unit="%", what="as the first, on a kernel without pressure stall information"),
    Name.WITHOUT_PROCESSES: Goal(unit="%", what="as the first, where single processes are not read"),
    Name.OLDER: Goal(unit="%", what="as the first, recordings of before single processes were read"),
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure; `reason` says why it has no value."""

    name: Name
    value: float | None
    reason: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether it meets its goal; None where it has none."""
        goal = GOALS[self.name]
        if goal.bound is None:
            return None
        if self.value is None:
            return False
        return self.value >= goal.bound if goal.least else self.value <= goal.bound

    def plain(self) -> dict[str, object]:
        """As a JSON line has it."""
        goal = GOALS[self.name]
        value = None if self.value is None else round(self.value, 4)
        body: dict[str, object] = {"name": str(self.name), "value": value, "unit": goal.unit, "goal": goal.bound}
        return body | {"ok": self.ok} | ({"reason": self.reason} if self.reason else {})


def figures(result: Result, served: Mapping[str, str] | None, why: str = "") -> list[Figure]:
    """All of them. `served`: class -> the scheduler that the mapping table has first for it; None: `why`."""
    made = []
    for name in Name:
        value, reason = result.figures.get(name), result.reasons.get(name, "not measured")
        if name is Name.BY_SCHEDULER:
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


def runtime(model: Path, *, quick: bool, tell: Tell) -> dict[Name, float | None]:
    """What a tick costs from its sample to probabilities, and memory; None where it cannot be measured."""
    options = recognition.Options(
        model=model,
        candidates=(recognition.KEPT,),
        turns=200 if quick else 1_000,
        rounds=1 if quick else 3,
        samples=recognition.recording(),
    )
    names = {str(name): name for name in (Name.MEAN, Name.P99, Name.RSS)}
    try:
        found = recognition_report.figures(recognition.measure(options, tell))
    except AsaError:
        return dict.fromkeys(names.values())
    return {names[str(figure.name)]: figure.value for figure in found}


def read(path: Path) -> Result | None:
    """A kept result; None where there is none, or one of another version."""
    try:
        found = wire.from_json(path.read_bytes(), Result)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.result == RESULT else None


def write(path: Path, result: Result) -> None:
    """Whole or not at all. Raises ModelError."""
    fresh = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(wire.json_bytes(result), indent=1) + b"\n")
        Path(fresh).chmod(0o644)
        Path(fresh).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(fresh).unlink(missing_ok=True)
        raise ModelError(f"{path}: cannot be written: {error.strerror}; name another place") from error


def file_name(dataset_sha256: str, seed: int, *, quick: bool, given: str = "") -> str:
    """Of a kept result: by the dataset, the code's versions, the seed, and a hash of what else was given."""
    code = f"{RESULT}.{ensemble.TRAINING}.{features.SCHEMA}"
    return f"{dataset_sha256[:16]}-{code}-{seed}{'-quick' if quick else ''}{given and f'-{given[:16]}'}.json"


def rows(found: list[Figure]) -> Iterator[tuple[str, str, str, str, str]]:
    """For people: name, value, goal, whether it is met, what it is or why it is not there."""
    for figure in found:
        goal = GOALS[figure.name]
        value = "unknown" if figure.value is None else f"{figure.value:.4g} {goal.unit}".strip()
        bound = "" if goal.bound is None else f"{goal.sign} {goal.bound:g} {goal.unit}"
        met = {True: "yes", False: "no", None: ""}[figure.ok]
        yield str(figure.name), value, bound, met, figure.reason or goal.what
