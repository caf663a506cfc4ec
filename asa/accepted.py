# SPDX-License-Identifier: GPL-2.0-only
"""What a type takes, in words: for an error message, and beside a setting. The words are those that are accepted."""

from collections.abc import Iterable
from typing import Any

from msgspec import inspect


def words(target: Any) -> str:
    """Of a type as msgspec reads it, with its bounds; "" where msgspec cannot say."""
    try:
        return describe(inspect.type_info(target))
    except TypeError:
        return ""


def describe(kind: inspect.Type) -> str:
    """The same of what msgspec has read."""
    match kind:
        case inspect.Metadata():
            return describe(kind.type)
        case inspect.EnumType() | inspect.LiteralType():
            return ", ".join(str(value) for value in _choices(kind))
        case inspect.IntType() | inspect.FloatType():
            return _number(kind)
        case inspect.StrType():
            return _text(kind)
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType() | inspect.FrozenSetType():
            some = f" of at least {kind.min_length}" if kind.min_length else ""
            return f"a list{some}, each of them {describe(kind.item_type)}"
        case inspect.TupleType():
            return f"a list of {len(kind.item_types)}: {'; '.join(map(describe, kind.item_types))}"
        case inspect.DictType():
            some = f", at least {kind.min_length}" if kind.min_length else ""
            return f"keys of one's own{some}, each with {describe(kind.value_type)}"
        case inspect.UnionType():
            return _union(kind)
        case inspect.StructType():
            return f"a mapping with the keys {', '.join(field.encode_name for field in kind.fields)}"
    name = type(kind).__name__.removesuffix("Type").lower()
    return {"bool": "true or false", "none": "null"}.get(name, name)


def _choices(kind: inspect.EnumType | inspect.LiteralType) -> Iterable[object]:
    return (member.value for member in kind.cls) if isinstance(kind, inspect.EnumType) else kind.values


def _number(kind: inspect.IntType | inspect.FloatType) -> str:
    lower = f"above {kind.gt:g}" if kind.gt is not None else f"from {kind.ge:g}" if kind.ge is not None else ""
    upper = f"below {kind.lt:g}" if kind.lt is not None else f"to {kind.le:.10g}" if kind.le is not None else ""
    if kind.gt is not None and upper:
        lower, upper = f"{lower},", upper.replace("to ", "up to ")
    what = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
    return " ".join(part for part in (what, lower, upper) if part)


def _text(kind: inspect.StrType) -> str:
    least = f"of at least {kind.min_length} letters" if kind.min_length is not None else ""
    most = f"of at most {kind.max_length} letters" if kind.max_length is not None else ""
    form = f"of the form {kind.pattern}" if kind.pattern is not None else ""
    return " ".join(part for part in ("text", " and ".join(part for part in (least, most, form) if part)) if part)


def _union(kind: inspect.UnionType) -> str:
    tagged = [one for one in kind.types if isinstance(one, inspect.StructType) and one.tag is not None]
    others = [describe(one) for one in kind.types if one not in tagged]
    if tagged:
        others.insert(0, f"{tagged[0].tag_field}: {', '.join(str(one.tag) for one in tagged)}")
    return " or ".join(others)
