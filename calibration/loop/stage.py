# SPDX-License-Identifier: GPL-2.0-only
"""Where candidates are tried, and what a loop may spend: each trial is kept as it ends, and counted.

A stopped loop is begun again by the same command: it asks for the same trials, which are answered from the file.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from asa import files, wire
from asa.core.errors import AsaError
from calibration.loop.story import Candidate, Outcome, Play, Profile


class Arena(Protocol):
    """A machine that plays: guests of the lab, or this one."""

    tunable: bool
    """May candidates have flags of their own?"""

    def observe(self) -> Profile:
        """The use as it is, before anything is tried. Raises AsaError."""
        ...

    def gains(self, candidates: Sequence[Candidate], seed: int) -> Sequence[Outcome]:
        """Play each. Raises AsaError where nothing can be played."""
        ...


class SpentError(AsaError):
    """The budget has no trial more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a loop may spend in all. `kept_back` of the trials are for the confirmation."""

    trials: int
    minutes: float
    tokens: int
    kept_back: int


@dataclass(slots=True)
class Ledger:
    """What was spent. `tokens` are the language model's, as its server counts them, else letters / `LETTERS`."""

    began_s: float
    trials: int = 0
    tokens: int = 0
    asked: int = 0  # questions to the model
    rejected: int = 0  # answers that were none
    play_s: float = 0.0


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's line: a trial, and what it took."""

    play: Play
    took_s: float


@dataclass(slots=True)
class Stage:
    """Plays for a planner within the budget. `plays` has every trial that this loop asked for."""

    arena: Arena
    budget: Budget
    path: Path
    clock: Callable[[], float] = time.monotonic
    plays: list[Play] = field(default_factory=list)
    ledger: Ledger = field(init=False)
    _known: dict[tuple[str, int], Kept] = field(init=False)

    def __post_init__(self) -> None:
        """Raises AsaError for a file of something else."""
        self.ledger = Ledger(began_s=self.clock())
        self._known = {(str(one.play.candidate), one.play.seed): one for one in _read(self.path)}

    @property
    def left(self) -> int:
        """Trials that a search may still ask for."""
        return self.budget.trials - self.budget.kept_back - self.ledger.trials

    def play(self, candidates: Sequence[Candidate], seed: int, by: str) -> list[Outcome]:
        """Try these in a search. Raises SpentError before the first that the budget does not have, AsaError."""
        if self.left < len(candidates):
            raise SpentError(f"{self.budget.trials} trials: none is left for {by}")
        if self.clock() - self.ledger.began_s > self.budget.minutes * 60.0:
            raise SpentError(f"{self.budget.minutes:g} minutes are over")
        return self.confirm(candidates, seed, by)

    def confirm(self, candidates: Sequence[Candidate], seed: int, by: str) -> list[Outcome]:
        """The same from what is kept back. Raises AsaError."""
        lacking = {str(one): one for one in candidates if (str(one), seed) not in self._known}
        if lacking:
            new = list(lacking.values())
            began_s = self.clock()
            told = self.arena.gains(new, seed)
            took_s = (self.clock() - began_s) / len(new)
            for candidate, outcome in zip(new, told, strict=True):
                play = Play(candidate=candidate, seed=seed, by=by, outcome=outcome)
                self._known[str(candidate), seed] = Kept(play=play, took_s=round(took_s, 2))
            self._keep()
        kept = [self._known[str(one), seed] for one in candidates]
        self.plays += [one.play for one in kept]
        self.ledger.trials += len(kept)
        self.ledger.play_s += sum(one.took_s for one in kept)
        return [one.play.outcome for one in kept]

    def _keep(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(self.path, b"".join(wire.json_bytes(one) + b"\n" for one in self._known.values()))
        except OSError as error:
            raise AsaError(f"{self.path}: cannot be written: {error.strerror}; free some space, and go on") from error

    def gains(self, candidate: Candidate) -> list[float]:
        """Of all its trials in this loop that have one."""
        found = [one.outcome.gain_pct for one in self.plays if one.candidate == candidate]
        return [gain for gain in found if gain is not None]

    def best(self) -> Candidate | None:
        """The best mean gain, among those with two trials or more where there are such; None: none has a gain."""
        tried = {str(one.candidate): one.candidate for one in self.plays}
        known = [(len(gains), sum(gains) / len(gains), one) for one in tried.values() if (gains := self.gains(one))]
        if not known:
            return None
        least = min(2, max(count for count, _, _ in known))
        return max((one for one in known if one[0] >= least), key=lambda one: one[1])[2]


def _read(path: Path) -> list[Kept]:
    try:
        return [wire.from_json(line, Kept) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: holds no trials of the loop: {error}; name another folder by --out") from error
