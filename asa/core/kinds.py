# SPDX-License-Identifier: GPL-2.0-only
"""Kinds of use: what is done, whatever the program. A label of kinds has two halves, as `browse+compress`.

The paper's labels name one application of each kind, as `web+archive`. `kinds_of` reads both. Names alone.
"""

from collections.abc import Mapping
from enum import StrEnum


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


def label_of(interactive: Kind | None, background: Kind | None) -> str:
    """`browse+compress`, `browse`, `compress` or `idle`."""
    return "+".join(kind for kind in (interactive, background) if kind) or IDLE


def kinds_of(label: str) -> tuple[Kind | None, Kind | None]:
    """The interactive and the background kind of a label, of kinds or of the paper's applications; None: no such half.

    Raises ValueError for any other label.
    """
    found = [] if label == IDLE else [_kind(part, label) for part in label.split("+")]
    front, back = (next((kind for kind in found if kind in half), None) for half in (INTERACTIVE, BACKGROUND))
    if found != [kind for kind in (front, back) if kind]:
        raise ValueError(f"{label!r} is no label: one interactive kind may stand first, then one background kind")
    return front, back


def _kind(part: str, label: str) -> Kind:
    try:
        return OF_APPLICATION.get(part) or Kind(part)
    except ValueError:
        raise ValueError(f"{label!r} is no label of kinds: there is no kind {part!r}") from None
