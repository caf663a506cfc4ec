# SPDX-License-Identifier: GPL-2.0-only
"""The two applications of a scenario at play in a guest, each in a control group of its own, so that it can stop.

Needs root and cgroup 2 with its freezer. Ends all that it started.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from asa import paths
from asa.core.errors import AsaError
from calibration.switchback.design import began_ns, of_block
from calibration.switchback.intensity import Level
from calibration.switchback.samples import Samples
from scenarios.application import Application, Measurement, Tier
from scenarios.session import Session, default_folder, place_for

_LOOK_S = 0.25
_FREEZE_LOOK_S, _FREEZE_LIMIT_S = 0.01, 30.0


class Cell:
    """A control group. What is started inside stays in it with all that it starts."""

    def __init__(self, root: Path, name: str) -> None:
        """Raises AsaError where it cannot be made."""
        self._root = root
        self._path = root / name
        try:
            self._path.mkdir(exist_ok=True)
        except OSError as error:
            raise AsaError(f"{self._path}: {error.strerror}; the guest needs cgroup 2 at {root}") from error

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This process is in it meanwhile."""
        (self._path / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self._root / "cgroup.procs").write_text(str(os.getpid()))

    def freeze(self, *, on: bool) -> None:
        """Stop all in it, or let them go on; waits until they have stopped. Raises AsaError."""
        (self._path / "cgroup.freeze").write_text(f"{on:d}")
        end_s = time.monotonic() + _FREEZE_LIMIT_S
        while on and "frozen 1" not in (self._path / "cgroup.events").read_text():
            if time.monotonic() > end_s:
                raise AsaError(f"{self._path}: did not stop within {_FREEZE_LIMIT_S:g} s")
            time.sleep(_FREEZE_LOOK_S)

    def remove(self) -> None:
        """Once all in it have ended; one that is not empty stays."""
        with suppress(OSError):
            self._path.rmdir()


@dataclass(slots=True, kw_only=True)
class _Part:
    session: Session
    cell: Cell
    taken: list[Measurement] = field(default_factory=list)


class Scene:
    """Both at play. A context: leaving it ends them."""

    def __init__(
        self,
        applications: Sequence[Application],
        *,
        seed: int,
        level: Level,
        places: paths.Places,
        check: Callable[[], None],
    ) -> None:
        """Start one after the other, and wait until each works. `check` is called all the time and may raise.

        Raises AsaError.
        """
        self._parts: list[_Part] = []
        self._check = check
        self._open = ExitStack()
        crowd, effort = level
        try:
            for application in applications:
                cell = Cell(places.sys / "fs/cgroup", f"asa-{application.name}")
                self._open.callback(cell.remove)
                place = replace(place_for(application, cache=places.cache, tier=Tier.LAB), crowd=crowd, effort=effort)
                with cell.entered():
                    folder = default_folder(places.cache, lab=True)
                    session = Session.start(application, seed=seed, place=place, folder=folder)
                self._open.enter_context(session)
                self._parts.append(_Part(session=session, cell=cell))
                session.await_ready(also=self.check)
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:  # who is frozen cannot end
            part.cell.freeze(on=False)
        self._open.close()

    @property
    def parameters(self) -> dict[str, dict[str, object]]:
        """By application: what the seed drew, and what its driver said of itself."""
        return {one.session.application.name: dict(one.session.parameters) for one in self._parts}

    def check(self) -> None:
        """Raises AsaError where one has ended or hangs, and what `check` raises."""
        self._check()
        for part in self._parts:
            part.session.check()

    def last(self, seconds: float) -> tuple[int, int]:
        """Let them play so long; gives when that began and ended, CLOCK_MONOTONIC ns."""
        start_ns = time.monotonic_ns()
        end_s = time.monotonic() + seconds
        self.check()
        while (left_s := end_s - time.monotonic()) > 0.0:
            time.sleep(min(_LOOK_S, left_s))
            self.check()
        return start_ns, time.monotonic_ns()

    def stop(self, *names: str) -> None:
        """Have these stop, all without a name."""
        for part in self._parts:
            if not names or part.session.application.name in names:
                part.cell.freeze(on=True)

    def go_on(self, seconds: float) -> None:
        """Let all go on, and wait so long before anybody asks whether they are silent."""
        for part in self._parts:
            part.cell.freeze(on=False)
        time.sleep(seconds)
        self.hear()

    def hear(self) -> None:
        """Take in what was measured."""
        for part in self._parts:
            part.taken += part.session.measurements()

    def forget(self, before_ns: int) -> None:
        """What was measured before that."""
        for part in self._parts:
            part.taken = [one for one in part.taken if one.at_ns >= before_ns]

    def series(self, window: tuple[int, int], until_ns: int, *names: str) -> list[Samples]:
        """What began in a window and ended before `until_ns`, of all applications or of these."""
        start_ns, end_ns = window
        found = []
        for part in self._parts:
            name = part.session.application.name
            for metric in part.session.application.metrics if not names or name in names else ():
                known = [one for one in part.taken if one.metric == metric and of_block(metric)]
                inside = [
                    one
                    for one in known
                    if start_ns <= began_ns(metric, one.at_ns, one.value) < end_ns and one.at_ns < until_ns
                ]
                at_s = [round((one.at_ns - start_ns) / 1e9, 4) for one in inside]
                values = [one.value for one in inside]
                found.append(Samples(application=name, metric=metric, at_s=at_s, values=values))
        return found
