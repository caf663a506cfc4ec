# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab train`: from packed recordings to the model artefact, with figures on what was held out."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.extras import need

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from models.train.card import Figure
    from models.train.dataset import Dataset
    from models.train.evaluation import HeldOut
    from models.train.held_out import Kept
    from models.train.training import Trained

_SUFFIX = ".journal.xz"
_SCENARIOS = "scenarios"  # the benchmark's, in a folder of their own below the others
_TIMED_TICKS = 2_000
_KINDS = ("flat", "factored")

_TEXT = """\
Trains the ensemble from packed recordings, and says what it is worth on seeds, or sessions, that it has not seen.

Two kinds of model are tried: one that knows whole labels (flat), and one that knows what is in front and what works
behind (factored). Both are told of; the one that is better on validation sessions is written. --kind tries one alone,
in half the time.
"""
_MORE = """\
exit status:
  0  the artefact was written, whatever its figures
  1  it was not

examples:
  asa lab train --out new.npz --card card.md
      From the recordings of the package, into a new artefact with its card; figures go to new.json.
  asa lab train --recordings mine --out mine.npz --held-out predictions.npz
      From those in a folder; `asa lab evaluate voting --held-out predictions.npz` judges the voting by what comes out.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "train", help="train the model from recordings, and evaluate it", description=_TEXT, epilog=_MORE
    )
    add_recordings(command)
    command.add_argument(
        "--kind", choices=(*_KINDS, "both"), default="both", help="of model that is tried (default: both)"
    )
    command.add_argument("--out", type=Path, metavar="FILE", help="artefact to write (default: the package's)")
    command.add_argument("--card", type=Path, metavar="FILE", help="model card to write (default: none)")
    command.add_argument(
        "--held-out", type=Path, metavar="FILE", help="predictions for what was held out, to write as .npz"
    )
    command.add_argument("--json", action="store_true", help="figures as JSON lines instead of tables")
    command.set_defaults(run=run)


def add_recordings(command: argparse.ArgumentParser) -> None:
    """What `asa lab train` and `asa lab evaluate model` take alike."""
    command.add_argument(
        "--recordings",
        type=Path,
        metavar="DIR",
        help=f"folder of *{_SUFFIX}, also in {_SCENARIOS}/ and programs/ below it, or one journal (default: the "
        "package's)",
    )
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of all random choices (default: 1)")
    command.add_argument(
        "--jobs", type=int, metavar="N", help="processes that train at a time (default: one a CPU)", default=0
    )
    command.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="where results of trainings are kept, so that none is done twice (default: asa's cache)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Train, evaluate, write. Exit code 0 when the artefact was written, whatever its figures."""
    need("pandas", "sklearn", "xgboost", "joblib", "rich", extra="train,guests")
    single_threaded()
    from asa import paths
    from asa.cli.lab.bench import output as bench_output
    from asa.config import Voting
    from calibration.recognition import sources
    from models import artefact, features, versions
    from models.train import card, evaluation, training
    from models.train.ensemble import Recipe
    from models.train.factored import Kind

    out = arguments.out or paths.base_model()
    for path in (out, arguments.card, arguments.held_out):
        _writable(path)
    recipe, settings = Recipe(), Voting()
    data = sources.with_served(sources.of_kinds(folder(arguments)))
    _say(f"{len(data.y)} rows of {len(features.NAMES)} features from {len(data.sessions)} sessions, {data.sha256[:12]}")
    if words := evaluation.lacks(data):
        _say(words)
    with bench_output.progress() as tell:
        trained = training.train(
            data,
            recipe,
            arguments.seed,
            kinds=tuple(Kind) if arguments.kind == "both" else (Kind(arguments.kind),),
            jobs=jobs(arguments),
            kept=results(arguments.keep),
            tell=tell,
        )
    artefact.save(trained.to_artefact(), out)
    _say(f"wrote {out}, {out.stat().st_size} bytes, {trained.model.kind}")
    figures = _figures(data, trained, out)
    _put(versions.base_facts_file(out), json.dumps(_plain(figures), indent=1) + "\n")
    if arguments.card is not None:
        command = _command(arguments)
        text = card.render(data, trained, recipe=recipe, settings=settings, figures=figures, command=command)
        _put(arguments.card, text)
    if arguments.held_out is not None:
        save_held_out(arguments.held_out, data, trained.held_out)
    if arguments.json:
        for figure in figures:
            fields = {"name": figure.name, "value": figure.value, "unit": figure.unit}
            print(json.dumps({**fields, "goal": figure.goal, "ok": figure.ok}))
        return 0
    table = evaluation.confusion(data, trained.held_out.blended, evaluation.running(data))
    for part in (card.accuracy_table(data, trained.held_out, settings), card.confusion_table(data, table)):
        print("\n".join([*part, ""]))
    print("\n".join(card.figures_table(figures)))
    return 0


def single_threaded() -> None:
    """Before NumPy is loaded: sums in one thread come out the same everywhere, and processes share the CPUs."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def jobs(arguments: argparse.Namespace) -> int:
    """Processes to train in."""
    return arguments.jobs if arguments.jobs > 0 else len(os.sched_getaffinity(0))


def results(keep: Path | None) -> "Kept":
    """Where outcomes of trainings are kept."""
    from asa import paths
    from models.train.held_out import Kept

    return Kept(keep or paths.default().cache / "recognition")


def folder(arguments: argparse.Namespace) -> Path:
    """Where the recordings are: as asked, or those of the package's model."""
    return Path(arguments.recordings) if arguments.recordings is not None else _shipped()


