# SPDX-License-Identifier: GPL-2.0-only
"""`asa explain`: why this scheduler, now: the votes, the ranking and who is out of it, the guard's figures, switches,
and the features that the last recognition was carried by.

All but the features comes from the running agent's status; with `--journal` the switches come from a journal, also
without an agent. Features are told from a journal: that one, or the agent's own.
"""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.explain_features import Recognition
    from asa.cli.main import Commands
    from asa.status import Place, Showing, Status, Switched

_VOTES = 3  # classes that are shown, the most probable first
_PRESSURE = "cpu-pressure"
_LATENCIES = {"run-queue-p99": "run queue p99", "wakeup-p99": "wakeup p99", "timer-late-p99": "timer late p99"}

_TEXT = """\
Explains the present choice: the votes for each class, the mapping table's ranking, which schedulers are out
of it and until when, what the guard has measured, and the last switches with their reasons. From the journal
it shows which features spoke for and against the class of the last tick.
"""
_MORE = """\
exit status:
  0  an agent is running, or a journal was given
  3  neither

examples:
  asa explain
      Why this scheduler, now.
  asa explain --last 20 --journal minute.sqlite
      The last 20 switches of a journal, also without an agent.

reading the features:
  x12  what is known of this feature made the class 12 times as likely against the next best one; under
       `against`, that one against it
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "explain",
        help="show why this scheduler runs, what is barred, the last switches",
        description=_TEXT,
        epilog=_MORE,
    )
    command.add_argument("--last", type=_count, default=5, metavar="N", help="switches to show (default: %(default)s)")
    command.add_argument("--journal", type=Path, metavar="FILE", help="take switches and features from this journal")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation. Exit code 0 with an agent running or a journal given, 3 with neither."""
    from asa import paths, status, wire
    from asa.cli import explain_features
    from asa.report.markup import plain

    found = status.read(paths.default().run) or status.read(paths.Places().run)  # this user's agent, else the system's
    lately: tuple[Switched, ...] = found.lately if found is not None else ()
    if arguments.journal is not None:
        lately = _from_journal(arguments.journal, arguments.last)
    lately = lately[len(lately) - arguments.last :] if len(lately) > arguments.last else lately
    code = 0 if found is not None or arguments.journal is not None else 3
    carried = _recognition(arguments.journal, found) if code == 0 else None
    if arguments.json:
        body: dict[str, object] = {"running": found is not None, "agent": found, "switches": lately}
        print(wire.json_text(body if carried is None else body | {"recognition": carried}))
        return code
    now_ns = time.time_ns()
    lines = list(_now(found, now_ns)) if found is not None else []
    if found is None and arguments.journal is None:
        lines.append("agent      not running; `asa run` starts it")
    if carried is not None:
        lines.extend(explain_features.lines(carried))
    if code == 0:
        lines.extend(_switches(lately))
    print("\n".join(plain(line) for line in lines))  # schedulers' own words are in it, and anything from a journal
    return code


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of switches")
    return int(text)


def _recognition(journal: Path | None, agent: "Status | None") -> "Recognition | None":
    # without a journal to look at: the system's agent keeps its own where only root reads
    from asa import config, paths, status
    from asa.cli import explain_features
    from asa.cli.journal import chosen
    from models import versions

    places = paths.default()
    if (journal is None and status.read(places.run) is None) or not paths.there(chosen(journal)):
        return None
    configured = agent.model if agent is not None else config.load(places.config).model
    return explain_features.recognition(chosen(journal), versions.folder(places), configured)


def _from_journal(path: Path, most: int) -> "tuple[Switched, ...]":
    from asa.decide.account import switched
    from asa.journal import Journal
    from asa.report.reading import timed

    found: tuple[Switched, ...] = ()
    with Journal.look(path) as book:
        for session in reversed(book.sessions()):
            found = switched(timed(book, session.number)) + found
            if len(found) >= most:
                break
    return found


