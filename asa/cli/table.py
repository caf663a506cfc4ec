# SPDX-License-Identifier: GPL-2.0-only
"""`asa table`: the mapping table of this machine: shown, compared, checked, taken in and given away."""

import argparse
import os
import reprlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from asa.cli.main import Commands
    from asa.core.decision import SchedulerName, Workload
    from asa.decide.learning import Lessons
    from asa.decide.table import Entry, MappingTable, TableFile
    from asa.decide.trial_budget import Asked
    from asa.yamlfile import Fault

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60

_TEXT = """\
The mapping table ranks schedulers for each class, best first. This machine's own table comes from calibration
or from `import`. Behind it stand the shipped table of the nearest machine and the default table, for classes
that it does not rank. A table that the settings name stands alone.

What trials found here stands beside the table (learning.json). `show` shows both: who was found better is asked
first. It outlives another table, and is asked again when the kernel or a scheduler is another one.
"""
_MORE = """\
exit status:
  0  it was done; for check: the file is right
  1  it could not be done; for check and import: the file has faults, which are named

files:
  ~/.local/state/asa/table.yaml  this machine's own, of an agent that runs as this user
  /var/lib/asa/table.yaml        this machine's own, of an installed ASA: for users who have none themselves

examples:
  asa table show web+blender
      Who serves this class, in which order, and why.
  asa table diff new.yaml
      What would be chosen differently by new.yaml.
  asa table check new.yaml
      Every fault of a file, with its key and line.
  asa table import new.yaml
      Use it on this machine; the old one is kept beside it.
  asa table export mine.yaml
      The table in use, to give it to somebody.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "table", help="show, compare, check, import and export the mapping table", description=_TEXT, epilog=_MORE
    )
    actions = command.add_subparsers(dest="table", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the table in use: its machine, its figures, who serves what")
    show.add_argument("classes", nargs="*", metavar="WORKLOAD", help="these alone (default: all that are listed)")
    show.add_argument("--table", type=Path, metavar="FILE", help="another table, as it would serve here")
    show.set_defaults(run=_show)
    diff = actions.add_parser("diff", help="what would be chosen differently by another table, class by class")
    diff.add_argument("file", type=Path, metavar="FILE", help="compared with the table in use, or with OTHER")
    diff.add_argument("other", type=Path, metavar="OTHER", nargs="?", help="another file")
    diff.set_defaults(run=_diff)
    check = actions.add_parser("check", help="every fault of a table")
    check.add_argument("file", type=Path, metavar="FILE", nargs="?", help="(default: the table in use)")
    check.set_defaults(run=_check)
    bring = actions.add_parser("import", help="check a file and use it on this machine; the old table is kept")
    bring.add_argument("file", type=Path, metavar="FILE", help="a mapping table")
    bring.set_defaults(run=_import)
    give = actions.add_parser("export", help="write the table in use to a file, or print it")
    give.add_argument("file", type=Path, metavar="FILE", nargs="?", help="a new file (default: standard output)")
    give.set_defaults(run=_export)
    for action in (show, diff, check, bring, give):
        action.add_argument("--json", action="store_true", help="print JSON")


class _Desk:
    """What the actions need: this user's places, the manifest's names, what is installed, the settings' table."""

    def __init__(self) -> None:
        from asa import config, host, paths
        from asa.act.portfolio import Portfolio
        from asa.decide import table

        self.places = paths.default()
        settings = config.load(self.places.config)
        self._portfolio = Portfolio.of_host(settings.switch, self.places.schedulers)
        self.known = self._portfolio.modes()
        self.present = table.Present.of(self._portfolio)
        self.here = host.facts(self.places.proc, self.places.sys)
        self.named = settings.table
        self._settings = settings

    def classes(self) -> "tuple[Workload, ...]":
        """What the model in use knows. Raises ModelError."""
        from asa.model import Model

        return Model.first(self._settings, self.places, lambda _: None).classifier.classes

    def in_use(self) -> "MappingTable":
        """The agent's own choice. Raises InputError."""
        from asa.decide import table

        return table.for_this_machine(self.known, self.named, places=self.places, present=self.present)

    def path(self) -> Path:
        """Its file, also of a damaged one."""
        from asa.decide import table

        return Path(self.named) if self.named is not None else table.candidates(self.places, self.here)[0]

    def lessons(self) -> "Lessons":
        """What trials found here, of the kernel and the files of today; none of it counts where learning is off."""
        from asa import host
        from asa.config import Learn
        from asa.decide import learning
        from asa.decide.trial_budget import Stand

        if self._settings.policy.learn is Learn.OFF:
            return learning.NOTHING
        kept = learning.load(self.places.state / learning.LEARNING)
        kernel = self.present.kernel
        versions = self._portfolio.versions(kernel, host.cpu_model(self.places.proc))
        return learning.begin(kept, Stand(kernel=kernel, versions=versions))

    def at(self, path: Path) -> "MappingTable":
        """A file as it would serve here in the place of this machine's own. Raises InputError."""
        from asa import paths
        from asa.decide import table

        folder = paths.mapping_tables()
        found = dict.fromkeys((path, table.choose(folder, self.here), folder / "default.yaml"))
        return table.chain(tuple(found), self.known, present=self.present, here=self.here)


