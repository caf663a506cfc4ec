# SPDX-License-Identifier: GPL-2.0-only
"""Strict YAML: a file becomes a typed value or an InputError that names file, key, value and what is allowed."""

import re
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from asa.core.errors import InputError

T = TypeVar("T")
_BOOL = "tag:yaml.org,2002:bool"
_LARGEST_BYTES = 1 << 20  # settings and tables are small; a larger file is a mistake or an attack


def load(path: Path, into: type[T]) -> T:
    """Decode `path` into the msgspec struct `into`; unknown keys and wrong types raise InputError.

    An empty file is an empty mapping. A missing or unreadable file is an InputError too.
    """
    name = str(path)
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise InputError(path=name, key="", value=f"{path.stat().st_size} bytes", allowed="at most 1 MiB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(path=name, key="", value=error.strerror, allowed="a readable YAML file") from error
    except UnicodeDecodeError as error:
        raise InputError(path=name, key="", value=error.reason, allowed="UTF-8 text") from error
    return loads(text, into, name)


def loads(text: str, into: type[T], name: str) -> T:
    """The same for text; `name` stands for the file in errors."""
    try:
        data = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  # a subclass of the safe loader
    except yaml.YAMLError as error:
        raise InputError(path=name, key="", value=_yaml_words(error), allowed="valid YAML") from error
    except (ValueError, RecursionError) as error:
        raise InputError(path=name, key="", value=str(error), allowed="valid YAML") from error
    data = {} if data is None else data
    try:
        return msgspec.convert(data, into, strict=True)
    except msgspec.ValidationError as error:
        raise _as_input_error(error, data, into, name) from error


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
        if not isinstance(key, str | int | float | bool) or key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _yaml_words(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark else ""
    return f"{getattr(error, 'problem', None) or error}{where}"


def _as_input_error(error: msgspec.ValidationError, data: object, into: type, name: str) -> InputError:
    # msgspec says "Expected `int`, got `str` - at `$.voting.window_s`"; take the path apart to show value and choices
    message, _, where = str(error).partition(" - at `")
    key, value, target = _resolve(re.findall(r"\.([^.\[`]+)|\[(\d+|\.\.\.)\]", where), data, into)
    unknown = re.search(r"unknown field `(.*)`", message, re.DOTALL)
    if unknown:
        names = ", ".join(getattr(target, "__struct_fields__", ())) or "nothing"
        value = value.get(unknown[1]) if isinstance(value, dict) else value
        key = f"{key}.{unknown[1]}" if key else unknown[1]
        return InputError(path=name, key=key, value=value, allowed=f"one of the keys {names}")
    if message.startswith("Invalid enum value"):
        choices = typing.get_args(target) or tuple(getattr(target, "__members__", ()))
        return InputError(path=name, key=key, value=value, allowed=", ".join(str(choice) for choice in choices))
    return InputError(path=name, key=key, value=value, allowed=message[0].lower() + message[1:])


def _resolve(steps: list[tuple[str, str]], data: Any, target: Any) -> tuple[str, object, Any]:
    """Key path, value and type where `steps` lead; `[...]` stands for some key of a mapping: the first that fails."""
    key = ""
    for field, index in steps:
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
    return key.lstrip("."), data, _plain(target, data)


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


def _has_tag(target: Any, data: Any) -> bool:
    if not _is_struct(target) or not isinstance(data, dict):
        return False
    facts = target.__struct_config__
    return facts.tag_field is not None and data.get(facts.tag_field) == facts.tag


def _is_struct(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, msgspec.Struct)


def _fails(value: object, target: Any) -> bool:
    try:
        msgspec.convert(value, target, strict=True)
    except msgspec.ValidationError:
        return True
    return False
