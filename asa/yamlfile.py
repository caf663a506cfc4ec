# SPDX-License-Identifier: GPL-2.0-only
"""Strict YAML: a file becomes a typed value or an InputError that names file, key, value and what is allowed.

`load` stops at the first fault; `examine` finds all of them, for a person who mends the file.
"""

import os
import re
import stat
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from asa import wire
from asa.core.errors import InputError

T = TypeVar("T")
_BOOL = "tag:yaml.org,2002:bool"
_LARGEST_BYTES = 1 << 20  # settings and tables are small; a larger file is a mistake or an attack
_DEEPEST = 50  # a table goes 5 deep; the parser in C recurses until its stack ends, and takes the program with it
_MOST = 200_000  # parts, each alias counted with all that it repeats, and 100 letters as one
_LETTERS = 100
_LONGEST = 400  # letters of a value that an error shows
_EXPECTED = re.compile(r"Invalid (enum )?value\b|Expected (`[^`]*`, got |`(int|float)`|`?array|`?object|str)")
_BITS = 63  # of a whole number: what JSON's readers take, and no line is full of its digits


def _as_it_is(data: Any) -> Any:
    return data


def load(path: Path, into: type[T], pruned: Callable[[Any], Any] = _as_it_is) -> T:
    """Decode `path` into the msgspec struct `into`; unknown keys and wrong types raise InputError.

    An empty file is an empty mapping. A missing or unreadable file is an InputError too. `pruned` gives the plain data
    without what is to be ignored.
    """
    return loads(_text(path), into, str(path), pruned)


def loads(text: str, into: type[T], name: str, pruned: Callable[[Any], Any] = _as_it_is) -> T:
    """The same for text; `name` stands for the file in errors."""
    data = pruned(_data(text, _StrictLoader, name))
    try:
        return wire.shaped(data, into)
    except msgspec.ValidationError as error:
        raise _as_input_error(error, data, into, name) from error


class FaultKind(StrEnum):
    """What a person has to mend."""

    WRONG = "wrong"  # the value
    UNKNOWN = "unknown"  # the key: there is none of this name
    DOUBLED = "doubled"  # the key stands there already
    UNREADABLE = "unreadable"  # the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing in a file that `load` does not accept.

    `key` is the path inside the file, "" for the whole of it; `line` counts from 1, None where there is none to name.
    """

    key: str
    line: int | None
    value: object
    allowed: str
    kind: FaultKind = FaultKind.WRONG


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What `examine` found: all faults by line, every key that stands in the file with its line, and what it holds."""

    faults: tuple[Fault, ...]
    lines: dict[str, int]
    data: Any = None  # plain; of a key that stands twice the last, None for a file that cannot be read


def examine(path: Path, into: type, pruned: Callable[[Any], Any] = _as_it_is) -> Examined:
    """All that `load` would complain about, not the first alone; no faults exactly where `load` succeeds."""
    name = str(path)
    try:
        text = _text(path)
        node = _data(text, _NodeLoader, name)
        lines, doubled = _keys(node)
        data = pruned(_data(text, _LastLoader, name))
    except InputError as error:
        fault = Fault(key="", line=None, value=error.value, allowed=error.allowed, kind=FaultKind.UNREADABLE)
        return Examined(faults=(fault,), lines={})
    found = [
        Fault(key=key, line=line, value=None, allowed="each key once", kind=FaultKind.DOUBLED) for key, line in doubled
    ]
    found.extend(_walk(data, into, "", name, lines))
    if not found:
        try:
            loads(text, into, name, pruned)
        except InputError as error:
            found = [_fault(error, "", lines)]
    return Examined(faults=tuple(sorted(found, key=lambda fault: fault.line or 0)), lines=lines, data=data)


def brief(value: object) -> object:
    """The value for an error, in place of a long one how its text begins."""
    text = repr(value)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _opener(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)  # a named pipe that nobody writes to would hold up the agent


