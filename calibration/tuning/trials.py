# SPDX-License-Identifier: GPL-2.0-only
"""Trials of a tuning, each kept as it ends: the same search goes on where it was stopped, by asking again.

A search is the same each time by its seed, so what it asked before is answered from the file without playing. One JSON
line a trial.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from asa import files, wire
from asa.act.knobs import arguments
from asa.core.errors import AsaError
from calibration.tuning.space import Flags


class Gain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a candidate, in per cent, more is better: over the scheduler without its flags, and over the kernel's own."""

    pct: float
    over_eevdf_pct: float


Seeded: TypeAlias = tuple[Flags, int]
"""A candidate, and the seed that it is played with."""


class Objective(Protocol):
    """What is to be made better."""

    def gains(self, pairs: Sequence[Seeded]) -> Sequence[Gain | None]:
        """Of each; None for one that could not be played. Raises AsaError where nothing can be."""
        ...


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One candidate with one seed."""

    arguments: tuple[str, ...]
    seed: int
    gain: Gain | None


class Trials:
    """An objective, with a memory in a file. `heard` is called with the number of trials that are known, after each."""

    def __init__(self, objective: Objective, path: Path, heard: Callable[[int], None] = lambda _: None) -> None:
        """Raises AsaError for a file that holds something else."""
        self._objective = objective
        self._path = path
        self._heard = heard
        self._known = {(one.arguments, one.seed): one for one in _read(path)}
        self.asked: set[tuple[tuple[str, ...], int]] = set()

    def gains(self, candidates: Sequence[Flags], seed: int) -> list[Gain | None]:
        """Of each with one seed, as `pairs`."""
        return self.pairs([(flags, seed) for flags in candidates])

    def pairs(self, pairs: Sequence[Seeded]) -> list[Gain | None]:
        """As of the objective; each is played once. Raises AsaError."""
        keys = [(arguments(flags), seed) for flags, seed in pairs]
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in self._known}
        self.asked |= set(keys)
        if new:
            told = self._objective.gains(list(new.values()))
            for (words, seed), gain in zip(new, told, strict=True):
                self._known[words, seed] = Trial(arguments=words, seed=seed, gain=gain)
            body = b"".join(wire.json_bytes(one) + b"\n" for one in self._known.values())
            self._path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self._path, body, durable=True)
        self._heard(len(self.asked))
        return [self._known[key].gain for key in keys]


def _read(path: Path) -> list[Trial]:
    try:
        return [wire.from_json(line, Trial) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: holds no trials: {error}; name another folder by --out, or remove it") from error
