# SPDX-License-Identifier: GPL-2.0-only
"""Records sequences: one scenario after another on one machine, as a person works, with marks at each change.

What voting is judged on. The seed draws which scenarios and how long each works. An application that stands in two
scenarios in a row plays on; what is left out ends first, then what is new comes up. The machine is at rest before the
first and after the last. Samples are taken throughout, one a second.
"""

import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from asa import wire
from asa.core.decision import Workload
from asa.core.mark import SEQUENCE, Phase
from scenarios.application import Application, Failure
from scenarios.recorder import DroppedError, Rhythm, Take
from scenarios.scenario_recorder import Marks, ScenarioRecorder, look, naming
from scenarios.session import Session

STEPS = 5
_NEAR = 0.5  # share of the changes in which only one application comes, goes, or becomes another
_SEEDS = 1000  # an application's is (the session's + 1) times this and the step's number: no recorded scenario's
_SHORTEST, _LONGEST = 2 / 3, 4 / 3  # of the length that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A scenario of a sequence, and how long all of it works."""

    label: Workload
    seconds: float


def draw(labels: Sequence[Workload], *, seed: int, seconds: float, steps: int = STEPS) -> tuple[Step, ...]:
    """A sequence; no label follows itself. The same labels, in whatever order, and seed give the same. Raises
    ValueError for fewer than two labels."""
    known = sorted(set(labels))
    if len(known) < 2:
        raise ValueError(f"{len(known)} labels: nothing to change between; name two at least")
    rng = random.Random(f"{SEQUENCE} {seed}")  # noqa: S311
    made: list[Step] = []
    for _ in range(steps):
        allowed = known
        if made:
            last = made[-1].label
            others = [one for one in known if one != last]
            near = [one for one in others if _distance(one, last) == 1] if rng.random() < _NEAR else []
            allowed = near or others
        length_s = round(seconds * rng.uniform(_SHORTEST, _LONGEST), 1)
        made.append(Step(label=rng.choice(allowed), seconds=length_s))
    return tuple(made)


def _distance(one: Workload, other: Workload) -> int:
    # how many applications have to come, go, or make way for another one
    here, there = (set(label.split("+")) - {"idle"} for label in (one, other))
    return max(len(here - there), len(there - here))


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRecorder(ScenarioRecorder):
    """Records sessions of the one label `sequence`; `seconds` is the mean length of a scenario in it."""

    labels: Sequence[Workload]  # what is drawn from
    steps: int = STEPS

    def _prepare(self, label: Workload) -> None:
        del label  # of a session; which scenarios it has the seed says, which is not known here
        self._make_ready(self._all())

    def _all(self) -> list[Application]:
        return list({one.name: one for step in self.labels for one in self._parts(step)}.values())

    def _take(self, label: Workload, seed: int, seconds: int) -> Take:
        del label
        plan = draw(self.labels, seed=seed, seconds=seconds, steps=self.steps)
        rhythm = Rhythm(self.sampler, self.clock, self.wait)
        marks = Marks(self.clock.monotonic_ns, naming(self._all()))
        marks.make(Phase.BEFORE, ())
        rhythm.go_on(self.rest_s)
        parameters: list[dict[str, object]] = []
        programs: dict[str, str] = {}
        began_ns = self.clock.monotonic_ns()
        with ExitStack() as stack:
            sessions: list[Session] = []
            for number, step in enumerate(plan):
                self._play(step, (seed + 1) * _SEEDS + number, sessions, stack, rhythm, marks)
                parameters.append(
                    {"label": step.label, "seconds": step.seconds}
                    | {one.application.name: one.parameters for one in sessions}
                )
                programs |= {name: text for one in sessions for name, text in one.versions.items()}
            ended_ns = self.clock.monotonic_ns()
            self._end(list(sessions), sessions, rhythm, marks)
        marks.make(Phase.AFTER, ())
        rhythm.go_on(self.rest_s)
        running = [sample for sample in rhythm.samples if began_ns <= sample.monotonic_ns < ended_ns]
        if len(running) < self.fewest_samples * (ended_ns - began_ns) / 1e9 - 1:
            reason = f"only {len(running)} samples of {(ended_ns - began_ns) / 1e9:.0f} s were taken in time"
            raise DroppedError(reason, Failure.DISTURBED)
        return Take(
            samples=rhythm.samples,
            running=running,
            parameters=wire.json_text(parameters),
            marks=marks.made,
            programs=programs,
        )

    def _play(
        self, step: Step, seed: int, sessions: list[Session], stack: ExitStack, rhythm: Rhythm, marks: Marks
    ) -> None:
        wanted: tuple[Application, ...] = self._parts(step.label)
        names = {one.name for one in wanted}
        self._end([one for one in sessions if one.application.name not in names], sessions, rhythm, marks)
        there = {one.application.name for one in sessions}
        for application in wanted:
            if application.name not in there:
                self._start(application, seed, sessions, stack, rhythm, marks)
        marks.make(Phase.RUNNING, wanted)
        with self._quiet(sessions):
            rhythm.go_on(step.seconds, lambda: look(None, sessions))
