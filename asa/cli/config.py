# SPDX-License-Identifier: GPL-2.0-only
"""`asa config show|check`: every setting with its value, range and origin; every fault of a settings file at once.

Reads one settings file and the types of `asa.config`, which say what is allowed. Changes nothing.
"""

import argparse
import difflib
import enum
import reprlib
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec

    from asa.cli.main import Commands
    from asa.config import Settings
    from asa.yamlfile import Examined, Fault

_FILE_KEYS = {"table": "a mapping table", "model": "a model made by `asa lab train`"}  # settings that name files

_SHOW = """\
Prints all settings in the form of a settings file: each with its value in force, what is allowed, its
default, and the line of the file that sets it. The output can be kept and edited as a settings file.
"""
_CHECK = """\
Names everything in a settings file that the agent would not accept, with the line, what is allowed, and
the setting that was probably meant. Settings of earlier versions that are constants now are named, too; the
agent ignores them. The mapping table and the model that the file names are opened too.
"""
_FILES = """
files:
  /etc/asa/asa.yaml           settings of an agent of root
  ~/.config/asa/asa.yaml      settings of any other user's
"""
_CHECK_MORE = f"""\
exit status:
  0  the agent accepts the file, or there is none and none was named
  1  it has faults
{_FILES}
examples:
  asa config check
      The settings that `asa run` would take.
  asa config check new.yaml
      A file before it is put into its place.
"""
_SHOW_MORE = f"""\
exit status:
  0  all settings were shown
  1  the file has faults; `asa config check` names them
{_FILES}
examples:
  asa config show
      What an agent that starts now would take.
  asa config show --json new.yaml
      The same of another file, for programs.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `line` is where the file sets it, None where the default is in force."""

    key: str
    value: object
    default: object
    allowed: str
    comment: str
    line: int | None


def register(commands: "Commands") -> None:
    """Add `config` and what it can do."""
    parser = commands.add_parser("config", help="show the settings, or check a settings file")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="every setting: its value, what is allowed, where it comes from",
        description=_SHOW,
        epilog=_SHOW_MORE,
    )
    show.add_argument("--markdown", action="store_true", help="print the defaults as a page: docs/settings.md")
    check = actions.add_parser(
        "check",
        help="name all faults of a settings file at once",
        description=_CHECK,
        epilog=_CHECK_MORE,
    )
    for action, run in ((show, _show), (check, _check)):
        action.add_argument(
            "file", type=Path, nargs="?", metavar="FILE", help="settings (default: those that `asa run` takes)"
        )
        action.add_argument("--json", action="store_true", help="print one JSON object")
        action.set_defaults(run=run)


def settings(values: "Settings", lines: dict[str, int]) -> Iterator[Setting]:
    """All of them, in the order of asa.config; `lines` are the keys that the file sets."""
    from asa.config import Settings

    yield from _settings(Settings, values, Settings(), "", lines)


def nearest(key: str) -> str | None:
    """The setting or section that was probably meant by `key`, which is none; None when nothing is like it."""
    from asa.config import Settings

    known = [setting.key for setting in settings(Settings(), {})]
    known.extend(dict.fromkeys(one.rpartition(".")[0] for one in known if "." in one))
    section, _, name = key.rpartition(".")
    by_name: dict[str, list[str]] = {}
    for one in known:
        by_name.setdefault(one.rpartition(".")[2], []).append(one)
    if name in by_name:
        return min(by_name[name], key=lambda one: not one.startswith(f"{section}."))
    inside = [one for one in known if section and one.startswith(f"{section}.")]
    names = {one.rpartition(".")[2]: one for one in inside} or {one: one for one in known if "." not in one}
    for likely in difflib.get_close_matches(name, names, 1):
        return names[likely]
    for likely in difflib.get_close_matches(name, by_name, 1):
        return by_name[likely][0]
    return None


def _show(arguments: argparse.Namespace) -> int:
    """Print the settings. Raises InputError for a file that has faults."""
    from asa import config, paths, wire, yamlfile

    if arguments.markdown:
        print("\n".join(_page()))
        return 0
    path, required = _file(arguments.file)
    values = config.load(path, required=required)
    lines = yamlfile.examine(path, config.Settings, _pruned).lines if required or paths.there(path) else {}
    if arguments.json:
        rows = [_as_json(setting, path) for setting in settings(values, lines)]
        print(wire.json_text({"file": str(path), "exists": paths.there(path), "settings": rows}))
        return 0
    told = "" if paths.there(path) else ", which is not there: all are defaults"
    print(f"# settings of {path}{told}")
    section = ""
    for setting in sorted(settings(values, lines), key=lambda one: "." in one.key):  # a section ends at the next
        above, _, name = setting.key.rpartition(".")
        if above != section:
            print(f"\n{above}:")
            section = above
        for line in _lines(setting, name, path):
            print(f"{'  ' if above else ''}{line}")
    return 0


