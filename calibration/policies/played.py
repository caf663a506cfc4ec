# SPDX-License-Identifier: GPL-2.0-only
"""Programs that are measured while schedulers take turns in one guest: what is asked, and what came of it.

Types and their files; nothing is started or judged here.
"""

from pathlib import Path

import msgspec

from asa import files, wire
from asa.core.errors import AsaError
from scenarios.conditions import Conditions

SEED = "SEED"
"""In a measure's command: a number that is another one for each round and play, and the same for all subjects."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler: the program that attaches it until SIGINT, and what its name in the kernel begins with.

    Without a command it is the kernel's own.
    """

    name: str
    ops: str = ""
    command: tuple[str, ...] = ()


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A program that prints lines "NAME VALUE", so often within a turn."""

    label: str
    command: tuple[str, ...]
    plays: int = 1


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """A guest's work: in each round, each subject in a random order, all measures under it."""

    subjects: tuple[Subject, ...]
    measures: tuple[Measure, ...]
    rounds: int
    seed: int = 1


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a program printed. `round` and `play` begin with 1."""

    subject: str
    round: int
    label: str
    play: int
    values: dict[str, int]


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """Of one guest; `names` are the subjects, with their flags."""

    kernel: str
    cpus: int
    under: Conditions
    names: dict[str, str]
    readings: tuple[Reading, ...] = ()
    troubles: tuple[str, ...] = ()

    def turns(self) -> set[tuple[str, int]]:
        """Subject and round of those that were played."""
        return {(one.subject, one.round) for one in self.readings}

    def values(self, subject: str, label: str, play: int, value: str) -> dict[int, float]:
        """By round."""
        wanted = subject, label, play
        return {
            one.round: float(one.values[value])
            for one in self.readings
            if (one.subject, one.label, one.play) == wanted and value in one.values
        }


def write(played: Played, path: Path) -> None:
    """A line a reading, so that a diff shows well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, msgspec.json.format(wire.json_bytes(played), indent=0) + b"\n")


def read(path: Path) -> Played:
    """What `write` wrote. Raises AsaError."""
    try:
        return wire.from_json(path.read_bytes(), Played)
    except (OSError, msgspec.MsgspecError) as error:
        raise AsaError(f"{path}: nothing played that can be read: {error}; run `make bench-policies`") from error
