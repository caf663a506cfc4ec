# SPDX-License-Identifier: GPL-2.0-only
"""`asa teach`: what runs now is such a use. From minutes of the agent's journal to a lesson in the model."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from asa.cli.hold import duration_s

if TYPE_CHECKING:
    from pathlib import Path

    from asa.cli.main import Commands
    from asa.core.decision import FeatureFrame
    from asa.status import Status
    from models.artefact import Artefact
    from models.teaching import Lesson

_USUAL_S = 120
_BEFORE_NS = 30 * 10**9  # features look back, for less than this
_LATER_S = 2.0  # the last tick itself, and the disk

_TEXT = """\
Tells the model what a program is that it does not recognise: while the program runs, its ticks are read from the
agent's journal for some minutes. They are kept beside the model as a lesson. The last third of them judges: a lesson is
kept only where they are recognised. It ends where more than 1 % of the model's own examples would be taken for it.
"""
_MORE = """\
exit status:
  0  the lesson is kept and chosen; the running agent was told
  1  it is not, and why; nothing has changed

examples:
  asa teach compress
      For two minutes from now on, the machine compresses.
  asa teach browse+compile 5m --last
      In the last five minutes it compiled while somebody browsed.
  asa teach compress --forget
      Forget what was taught of it; `asa model use` goes back to an earlier model as a whole.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "teach", help="teach the model what the program that runs now is", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "label", metavar="USE", help="a class of the model, or kinds, such as compress, browse+compile"
    )
    text = "for so long, such as 90s, 2m (default: 2m)"
    command.add_argument("duration", nargs="?", type=duration_s, default=_USUAL_S, metavar="DURATION", help=text)
    command.add_argument("--last", action="store_true", help="the time that has just passed, in place of the next")
    command.add_argument("--forget", action="store_true", help="forget what was taught of this use")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Watch, teach, keep. Exit code 0 when the lesson is kept. Raises AsaError, JournalError, ModelError."""
    from asa import config, model, paths, requests, status, wire
    from asa.cli.model import comes_first
    from asa.core.errors import AsaError
    from asa.journal import COMMIT_S
    from models import artefact, teaching

    places = paths.default()
    settings = config.load(places.config)
    if settings.model:
        raise AsaError(comes_first(places.config, settings.model))
    parent = model.in_use(settings, places)
    known = artefact.load(parent)
    label = _class(arguments.label, known.header.classes)
    if arguments.forget:
        left = teaching.forget(known, label)
        name = _keep(left, parent, {"taught": f"{label} forgotten"}, {})
        told = _tell(status.read(places.run))
        print(wire.json_text({"kept": name, "forgotten": label}) if arguments.json else f"forgotten: {name}; {told}")
        return 0
    folder, agent = requests.agent()
    if folder != places.run:
        raise AsaError(f"the agent (pid {agent.pid}) is another user's, and so is its model; run it as that user")
    if arguments.duration < teaching.LEAST_TICKS * agent.interval_s:
        few = f"{arguments.duration} s are too few"
        raise AsaError(f"{few}: {teaching.LEAST_TICKS} ticks are needed, one in {agent.interval_s:g} s")
    later_s = 0.0 if arguments.last else COMMIT_S + _LATER_S
    frames = _watched(arguments.duration, later_s, last=arguments.last, quiet=arguments.json)
    parent = model.in_use(settings, places)  # somebody may have chosen another one meanwhile
    known = artefact.load(parent)
    lesson = teaching.teach(known, frames, label)
    kept = (
        None
        if lesson.why
        else _keep(lesson.model, parent, {"taught": f"{lesson.ticks} ticks of {label}"}, lesson.figures)
    )
    told = _tell(agent) if kept else ""
    if arguments.json:
        print(wire.json_text({"kept": kept, "label": label, "why": lesson.why, "figures": lesson.figures}))
    else:
        print("\n".join(_words(lesson, label, kept, told)))
    return 0 if kept else 1


def _class(word: str, classes: "tuple[str, ...]") -> str:
    """The model's class, also where it has another name for this use. Raises ModelError with those that it has."""
    from asa.core.errors import ModelError
    from asa.core.kinds import among

    found = among(word, classes)
    if found not in classes:
        raise ModelError(f"the model has no use {word!r}; it knows {', '.join(sorted(classes))}")
    return found


def _watched(seconds: int, later_s: float, *, last: bool, quiet: bool) -> "list[FeatureFrame]":
    from asa.cli.journal import chosen
    from asa.core.errors import AsaError
    from asa.report.reading import opened
    from models.own import ticks

    path = chosen(None)
    with opened(path):
        pass  # an agent in a terminal may write none: said before the wait
    since_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - (seconds * 10**9 if last else 0)
    if not last:
        _wait(seconds + later_s, quiet=quiet)
    with opened(path) as journal:
        sessions = journal.sessions()
        of_last = journal.samples(sessions[-1].number) if sessions else iter(())  # days long perhaps: one by one
        samples = [one for one in of_last if one.monotonic_ns >= since_ns - _BEFORE_NS]
    found = [tick for tick in ticks(samples) if since_ns <= tick.since_ns and tick.at_ns <= since_ns + seconds * 10**9]
    if not found:
        raise AsaError(f"{path}: no tick of this time in it; does the agent of this user write a journal?")
    return [tick.frame for tick in found]


def _wait(seconds: float, *, quiet: bool) -> None:
    if quiet or not sys.stderr.isatty():
        time.sleep(seconds)
        return
    try:
        from rich.console import Console  # of the extra `monitor`, and for people only
        from rich.progress import track
    except ImportError:
        print(f"watching for {seconds:.0f} s", file=sys.stderr, flush=True)
        time.sleep(seconds)
        return
    whole = int(seconds)
    for _ in track(range(whole), description="watching", console=Console(file=sys.stderr), transient=True):
        time.sleep(seconds / whole)


def _keep(taught: "Artefact", parent: "Path", data: dict[str, str], figures: dict[str, float]) -> str:
    from datetime import UTC, datetime

    import asa
    from asa import paths
    from models import versions

    where = versions.folder(paths.default())
    facts = versions.Facts(
        sha256="",
        kind="taught",
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        asa_version=asa.__version__,
        parent=versions.hash_of(parent),
        seed=taught.header.seed,
        data=data,
        figures=figures,
    )
    version = versions.add(where, taught, facts)
    versions.use(where, version)
    return version.name


def _tell(agent: "Status | None") -> str:
    """Have the running agent read its settings, and so its model, again."""
    import os
    import signal

    if agent is None:
        return "the agent takes it when it starts"
    try:
        os.kill(agent.pid, signal.SIGHUP)
    except OSError as error:
        return f"the agent takes it at `kill -HUP {agent.pid}` ({error.strerror})"
    return "the running agent was told"


def _words(lesson: "Lesson", label: str, name: str | None, told: str) -> "tuple[str, ...]":
    recognised = (
        f"{label}: of the last third of {lesson.ticks} ticks {lesson.right_pct:.0f} % are recognised with the lesson, "
        f"{lesson.right_before_pct:.0f} % without"
    )
    if lesson.taken_for not in ("", label):
        recognised += f"; until now most were taken for {lesson.taken_for}: if that was right, take it back"
    if name is None:
        return recognised, f"not kept: {lesson.why}"
    return recognised, f"kept as {name} and chosen; {told}; `asa teach {label} --forget` takes it back"
