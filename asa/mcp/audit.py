# SPDX-License-Identifier: GPL-2.0-only
"""What clients have changed: one file of JSON lines in the state folder, to which lines are added only.

A change has a line before its first step, or it is not made; and a line with its outcome. Texts are clients': data.
"""

import os
import time
from pathlib import Path
from typing import Any

import msgspec

from asa import files, wire
from asa.core.errors import AsaError
from asa.mcp.trying import Who

NAME = "changes.jsonl"
OLDER = "changes.older.jsonl"
"""The file before this one, once it has grown too long."""

MOST_AN_HOUR = 12
"""Changes that all clients together may begin. A first choice: what ASA itself may do by trials is of this order."""

BEGUN = "begun"
"""The outcome of a line that is written before a change. The last of an id counts."""

_MOST_BYTES = 4 << 20
_HOUR_NS = 3600 * 10**9
_TAIL_BYTES = 1 << 20  # some thousand lines


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line. Times are CLOCK_REALTIME in ns."""

    at_ns: int
    id: str  # of the change: its lines share it
    client: str
    version: str  # of the client
    session: str
    what: str  # trial, commit, revert, hold, resume, hint; compose, verify, tune
    why: str  # in the client's words
    old: str | None  # the scheduler before; of a hint: the class in force
    new: str | None  # the scheduler wanted; of a hint: what is said
    outcome: str
    intent: dict[str, object] | None = None
    intent_sha256: str = ""


def line_of(
    who: Who, number: str, old: str | None, new: str | None, what: str, why: str, outcome: str, **more: Any
) -> Line:
    """A line of now, of this client; `more` are its other fields."""
    return Line(
        at_ns=time.time_ns(),
        id=number,
        client=who.client,
        version=who.version,
        session=who.session,
        what=what,
        why=why,
        old=old,
        new=new,
        outcome=outcome,
        **more,
    )


def after(begun: Line, outcome: str) -> Line:
    """The line that ends a change, without what it set out to do."""
    return msgspec.structs.replace(begun, at_ns=time.time_ns(), outcome=outcome, intent=None)


def append(path: Path, line: Line) -> None:
    """Add a line, on the disk when this returns. Raises AsaError; then the file has no whole line more."""
    body = wire.json_bytes(line) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            files.move(path, path.with_name(OLDER))
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                body = b"\n" + body  # after a part that a full disk has left
            if os.write(descriptor, body) != len(body):
                raise AsaError(f"{path}: the disk is full; free some space")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror}; every change needs its line there") from error


def read(path: Path) -> list[Line]:
    """The newest lines, the oldest of them first; lines that are damaged are passed over. Raises AsaError."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            body = file.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}") from error
    found = []
    for part in body.splitlines():
        try:
            found.append(wire.from_json(part, Line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found


def check_pace(path: Path, now_ns: int) -> None:
    """Raises AsaError when clients have changed enough for now."""
    begun = [
        line.at_ns
        for line in read(path)
        if line.outcome == BEGUN and line.what in ("trial", "hold", "hint") and now_ns - _HOUR_NS < line.at_ns <= now_ns
    ]
    if len(begun) >= MOST_AN_HOUR:
        free = time.strftime("%H:%M", time.localtime((begun[-MOST_AN_HOUR] + _HOUR_NS) // 10**9))
        raise AsaError(f"clients have begun {MOST_AN_HOUR} changes in the last hour; the next may begin at {free}")
