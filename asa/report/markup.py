# SPDX-License-Identifier: GPL-2.0-only
"""HTML and SVG put together so that text cannot become markup: whatever is not `Markup` already is escaped.

Reads and writes nothing.
"""

from html import escape
from typing import TypeAlias

_VOID = frozenset({"meta", "br", "rect", "line", "path"})  # never have children here


class Markup(str):
    """Text that is markup: made by `element` and `joined` alone."""

    __slots__ = ()


Value: TypeAlias = "str | int | float"


def element(name: str, /, *children: Value, **attributes: Value) -> Markup:
    """`<name attributes>children</name>`. In the names of attributes `_` stands for `-`; one at the end is dropped."""
    head = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(plain(str(value)))}"' for key, value in attributes.items()
    )
    if name in _VOID:
        return Markup(f"<{name}{head}/>")
    return Markup(f"<{name}{head}>{joined(*children)}</{name}>")


def joined(*children: Value) -> Markup:
    """Children one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escape(plain(str(child))) for child in children))


def plain(text: str) -> str:
    """Words of others, in one line and without what controls a terminal or turns the direction of writing."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
