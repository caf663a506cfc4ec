# SPDX-License-Identifier: GPL-2.0-only
"""Records scenarios in guests of the lab: each plays a part of what is asked for and packs its own journal.

Writes packed journals into one folder, each there as a whole or not at all. What these have already is not asked for
again, so that an interrupted recording goes on.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from asa import wire
from asa.core.errors import JournalError, LabError
from asa.journal import Journal
from scenarios.recorder import Outcome
from scenarios.runner_guests import Boot, Guesting

SUFFIX = ".journal.xz"
MOST_SESSIONS = 8
"""Of a guest: what is lost with it."""

_CHANCES = 2  # of a part whose guest crashes
_LOOK_S = 0.05
_STARTS_S = 600.0  # to boot, to load Python and a scheduler, emulated on a busy host
_SLOWER = 20.0  # most that guest time passes slower than the host's
_AROUND_S = 30.0  # of a session beside the running phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one guest records: a session of each label, under one scheduler."""

    scheduler: str
    seed: int
    labels: tuple[str, ...]


def present(folder: Path, cpus: int) -> set[tuple[str, int]]:
    """Label and seed of the sessions that the folder's journals have. Raises JournalError."""
    found = set()
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with Journal.unpack(path) as journal:
            headers = [session.header for session in journal.sessions()]
        found |= {(one.label, one.seed) for one in headers if one.cpus == cpus and one.seed is not None}
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


@dataclass(slots=True, kw_only=True)
class _Playing:
    guest: Guesting
    part: Part
    out: Path
    chance: int
    words: deque[str] = field(default_factory=lambda: deque(maxlen=3))  # the last on stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """Guests at work; `play` returns when all parts are done."""

    boot: Boot
    command: Callable[[Part, Path], Sequence[str]]  # that records a part into a packed journal
    folder: Path
    seconds: int
    begun: Callable[[Part], None]
    heard: Callable[[Outcome], None]
    lost: Callable[[Part, str], None]  # for good, with the reason

    def play(self, parts: Sequence[Part], at_once: int) -> None:
        """So many guests at once. Raises LabError when one cannot even be started; none runs on then."""
        queue = deque((part, 1) for part in parts)
        running: list[_Playing] = []
        try:
            while queue or running:
                while queue and len(running) < at_once:
                    running.append(self._start(*queue.popleft()))
                for one in list(running):
                    trouble = self._look(one)
                    if trouble is None:
                        continue
                    running.remove(one)
                    one.guest.stop()
                    if trouble and one.chance < _CHANCES:
                        queue.append((one.part, one.chance + 1))
                    elif trouble:
                        self.lost(one.part, trouble)
                time.sleep(_LOOK_S)
        finally:
            for one in running:
                one.guest.stop()

    def _start(self, part: Part, chance: int) -> _Playing:
        out = self.folder / "guests" / _name(part)
        out.mkdir(parents=True, exist_ok=True)
        (out / f"part{SUFFIX}").unlink(missing_ok=True)
        limit_s = _STARTS_S + _SLOWER * (self.seconds + _AROUND_S) * len(part.labels)
        guest = self.boot(self.command(part, out / f"part{SUFFIX}"), out, limit_s)
        self.begun(part)
        return _Playing(guest=guest, part=part, out=out, chance=chance)

    def _look(self, one: _Playing) -> str | None:
        """None while it runs, "" when it has recorded, else what went wrong."""
        trouble: str | None = None
        try:
            result = one.guest.poll()
        except LabError as error:
            trouble, result = str(error), None
        normal, errors = one.guest.output()
        one.words.extend(line for line in errors if line.strip())
        for line in normal:
            self._hear(line)
        if result is None:
            return trouble
        made = one.out / f"part{SUFFIX}"
        try:
            with Journal.unpack(made) as journal:
                kept = bool(journal.sessions())
        except JournalError:
            return f"the guest's part ended with code {result.exit_code}; it said: {' / '.join(one.words)[-300:]!r}"
        if kept:
            made.replace(_free(self.folder, one.part))
        return ""

    def _hear(self, line: str) -> None:
        try:
            outcome = wire.from_json(line, Outcome)
        except msgspec.DecodeError:
            return  # a program's own words
        self.heard(outcome)


def _name(part: Part) -> str:
    return f"{part.scheduler.replace(':', '.')}-{part.seed}-{part.labels[0]}"


def _free(folder: Path, part: Part) -> Path:
    """A name that no journal has yet."""
    number = 1
    while (path := folder / f"lab-{_name(part)}-{number}{SUFFIX}").exists():
        number += 1
    return path
