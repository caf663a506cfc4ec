# SPDX-License-Identifier: GPL-2.0-only
"""Whether a sound card plays or records: the streams' state in /proc/asound, whoever holds them.

Documentation/sound/designs/procfs.rst. A sound server lets a card go some seconds after the last stream. Headphones
that need no card (Bluetooth) are not seen.
"""

import os
from pathlib import Path

MOST_STREAMS = 64
"""Files that are looked at; a laptop has a dozen."""

_RUNNING = b"state: RUNNING"
_PLAYS, _RECORDS = "p", "c"


def in_use(proc: Path) -> tuple[bool | None, bool | None]:
    """Whether a card plays, and whether one records; None without any stream of that kind. Never raises."""
    found: dict[str, bool] = {}
    left = MOST_STREAMS
    for folder in _folders(f"{proc}/asound", "card"):
        for stream in _folders(folder, "pcm"):
            for part in _folders(stream, "sub"):
                if not left:
                    return found.get(_PLAYS), found.get(_RECORDS)
                left -= 1
                found[stream[-1]] = found.get(stream[-1], False) or _runs(f"{part}/status")
    return found.get(_PLAYS), found.get(_RECORDS)


def _folders(parent: str, prefix: str) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(
                entry.path for entry in entries if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def _runs(path: str) -> bool:
    try:
        with Path(path).open("rb", buffering=0) as file:
            return file.read(256).startswith(_RUNNING)
    except OSError:
        return False
