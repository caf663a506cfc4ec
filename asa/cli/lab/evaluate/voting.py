# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate voting`: what filters after the model are worth, chosen on some sessions, reported on others."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.voting.score import Score
    from calibration.voting.streams import Stream
    from calibration.voting.sweep import Sweep

_SPLICED, _SCENARIOS = 40, 6  # sequences of held-out predictions, and scenarios in each

_TEXT = """\
Sweeps the voting and its alternatives: response delay (true change to right decision) against error rate. Every
method is set on half of the sessions and reported on the other half.
"""
_MORE = """\
exit status:
  0  the figures were printed, whether their goals are met or not
  1  sessions or model cannot be read, or no workload changes in them

examples:
  asa lab evaluate voting sequences/*.journal.xz --plot voting.svg
      Sequences of `asa lab record --sequence`, that the model has not seen.
  asa lab evaluate voting --held-out predictions.npz --json
      Sequences spliced from predictions for held-out sessions.
"""


def register(actions: "Commands") -> None:
    """Add the parser to those of `asa lab evaluate`."""
    command = actions.add_parser(
        "voting", help="the filters after the model: delay against error rate", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "journals", type=Path, nargs="*", metavar="JOURNAL", help="recorded sessions with marks, packed or not"
    )
    command.add_argument(
        "--model", type=Path, metavar="FILE", help="artefact that judges them (default: the package's)"
    )
    command.add_argument(
        "--held-out",
        type=Path,
        metavar="FILE",
        help="instead of journals: an .npz of predictions for held-out sessions (probabilities, y, session, classes)",
    )
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of spliced sequences (default: 1)")
    command.add_argument(
        "--allowed",
        type=float,
        metavar="SECONDS",
        help="how long after a change a wrong class is a delay and no error (default: 6)",
    )
    command.add_argument("--page", type=Path, metavar="FILE", help="write a page (.md), its picture (.svg) beside it")
    command.add_argument("--plot", type=Path, metavar="FILE", help="draw the sweep (.svg, .png)")
    command.add_argument("--all", action="store_true", help="JSON lines of every setting tried, too")
    command.add_argument("--json", action="store_true", help="JSON lines alone")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises AsaError."""
    from asa.cli.lab.bench import output as bench_output
    from asa.core.errors import AsaError
    from calibration.voting import page as voting_page
    from calibration.voting.score import ALLOWED_S
    from calibration.voting.streams import deal
    from calibration.voting.sweep import sweep

    if arguments.page is not None and (not arguments.page.parent.is_dir() or arguments.page.suffix != ".md"):
        raise AsaError(f"{arguments.page}: no page (.md) in a folder that is there; name another place by --page")
    if bool(arguments.journals) == (arguments.held_out is not None):
        raise AsaError("nothing to judge by, or two things; name journals with marks, or --held-out FILE")
    validation, others = deal(_streams(arguments))
    allowed_s = ALLOWED_S if arguments.allowed is None else arguments.allowed
    found = sweep(validation, others, allowed_s=allowed_s, say=_say)
    if arguments.plot is not None:
        from calibration.voting.plot import draw

        draw(arguments.plot, found)
        _say(f"wrote {arguments.plot}")
    if arguments.page is not None:
        _write(arguments, found, allowed_s)
    if not arguments.json:
        bench_output.table(voting_page.HEAD, list(voting_page.rows(found)))
        print("\n".join(voting_page.words(found)))
    if arguments.all:
        for point in found.points:
            body = {"method": point.method, "parameters": dict(point.parameters), "validation": _plain(point.score)}
            print(json.dumps(body))
    for line in _lines(found):
        print(json.dumps(line))
    return 0


def _streams(arguments: argparse.Namespace) -> "list[Stream]":
    from dataclasses import replace

    from calibration.voting import streams as voting_streams

    if arguments.held_out is not None:
        sessions = voting_streams.held_out(arguments.held_out)
        # each side of the deal gets sessions of its own: none chooses and reports
        sides = []
        for place in (0, 1):
            part = {label: found[place::2] for label, found in sessions.items() if len(found) > place}
            made = voting_streams.splice(part, count=_SPLICED, scenarios=_SCENARIOS, seed=arguments.seed)
            sides.append(made)
        return [
            replace(one, name=f"{one.name} {side}", group=side)
            for side, made in zip(("a", "b"), sides, strict=True)
            for one in made
        ]
    from asa import paths
    from calibration.voting.recorded import read
    from models.runtime import Ensemble

    return read(arguments.journals, Ensemble.load(arguments.model or paths.base_model()))


def _write(arguments: argparse.Namespace, found: "Sweep", allowed_s: float) -> None:
    from asa import paths
    from asa.cli.lab.bench import output as bench_output
    from calibration.voting import page as voting_page
    from calibration.voting.plot import draw
    from models import versions

    page: Path = arguments.page
    picture = page.with_suffix(".svg")
    draw(picture, found)
    if arguments.held_out is not None:
        sources = [f"sequences spliced from held-out sessions of {arguments.held_out}, seed {arguments.seed}"]
    else:
        model: Path = arguments.model or paths.base_model()
        sources = [
            f"recorded sequences: {', '.join(path.name for path in arguments.journals)}",
            f"model: {model.name}, SHA-256 {versions.hash_of(model)[:16]}",
        ]
    text = voting_page.page(found, sources, picture.name, allowed_s=allowed_s, command="asa lab evaluate voting")
    bench_output.put(page, text)
    _say(f"wrote {page} and {picture}")


def _lines(found: "Sweep") -> list[dict[str, object]]:
    from calibration.voting.sweep import MOST_ERROR_PCT, MOST_MEDIAN_S

    made: list[dict[str, object]] = []
    for method, chosen in found.chosen.items():
        body: dict[str, object] = {"method": method, "parameters": dict(chosen.point.parameters)}
        body |= {"validation": _plain(chosen.point.score), "reported": _plain(chosen.reported)}
        against = None if chosen.against_paper_pct is None else [round(one, 4) for one in chosen.against_paper_pct]
        made.append(body | {"tick_us": round(chosen.tick_us, 2), "lost_pct_against_paper": against})
    shipped = found.shipped.reported
    made.append(_figure("reaction_median_s", shipped.median_s, "s", MOST_MEDIAN_S))
    made.append(_figure("voting_error_pct", shipped.error_pct, "%", MOST_ERROR_PCT))
    return made


def _figure(name: str, value: float | None, unit: str, goal: float) -> dict[str, object]:
    ok = value is not None and value <= goal
    shown = None if value is None else round(value, 4)
    return {"name": name, "value": shown, "unit": unit, "goal": goal, "sign": "<=", "ok": ok}


def _plain(score: "Score") -> Mapping[str, object]:
    from dataclasses import asdict

    return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(score).items()}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
