# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab finetune`: from this machine's own journals to a model of its own, kept only when it is better."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.extras import need
from asa.cli.lab import train

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from models.own import Own
    from models.runtime import Ensemble
    from models.train.dataset import Dataset
    from models.train.ensemble import Rows
    from models.train.factored import Model
    from models.train.finetune import Outcome
    from models.versions import Version

_TEXT = """\
Trains the model again on the package's recordings and this machine's own journals, and keeps the result only when
it is better on own sessions that were held out, and no worse on the kept part of the recordings than --loss says.

Sessions of `asa lab record --label` have their label. In sessions of the agent a stretch is learnt from when its class
stands for 30 s, with a mean probability of 0.7, on top in 80 % of its ticks, known in 90 %, and on top for each member
in half of them; 6 s at both its ends are left out. Of each label, the last session (or the last stretches of it that
are 10 minutes from others) judges.
"""
_MORE = """\
exit status:
  0  the tuned model is better, and kept (with --try: would be)
  1  it is not ("rolled back", and why), or it could not be made; nothing has changed

examples:
  asa lab finetune
      From the agent's own journal; then `asa model use` with the name that it prints.
  asa lab finetune --use mine/*.journal.xz
      From recordings, and choose it at once when it is better.
  asa lab finetune --try --json
      Only say what it would be worth.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "finetune", help="adapt the model to this machine by its journals", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "journals", type=Path, nargs="*", metavar="FILE", help="journals, packed or not (default: the agent's own)"
    )
    command.add_argument(
        "--base",
        type=Path,
        metavar="DIR",
        dest="recordings",
        help="folder of the base set, that the model in use was trained on (default: the package's)",
    )
    command.add_argument("--labelled", action="store_true", help="learn only from what a person labelled")
    command.add_argument(
        "--loss",
        type=_points,
        default=0.5,
        metavar="POINTS",
        help="of accuracy that may be lost on the base set (default: %(default)s)",
    )
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of all random choices (default: 1)")
    command.add_argument("--use", action="store_true", help="choose the model at once when it is better")
    command.add_argument("--try", action="store_true", dest="dry", help="judge, and keep nothing")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Gather, train, judge, keep. Exit code 0 when the result is better. Raises JournalError, ModelError, AsaError."""
    need("pandas", "sklearn", "xgboost", "joblib", extra="train")
    train.single_threaded()
    from asa import config, model, paths, wire
    from asa.cli.model import comes_first
    from calibration.recognition import sources
    from models import artefact, versions
    from models.runtime import Ensemble
    from models.train import ensemble, evaluation, factored, finetune

    places = paths.default()
    where = versions.folder(places)
    settings = config.load(places.config)
    parent = model.in_use(settings, places)
    judge = Ensemble.load(parent)
    own = _own(arguments, judge)
    _say(f"own: {len(own.label)} rows, {own.by_hand} labelled by hand, of {', '.join(own.labels())}")
    base = sources.of_kinds(train.folder(arguments))
    evaluation.check(base)
    finetune.check_classes(base, judge.classes)
    names, kind = factored.labels_of(base), finetune.kind_of(artefact.load(parent).header)

    def fit(rows: "Rows") -> "Model":
        return factored.fit(kind, rows, names, ensemble.Recipe(), arguments.seed)

    outcome = finetune.tune(base, own, fit, finetune.Bounds(base_loss_points=arguments.loss), _say)
    kept = None
    if outcome.tuned is not None and not arguments.dry:
        kept = _keep(where, outcome, outcome.tuned, parent, base, own, arguments)
    if arguments.json:
        body = {"kept": kept.name if kept else None, "better": not outcome.why, "why": outcome.why}
        print(wire.json_text({**body, "figures": outcome.figures}))
        return 1 if outcome.why else 0
    for name, value in outcome.figures.items():
        print(f"{name} {value:g}")
    takes = "the agent takes it at SIGHUP or when it starts"
    if settings.model:
        takes = comes_first(places.config, settings.model)
    print(outcome.why or _told(kept, takes if arguments.use else ""))
    return 1 if outcome.why else 0


def _own(arguments: argparse.Namespace, judge: "Ensemble") -> "Own":
    from asa.cli.journal import chosen
    from asa.report.reading import opened
    from models.own import Sure, gather

    found = sorted(arguments.journals) or [chosen(None)]
    with ExitStack() as stack:
        journals = [(str(path), stack.enter_context(opened(path))) for path in found]
        return gather(journals, judge, Sure(), by_hand_only=arguments.labelled)


def _keep(
    where: Path,
    outcome: "Outcome[Model]",
    tuned: "Model",
    parent: Path,
    base: "Dataset",
    own: "Own",
    arguments: argparse.Namespace,
) -> "Version":
    from datetime import UTC, datetime

    import asa
    from models import artefact, versions
    from models.train import finetune
    from models.train.export import factored_artefact

    made = datetime.now(UTC).isoformat(timespec="seconds")
    of_parent = artefact.load(parent).header
    header = finetune.header(of_parent, tuned, made=made, seed=arguments.seed, sha256=outcome.sha256)
    facts = versions.Facts(
        sha256="",
        kind="tuned",
        made=made,
        asa_version=asa.__version__,
        parent=versions.hash_of(parent),
        seed=arguments.seed,
        data={
            "base": f"{len(base.y)} rows of {len(base.sessions)} sessions, {base.sha256}",
            "own": f"{len(own.label)} rows, {own.by_hand} labelled by hand, {len(own.units)} units, {own.sha256}",
            "own labels": ", ".join(own.labels()),
        },
        figures=outcome.figures,
    )
    version = versions.add(where, factored_artefact(tuned.heads, header), facts)
    if arguments.use:
        versions.use(where, version)
    return version


def _told(kept: "Version | None", chosen: str) -> str:
    if kept is None:
        return "better; nothing is kept, as told"
    if chosen:
        return f"better: kept as {kept.name} and chosen; {chosen}"
    return f"better: kept as {kept.name}; `asa model use {kept.name}` chooses it"


def _points(text: str) -> float:
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0.0 <= points <= 100.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of points from 0 to 100")
    return points


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
