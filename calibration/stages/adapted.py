# SPDX-License-Identifier: GPL-2.0-only
"""What `asa adapt` took for a table, kept in a file beside it: vm122.yaml has its minutes in vm122.adapted.json.

`asa lab fleet run` takes it from there into its machine.json. It holds for the very table that was written alone: once
the table's file has changed, nothing is known.
"""

import hashlib
from pathlib import Path

import msgspec

from asa import wire
from asa.core.errors import AsaError
from scenarios import runner_folder

SUFFIX = ".adapted.json"


class Adapted(msgspec.Struct, frozen=True, kw_only=True):
    """`adapt_minutes` is machine time, without guests' boots; `table` the SHA-256 of the table's file."""

    adapt_minutes: float
    table: str


def place(table: Path) -> Path:
    """Where a table's minutes are."""
    return table.with_name(f"{table.stem}{SUFFIX}")


def write(table: Path, minutes: float) -> None:
    """Of a table that lies there as a whole. Raises AsaError."""
    try:
        content = table.read_bytes()
    except OSError as error:
        raise AsaError(f"{table}: {error.strerror}; it was written a moment ago") from error
    runner_folder.write(place(table), Adapted(adapt_minutes=minutes, table=_digest(content)))


def read(table: Path, content: bytes) -> float | None:
    """Minutes that `asa adapt` took for a table that says this; None where that is not known. Raises AsaError."""
    path = place(table)
    try:
        found = wire.from_json(path.read_bytes(), Adapted)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: is not what `asa adapt` writes: {error}; remove it") from error
    return found.adapt_minutes if found.table == _digest(content) else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
