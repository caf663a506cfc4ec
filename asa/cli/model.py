# SPDX-License-Identifier: GPL-2.0-only
"""`asa model`: the models of this machine, which one is in use, and how two of them differ."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asa.cli.main import Commands
    from models.versions import Difference, Version

_TEXT = """\
Lists, shows, chooses and compares models: the one that the package ships (`base`) and those that
`asa lab finetune` made. The first digits of its hash name a model. All are kept and can be chosen again.
"""
_MORE = """\
exit status:
  0  it was done; for list: also when a model is damaged, which it says
  1  it could not be done: no such model, a damaged one, one of another version of asa, faulty settings

examples:
  asa model list
      All models, the one in use marked.
  asa model use 3fa94c01
      Choose one; `asa model use base` goes back to the package's.
  asa model diff base 3fa94c01
      Figures, classes and features of two.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("model", help="list, choose and compare models", description=_TEXT, epilog=_MORE)
    actions = command.add_subparsers(dest="model", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="all models, the one in use marked")
    listing.set_defaults(run=_list)
    use = actions.add_parser("use", help="choose a model; the agent takes it when it reads its settings again")
    use.set_defaults(run=_use)
    show = actions.add_parser("show", help="what is known of a model")
    show.set_defaults(run=_show)
    diff = actions.add_parser("diff", help="figures, classes and features of two models")
    diff.set_defaults(run=_diff)
    for action in (use, show):
        action.add_argument("version", metavar="MODEL", help="base, or the first digits of a hash")
    diff.add_argument("one", metavar="MODEL", help="base, or the first digits of a hash")
    diff.add_argument("other", metavar="OTHER", help="the one to compare with it")
    for action in (listing, use, show, diff):
        action.add_argument("--json", action="store_true", help="print JSON")


def _list(arguments: argparse.Namespace) -> int:
    """Print all. Raises ModelError for a damaged choice, InputError for faulty settings."""
    from asa import config, paths, wire
    from models import versions

    places = paths.default()
    named = config.load(places.config).model
    found = versions.versions(versions.folder(places), named)
    if arguments.json:
        print(wire.json_text([_plain(version) for version in found]))
        return 0
    for version in found:
        mark = "*" if version.in_use else " "
        facts = version.facts
        words = ", ".join(_figure(name, value) for name, value in facts.figures.items() if name.endswith("_pct"))
        told = f"damaged: {version.wrong}" if version.wrong else words or "no figures kept"
        print(f"{mark} {version.name:<12}  {facts.kind or '?':<5}  {facts.made or 'unknown date':<25}  {told}")
    if named:
        print(comes_first(places.config, named))
    return 0


def _use(arguments: argparse.Namespace) -> int:
    """Choose one and say what makes the agent take it. Raises AsaError; then nothing has changed."""
    from asa import config, paths, status, wire
    from models import versions

    places = paths.default()
    where = versions.folder(places)
    version = versions.find(where, arguments.version)
    agent, set_by_hand = status.read(places.run), config.load(places.config).model  # may fail, so before the change
    versions.use(where, version)
    command = f"kill -HUP {agent.pid}" if agent is not None else ""
    if arguments.json:
        body = {"model": version.name, "sha256": version.facts.sha256, "reload": command, "settings": set_by_hand}
        print(wire.json_text(body))
        return 0
    print(f"{version.name} is chosen")
    if set_by_hand:
        print(comes_first(places.config, set_by_hand))
    print(f"the running agent takes it at: {command}" if command else "the agent takes it when it starts")
    return 0


def comes_first(settings: "Path", named: str) -> str:
    """What a person has to know of a choice where the settings name a model."""
    return f"{settings} names a model, which comes before the chosen one: {named}; take its line `model` out"


def _show(arguments: argparse.Namespace) -> int:
    """Print one. Raises ModelError, and InputError for faulty settings. Exit code 1 when it is damaged."""
    from asa import config, paths, wire
    from models import versions

    places = paths.default()
    named = config.load(places.config).model
    version = versions.find(versions.folder(places), arguments.version, named)
    if arguments.json:
        print(wire.json_text(_plain(version)))
    else:
        print("\n".join(_lines(version)))
        if named:
            print(comes_first(places.config, named))
    return 1 if version.wrong else 0


def _diff(arguments: argparse.Namespace) -> int:
    """Print how two differ. Raises ModelError."""
    from asa import paths, wire
    from models import versions

    where = versions.folder(paths.default())
    one, other = versions.find(where, arguments.one), versions.find(where, arguments.other)
    found = versions.diff(one, other)
    if arguments.json:
        print(wire.json_text({"one": one.name, "other": other.name, "difference": found}))
    else:
        print("\n".join(_differences(one, other, found)))
    return 0


def _plain(version: "Version") -> dict[str, object]:
    return {
        "name": version.name,
        "path": str(version.path),
        "in_use": version.in_use,
        "wrong": version.wrong,
        "facts": version.facts,
    }


def _lines(version: "Version") -> "Iterator[str]":
    facts = version.facts
    yield f"model      {version.name}{', in use' if version.in_use else ''}"
    yield f"file       {version.path}"
    if version.wrong:
        yield f"damaged    {version.wrong}"
    yield f"sha256     {facts.sha256 or 'unknown'}"
    yield f"kind       {facts.kind or 'unknown'}{f', of {facts.parent[:12]}' if facts.parent else ''}"
    yield f"made       {facts.made or 'unknown'}, asa {facts.asa_version or 'unknown'}, seed {facts.seed}"
    yield f"features   {len(facts.features)}, schema {facts.schema}"
    yield f"classes    {', '.join(facts.classes) or 'unknown'}"
    for name, text in facts.data.items():
        yield f"data       {name}: {text}"
    for name, value in facts.figures.items():
        yield f"figure     {_figure(name, value)}"


def _differences(one: "Version", other: "Version", found: "Difference") -> "Iterator[str]":
    yield f"{one.name} -> {other.name}"
    for name, old, new in found.figures:
        change = f" ({new - old:+.3g})" if old is not None and new is not None else ""
        yield f"figure     {name} {_number(old)} -> {_number(new)}{change}"
    if found.schemas[0] != found.schemas[1]:
        yield f"schema     {found.schemas[0]} -> {found.schemas[1]}"
    lists = (("classes", found.classes_gone, found.classes_new), ("features", found.features_gone, found.features_new))
    for what, gone, came in lists:
        yield from (f"{what:<10} {sign} {', '.join(names)}" for sign, names in (("-", gone), ("+", came)) if names)
        if not gone and not came:
            yield f"{what:<10} the same"


def _figure(name: str, value: float) -> str:
    return f"{name} {value:g}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
