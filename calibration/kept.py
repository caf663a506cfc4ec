# SPDX-License-Identifier: GPL-2.0-only
"""Figures that one command measures and keeps, and another prints: one JSON file of values, details and reasons.

`collect` measures each figure by itself, so that one that cannot be measured costs no other.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from asa import files, wire
from asa.core.errors import AsaError
from calibration.goals import Figure, Named, as_json

Count = Callable[[], tuple[float, str]]
"""Measures one figure: its value, and what there is to say beside it."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, as it is kept: values and reasons by name."""

    values: dict[str, float | None]
    details: dict[str, str]
    reasons: dict[str, str]


def collect(counts: Mapping[Named, Count], before: Kept | None = None) -> Kept:
    """These figures; one that cannot be counted is unknown, with the reason. All others stay as `before`."""
    values = dict(before.values) if before else {}
    details = dict(before.details) if before else {}
    reasons = dict(before.reasons) if before else {}
    for name, count in counts.items():
        values[str(name)] = None
        details.pop(name, None)
        reasons.pop(name, None)
        try:
            values[str(name)], details[str(name)] = count()
        except (AsaError, ArithmeticError, OSError, SyntaxError, ValueError, subprocess.SubprocessError) as error:
            reasons[str(name)] = " ".join(str(error).split())
    return Kept(values=values, details=details, reasons=reasons)


def figures(kept: Kept | None, names: type[Named], command: str) -> list[Figure]:
    """All of `names`, in their order. What is not kept is unknown: run `command`."""
    none = f"not measured; run `{command}`"
    kept = kept or Kept(values={}, details={}, reasons={})
    return [
        Figure(
            name=name,
            value=kept.values.get(name),
            detail=kept.details.get(name, ""),
            reason="" if kept.values.get(name) is not None else kept.reasons.get(name, none),
        )
        for name in names
    ]


def read(path: Path) -> Kept | None:
    """What is kept, None where nothing is that can be read."""
    try:
        return wire.from_json(path.read_bytes(), Kept)
    except (OSError, msgspec.MsgspecError):
        return None


def write(kept: Kept, path: Path) -> None:
    """As lines that a diff shows well."""
    files.replace(path, msgspec.json.format(wire.json_bytes(kept), indent=1) + b"\n")


def parser(module: str, description: str | None, place: Path) -> argparse.ArgumentParser:
    """Of a module's command: `--measure`, `--only`, `--kept` (default: `place`)."""
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    made.add_argument("--measure", action="store_true", help="measure anew, and keep it")
    made.add_argument("--only", metavar="NAMES", help="these figures, with commas between; the others stay")
    made.add_argument(
        "--kept", type=Path, default=place, metavar="FILE", help="where it is kept (default: %(default)s)"
    )
    return made


def answer(
    given: argparse.Namespace, names: type[Named], counts: Callable[[], Mapping[Named, Count]], command: str
) -> int:
    """Measure what is asked for, and print what is kept as JSON lines. `counts` is called to measure alone.

    0 whatever the figures are; 2 with one line on stderr where they cannot be measured.
    """
    try:
        only = names.only(given.only)
        wanted = {name: count for name, count in counts().items() if name in only} if given.measure else {}
    except AsaError as error:
        print(f"asa: {error}", file=sys.stderr)
        return 2
    for name, count in wanted.items():  # each is kept at once: some take hours
        write(collect({name: count}, read(given.kept)), given.kept)
    for figure in figures(read(given.kept), names, command):
        if figure.name in only:
            print(as_json(figure))
    return 0