def _now(found: "Status", now_ns: int) -> "Iterator[str]":
    from asa.cli.status import beside
    from asa.status import seen

    in_force = "no sched_ext"
    if found.scheduler is not None:
        in_force = f"{found.scheduler} for {_time((now_ns - found.scheduler_since_ns) / 1e9)}"
    yield f"agent      {found.mode}{': ' + found.mode_reason if found.mode_reason else ''}"
    yield f"workload   {seen(found)} ({found.confidence:.0%})"
    votes = sorted(found.probabilities.items(), key=lambda item: -item[1])[:_VOTES]
    if votes:
        yield f"votes      {', '.join(f'{name} {share:.0%}' for name, share in votes)} in this tick"
    yield from beside(found)
    yield f"scheduler  {in_force}; wanted {found.wanted or 'none'}"
    yield f"why        {found.sentence}"
    if found.keeps_to:
        yield f"           a switch was taken back: {found.workload} keeps to {found.keeps_to} for now"
    waiting = {standby.scheduler: standby.ready for standby in found.standbys}
    for number, place in enumerate(found.ranking, 1):
        head = "ranking   " if number == 1 else "          "
        yield f"{head} {number}. {place.scheduler}: {_standing(place, found, waiting, now_ns)}"
    if found.ranking:
        yield f"           by {found.table}"
    yield from _guard(found)
    yield from _learned(found)


def _standing(place: "Place", found: "Status", waiting: dict[str, bool], now_ns: int) -> str:
    if place.out and place.until_ns is None:
        return f"out until `asa resume {place.scheduler}` or another version of it; {place.out}"
    if place.out:
        left_s = max(0.0, ((place.until_ns or 0) - now_ns) / 1e9)
        return f"out for {_time(left_s)} more; {place.out}"
    notes = []
    if place.scheduler == found.scheduler:
        notes.append("in force")
    if place.scheduler in waiting:
        notes.append("stands by" if waiting[place.scheduler] else "loading, to stand by")
    if place.learned:
        notes.append(place.learned)
    return "; ".join([*notes, place.why])


def _guard(found: "Status") -> "Iterator[str]":
    if found.mode == "observing":
        yield "guard      has nothing to judge while nothing is switched"
        return
    if not found.guard:
        yield (
            f"guard      has seen nothing of {found.workload} yet" if found.workload else "guard      waits for a class"
        )
        return
    yield f"guard      medians of what {found.workload} showed, over blocks of 3 s"
    names = max(len(showing.scheduler) for showing in found.guard)
    for showing in found.guard:
        yield f"           {showing.scheduler:<{names}}  {_figures(showing)}"
    if found.guard_next_look is not None:
        yield f"           {found.guard_blocks} blocks in this trial, judged at {found.guard_next_look}"
    elif found.guard_blocks:
        yield f"           judged: {found.guard_blocks} blocks in this trial, and nothing against it"


def _learned(found: "Status") -> "Iterator[str]":
    from asa.cli.trial import trial_lines, tried_line

    if found.trial is not None:
        yield from trial_lines(found.trial)
    here = found.learned.here if found.learned is not None else ()
    for number, one in enumerate(here):
        yield f"{'tried     ' if number == 0 else '          '} {tried_line(one)}"


def _figures(showing: "Showing") -> str:
    from asa.decide.signals import MEANINGS

    figures = [f"{showing.blocks:>2} blocks"]
    for signal, name in _LATENCIES.items():
        value_us = showing.medians.get(signal)
        figures.append(f"{name} {'unknown' if value_us is None else f'{value_us / 1e3:.2f} ms'}")
    pressure = showing.medians.get(_PRESSURE)
    figures.append(f"CPU pressure {'unknown' if pressure is None else f'{pressure:.0%}'}")
    for signal, meaning in MEANINGS.items():
        value = showing.medians.get(signal)
        if value is not None and meaning.guarded and signal not in _LATENCIES and signal != _PRESSURE:
            figures.append(f"{meaning.words} {value * meaning.scale:.1f}{meaning.unit}")
    return ", ".join(figures)


def _switches(lately: "tuple[Switched, ...]") -> "Iterator[str]":
    if not lately:
        yield "switches   none yet"
    for number, one in enumerate(lately):
        head = "switches  " if number == 0 else "          "
        at = time.strftime("%H:%M:%S", time.localtime(one.at_ns / 1e9))
        gap = "" if one.gap_ns is None else f", {one.gap_ns / 1e6:.1f} ms without either"
        yield f"{head} {at}  {one.old} -> {one.new}: {one.outcome} ({one.way}, {one.elapsed_ns / 1e9:.2f} s{gap})"
        for line in (one.why, one.detail, one.ended):
            if line:
                yield f"           {' ' * len(at)}  {line}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