def _page() -> Iterator[str]:
    from asa import config

    yield "# Settings"
    yield ""
    yield "Written by `asa config show --markdown > docs/settings.md`; do not edit."
    yield ""
    yield "All are optional. The file is `/etc/asa/asa.yaml` for root, `~/.config/asa/asa.yaml` for others, or that"
    yield "of `--config`. `asa config check` names each fault. At SIGHUP the agent reads voting, policy,"
    yield "table and model again; a file with faults changes nothing. A setting that is gone is named and ignored."
    yield ""
    yield "| setting | default | allowed | meaning |"
    yield "|---|---|---|---|"
    for one in settings(config.Settings(), {}):
        words = (f"`{one.key}`", f"`{_yaml(one.default)}`", one.allowed, one.comment or "")
        yield f"| {' | '.join(word.replace('|', chr(92) + '|') for word in words)} |"


def _lines(setting: Setting, name: str, path: Path) -> Iterator[str]:
    if setting.comment:
        yield f"# {setting.comment}"
    where = f"{path}:{setting.line}, default {_yaml(setting.default)}" if setting.line else "default"
    yield f"{name}: {_yaml(setting.value)}  # {setting.allowed}; {where}"


def _as_json(setting: Setting, path: Path) -> dict[str, object]:
    return {
        "key": setting.key,
        "value": setting.value,
        "default": setting.default,
        "allowed": setting.allowed,
        "comment": setting.comment,
        "source": "default" if setting.line is None else "file",
        "file": None if setting.line is None else str(path),
        "line": setting.line,
    }


def _check(arguments: argparse.Namespace) -> int:
    """Print the faults. Exit code 0 without any, else 1."""
    from asa import config, paths, wire, yamlfile

    path, required = _file(arguments.file)
    exists = required or paths.there(path)
    found = yamlfile.examine(path, config.Settings, _pruned) if exists else yamlfile.Examined(faults=(), lines={})
    allowed = {setting.key: setting.allowed for setting in settings(config.Settings(), {})}
    known = _sections() | allowed
    rows = [_fault(fault, known.get(fault.key.partition("[")[0])) for fault in found.faults]
    rows.extend(_barred(found))
    rows.extend(_named_files(path, found))
    rows.extend(_beside(path))
    ignored = [
        {"key": key, "line": line, "text": f"{key}: {config.gone(key)}"}
        for key, line in sorted(found.lines.items(), key=lambda item: item[1])
        if key in config.GONE or (key == "voting.method" and key not in _set(found.data))
    ]
    if arguments.json:
        print(wire.json_text({"file": str(path), "exists": paths.there(path), "faults": rows, "ignored": ignored}))
        return 1 if rows else 0
    for row in rows + ignored:
        place = f"{path}:{row['line']}" if row["line"] else str(path)
        print(f"{place}: {row['text']}")
    if not exists:
        print(f"{path} is not there: all settings have their defaults")
    elif rows:
        print(f"{len(rows)} fault{'s' if len(rows) > 1 else ''} in {path}")
    else:
        count = sum(key in allowed for key in _set(found.data))
        also = f"; {len(ignored)} that it sets are ignored" if ignored else ""
        print(f"{path} is right; it sets {count} of {len(allowed)} settings{also}")
    return 1 if rows else 0


def _pruned(data: Any) -> Any:
    from asa import config

    return config.without_gone(data)[0]


def _set(data: Any, above: str = "") -> set[str]:
    """Keys that these data set."""
    if not isinstance(data, dict):
        return set()
    return {key for name, value in data.items() for key in (f"{above}{name}", *_set(value, f"{above}{name}."))}


def _sections() -> dict[str, str]:
    from asa.config import Settings

    inside: dict[str, list[str]] = {}
    for setting in settings(Settings(), {}):
        section, _, name = setting.key.rpartition(".")
        inside.setdefault(section, []).append(name)
    return {section: f"settings of its own: {', '.join(names)}" for section, names in inside.items() if section}


