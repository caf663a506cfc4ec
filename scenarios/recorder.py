# SPDX-License-Identifier: GPL-2.0-only
"""Records labelled sessions of workloads (`asa lab record --campaign`): plays, samples each second, keeps a journal.

A session reaches the journal only when it is whole and honest; otherwise it is dropped and the outcome says why.
Reads /proc for what the machine is called; the counters come from the sampler, the programs from the player. What all
recorders share is here too; `scenarios.scenario_recorder` has the one for the benchmark's scenarios.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import asa
from asa.core.decision import EEVDF, Workload
from asa.core.mark import Mark
from asa.core.ports import Clock, Sampler
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader
from scenarios import conditions
from scenarios.application import ApplicationError, Failure
from scenarios.conditions import Conditions
from scenarios.player import PlayerError

_INTERVAL_NS = 1_000_000_000
_IDLE_LABEL = Workload("idle")
_IDLE, _IOWAIT, _STEAL = 3, 4, 7  # columns of CpuTicks


class Playing(Protocol):
    """A workload that runs: what the recorder needs of `scenarios.player.Player`."""

    @property
    def parameters(self) -> str:
        """The command lines."""
        ...

    def alive(self) -> bool:
        """True while it plays; raises PlayerError when a program failed."""
        ...


class Result(StrEnum):
    """What became of a session."""

    KEPT = "kept"  # in the journal
    DROPPED = "dropped"  # not in the journal, the reason says why
    SKIPPED = "skipped"  # was in the journal already


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One session of a recording. `reason` is one line for DROPPED, else ""; `failure` is its kind, if it has one."""

    workload: Workload
    seed: int
    result: Result
    samples: int = 0
    reason: str = ""
    failure: Failure | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a session's header says about the place. `host` and `cpus` tell places apart when a campaign resumes."""

    host: str  # "host, AMD EPYC" or "lab, clock parallel, 1000 Hz, QEMU TCG CPU"; "lab, QEMU", by an old one
    kernel: str
    cpus: int


