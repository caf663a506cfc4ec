# SPDX-License-Identifier: GPL-2.0-only
"""Records scenarios in guests of the lab: each plays a part of what is asked for and packs its own journal.

Writes packed journals into one folder, each there as a whole or not at all. What these have already is not asked for
again, so that an interrupted recording goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa import files, wire
from asa.core.errors import JournalError
from asa.journal import Journal
from scenarios import recorder
from scenarios.conditions import Conditions
from scenarios.guests import AtWork, Boot, Loop
from scenarios.lab.guest import GuestResult
from scenarios.recorder import Outcome

SUFFIX = ".journal.xz"
MOST_SESSIONS = 8
"""Of a guest: what is lost with it."""

_CHANCES = 2  # of a part whose guest crashes
_STARTS_S = 600.0  # to boot, to load Python and a scheduler, emulated on a busy host
_SLOWER = 20.0  # most that guest time passes slower than the host's
_AROUND_S = 30.0  # of a session beside the running phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one guest records: a session of each label, under one scheduler."""

    scheduler: str
    seed: int
    labels: tuple[str, ...]


def present(folder: Path, cpus: int, under: Conditions) -> set[tuple[str, int]]:
    """What was asked for, and seed, of such guests' sessions that the folder's journals have. Raises JournalError."""
    found = set()
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with Journal.unpack(path) as journal:
            headers = [session.header for session in journal.sessions()]
        found |= {
            (recorder.asked(one), one.seed)
            for one in headers
            if one.cpus == cpus and one.seed is not None and one.host.startswith(recorder.guest(under))
        }
    return found


def plan(
    labels: Sequence[str], *, sessions: int, seed: int, schedulers: Sequence[str], done: set[tuple[str, int]]
) -> list[Part]:
    """What is left to record. The schedulers take turns over the sessions of a label, each label one turn further.

    So none is bound to a seed, as it would be where turns went on from label to label.
    """
    groups: dict[tuple[int, str], list[str]] = {}
    for place, label in enumerate(labels):
        for number in range(sessions):
            if (label, seed + number) not in done:
                scheduler = schedulers[(place + number) % len(schedulers)]
                groups.setdefault((seed + number, scheduler), []).append(label)
    return [
        Part(scheduler=scheduler, seed=one, labels=tuple(group[first : first + MOST_SESSIONS]))
        for (one, scheduler), group in groups.items()
        for first in range(0, len(group), MOST_SESSIONS)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    part: Part
    chance: int


class Guests(Loop[_Try]):
    """Guests that record; `play` returns when all parts are done."""

    def __init__(
        self,
        *,
        boot: Boot,
        command: Callable[[Part, Path], Sequence[str]],
        folder: Path,
        seconds: int,
        begun: Callable[[Part], None],
        heard: Callable[[Outcome], None],
        lost: Callable[[Part, str], None],
    ) -> None:
        """`command` records a part into a packed journal; `lost` hears of a part that is given up, with the reason."""
        super().__init__()
        self._boot = boot
        self._command = command
        self._folder = folder
        self._seconds = seconds
        self._begun = begun
        self._heard = heard
        self._lost = lost

    def play(self, parts: Sequence[Part], at_once: int) -> None:
        """So many guests at once. Raises LabError when one cannot even be started; none runs on then."""
        self._queue.extend(_Try(part=part, chance=1) for part in parts)
        with self:
            self.follow(at_once)

    def _start(self, work: _Try) -> AtWork[_Try]:
        part = work.part
        out = self._folder / "guests" / _name(part)
        out.mkdir(parents=True, exist_ok=True)
        packed = out / f"part{SUFFIX}"
        packed.unlink(missing_ok=True)
        limit_s = _STARTS_S + _SLOWER * (self._seconds + _AROUND_S) * len(part.labels)
        guest = self._boot(self._command(part, packed), out, limit_s)
        self._begun(part)
        return AtWork(guest=guest, work=work, out=out)

    def _hear(self, _one: AtWork[_Try], line: str) -> None:
        try:
            outcome = wire.from_json(line, Outcome)
        except msgspec.DecodeError:
            return  # a program's own words
        self._heard(outcome)

    def _ended(self, one: AtWork[_Try], result: GuestResult | None, trouble: str) -> None:
        trouble = trouble if result is None else self._keep(one, result)
        if trouble and one.work.chance < _CHANCES:
            self._queue.append(_Try(part=one.work.part, chance=one.work.chance + 1))
        elif trouble:
            self._lost(one.work.part, trouble)

    def _keep(self, one: AtWork[_Try], result: GuestResult) -> str:
        """What went wrong, "" when it has recorded."""
        made = one.out / f"part{SUFFIX}"
        try:
            with Journal.unpack(made) as journal:
                kept = bool(journal.sessions())
        except JournalError:
            return f"the guest's part ended with code {result.exit_code}; it said: {one.words!r}"
        if kept:
            files.move(made, _free(self._folder, one.work.part))
        return ""


def _name(part: Part) -> str:
    return f"{part.scheduler.replace(':', '.')}-{part.seed}-{part.labels[0]}"


def _free(folder: Path, part: Part) -> Path:
    """A name that no journal has yet."""
    number = 1
    while (path := folder / f"lab-{_name(part)}-{number}{SUFFIX}").exists():
        number += 1
    return path