def _fault(fault: "Fault", allowed: str | None) -> dict[str, object]:
    from asa.yamlfile import FaultKind

    value = _short.repr(fault.value)
    allowed = allowed or fault.allowed
    meant = nearest(fault.key) if fault.kind is FaultKind.UNKNOWN else None
    match fault.kind:
        case FaultKind.UNKNOWN:
            hint = f"did you mean {meant}?" if meant else f"allowed: {fault.allowed}"
            text = f"{fault.key}: there is no such setting; {hint}"
        case FaultKind.DOUBLED:
            text = f"{fault.key}: stands here again; allowed: {fault.allowed}"
        case FaultKind.WRONG | FaultKind.UNREADABLE:
            text = f"{fault.key + ': ' if fault.key else ''}{value} is not accepted; allowed: {allowed}"
    return {
        "key": fault.key,
        "line": fault.line,
        "value": value,
        "allowed": allowed,
        "nearest": meant,
        "text": " ".join(text.split()),
    }


def _barred(found: "Examined") -> Iterator[dict[str, object]]:
    """A name in `switch.never` that the manifest does not have."""
    import msgspec

    from asa import config, paths, wire
    from asa.act.portfolio import Portfolio
    from asa.core.errors import AsaError, InputError

    try:
        limits = wire.shaped(found.data["switch"], config.SwitchSettings)
    except (TypeError, KeyError, msgspec.ValidationError):
        return  # not there, or a fault that is told already
    try:
        Portfolio.of_host(limits, paths.default().schedulers)
    except AsaError as error:
        known = error.allowed if isinstance(error, InputError) else ""
        yield {
            "key": "switch.never",
            "line": found.lines.get("switch.never"),
            "value": list(limits.never),
            "allowed": known,
            "nearest": None,
            "text": str(error).removeprefix("settings: "),
        }


def _named_files(path: Path, found: "Examined") -> Iterator[dict[str, object]]:
    """Faults of the mapping table and the model that the file names, and of the two together."""
    from asa import config, paths
    from asa.act.portfolio import Portfolio
    from asa.core.errors import AsaError
    from asa.decide import table
    from asa.model import Model

    data = found.data if isinstance(found.data, dict) else {}
    named = {key: data[key] for key in _FILE_KEYS if key in found.lines and isinstance(data.get(key), str)}
    if not named:
        return
    places = paths.default()
    settings = config.beside(path, config.Settings(table=named.get("table"), model=named.get("model")))
    faults: list[tuple[str, AsaError]] = []
    try:
        mapping = table.for_this_machine(Portfolio.load(paths.manifest(), places.schedulers).modes(), settings.table)
    except AsaError as error:
        faults.append(("table", error))
    try:
        classes = Model.first(settings, places, lambda _: None).classifier.classes
    except AsaError as error:
        faults.append(("model", error))
    if not faults:
        try:
            mapping.check(classes)
        except AsaError as error:
            faults.append((next(iter(named)), error))
    for key, fault in faults:
        if key in named:  # else no fault of this file
            yield {
                "key": key,
                "line": found.lines[key],
                "value": named[key],
                "allowed": _FILE_KEYS[key],
                "nearest": None,
                "text": f"{key}: {fault}",
            }


def _beside(path: Path) -> Iterator[dict[str, object]]:
    """The first fault of each file that may lie beside the settings: hints, and the adviser's."""
    from asa.adviser import settings as adviser
    from asa.core.errors import AsaError, InputError
    from asa.decide import hints

    for name, load in ((hints.NAME, partial(hints.load, model_weight=0.0)), (adviser.NAME, adviser.load)):
        try:
            load(path)
        except AsaError as error:
            yield {
                "key": "",
                "line": None,
                "value": name,
                "allowed": error.allowed if isinstance(error, InputError) else "",
                "nearest": None,
                "text": str(error),
            }


def _file(given: Path | None) -> tuple[Path, bool]:
    from asa import paths

    return (given, True) if given is not None else (paths.default().config, False)


def _settings(
    struct: "type[msgspec.Struct]", values: Any, defaults: Any, above: str, lines: dict[str, int]
) -> Iterator[Setting]:
    import msgspec
    from msgspec import inspect

    from asa import accepted

    hints = typing.get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        key = f"{above}.{field.name}" if above else field.name
        value, default, hint = getattr(values, field.name), getattr(defaults, field.name), hints[field.name]
        if isinstance(default, msgspec.Struct):
            yield from _settings(type(default), value, default, key, lines)
            continue
        kind = inspect.type_info(hint)
        comment = ""
        while isinstance(kind, inspect.Metadata):
            comment = (kind.extra_json_schema or {}).get("description", comment)
            kind = kind.type
        yield Setting(
            key=key, value=value, default=default, allowed=accepted.describe(kind), comment=comment, line=lines.get(key)
        )


def _yaml(value: object) -> str:
    import yaml

    plain = list(value) if isinstance(value, tuple) else value.value if isinstance(value, enum.Enum) else value
    text: str = yaml.safe_dump(plain, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