def machine(*, lab: bool, cpus: int, proc: Path = Path("/proc")) -> Machine:
    """This machine, from cpuinfo and sys/kernel/osrelease below `proc`."""
    model = "CPU of unknown model"
    for line in (proc / "cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            model = value.strip()
            break
    kernel = (proc / "sys/kernel/osrelease").read_text().strip()
    return Machine(host=f"{guest(conditions.here()) if lab else 'host, '}{model}", kernel=kernel, cpus=cpus)


def guest(under: Conditions) -> str:
    """How a guest's `Machine.host` begins: guests of two clocks are two places."""
    return f"lab, {under.words}, "


class DroppedError(Exception):
    """Carries the reason out of a session."""

    def __init__(self, reason: str, failure: Failure | None = None) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """What was recorded of a session, before it is judged."""

    samples: Sequence[RawSample]
    running: Sequence[RawSample]  # of them, those of the time that was asked for
    parameters: str
    label: Workload | None = None  # None: what was asked for
    marks: Sequence[Mark] = ()
    programs: Mapping[str, str] = field(default_factory=dict)


def asked(header: SessionHeader) -> str:
    """What a session was asked for as: its programs, where its label says their kinds instead."""
    return "+".join(header.played) or header.label


class Rhythm:
    """Takes samples at absolute deadlines one second apart, so that it does not drift.

    One that was missed by a whole second is left out.
    """

    def __init__(self, sampler: Sampler, clock: Clock, wait: Callable[[float], None]) -> None:
        self.samples: list[RawSample] = []
        self.tick = 0
        """Which one is next, in seconds since the start."""
        self._sampler, self._clock, self._wait = sampler, clock, wait
        self._start_ns = clock.monotonic_ns()

    def await_due(self) -> None:
        """Block until the next one is due."""
        self._wait_until(self._due_ns())

    def take(self) -> None:
        """The next one, now."""
        self.samples.append(self._sampler.sample())
        self.tick = max(self.tick, (self._clock.monotonic_ns() - self._start_ns) // _INTERVAL_NS) + 1

    def poll(self) -> None:
        """The next one if it is due; never blocks."""
        if self._clock.monotonic_ns() >= self._due_ns():
            self.take()

    def go_on(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Take those that come due in so many seconds; `check` is called before each and may raise."""
        end_ns = self._clock.monotonic_ns() + round(seconds * 1e9)
        while self._clock.monotonic_ns() < end_ns:
            self._wait_until(min(self._due_ns(), end_ns))
            check()
            self.poll()

    def _due_ns(self) -> int:
        return self._start_ns + self.tick * _INTERVAL_NS

    def _wait_until(self, at_ns: int) -> None:
        ahead_ns = at_ns - self._clock.monotonic_ns()
        if ahead_ns > 0:
            self._wait(ahead_ns / 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecorder(ABC):
    """Records sessions into one journal. Limits are shares, 0..1; times are in seconds."""

    journal: Journal
    sampler: Sampler
    clock: Clock
    machine: Machine
    wait: Callable[[float], None] = time.sleep
    tier: str = ""
    tries: int = 1  # of a session, while the machine is disturbed
    most_steal: float = 0.10  # mean share of CPU time that the hypervisor gave to others
    most_busy_before: float = 0.25  # of all CPUs, while nothing of ours plays yet
    patience_s: float = 30.0  # how long to wait for such a quiet moment
    fewest_samples: float = 0.8  # share of those asked for: a sampler that starves gives other figures

    @abstractmethod
    def _take(self, label: Workload, seed: int, seconds: int) -> Take:
        """Play and sample. Raises DroppedError, PlayerError, ApplicationError; nothing of it plays on then."""

    def _prepare(self, label: Workload) -> None:  # noqa: B027  # most have nothing to prepare
        """Make what is slow, before the machine is looked at. Raises ApplicationError."""

    def record(self, workload: Workload, *, seed: int, seconds: int) -> Outcome:
        """Play, sample for `seconds`, and write the samples as one session; at most `tries` times while disturbed.

        Never raises for a failed session: that is an outcome. Raises JournalError.
        """
        for attempt in range(1, self.tries + 1):
            outcome = replace(self._try(workload, seed, seconds), attempts=attempt)
            if outcome.failure is not Failure.DISTURBED:
                break
        return outcome

    def _try(self, workload: Workload, seed: int, seconds: int) -> Outcome:
        try:
            self._prepare(workload)
            self._await_quiet()
            take = self._take(workload, seed, seconds)
            self._check(take, seconds, workload)
        except (DroppedError, PlayerError, ApplicationError) as error:
            failure = None if isinstance(error, PlayerError) else error.failure
            return Outcome(workload=workload, seed=seed, result=Result.DROPPED, reason=str(error), failure=failure)
        self._write(take, workload, seed)
        return Outcome(workload=workload, seed=seed, result=Result.KEPT, samples=len(take.samples))

    def campaign(
        self,
        labels: Sequence[Workload],
        *,
        sessions: int,
        seconds: int,
        seed: int,
        on_start: Callable[[Workload, int, int, int], None],
        on_outcome: Callable[[Outcome], None],
    ) -> list[Outcome]:
        """Record every label `sessions` times with seeds `seed`, `seed` + 1, ... in an order shuffled by `seed`.

        Sessions that the journal has already (same programs, seed, host, cpus, tier and scheduler) are skipped, so that
        a campaign that was interrupted goes on, and one that dropped sessions fills them in. `on_start` gets label,
        seed, number from 1, and how many there are; `on_outcome` every outcome as it comes.
        """
        plan = [(label, seed + i) for label in labels for i in range(sessions)]
        random.Random(seed).shuffle(plan)  # noqa: S311
        here = (self.machine.host, self.machine.cpus, self.tier, _scheduler(self.sampler.sample()))
        headers = (session.header for session in self.journal.sessions())
        present = {(asked(one), one.seed, one.host, one.cpus, one.tier, one.scheduler) for one in headers}
        outcomes = []
        for number, (label, one) in enumerate(plan, 1):
            on_start(label, one, number, len(plan))
            if (label, one, *here) in present:
                outcome = Outcome(workload=label, seed=one, result=Result.SKIPPED)
            else:
                outcome = self.record(label, seed=one, seconds=seconds)
            on_outcome(outcome)
            outcomes.append(outcome)
        return outcomes

    def _await_quiet(self) -> None:
        # A neighbour's build would be recorded as a part of the workload.
        deadline_ns = self.clock.monotonic_ns() + int(self.patience_s * 1e9)
        before = self.sampler.sample()
        while True:
            self.wait(1.0)
            now = self.sampler.sample()
            busy = 1.0 - _share(before, now, _IDLE, _IOWAIT)
            if busy <= self.most_busy_before:
                return
            if self.clock.monotonic_ns() >= deadline_ns:
                text = f"other programs keep the CPUs {busy:.0%} busy, more than {self.most_busy_before:.0%}"
                raise DroppedError(f"{text}; stop them and record again", Failure.DISTURBED)
            before = now

    def _check(self, take: Take, seconds: int, workload: Workload) -> None:
        if len(take.running) < max(2, self.fewest_samples * seconds):
            reason = f"only {len(take.running)} samples of {seconds} s were taken in time"
            raise DroppedError(reason, Failure.DISTURBED)
        steal = _share(take.running[0], take.running[-1], _STEAL)
        if steal > self.most_steal:
            reason = f"the hypervisor took {steal:.0%} of the CPUs, more than {self.most_steal:.0%}"
            raise DroppedError(reason, Failure.DISTURBED)
        busy = 1.0 - _share(take.running[0], take.running[-1], _IDLE, _IOWAIT)
        if workload == _IDLE_LABEL and busy > self.most_busy_before:
            reason = f"other programs kept the CPUs {busy:.0%} busy in a session that was to be idle"
            raise DroppedError(reason, Failure.DISTURBED)
        if len({_scheduler(sample) for sample in take.samples}) > 1:
            raise DroppedError("the scheduler changed in the session")

    def _write(self, take: Take, workload: Workload, seed: int) -> None:
        header = SessionHeader(
            started_ns=take.samples[0].wall_ns,
            asa_version=asa.__version__,
            host=self.machine.host,
            kernel=self.machine.kernel,
            cpus=self.machine.cpus,
            scheduler=_scheduler(take.samples[0]),
            label=take.label or workload,
            seed=seed,
            parameters=take.parameters,
            tier=self.tier,
            programs=dict(take.programs),
        )
        self.journal.begin(header)
        for sample in take.samples:
            self.journal.add(sample)
        self.journal.mark(take.marks)
        self.journal.commit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder(SessionRecorder):
    """Records the workloads of `scenarios.workloads`, from when they have settled to before they end."""

    play: Callable[[Workload, int], AbstractContextManager[Playing]]  # (label, seed), started when it is called
    warmup_s: float = 3.0  # programs start and settle; not recorded

    def _take(self, label: Workload, seed: int, seconds: int) -> Take:
        with self.play(label, seed) as playing:
            self.wait(self.warmup_s)
            rhythm = Rhythm(self.sampler, self.clock, self.wait)
            while rhythm.tick <= seconds:
                rhythm.await_due()
                playing.alive()
                rhythm.take()
            playing.alive()
            return Take(samples=rhythm.samples, running=rhythm.samples, parameters=playing.parameters)


def _scheduler(sample: RawSample) -> str:
    state = sample.sched_ext
    return state.ops if state is not None and state.state == "enabled" else EEVDF


def _share(before: RawSample, after: RawSample, *columns: int) -> float:
    # share of all CPU time between two samples that fell into some columns
    if before.cpu is None or after.cpu is None:
        raise DroppedError("the sampler gives no CPU times; see asa doctor")
    spent = tuple(b - a for a, b in zip(before.cpu.total, after.cpu.total, strict=True))
    total = sum(spent)
    if total <= 0:
        raise DroppedError("the CPU times stand still")
    return sum(spent[column] for column in columns) / total
