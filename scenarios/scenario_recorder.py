# SPDX-License-Identifier: GPL-2.0-only
"""Records the benchmark's scenarios: plays a scenario's applications, and marks what is there at each moment.

A session begins on a machine at rest, has the applications come up one after the other (the interactive one first), all
of them working for the time that was asked for, then going, and ends on a machine at rest again. Samples are taken
throughout, one a second. A session beside too much foreign load is dropped, as are those of a failed application.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa.core.decision import Workload
from asa.core.mark import Mark, Phase
from scenarios import noise
from scenarios.application import Application, Failure, Place, Report
from scenarios.catalogue import Scenario
from scenarios.recorder import DroppedError, Rhythm, SessionRecorder, Take
from scenarios.resting import RESTING
from scenarios.session import Session, prepare

_LOOK_S = 0.02


class _Marks:
    """Marks as they are made."""

    def __init__(self, now_ns: Callable[[], int], scenario: Scenario) -> None:
        self.made: list[Mark] = []
        self._now_ns = now_ns
        self._scenario = scenario

    def make(self, phase: Phase, there: Sequence[Application]) -> int:
        """From now on. Returns the time."""
        names = {application.name for application in there}
        front, back = (
            name if name in names else "" for name in (self._scenario.interactive, self._scenario.background)
        )
        mark = Mark(monotonic_ns=self._now_ns(), phase=phase, interactive=front, background=back)
        self.made.append(mark)
        return mark.monotonic_ns


def seed_of(label: Workload, seed: int) -> int:
    """Of the applications of a session: another for each label, so that an application is drawn anew in each pair.

    A campaign of few seeds then shows as many draws of an application as there are labels with it.
    """
    return random.Random(f"{label} {seed}").getrandbits(31)  # noqa: S311


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRecorder(SessionRecorder):
    """Labels are those of `scenarios.catalogue`; idle is played by a little housekeeping."""

    find: Callable[[str], tuple[Scenario, tuple[Application, ...]]]  # of a label
    place: Callable[[Application], Place]
    folder: Path  # scratch folders are made in it
    proc: Path = Path("/proc")
    report: Report = lambda _line: None
    rest_s: float = 3.0  # how much is recorded of the machine at rest, before and after
    noise_limit_pct: float = noise.LIMIT_PCT

    def _prepare(self, label: Workload) -> None:
        for application in self._parts(label)[1]:
            prepare(application, self.place(application), self.report)

    def _parts(self, label: Workload) -> tuple[Scenario, tuple[Application, ...]]:
        scenario, applications = self.find(label)
        return scenario, applications or (RESTING,)

    def _take(self, label: Workload, seed: int, seconds: int) -> Take:
        scenario, applications = self._parts(label)
        rhythm = Rhythm(self.sampler, self.clock, self.wait)
        marks = _Marks(self.clock.monotonic_ns, scenario)
        marks.make(Phase.BEFORE, ())
        rhythm.go_on(self.rest_s)
        with ExitStack() as stack:
            sessions: list[Session] = []
            for number, application in enumerate(applications, 1):
                marks.make(Phase.STARTING, applications[:number])
                place = self.place(application)
                session = Session.start(application, seed=seed_of(label, seed), place=place, folder=self.folder)
                stack.callback(session.stop)
                sessions.append(session)
                session.await_ready(also=lambda: _look(rhythm, sessions))
            began_ns = marks.make(Phase.RUNNING, applications)
            with self._quiet(sessions):
                rhythm.go_on(seconds, lambda: _look(None, sessions))
            ended_ns = self.clock.monotonic_ns()
            parameters = {session.application.name: session.parameters for session in sessions}
            programs = {name: text for session in sessions for name, text in session.versions.items()}
            self._end(sessions, rhythm, marks)
        marks.make(Phase.AFTER, ())
        rhythm.go_on(self.rest_s)
        return Take(
            samples=rhythm.samples,
            running=[sample for sample in rhythm.samples if began_ns <= sample.monotonic_ns < ended_ns],
            parameters=msgspec.json.encode(parameters).decode(),
            marks=marks.made,
            programs=programs,
        )

    def _end(self, sessions: list[Session], rhythm: Rhythm, marks: _Marks) -> None:
        with ThreadPoolExecutor(1) as pool:  # an application may take seconds to end; samples go on meanwhile
            for number, session in enumerate(sessions):
                marks.make(Phase.ENDING, [left.application for left in sessions[number:]])
                stopped: Future[None] = pool.submit(session.stop)
                while not stopped.done():
                    self.wait(_LOOK_S)
                    rhythm.poll()
                stopped.result()

    @contextmanager
    def _quiet(self, sessions: Sequence[Session]) -> Iterator[None]:
        before = noise.Scan.take(_members(sessions), self.proc)
        yield
        complaint = noise.between(before, noise.Scan.take(_members(sessions), self.proc)).complaint(
            self.noise_limit_pct
        )
        if complaint:
            raise DroppedError(complaint, Failure.DISTURBED)


def _members(sessions: Sequence[Session]) -> list[int]:
    return [pid for session in sessions for pid in session.members()]


def _look(rhythm: Rhythm | None, sessions: Sequence[Session]) -> None:
    if rhythm is not None:
        rhythm.poll()
    for session in sessions:
        session.check()
        session.measurements()  # a recording does not keep them