def _show(arguments: argparse.Namespace) -> int:
    """Print a table. Raises InputError for a damaged one, and for a class that it does not serve."""
    import msgspec

    from asa import wire
    from asa.core.decision import Workload
    from asa.core.errors import InputError
    from asa.decide import learning, table

    desk = _Desk()
    found = desk.in_use() if arguments.table is None else desk.at(arguments.table)
    lessons = desk.lessons() if arguments.table is None else learning.NOTHING
    asked = [Workload(name) for name in arguments.classes] or _listed(found, lessons)
    for name in asked:
        if not found.ranking(name):
            raise InputError(path=found.path, key="classes", value=name, allowed=", ".join(found.listed))
    file = table.read(Path(found.path))
    if arguments.json:
        classes = {name: _class(found, name, lessons) for name in asked}
        head = {"path": found.path, "elsewhere": found.elsewhere, "stale": found.stale, "behind": _behind(found)}
        body = {**head, "file": msgspec.structs.replace(file, classes={}), "classes": classes}
        print(wire.json_text(body))
        return 0
    print("\n".join((*_head(found, file), *_rankings(found, asked, lessons))))
    return 0


def _listed(found: "MappingTable", lessons: "Lessons") -> "list[Workload]":
    """Of the table and of all behind it, the first one's classes first; then what was tried besides."""
    from asa.core import kinds

    names, tried = found.listed, dict.fromkeys(one.use for one in lessons.kept.asked)
    return [*names, *(use for use in tried if not any(kinds.same(use, name) for name in names))]


def _behind(found: "MappingTable") -> list[str]:
    return [] if found.rest is None else [found.rest.path, *_behind(found.rest)]


def _tried(found: "MappingTable", name: "Workload", lessons: "Lessons") -> "dict[SchedulerName, tuple[Asked, ...]]":
    """The class's schedulers in the order in which they are asked, each with what trials found of it here."""
    from asa.core import kinds
    from asa.decide import learning

    _, _, ranking = found.source(name)
    names = dict.fromkeys(entry.name for entry in ranking)
    mine = [one for one in lessons.kept.asked if kinds.same(one.use, name)]
    for use in dict.fromkeys(one.use for one in mine):
        names = learning.order(lessons, use, names, lambda one: found.allows(name, one, saver=False))
    return {one: tuple(asked for asked in mine if asked.candidate == one) for one in names}


def _class(found: "MappingTable", name: "Workload", lessons: "Lessons") -> dict[str, object]:
    from asa import wire

    source, listed, ranking = found.source(name)
    rows = [
        {
            **wire.plain(entry),
            "name": entry.name,
            "ground": source.ground(entry),
            "choosable": source.choosable(entry),
            "stale": source.aged(entry),
        }
        for entry in ranking
    ]
    order = _tried(found, name, lessons)
    here = {one: [_answer(asked) for asked in tried] for one, tried in order.items() if tried}
    return {"table": source.path, "listed": listed, "ranking": rows, "order": list(order), "measured_here": here}