def scenarios(arguments: argparse.Namespace) -> Path:
    """Where the benchmark's recordings are: as asked, or the package's."""
    return Path(arguments.recordings) if arguments.recordings is not None else _shipped() / _SCENARIOS


def _shipped() -> Path:
    from asa import paths

    return paths.base_model().parent.parent / "recordings"


def save_held_out(path: Path, data: "Dataset", held_out: "HeldOut") -> None:
    """Predictions (n, K) for the rows in which all of a session's label works, as `asa lab evaluate voting` reads them.
    Raises ModelError."""
    import numpy as np

    from asa.core.errors import ModelError
    from models.train import evaluation

    labels = np.array([session.label for session in data.sessions])[data.session]
    whole = labels == np.array(data.classes)[data.y]
    use = evaluation.running(data) & (held_out.fold >= 0) & whole
    try:
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                probabilities=held_out.blended[use],
                y=data.y[use],
                session=data.session[use],
                classes=np.array(data.classes),
            )
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
    _say(f"wrote {path}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "lab", "train", "--seed", str(arguments.seed)]
    words += [] if arguments.kind == "both" else ["--kind", arguments.kind]
    for name in ("recordings", "out", "card", "held_out"):
        value = getattr(arguments, name)
        words += [f"--{name.replace('_', '-')}", str(value)] if value is not None else []
    return " ".join(words)


def _figures(data: "Dataset", trained: "Trained", out: Path) -> "list[Figure]":
    import numpy as np

    from models.artefact import Array
    from models.train import evaluation
    from models.train.card import Figure
    from models.train.factored import Kind

    found = trained.held_out
    held = evaluation.running(data) & (found.fold >= 0)
    lab = evaluation.in_place(data, lambda session: session.in_lab)
    pairs, base = evaluation.pairs(data) & held, evaluation.judged(data)

    def accuracy(probabilities: Array | None, rows: Array) -> float | None:
        if probabilities is None or not rows.any():
            return None
        return evaluation.accuracy_pct(probabilities[rows], data.y[rows])

    mean_ms, p99_ms = _inference_ms(data, out)
    worst = float(np.nanmin(evaluation.recall_pct(evaluation.confusion(data, found.blended, held))))
    ece = evaluation.reliability(found.blended[held], data.y[held]).error
    return [
        Figure(name="accuracy_heldout_pct", value=accuracy(found.blended, held), unit="%", goal=97.0),
        Figure(name="accuracy_heldout_lab_pct", value=accuracy(found.blended, held & lab), unit="%", goal=97.0),
        Figure(name="accuracy_heldout_host_pct", value=accuracy(found.blended, held & ~lab), unit="%", goal=97.0),
        Figure(name="accuracy_heldout_28_pct", value=accuracy(found.blended, pairs), unit="%", goal=97.0),
        Figure(name="accuracy_base_28_pct", value=accuracy(found.blended, pairs & base), unit="%", goal=97.0),
        Figure(name="accuracy_flat_pct", value=accuracy(found.of.get(Kind.FLAT), held), unit="%"),
        Figure(name="accuracy_factored_pct", value=accuracy(found.of.get(Kind.FACTORED), held), unit="%"),
        Figure(name="accuracy_random_rows_pct", value=trained.random_rows_pct, unit="%"),
        Figure(name="worst_class_recall_pct", value=worst, unit="%"),
        Figure(name="ece", value=ece, unit=""),
        Figure(name="inference_mean_ms", value=mean_ms, unit="ms", goal=0.2, least=False),
        Figure(name="inference_p99_ms", value=p99_ms, unit="ms", goal=0.5, least=False),
    ]


def _plain(figures: "list[Figure]") -> dict[str, float]:
    return {figure.name: round(figure.value, 4) for figure in figures if figure.value is not None}


def _inference_ms(data: "Dataset", out: Path) -> tuple[float, float]:
    """Mean and 99th percentile from a sample to the written artefact's probabilities, ticks back to back, as
    `asa lab bench recognition` has them. Of the longest session, of those with processes and probes if any: what the
    agent reads, and what costs the most."""
    from asa.pipeline import plan
    from calibration.recognition import frame_cost
    from models.runtime import Ensemble

    sessions = [session.samples for session in data.sessions]
    samples = max(sessions, key=lambda one: (one[-1].process_bursts is not None, one[-1].probes is not None, len(one)))
    rounds = max(1, round(_TIMED_TICKS / len(samples)))
    model = Ensemble.load(out)
    whole = frame_cost.measure(samples, model.judge, rounds, plan(model.fields))[-1]
    return whole.mean_us / 1e3, whole.p99_us / 1e3


def _writable(path: Path | None) -> None:
    # said before the minutes of training, not after them
    from asa.core.errors import ModelError

    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ModelError(f"{path}: cannot be written; choose another place")


def _put(path: Path, text: str) -> None:
    from asa.core.errors import ModelError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
    _say(f"wrote {path}")
