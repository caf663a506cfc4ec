# SPDX-License-Identifier: GPL-2.0-only
"""`asa replay`: a recorded session decided once more, and where it comes out differently.

With the settings and files that the recording was made with, nothing differs; with others it says what would have. A
journal does not hold what it does not know: the settings are those of now, the standing of schedulers is taken to have
been empty at the start.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.main import Commands
    from asa.config import Settings
    from asa.journal import Journal
    from asa.paths import Places
    from asa.pipeline import Rules
    from asa.replay import Brief, Ordered, Replay

DIFFERS = 3
_WORDS = """\
Decides each tick of a recorded session once more, from its raw counters, and shows where the decisions differ
from those that were made then. With other settings, another table or another model it shows what would have
been: the switches saved, added or moved. A scheduler that was not in force then is assumed to come up as it mostly
did, and the counters stay as they were measured under the other one.
"""
_MORE = f"""\
exit status:
  0  all decisions are the same, or the recording has none
  1  the journal or the settings cannot be read
  {DIFFERS}  some differ
examples:
  asa replay
      Does the newest session of the agent's own journal come out the same?
  asa replay --session 3 --settings new.yaml journal.sqlite
      What would these settings have changed?
"""
_SHOWN = 10


def register(commands: "Commands") -> None:
    """Add the parser."""
    from asa.cli.journal import add_file

    command = commands.add_parser(
        "replay", help="decide a recorded session once more, and show what differs", description=_WORDS, epilog=_MORE
    )
    add_file(command)
    command.add_argument("--session", type=int, metavar="N", help="this session (default: the newest)")
    command.add_argument("--settings", type=Path, metavar="FILE", help="settings to try (default: those of `asa run`)")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what differs. Exit code 0 when nothing does, DIFFERS when something does."""
    import msgspec

    from asa import config, paths
    from asa.cli.journal import chosen, session_of
    from asa.pipeline import State
    from asa.replay import replay, usual_delays
    from asa.report.reading import opened, ticks

    path = chosen(arguments.journal)
    places = paths.default()
    source = arguments.settings or places.config
    settings = config.load(source, required=arguments.settings is not None)
    number = session_of(path, arguments.session)
    with opened(path) as journal:
        rules = rules_for(journal, number, settings, places)
        delays_ns = usual_delays(journal.events(number))
        found = replay(ticks(journal, number), rules, State(), delays_ns)
    if arguments.json:
        body = {"journal": str(path), "session": number, "settings": str(source), "replay": found}
        print(msgspec.json.encode(body).decode())
    else:
        used = str(source) if arguments.settings is not None or source.exists() else "the default settings"
        print(f"session {number} of {path}, {used}, {rules.table.path}")
        print("\n".join(_lines(found)))
    return DIFFERS if found.differing else 0


def rules_for(journal: "Journal", number: int, settings: "Settings", places: "Places") -> "Rules":
    """Rules as `asa run` would make them now, in the mode that the session was in. Raises AsaError."""
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.core.decision import Reason
    from asa.decide import table
    from asa.pipeline import Rules
    from models.runtime import NumpyEnsemble

    header = next(session.header for session in journal.sessions() if session.number == number)
    observed, stood_by = False, False
    for decision in journal.decisions(number):
        observed = observed or decision.reason is Reason.OBSERVING
        stood_by = stood_by or bool(decision.standbys)
    portfolio = Portfolio.load(paths.manifest(), places.schedulers, owners=settings.switch.trusted_owners)
    return Rules(
        classifier=NumpyEnsemble.load(Path(settings.model) if settings.model else paths.base_model()),
        table=table.for_this_machine(portfolio.modes(), settings.table),
        voting=settings.voting,
        policy=settings.policy,
        name_of_ops=portfolio.name_of_ops,
        may_switch=header.mode in {"switching", "shadow"} or (not header.mode and not observed),
        guard=settings.guard,
        quarantine=settings.quarantine,
        standing=settings.standing,
        standby=settings.standby,
        may_stand_by=stood_by,
        shadow=header.mode == "shadow",
        versions={name: record.sha256 for name, record in portfolio.records().items()},
    )


def _lines(found: "Replay") -> "Iterator[str]":
    from asa.report import words

    if not found.compared:
        yield f"{words.counted(found.ticks, 'tick')} decided; the recording has no decisions to compare with"
    else:
        same = found.compared - found.differing
        fields = ", ".join(f"{name} {count:,}" for name, count in found.by_field.items())
        differ = f"{found.differing:,} differ{f': {fields}' if fields else ''}"
        yield f"decisions   {words.counted(found.compared, 'tick')}, {same:,} the same, {differ}"
    yield (
        f"switches    {found.recorded_switches} recorded, {found.replayed_switches} replayed: "
        f"{found.same_switches} the same, {len(found.moved)} moved, {len(found.saved)} saved, {len(found.added)} added"
    )
    for name, orders in (("moved", found.moved), ("saved", found.saved), ("added", found.added)):
        yield from _orders(name, orders)
    if found.assumed_ticks:
        for number, (name, (before_s, after_s)) in enumerate(found.schedulers.items()):
            head = "in force   " if number == 0 else " " * 11
            yield f"{head} {name:<16} {words.duration(before_s):>12} recorded, {words.duration(after_s):>12} replayed"
        assumed = words.counted(found.assumed_ticks, "tick")
        yield f"            in {assumed} the replay had gone another way; rates are as recorded"
    for number, one in enumerate(found.first[:_SHOWN]):
        head = "differs    " if number == 0 else " " * 11
        yield f"{head} {words.moment(one.at_ns, seconds=True)}  {_brief(one.recorded)}"
        yield f"{' ' * 29}-> {_brief(one.replayed)} ({', '.join(one.fields)})"


def _orders(name: str, orders: "tuple[Ordered, ...]") -> "Iterator[str]":
    from asa.report import words

    for number, order in enumerate(orders[:_SHOWN]):
        head = f"{name:<11}" if number == 0 else " " * 11
        moved = f", {order.moved_s:+.0f} s" if order.moved_s else ""
        yield f"{head} {words.moment(order.at_ns, seconds=True)}  {order.scheduler}{moved}"
    if len(orders) > _SHOWN:
        yield f"            and {len(orders) - _SHOWN} more"


def _brief(one: "Brief") -> str:
    ordered = f", switch to {one.switch_to}" if one.switch_to else ""
    return f"{one.workload or 'no class'}: {one.current or 'no sched_ext'} in force, {one.reason}{ordered}"
