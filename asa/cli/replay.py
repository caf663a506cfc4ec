# SPDX-License-Identifier: GPL-2.0-only
"""`asa journal replay`: a recorded session decided once more, and where it comes out differently.

By what the recording went by, nothing differs; by other settings, another table or another model it says what would
have. A journal older than its version 3 does not hold its settings: they are those of now, and the standing of
schedulers is taken to have been empty at the start, as is what was learned where the recording does not hold it.
"""

import argparse
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

_Kept = TypeVar("_Kept")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.main import Commands
    from asa.config import Settings
    from asa.decide.hints import Hints
    from asa.decide.learning import Learning
    from asa.decide.table import MappingTable
    from asa.journal import Journal, SessionHeader, Told
    from asa.pipeline import Setup
    from asa.replayed import Brief, Ordered, Replay
    from models.runtime import Ensemble

DIFFERS = 3
_WORDS = """\
Decides each tick of a recorded session once more, from its raw counters, and shows where the decisions differ
from those of then. Other settings, another table or another model show what would have been: the switches
saved, added or moved. A scheduler that was not in force is assumed to come up as it mostly did. The counters
stay as they were measured under the other one.
"""
_MORE = f"""\
exit status:
  0  all decisions are the same, or the recording has none
  1  the journal or the settings cannot be read
  {DIFFERS}  some differ
examples:
  asa journal replay
      Does the newest session of the agent's own journal come out the same?
  asa journal replay --session 3 --settings new.yaml journal.sqlite
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
    command.add_argument(
        "--settings", type=Path, metavar="FILE", help="settings to try (default: those of the recording)"
    )
    command.add_argument("--json", action="store_true", help="one JSON object")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what differs. Exit code 0 when nothing does, DIFFERS when something does."""
    from asa import config, wire
    from asa.cli.journal import chosen, session_of
    from asa.report.markup import plain

    path = chosen(arguments.journal)
    number = session_of(path, arguments.session)
    tried = None if arguments.settings is None else config.load(arguments.settings, required=True)
    played = again(path, number, tried, arguments.settings)
    found = played.replay
    if arguments.json:
        body = {"journal": str(path), "session": number, "settings": played.source, "replay": found}
        print(wire.json_text(body))
    else:
        print(plain(f"session {number} of {path}, by {played.source}, {played.table}"))
        for sha256 in played.gone:
            print(plain(f"model       another one than the recording's, {sha256[:12]}"))
        print("\n".join(plain(line) for line in _lines(found)))
    return DIFFERS if found.differing else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What a session came to once more, and what it was decided by."""

    replay: "Replay"
    source: str  # of the settings
    table: str
    gone: "tuple[str, ...]"  # hashes of models in whose place another one judged


def again(
    path: Path, number: int, tried: "Settings | None" = None, file: Path | None = None, most: int | None = None
) -> Again:
    """Decide a session once more, by other settings where `tried` is given; `file`: these settings', for its hints.

    `most`: ticks from the session's beginning (None: all). Raises JournalError, InputError and ModelError.
    """
    from asa import config
    from asa.decide import knowledge, learning
    from asa.decide.books import Books
    from asa.decide.knowledge import Knowledge, KnowledgeFile
    from asa.decide.penalties import Bars
    from asa.decide.trial_budget import Stand
    from asa.pipeline import State
    from asa.replay import replay, usual_delays
    from asa.report.reading import opened, ticks

    with opened(path) as journal:
        header = next(session.header for session in journal.sessions() if session.number == number)
        went_by, differing = _settings(header.settings)
        settings = tried or went_by or config.load(_config_path())
        models = _Models(keep=tried is not None and bool(tried.model))
        setup = _setup(journal, number, header, settings, models, file)
        bars = _kept(header.standing, Bars, "standing")
        stand = Stand(kernel=setup.kernel, versions=setup.versions)
        lessons = learning.begin(_learned(header.learning), stand)
        knows = Knowledge(known=knowledge.of_file(_kept(header.known, KnowledgeFile, "knowledge of programs")))
        found = replay(
            islice(ticks(journal, number), most),
            setup,
            State(books=Books(bars=bars, lessons=lessons, knowledge=knows)),
            usual_delays(journal.events(number)),
            _permitted if tried is not None else partial(_renewed, models=models),
        )
    source = (
        f"the recorded settings{_but(differing)}"
        if went_by is not None
        else "the settings of now: the recording has none"
    )
    source = source if file is None else str(file)
    return Again(replay=found, source=source, table=setup.table.path, gone=tuple(models.gone))


def recorded_settings(path: Path, number: int) -> "Settings | None":
    """What a session went by; None: it does not say (a journal before version 3). Raises JournalError."""
    from asa.report.reading import opened

    with opened(path) as journal:
        header = next(session.header for session in journal.sessions() if session.number == number)
    return _settings(header.settings)[0]


def _config_path() -> Path:
    from asa import paths

    return paths.default().config


def _but(differing: "list[str]") -> str:
    return f" but {', '.join(differing)}, constants of this version" if differing else ""


def _settings(text: str) -> "tuple[Settings | None, list[str]]":
    import msgspec

    from asa import config
    from asa.core.errors import JournalError

    try:
        return config.recorded(text) if text else (None, [])
    except msgspec.DecodeError as error:
        raise JournalError(f"the recorded settings are not of this version: {error}; give --settings FILE") from error


def _kept(text: str, kind: "type[_Kept]", what: str) -> "_Kept":
    import msgspec

    from asa import wire
    from asa.core.errors import JournalError

    try:
        return wire.from_json(text or "{}", kind)
    except msgspec.DecodeError as error:
        raise JournalError(f"the recorded {what} is not of this version: {error}; replay another session") from error


def _learned(text: str) -> "Learning":
    import msgspec

    from asa.core.errors import JournalError
    from asa.decide import learning

    try:
        return learning.of_text(text or "{}")
    except msgspec.DecodeError as error:
        raise JournalError(f"the recorded learning is not of this version: {error}; replay another session") from error


def _setup(
    journal: "Journal",
    number: int,
    header: "SessionHeader",
    settings: "Settings",
    models: "_Models",
    file: Path | None,
) -> "Setup":
    """The setup as `asa run` makes it, in the mode that the session was in; `file`: other settings', for its hints.

    Raises AsaError.
    """
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.core.decision import Permit, Reason
    from asa.decide import hints
    from asa.pipeline import Setup

    observed, stood_by = False, header.stand_by
    for decision in journal.decisions(number):
        observed = observed or decision.reason is Reason.OBSERVING
        stood_by = stood_by or bool(decision.standbys)
    portfolio = Portfolio.of_host(settings.switch, paths.default().schedulers)
    model = models.load(header.model, settings)
    return Setup(
        classifier=model,
        table=_table(settings, header.table),
        voting=settings.voting,
        policy=settings.policy,
        name_of_ops=portfolio.name_of_ops,
        permit=Permit(
            switch=header.mode in {"switching", "shadow"} or (not header.mode and not observed), stand_by=stood_by
        ),
        hints=_hints(header.hints) if file is None else hints.load(file, model.hint_weight),
        guard=settings.guard,
        quarantine=settings.quarantine,
        standby=settings.standby,
        shadow=header.mode == "shadow",
        kernel=header.kernel,
        versions=header.versions
        if header.settings  # recorded, and none may have been installed
        else {name: record.sha256 for name, record in portfolio.records().items()},
    )


def _permitted(setup: "Setup", told: "Told") -> "Setup":
    """The same with what the agent could do from then on."""
    permit = setup.permit
    if told.may_switch is not None:
        permit = replace(permit, switch=told.may_switch)
    if told.may_stand_by is not None:
        permit = replace(permit, stand_by=told.may_stand_by)
    return replace(setup, permit=permit)


def _renewed(setup: "Setup", told: "Told", models: "_Models") -> "Setup":
    """The same after the agent had read its settings again."""
    setup = _permitted(setup, told)
    versions = setup.versions if told.versions is None else told.versions
    settings, _ = _settings(told.settings)
    if settings is None:
        return replace(setup, versions=versions)
    return replace(
        setup,
        classifier=models.load(told.model, settings) if told.model else setup.classifier,
        table=_table(settings, told.table or setup.table.path),
        voting=settings.voting,
        policy=settings.policy,
        hints=_hints(told.hints) if told.hints else setup.hints,
        guard=settings.guard,
        quarantine=settings.quarantine,
        standby=settings.standby,
        versions=versions,
    )


def _hints(text: str) -> "Hints":
    # a recording of before has none, and no sample of it has what they are about
    from asa.decide.hints import Hints

    return _kept(text, Hints, "hints")


def _table(settings: "Settings", recorded: str) -> "MappingTable":
    # the settings' own; else the one that the recording went by, where it still is; else this machine's
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.decide import table

    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    try:
        kept = Path(recorded) if recorded and Path(recorded).is_file() else None
    except OSError:  # another user's, where this one may not look
        kept = None
    found = table.for_this_machine(portfolio.modes(), settings.table, first=kept)
    return replace(found, canaries=portfolio.canaries())


class _Models:
    """The models that a recording was judged by, where they are still kept."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep  # the settings that are tried name one: it comes first
        self.gone: list[str] = []  # hashes of those in whose place another one judges

    def load(self, sha256: str, settings: "Settings") -> "Ensemble":
        """The one with this hash ("": not recorded), else the one that `asa run` would take. Raises ModelError."""
        from asa import paths
        from models import versions
        from models.runtime import Ensemble

        where = versions.folder(paths.default())
        path = versions.by_hash(where, sha256, settings.model) if sha256 and not self._keep else None
        if path is None:
            path = Path(settings.model) if settings.model else versions.in_use(where)
            if sha256 and sha256 != versions.hash_of(path):
                self.gone.append(sha256)
        return Ensemble.load(path)


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