def _text(path: Path) -> str:
    name = str(path)
    try:
        with open(path, "rb", opener=_opener) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(path=name, key="", value="no regular file", allowed="a readable YAML file")
            body = file.read(_LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(path=name, key="", value=why, allowed="a readable YAML file") from error
    if len(body) > _LARGEST_BYTES:
        raise InputError(path=name, key="", value=f"more than {_LARGEST_BYTES} bytes", allowed="at most 1 MiB")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InputError(path=name, key="", value=error.reason, allowed="UTF-8 text") from error


def _data(text: str, loader: type[yaml.CSafeLoader], name: str) -> Any:
    try:
        _check_extent(text)
        data = yaml.load(text, Loader=loader)  # noqa: S506  # subclasses of the safe loader
    except yaml.YAMLError as error:
        raise InputError(path=name, key="", value=brief(_yaml_words(error)), allowed="valid YAML") from error
    except (ValueError, RecursionError) as error:
        raise InputError(path=name, key="", value=brief(str(error)), allowed="valid YAML") from error
    return {} if data is None else data


def _check_extent(text: str) -> None:
    """Raise YAMLError for what is nested too deep, or grows too large by its aliases. By events, without recursion."""
    waiting: list[tuple[str | None, int]] = []  # of each collection that is open its anchor, and its parts so far
    known: dict[str, int] = {}
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        anchor, parts = getattr(event, "anchor", None), 0
        if isinstance(event, yaml.CollectionStartEvent):
            waiting.append((anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, parts = waiting.pop()
        elif isinstance(event, yaml.ScalarEvent):
            parts = 1 + len(event.value) // _LETTERS
        elif isinstance(event, yaml.AliasEvent):
            parts = known.get(event.anchor or "", 1)
        if parts and anchor is not None:
            known[anchor] = parts
        if parts and waiting:
            waiting[-1] = (waiting[-1][0], waiting[-1][1] + parts)
        if len(waiting) > _DEEPEST or parts > _MOST or (waiting and waiting[-1][1] > _MOST):
            what = f"nested more than {_DEEPEST} deep" if len(waiting) > _DEEPEST else f"more than {_MOST} parts"
            raise yaml.YAMLError(f"{what} in line {event.start_mark.line + 1 if event.start_mark else '?'}")


def _keys(root: object) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Each key path with its line, and those that stand twice in one mapping with the line of the second."""
    lines: dict[str, int] = {}
    doubled: list[tuple[str, int]] = []
    waiting, seen = [("", root)], set[int]()  # an anchor may make a file its own part
    while waiting:
        prefix, node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for place, inner in enumerate(node.value):
                key = f"{prefix}[{place}]"
                lines[key] = inner.start_mark.line + 1
                waiting.append((key, inner))
            continue
        own: set[tuple[str, str]] = set()
        for key_node, value_node in node.value:
            name = str(key_node.value)
            key, line = _join(prefix, name), key_node.start_mark.line + 1
            if (key_node.tag, name) in own:
                doubled.append((key, line))
            own.add((key_node.tag, name))
            lines[key] = line
            waiting.append((key, value_node))
    return lines, doubled


def _walk(data: Any, target: Any, key: str, name: str, lines: dict[str, int]) -> Iterator[Fault]:
    plain = _plain(target, data)
    if not isinstance(data, dict) or not _is_struct(plain) or plain.__struct_config__.tag_field is not None:
        try:
            wire.shaped(data, target)
        except msgspec.ValidationError as error:
            parts = [
                fault
                for step, value, part in _parts(data, plain)
                for fault in _walk(value, part, _join(key, step), name, lines)
            ]
            yield from parts or [_fault(_as_input_error(error, data, target, name), key, lines)]
        return
    hints = typing.get_type_hints(plain, include_extras=True)
    for field, value in data.items():
        inner = _join(key, str(field))
        if field in plain.__struct_fields__:
            yield from _walk(value, hints[field], inner, name, lines)
        elif plain.__struct_config__.forbid_unknown_fields:
            names = f"one of the keys {', '.join(plain.__struct_fields__)}"
            yield Fault(key=inner, line=lines.get(inner), value=value, allowed=names, kind=FaultKind.UNKNOWN)
    for lacking in msgspec.structs.fields(plain):
        if lacking.required and lacking.name not in data:
            yield Fault(key=_join(key, lacking.name), line=lines.get(key), value=None, allowed="a value")


def _parts(data: Any, target: Any) -> Iterator[tuple[str, Any, Any]]:
    """Step, value and type of what is inside a list or a mapping whose parts are all of one type."""
    kind, arms = typing.get_origin(target), typing.get_args(target)
    if isinstance(data, list) and (kind is list or (kind is tuple and arms[1:] == (Ellipsis,))):
        yield from ((f"[{place}]", value, arms[0]) for place, value in enumerate(data))
    elif isinstance(data, dict) and kind is dict:
        yield from ((str(name), value, arms[1]) for name, value in data.items())


def _fault(error: InputError, above: str, lines: dict[str, int]) -> Fault:
    key = _join(above, error.key)
    return Fault(key=key, line=lines.get(key, lines.get(above)), value=error.value, allowed=error.allowed)


def _join(above: str, key: str) -> str:
    return f"{above}.{key}" if above and key and not key.startswith("[") else above + key


class _StrictLoader(yaml.CSafeLoader):
    """Safe, and a key that stands twice is an error (plain YAML would silently keep the last one).

    Only true and false are truth values, as in YAML 1.2: `ebpf: off` is the word that it looks like.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  # its base class declares it so
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[object, object]:
    seen: set[object] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int | float | bool):
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is no text", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


def _scalar(loader: _StrictLoader, node: yaml.ScalarNode) -> object:
    """A truth value, number or date; PyYAML raises whatever it meets for a tag that does not fit (`!!int ""`)."""
    kind = node.tag.rpartition(":")[2]
    mark = node.start_mark
    if isinstance(node.value, str) and len(node.value) > _LETTERS:
        raise yaml.constructor.ConstructorError(None, None, f"{kind} of {len(node.value)} letters", mark)
    try:
        value: object = yaml.CSafeLoader.yaml_constructors[node.tag](loader, node)
    except (ValueError, LookupError, AttributeError, OverflowError) as error:
        raise yaml.constructor.ConstructorError(None, None, f"{node.value!r} is no {kind}", mark) from error
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise yaml.constructor.ConstructorError(None, None, f"{node.value!r} needs more than {_BITS} bits", mark)
    return value


class _LastLoader(_StrictLoader):
    """For `examine`, which has noted the keys that stand twice: the last one counts, as YAML has it."""


def _last_mapping(loader: _LastLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


class _NodeLoader(_StrictLoader):
    """Gives the tree of nodes, which know their lines."""

    def get_single_data(self) -> Any:
        return self.get_single_node()


_StrictLoader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
for _tag in ("bool", "int", "float", "timestamp"):
    _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _scalar)
_LastLoader.add_constructor("tag:yaml.org,2002:map", _last_mapping)


def _yaml_words(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark else ""
    return f"{getattr(error, 'problem', None) or error}{where}"


def _as_input_error(error: msgspec.ValidationError, data: object, into: type, name: str) -> InputError:
    # msgspec says "Expected `int`, got `str` - at `$.voting.window_s`"; take the path apart to show value and choices
    message, _, where = str(error).partition(" - at `")
    steps = re.findall(r"\.([^.\[`]+)|\[(\d+|\.\.\.)\]", where)
    lacking = re.fullmatch(r"Object missing required field `(.*)`", message, re.DOTALL)
    key, value, whole = _resolve(steps, data, into)
    if lacking:
        key, value, whole = _join(key, lacking[1]), None, _of_field(lacking[1], whole, value)
    unknown = re.search(r"unknown field `(.*)`", message, re.DOTALL)
    if unknown:
        target = _plain(whole, value)
        names = ", ".join(getattr(target, "__struct_fields__", ())) or "nothing"
        value = value.get(unknown[1]) if isinstance(value, dict) else value
        key = f"{key}.{unknown[1]}" if key else unknown[1]
        return InputError(path=name, key=key, value=brief(value), allowed=f"one of the keys {names}")
    from asa import accepted  # reads types at length, which only a fault asks for

    said = lacking or _EXPECTED.match(message)  # else by a check of the type's own, in its own words
    allowed = (accepted.words(whole) if said else "") or message[0].lower() + message[1:]
    return InputError(path=name, key=key, value=brief(value), allowed=allowed)


def _of_field(field: str, target: Any, data: Any) -> Any:
    """What the field of that name takes, be it the one that says which struct it is."""
    tags = _tags(target, field)
    return tags if tags is not None else typing.get_type_hints(_plain(target, data), include_extras=True).get(field)


def _resolve(steps: list[tuple[str, str]], data: Any, target: Any) -> tuple[str, object, Any]:
    """Key path, value and type where `steps` lead; `[...]` stands for some key of a mapping: the first that fails."""
    key = ""
    for field, index in steps:
        tags = _tags(target, field)
        if tags is not None and isinstance(data, dict):
            return f"{key}.{field}".lstrip("."), data.get(field), tags
        target = _plain(target, data)
        if index == "..." and isinstance(data, dict):
            target = (typing.get_args(target) or (object,))[-1]
            failing = next((name for name, value in data.items() if _fails(value, target)), None)
            if failing is None:
                break
            key, data = f"{key}.{failing}", data[failing]
        elif index.isdigit() and isinstance(data, list) and int(index) < len(data):
            inner = [arm for arm in typing.get_args(target) if arm is not Ellipsis]
            key, data, target = f"{key}[{index}]", data[int(index)], inner[-1] if inner else object
        elif field and isinstance(data, dict):
            key, data = f"{key}.{field}", data.get(field)
            target = typing.get_type_hints(target, include_extras=True).get(field) if _is_struct(target) else None
        else:
            break
    return key.lstrip("."), data, target


def _plain(target: Any, data: Any) -> Any:
    """The type behind Annotated, Optional, and a union of structs that a tag in `data` tells apart."""
    while True:
        if hasattr(target, "__metadata__"):
            target = typing.get_args(target)[0]
        elif isinstance(target, types.UnionType) or typing.get_origin(target) is typing.Union:
            arms = [arm for arm in typing.get_args(target) if arm is not type(None)]
            target = next((arm for arm in arms if _has_tag(arm, data)), arms[0])
        else:
            return target


def _tags(target: Any, field: str) -> Any:
    """The words of `field` where they say which struct of a union it is; else None."""
    is_union = isinstance(target, types.UnionType) or typing.get_origin(target) is typing.Union
    arms = typing.get_args(target) if is_union else (target,)
    facts = [arm.__struct_config__ for arm in arms if _is_struct(arm)]
    tags = tuple(one.tag for one in facts if field and one.tag_field == field)
    return typing.cast("Any", typing.Literal)[tags] if tags else None


def _has_tag(target: Any, data: Any) -> bool:
    if not _is_struct(target) or not isinstance(data, dict):
        return False
    facts = target.__struct_config__
    return facts.tag_field is not None and data.get(facts.tag_field) == facts.tag


def _is_struct(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, msgspec.Struct)


def _fails(value: object, target: Any) -> bool:
    try:
        wire.shaped(value, target)
    except msgspec.ValidationError:
        return True
    return False
