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

from asa import wire
from asa.core.decision import Workload
from asa.core.kinds import OTHER
from asa.core.mark import Mark, Phase
from scenarios import noise
from scenarios.application import Application, Failure, Place, Report, Role
from scenarios.catalogue import BACKGROUND, IDLE, INTERACTIVE, Scenario
from scenarios.recorder import DroppedError, Rhythm, SessionRecorder, Take
from scenarios.resting import RESTING
from scenarios.session import Session, prepare

_LOOK_S = 0.02


def naming(applications: Sequence[Application]) -> Callable[[Application], str]:
    """How label and marks call them: the benchmark's own by their names; with another among them, all by their kinds.

    A machine at rest has no application to name, even while its housekeeping plays.
    """
    by_kind = any(one.name not in (*INTERACTIVE, *BACKGROUND) for one in applications if one is not RESTING)

    def name(application: Application) -> str:
        if application is RESTING:
            return ""
        return (application.kind or OTHER) if by_kind else application.name

    return name


class Marks:
    """Marks as they are made, with what the applications are called in them."""

    def __init__(self, now_ns: Callable[[], int], name: Callable[[Application], str]) -> None:
        self.made: list[Mark] = []
        self._now_ns, self._name = now_ns, name

    def make(self, phase: Phase, there: Sequence[Application]) -> int:
        """From now on. Returns the time."""
        names = {application.role: self._name(application) for application in there}
        front, back = (names.get(role, "") for role in (Role.INTERACTIVE, Role.BACKGROUND))
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
    """Labels are those of `scenarios.catalogue`; idle is played by a little housekeeping.

    A session with other programs than the benchmark's own is labelled by kinds, `browse+compress`, and one of no kind
    `other`. The header's parameters say which programs played.
    """

    find: Callable[[str], tuple[Scenario, tuple[Application, ...]]]  # of a label
    place: Callable[[Application], Place]
    folder: Path  # scratch folders are made in it
    proc: Path = Path("/proc")
    report: Report = lambda _line: None
    rest_s: float = 3.0  # how much is recorded of the machine at rest, before and after
    noise_limit_pct: float = noise.LIMIT_PCT

    def _prepare(self, label: Workload) -> None:
        self._make_ready(self._parts(label))

    def _make_ready(self, applications: Sequence[Application]) -> None:
        for application in applications:
            prepare(application, self.place(application), self.report)

    def _parts(self, label: Workload) -> tuple[Application, ...]:
        return self.find(label)[1] or (RESTING,)

    def _take(self, label: Workload, seed: int, seconds: int) -> Take:
        applications = self._parts(label)
        name = naming(applications)
        rhythm = Rhythm(self.sampler, self.clock, self.wait)
        marks = Marks(self.clock.monotonic_ns, name)
        marks.make(Phase.BEFORE, ())
        rhythm.go_on(self.rest_s)
        with ExitStack() as stack:
            sessions: list[Session] = []
            for application in applications:
                self._start(application, seed_of(label, seed), sessions, stack, rhythm, marks)
            began_ns = marks.make(Phase.RUNNING, applications)
            with self._quiet(sessions):
                rhythm.go_on(seconds, lambda: look(None, sessions))
            ended_ns = self.clock.monotonic_ns()
            parameters = {session.application.name: session.parameters for session in sessions}
            programs = {name: text for session in sessions for name, text in session.versions.items()}
            self._end(list(sessions), sessions, rhythm, marks)
        marks.make(Phase.AFTER, ())
        rhythm.go_on(self.rest_s)
        return Take(
            samples=rhythm.samples,
            running=[sample for sample in rhythm.samples if began_ns <= sample.monotonic_ns < ended_ns],
            parameters=wire.json_text(parameters),
            label=Workload("+".join(filter(None, map(name, applications))) or IDLE),
            marks=marks.made,
            programs=programs,
        )

    def _start(
        self,
        application: Application,
        seed: int,
        sessions: list[Session],
        stack: ExitStack,
        rhythm: Rhythm,
        marks: Marks,
    ) -> None:
        # beside those in `sessions`, which it joins; samples go on meanwhile
        marks.make(Phase.STARTING, [*(one.application for one in sessions), application])
        place = self.place(application)
        session = Session.start(application, seed=seed, place=place, folder=self.folder)
        stack.callback(session.stop)
        sessions.append(session)
        session.await_ready(also=lambda: look(rhythm, sessions))

    def _end(self, going: Sequence[Session], sessions: list[Session], rhythm: Rhythm, marks: Marks) -> None:
        # one after the other, out of `sessions`
        with ThreadPoolExecutor(1) as pool:  # an application may take seconds to end; samples go on meanwhile
            for session in going:
                marks.make(Phase.ENDING, [left.application for left in sessions])
                sessions.remove(session)
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


def look(rhythm: Rhythm | None, sessions: Sequence[Session]) -> None:
    """Take a sample that is due, if there is a rhythm to keep, and raise ApplicationError if one does not work."""
    if rhythm is not None:
        rhythm.poll()
    for session in sessions:
        session.check()
        session.measurements()  # a recording does not keep them