def _answer(asked: "Asked") -> dict[str, object]:
    from asa import wire

    return {"verdict": asked.verdict, "serves": asked.serves, "evidence": wire.plain(asked.evidence)}


def _head(found: "MappingTable", file: "TableFile") -> "Iterator[str]":
    from asa.decide import fingerprint

    facts = ", ".join(f"{fact} {value}" for fact, value in fingerprint.words(file.machine))
    yield f"table       {found.path}"
    yield f"machine     {_line(found.machine)}{f': {_line(facts)}' if facts else ''}"
    if (measured := found.measured) is not None:
        seed = f", seed {measured.seed}" if measured.seed is not None else ""
        where = f"kernel {measured.kernel}, {measured.tier} programs"
        yield f"measured    {measured.date}, {_line(f'{where}{seed}: {measured.command}')}"
    if found.elsewhere:
        yield f"elsewhere   {_line(found.elsewhere)}"
    yield f"provenance  {_line(found.provenance)}"
    for place, path in enumerate(_behind(found)):
        yield f"{'behind it' if place == 0 else '':<12}{path}"
    for name, cost in found.costs.items():
        told = (
            "time to switch unknown" if cost.switch_ms is None else f"{cost.switch_ms:g} ms to switch",
            "" if cost.overhead_pct is None else f", {cost.overhead_pct:g} % for the agent under it",
        )
        yield f"cost        {name}: {''.join(told)} ({_runs(cost.runs)})"
    for name, why in found.stale.items():
        yield f"stale       {name}: {_line(why)}"


def _rankings(found: "MappingTable", names: "Sequence[Workload]", lessons: "Lessons") -> "Iterator[str]":
    for name in names:
        source, listed, ranking = found.source(name)
        part = f" as {listed}" if listed != name else ""
        yield f"\n{_line(name)}{part}{f' by {source.path}' if source is not found else ''}"
        entries = {entry.name: entry for entry in ranking}
        for place, (scheduler, tried) in enumerate(_tried(found, name, lessons).items(), 1):
            if (entry := entries.get(scheduler)) is None:
                yield f"{place:>3}  {scheduler:<22} {'':<32} tried by hand"
                yield from (f"{'':<5}{_line(asked.measured)}" for asked in tried)
                continue
            saver = "; for battery saver" if entry.efficient else ""
            old = f"; stale: {aged}" if (aged := source.aged(entry)) else ""
            yield f"{place:>3}  {entry.name:<22} {_figures(entry):<32} {_line(f'{entry.why}{saver}{old}')}"
            if ground := source.grounds(entry):
                yield f"{'':<5}{_line(ground)}"
            yield from (f"{'':<5}{_line(asked.measured)}" for asked in tried)


