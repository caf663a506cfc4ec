# SPDX-License-Identifier: GPL-2.0-only
"""`asa train`: from packed recordings to the model artefact, with figures on sessions that were held out."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from models.artefact import Header
    from models.card import Figure
    from models.dataset import Dataset, Recording
    from models.evaluation import HeldOut

_SUFFIX = ".journal.xz"
_TIMED_PREDICTIONS = 2_000

_TEXT = """\
Trains the ensemble from packed recordings, and says what it is worth on sessions that it has not seen.
"""
_MORE = """\
exit status:
  0  the artefact was written, whatever its figures
  1  it was not

examples:
  asa train --out new.npz --card card.md
      From the recordings of the package, into a new artefact with its card.
  asa train --recordings mine --out mine.npz
      From those in a folder.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "train", help="train the model from recordings and say what it is worth", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "--recordings", type=Path, metavar="DIR", help=f"folder of *{_SUFFIX} (default: the package's)"
    )
    command.add_argument("--out", type=Path, metavar="FILE", help="artefact to write (default: the package's)")
    command.add_argument("--card", type=Path, metavar="FILE", help="model card to write (default: none)")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of all random choices (default: 1)")
    command.add_argument("--json", action="store_true", help="figures as JSON lines instead of tables")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, evaluate, write. Exit code 0 when the artefact was written, whatever its figures."""
    from asa import paths
    from asa.config import Voting
    from models import artefact, card, dataset, evaluation, features
    from models.ensemble import Recipe
    from models.export import to_artefact

    base = paths.base_model()
    directory = arguments.recordings or base.parent.parent / "recordings"
    out = arguments.out or base
    recipe, settings, seed = Recipe(), Voting(), arguments.seed
    data = dataset.assemble(recordings(directory))
    _say(f"{len(data.y)} rows of {len(features.NAMES)} features from {len(data.sessions)} sessions in {directory}")
    held_out = evaluation.hold_out(data, recipe, seed, _say)
    random_rows_pct = evaluation.random_rows_pct(data, recipe, seed)
    fitted = evaluation.final(data, held_out.weights, recipe, seed)
    header = _header(data, held_out.weights, seed)
    artefact.save(to_artefact(fitted, header), out)
    _say(f"wrote {out}, {out.stat().st_size} bytes")
    figures = _figures(data, held_out, random_rows_pct, out)
    if arguments.card is not None:
        text = card.render(
            data,
            held_out,
            header,
            recipe=recipe,
            settings=settings,
            figures=figures,
            command=_command(arguments),
        )
        _write_card(arguments.card, text)
    if arguments.json:
        for figure in figures:
            fields = {"name": figure.name, "value": figure.value, "unit": figure.unit}
            print(json.dumps({**fields, "goal": figure.goal, "ok": figure.ok}))
        return 0
    table = evaluation.confusion(data, held_out)
    for part in (card.accuracy_table(data, held_out, settings), card.confusion_table(data, table)):
        print("\n".join([*part, ""]))
    print("\n".join(card.figures_table(figures)))
    return 0


def recordings(directory: Path) -> "Iterator[Recording]":
    """All sessions of all packed recordings in a folder, by file name. Raises JournalError or ModelError."""
    from asa.core.errors import JournalError, ModelError
    from asa.journal import Journal
    from models.dataset import Recording

    found = sorted(directory.glob(f"*{_SUFFIX}"))
    if not found:
        raise ModelError(f"{directory}: no *{_SUFFIX} in it; make one with `asa record --campaign --pack FILE`")
    for path in found:
        with Journal.unpack(path) as journal:
            try:
                for session in journal.sessions():
                    yield Recording(
                        source=str(path),
                        label=session.header.label,
                        place=session.header.host,
                        seed=session.header.seed,
                        started_ns=session.header.started_ns,
                        parameters=session.header.parameters,
                        samples=tuple(journal.samples(session.number)),
                    )
            except JournalError as error:
                raise JournalError(f"{path}: {error}; record it again") from error


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "train", "--seed", str(arguments.seed)]
    for name in ("recordings", "out", "card"):
        value = getattr(arguments, name)
        words += [f"--{name}", str(value)] if value is not None else []
    return " ".join(words)


def _header(data: "Dataset", weights: tuple[float, ...], seed: int) -> "Header":
    import platform
    from datetime import UTC, datetime
    from importlib.metadata import version

    import xgboost

    import asa
    from models import features
    from models.artefact import FORMAT, Header

    libraries = {name: version(name) for name in ("numpy", "scikit-learn")}
    return Header(
        format=FORMAT,
        schema=features.SCHEMA,
        features=features.NAMES,
        classes=data.classes,
        weights=weights,
        trained=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=seed,
        dataset_sha256=data.sha256,
        versions={
            "asa": asa.__version__,
            "python": platform.python_version(),
            "xgboost": xgboost.__version__,
            **libraries,
        },
    )


def _figures(data: "Dataset", held_out: "HeldOut", random_rows_pct: float, out: Path) -> "list[Figure]":
    from models import evaluation
    from models.card import Figure

    def accuracy(lab: bool | None) -> float | None:  # None: everywhere
        rows = evaluation.in_place(data, lambda session: lab is None or session.in_lab == lab)
        return evaluation.accuracy_pct(held_out.blended[rows], data.y[rows]) if rows.any() else None

    mean_ms, p99_ms = _inference_ms(data, out)
    worst = float(evaluation.recall_pct(evaluation.confusion(data, held_out)).min())
    return [
        Figure(name="accuracy_heldout_pct", value=accuracy(None), unit="%", goal=97.0),
        Figure(name="accuracy_heldout_lab_pct", value=accuracy(True), unit="%", goal=97.0),
        Figure(name="accuracy_heldout_host_pct", value=accuracy(False), unit="%", goal=97.0),
        Figure(name="accuracy_random_rows_pct", value=random_rows_pct, unit="%"),
        Figure(name="worst_class_recall_pct", value=worst, unit="%"),
        Figure(name="inference_mean_ms", value=mean_ms, unit="ms", goal=0.2, least=False),
        Figure(name="inference_p99_ms", value=p99_ms, unit="ms", goal=0.5, least=False),
    ]


def _inference_ms(data: "Dataset", out: Path) -> tuple[float, float]:
    """Mean and 99th percentile of single predictions by the written artefact, back to back."""
    import time

    import numpy as np

    from asa.core.decision import FeatureFrame
    from models.runtime import Ensemble

    model = Ensemble.load(out)
    spent_ns = []
    for number in range(_TIMED_PREDICTIONS + 100):
        row = data.x[number * 37 % len(data.x)]
        values = tuple(None if np.isnan(value) else float(value) for value in row)
        frame = FeatureFrame(schema=model.schema, values=values)
        start_ns = time.perf_counter_ns()
        model.predict(frame)
        spent_ns.append(time.perf_counter_ns() - start_ns)
    settled = np.array(spent_ns[100:]) / 1e6
    return float(settled.mean()), float(np.percentile(settled, 99))


def _write_card(path: Path, text: str) -> None:
    from asa.core.errors import ModelError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
    _say(f"wrote {path}")
