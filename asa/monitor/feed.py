# SPDX-License-Identifier: GPL-2.0-only
"""The status of the running agent, tick by tick, and what the last ticks showed.

Reads `status.json` of this user's agent, else of the system's; only when the file has changed, or when it has not for
so long that the agent may have gone. Waits for nothing: the caller asks again after `next_look_s`.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asa import paths, status
from asa.core.errors import AsaError
from asa.status import Status

MOST_POINTS = 600
_LATE_TICKS = 3.0  # without news for so many an agent is late, and may have gone
_AFTER_S = 0.03  # when the next tick is due its file takes a moment
_LEAST_S, _MOST_S = 0.25, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one tick showed."""

    top: str | None = None  # the most probable class in this tick
    share: float = 0.0  # its probability
    workload: str | None = None  # the class in force
    scheduler: str | None = None
    signals: dict[str, float | None] = field(default_factory=dict)
    updated_ns: int = 0  # CLOCK_REALTIME
    cpu_ns: int = 0  # processor time of the agent since its start


UNSEEN = Point()
"""A tick that nobody has read."""


class History:
    """The last ticks, oldest first, and the names of what was in force in the order in which they were met."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=MOST_POINTS)
        self.schedulers: dict[str, int] = {}
        self._last: Status | None = None

    def add(self, found: Status) -> None:
        """Take one more tick; ticks in between that were not seen stay blank, and another agent starts anew."""
        last = self._last
        if last is not None and (last.pid, last.started_ns) != (found.pid, found.started_ns):
            self.points.clear()
        elif last is not None:
            missed = min(found.ticks - last.ticks - 1, MOST_POINTS)
            self.points.extend(UNSEEN for _ in range(missed))
        self._last = found
        self.points.append(_point(found))
        if found.scheduler is not None:
            self.schedulers.setdefault(found.scheduler, len(self.schedulers))

    def cpu_share(self) -> float | None:
        """Of one processor, that the agent took over the ticks that are remembered (a minute of them at most)."""
        seen = [point for point in self.points if point.cpu_ns][-60:]
        if len(seen) < 2 or seen[-1].updated_ns <= seen[0].updated_ns:
            return None
        return (seen[-1].cpu_ns - seen[0].cpu_ns) / (seen[-1].updated_ns - seen[0].updated_ns)


class Feed:
    """Looks for a running agent in `folders`, the first that has one. `error` says why its status cannot be read."""

    def __init__(self, folders: Sequence[Path] | None = None) -> None:
        self._folders = tuple(folders) if folders is not None else (paths.default().run, paths.Places().run)
        self._marks: tuple[tuple[int, int] | None, ...] = ()
        self._read_s = 0.0
        self.folder: Path | None = None
        self.status: Status | None = None
        self.error = ""

    def look(self) -> bool:
        """True when something has changed: another tick, or an agent that came or went."""
        marks = tuple(_mark(folder / "status.json") for folder in self._folders)
        now_s = time.monotonic()
        if marks == self._marks and now_s - self._read_s < self._patience_s():
            return False
        before = (self.status, self.error)
        self._marks, self._read_s = marks, now_s
        self.status, self.folder, self.error = None, None, ""
        try:
            for folder in self._folders:
                self.status = status.read(folder)
                if self.status is not None:
                    self.folder = folder
                    break
        except AsaError as error:
            self.error = str(error)
        return (self.status, self.error) != before

    def next_look_s(self) -> float:
        """When to look again."""
        if self.status is None:
            return _MOST_S
        due_s = (self.status.updated_ns - time.time_ns()) / 1e9 + self.status.interval_s + _AFTER_S
        return min(max(due_s, _LEAST_S), _MOST_S)

    def late_s(self) -> float | None:
        """How long ago the agent was last heard of, None while it keeps its time."""
        if self.status is None:
            return None
        age_s = (time.time_ns() - self.status.updated_ns) / 1e9
        return age_s if age_s > _LATE_TICKS * self.status.interval_s else None

    def _patience_s(self) -> float:
        return _MOST_S if self.status is None else _LATE_TICKS * min(self.status.interval_s, _MOST_S)


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _point(found: Status) -> Point:
    top = max(found.probabilities, key=found.probabilities.__getitem__, default=None)
    return Point(
        top=top,
        share=0.0 if top is None else found.probabilities[top],
        workload=found.workload,
        scheduler=found.scheduler,
        signals=found.signals,
        updated_ns=found.updated_ns,
        cpu_ns=found.cpu_ns,
    )
