# SPDX-License-Identifier: GPL-2.0-only
"""The voting by its window, from what `asa lab evaluate voting --all --json` printed, kept as voting.jsonl.

Reads that file; the sweep itself is calibration/voting/sweep.py.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa import wire
from asa.config import Voting
from asa.core.errors import AsaError
from asa.decide import voting
from calibration.voting.filters import Method

VOTING = "voting.jsonl"
_WINDOW = "window_s"
_SHIPPED = Voting()
OTHERS = {"threshold": _SHIPPED.threshold, "decay": voting.DECAY}
"""The other parameters, as shipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One length, all other parameters as shipped. None: nothing to tell it by."""

    window_s: float
    median_s: float | None
    p95_s: float | None
    error_pct: float | None
    shipped: bool


class _Score(msgspec.Struct, frozen=True):
    median_s: float | None = None
    p95_s: float | None = None
    error_pct: float | None = None


class _Line(msgspec.Struct, frozen=True):
    method: str = ""
    parameters: dict[str, float] = {}
    validation: _Score | None = None


def read(folder: Path) -> list[Window]:
    """By length; none when the file is not there or the voting is not in it. Raises AsaError for what is no such file.

    The scores are those of the sessions that the sweep chooses by, for every length the same ones.
    """
    path = folder / VOTING
    if not path.exists():
        return []
    try:
        found = [wire.from_json(line, _Line) for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise AsaError(f"{path}: {error}; `asa lab evaluate voting --all --json` makes it") from error
    windows = {}
    for one in found:
        window_s = one.parameters.get(_WINDOW)
        if one.method != Method.TIME_WEIGHTED or window_s is None or one.validation is None:
            continue
        if one.parameters != {**OTHERS, _WINDOW: window_s}:
            continue
        windows[window_s] = Window(
            window_s=window_s,
            median_s=one.validation.median_s,
            p95_s=one.validation.p95_s,
            error_pct=one.validation.error_pct,
            shipped=window_s == _SHIPPED.window_s,
        )
    return [windows[window_s] for window_s in sorted(windows)]
