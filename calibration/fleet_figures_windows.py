# SPDX-License-Identifier: GPL-2.0-only
"""The voting by its window, from what `asa evaluate voting --all --json` printed, kept as voting.jsonl.

Reads that file; the sweep itself is calibration/voting_sweep.py.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa.core.errors import AsaError
from asa.decide.filters import Method

VOTING = "voting.jsonl"
_WINDOW = "window_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One length, all other parameters as chosen. None: nothing to tell it by."""

    window_s: float
    median_s: float | None
    p95_s: float | None
    error_pct: float | None
    chosen: bool


class _Score(msgspec.Struct, frozen=True):
    median_s: float | None = None
    p95_s: float | None = None
    error_pct: float | None = None


class _Line(msgspec.Struct, frozen=True):
    method: str = ""
    parameters: dict[str, float] = {}
    validation: _Score | None = None
    reported: _Score | None = None  # of the chosen setting alone


def read(folder: Path) -> list[Window]:
    """By length; none when the file is not there or the voting is not in it. Raises AsaError for what is no such file.

    The scores are those of the sessions that the setting is chosen on, for every length the same ones.
    """
    path = folder / VOTING
    if not path.exists():
        return []
    try:
        found = [msgspec.json.decode(line, type=_Line) for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise AsaError(f"{path}: {error}; `asa evaluate voting --all --json` makes it") from error
    voting = [one for one in found if one.method == Method.TIME_WEIGHTED and _WINDOW in one.parameters]
    chosen = next((one.parameters for one in voting if one.reported is not None), None)
    if chosen is None:
        return []
    others = {name: value for name, value in chosen.items() if name != _WINDOW}
    windows = {}
    for one in voting:
        window_s = one.parameters[_WINDOW]
        if one.validation is None or {**others, _WINDOW: window_s} != one.parameters:
            continue
        windows[window_s] = Window(
            window_s=window_s,
            median_s=one.validation.median_s,
            p95_s=one.validation.p95_s,
            error_pct=one.validation.error_pct,
            chosen=window_s == chosen[_WINDOW],
        )
    return [windows[window_s] for window_s in sorted(windows)]
