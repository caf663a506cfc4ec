# SPDX-License-Identifier: GPL-2.0-only
"""A small file that the agent keeps over restarts: read as a whole, checked, and replaced as a whole."""

from pathlib import Path
from typing import TypeVar

import msgspec

from asa import files, wire
from asa.core.errors import AsaError, InputError

_Kept = TypeVar("_Kept", bound=msgspec.Struct)
_LARGEST_BYTES = 1 << 20


def load(path: Path, kind: type[_Kept], what: str) -> _Kept:
    """What `save` wrote; a missing file gives `kind()`. Raises InputError for a damaged or unreadable one.

    `what` it is, for people, with its article.
    """
    allowed = f"{what} that asa wrote; delete the file to begin anew"
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise InputError(path=str(path), key="", value=f"{path.stat().st_size} bytes", allowed="at most 1 MiB")
        return wire.from_json(path.read_bytes(), kind)
    except FileNotFoundError:
        return kind()
    except OSError as error:
        raise InputError(path=str(path), key="", value=error.strerror, allowed=allowed) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(path=str(path), key="", value=str(error), allowed=allowed) from error


def save(path: Path, body: msgspec.Struct, what: str, *, mode: int | None = None) -> None:
    """Replace the file as a whole, on the disk when this returns. Raises AsaError; the old file is then untouched.

    `mode`: its permissions, as of `asa.files.fresh`.
    """
    text = msgspec.json.format(wire.json_bytes(body), indent=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, text + b"\n", durable=True, mode=mode)
    except OSError as error:
        raise AsaError(f"{path}: cannot write {what}: {error.strerror}") from error
