# SPDX-License-Identifier: GPL-2.0-only
"""Kinds of use: what is done, whatever the program. A label of kinds has two halves, as `browse+compress`.

The paper's labels name one application of each kind, as `web+archive`. `kinds_of` reads both. Names alone.
"""

import functools
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

_Label = TypeVar("_Label", bound=str)


class Kind(StrEnum):
    """What is done. A person looks at the first six, and waits for the others."""

    BROWSE = "browse"
    PLAY = "play"
    SOUND = "sound"  # makes or mixes it
    WRITE = "write"
    WATCH = "watch"
    CALL = "call"
    COMPRESS = "compress"
    RENDER = "render"
    COMPILE = "compile"
    INFER = "infer"
    DISK = "disk"
    NETWORK = "network"
    ENCODE = "encode"


INTERACTIVE = (Kind.BROWSE, Kind.PLAY, Kind.SOUND, Kind.WRITE, Kind.WATCH, Kind.CALL)
BACKGROUND = (
    Kind.COMPRESS,
    Kind.RENDER,
    Kind.COMPILE,
    Kind.INFER,
    Kind.DISK,
    Kind.NETWORK,
    Kind.ENCODE,
)

IDLE = "idle"
"""The label of a machine that nothing is done on."""

OTHER = "other"
"""The label of a recording of what is of no kind. No model has it as a class."""

OF_APPLICATION: Mapping[str, Kind] = {
    "web": Kind.BROWSE,
    "game": Kind.PLAY,
    "audio": Kind.SOUND,
    "office": Kind.WRITE,
    "archive": Kind.COMPRESS,
    "blender": Kind.RENDER,
    "kernel": Kind.COMPILE,
    "llm": Kind.INFER,
    "disk": Kind.DISK,
    "network": Kind.NETWORK,
    "video": Kind.ENCODE,
}
"""The paper's eleven, which its labels name."""

_APPLICATION_OF = {kind: application for application, kind in OF_APPLICATION.items()}


def label_of(interactive: Kind | None, background: Kind | None) -> str:
    """`browse+compress`, `browse`, `compress` or `idle`."""
    return "+".join(kind for kind in (interactive, background) if kind) or IDLE


def kinds_of(label: str) -> tuple[Kind | None, Kind | None]:
    """The interactive and the background kind of a label, of kinds or of the paper's applications; None: no such half.

    Raises ValueError for any other label.
    """
    found = [] if label in (IDLE, OTHER) else [_kind(part, label) for part in label.split("+")]
    front, back = (next((kind for kind in found if kind in half), None) for half in (INTERACTIVE, BACKGROUND))
    if found != [kind for kind in (front, back) if kind]:
        raise ValueError(f"{label!r} is no label: one interactive kind may stand first, then one background kind")
    return front, back


def halves(label: str) -> tuple[Kind | None, Kind | None]:
    """As `kinds_of`; of a label of a model's own neither half is of a kind."""
    try:
        return kinds_of(label)
    except ValueError:
        return None, None


@functools.cache
def names_of(label: str) -> tuple[str, ...]:
    """The label and what else it is called, by kinds or by the paper's applications; itself alone where it is neither.

    A label of a model, so there are few: all are kept.
    """
    kinds = [kind for kind in halves(label) if kind]
    if not kinds:
        return (label,)
    papers = [_APPLICATION_OF.get(kind, "") for kind in kinds]
    return tuple(dict.fromkeys((label, "+".join(kinds), *(["+".join(papers)] if all(papers) else []))))


def same(one: str, other: str) -> bool:
    """Do two labels mean the same use?"""
    return one in names_of(other)


def distinct(labels: Iterable[_Label]) -> list[_Label]:
    """Each use by the first of its names: a table may say `web` where a model says `browse`."""
    first: dict[frozenset[str], _Label] = {}
    for label in labels:
        first.setdefault(frozenset(names_of(label)), label)
    return list(first.values())


def among(label: str, classes: Collection[str]) -> str:
    """What these classes call this use; the label itself where they do not have it."""
    return next((name for name in names_of(label) if name in classes), label)


def _kind(part: str, label: str) -> Kind:
    try:
        return OF_APPLICATION.get(part) or Kind(part)
    except ValueError:
        raise ValueError(f"{label!r} is no label of kinds: there is no kind {part!r}") from None