def _line(words: str) -> str:
    """On one line, and nothing in it that a terminal obeys: a table may be somebody else's."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())


def _figures(entry: "Entry") -> str:
    if entry.score is None:
        return ""
    low, high = ("?" if value is None else f"{value:.3f}" for value in (entry.low, entry.high))
    return f"{entry.score:.3f} ({low} to {high}{'' if entry.runs is None else f', {_runs(entry.runs)}'})"


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _diff(arguments: argparse.Namespace) -> int:
    """Print what two tables choose differently. Raises InputError for a damaged one."""
    from asa import wire
    from asa.core import kinds

    desk = _Desk()
    if arguments.other is None:
        one, other = desk.in_use(), desk.at(arguments.file)
    else:
        one, other = desk.at(arguments.file), desk.at(arguments.other)
    names = kinds.distinct((*one.listed, *other.listed, *desk.classes()))
    rows = []
    for name in names:
        for saver in (False, True):
            old, new = one.wanted(name, (), saver=saver), other.wanted(name, (), saver=saver)
            if old != new:
                whys = dict(other.ranked(name, saver=saver))
                why = whys.get(new, "") if new is not None else ""
                rows.append({"class": name, "saver": saver, "one": old, "other": new, "why": why})
    if arguments.json:
        print(wire.json_text({"one": one.path, "other": other.path, "classes": len(names), "rows": rows}))
        return 0
    print(f"{one.path} -> {other.path}")
    for row in rows:
        when = ", on battery saver" if row["saver"] else ""
        change = f"{row['one'] or 'no entry'} -> {row['other'] or 'no entry'}"
        print(_line(f"{row['class']}{when}: {change} ({row['why']})"))
    print(f"{len({row['class'] for row in rows})} of {len(names)} classes would get another scheduler")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Print the faults. Exit code 0 without any, else 1."""
    from asa import wire
    from asa.decide import table

    desk = _Desk()
    path = arguments.file or desk.path()
    found = table.check(path, desk.known)
    right = None if found else desk.at(path)
    if arguments.json:
        body: dict[str, object] = {"file": str(path), "faults": [_plain(fault) for fault in found]}
        if right is not None:
            body |= {"classes": len(right.rankings), "elsewhere": right.elsewhere, "stale": right.stale}
        print(wire.json_text(body))
        return 1 if found else 0
    if right is None:
        return _faulty(path, found)
    print(f"{path} is right; it ranks {len(right.rankings)} classes")
    _print_standing(right)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    """Put a file into this machine's own place. Raises AsaError; then nothing has changed. Exit code 1 for faults."""
    from asa import status, wire
    from asa.decide import table

    desk = _Desk()
    found = table.check(arguments.file, desk.known)
    if found:
        if arguments.json:
            print(wire.json_text({"file": str(arguments.file), "faults": [_plain(one) for one in found]}))
            return 1
        return _faulty(arguments.file, found)
    place = table.own(desk.places)
    taken, agent = desk.at(arguments.file), status.read(desk.places.run)  # what may fail does so before the change
    kept = table.put_keeping(place, arguments.file, desk.known)
    command = f"kill -HUP {agent.pid}" if agent is not None else ""
    served = desk.path()
    if arguments.json:
        facts = {"elsewhere": taken.elsewhere, "stale": taken.stale, "reload": command, "settings": desk.named}
        facts["in_use"] = str(served)
        where: dict[str, object] = {"table": str(place), "kept": None if kept is None else str(kept), "faults": []}
        print(wire.json_text({**where, **facts}))
        return 0
    print(f"{place} is this machine's table now{'' if kept is None else f'; the old one is {kept}'}")
    _print_standing(taken)
    if desk.named is not None:
        print(f"{desk.places.config} names another table, which comes first: {desk.named}; take its line `table` out")
    elif served != place:
        print(f"{served} comes first; move it away")
    print(f"the running agent takes it at: {command}" if command else "the agent takes it when it starts")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    """Write the table in use. Raises AsaError; a file that exists is not touched."""
    from asa import wire
    from asa.core.errors import InputError
    from asa.decide import table

    file = table.read(_Desk().path())
    if arguments.file is None:
        print(wire.json_text(file) if arguments.json else table.text(file), end="")
        return 0
    if os.path.lexists(arguments.file):
        raise InputError(path=str(arguments.file), key="", value="exists", allowed="the name of a new file")
    table.write(arguments.file, file)
    if arguments.json:
        print(wire.json_text({"file": str(arguments.file), "classes": len(file.classes)}))
    else:
        print(f"{arguments.file}: {len(file.classes)} classes, of {_line(file.machine.name)}")
    return 0


def _print_standing(found: "MappingTable") -> None:
    if found.elsewhere:
        print(f"it is no measurement of this machine: {_line(found.elsewhere)}")
    for name, why in found.stale.items():
        print(f"stale: {name}: {_line(why)}")


def _faulty(path: Path, found: "Sequence[Fault]") -> int:
    for fault in found:
        print(f"{path}{f':{fault.line}' if fault.line else ''}: {_plain(fault)['text']}")
    print(f"{len(found)} fault{'s' if len(found) > 1 else ''} in {path}")
    return 1


def _plain(fault: "Fault") -> dict[str, object]:
    from asa.yamlfile import FaultKind

    value = _short.repr(fault.value)
    words = {
        FaultKind.UNKNOWN: "there is no such key",
        FaultKind.DOUBLED: "stands here again",
    }.get(fault.kind, f"{value} is not accepted")
    text = f"{fault.key + ': ' if fault.key else ''}{words}; allowed: {fault.allowed}"
    return {"key": fault.key, "line": fault.line, "value": value, "allowed": fault.allowed, "text": _line(text)}
