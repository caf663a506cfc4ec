# SPDX-License-Identifier: GPL-2.0-only
"""Records labelled sessions: plays a workload, samples the machine once a second, writes a journal.

A session reaches the journal only when it is whole and honest; otherwise it is dropped and the outcome says why.
Reads /proc for what the machine is called; the counters come from the sampler, the programs from the player.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import asa
from asa.core.decision import EEVDF, Workload
from asa.core.ports import Clock, Sampler
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader
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
    """One session of a recording. `reason` is one line for DROPPED, else ""."""

    workload: Workload
    seed: int
    result: Result
    samples: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a session's header says about the place. `host` and `cpus` tell places apart when a campaign resumes."""

    host: str  # "host, AMD EPYC" or "lab, QEMU TCG CPU version 2.5+"
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
    return Machine(host=f"{'lab' if lab else 'host'}, {model}", kernel=kernel, cpus=cpus)


class _DroppedError(Exception):
    """Carries the reason out of a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Records sessions into one journal. Limits are shares, 0..1; times are in seconds."""

    journal: Journal
    sampler: Sampler
    clock: Clock
    play: Callable[[Workload, int], AbstractContextManager[Playing]]  # (label, seed), started when it is called
    machine: Machine
    wait: Callable[[float], None] = time.sleep
    warmup_s: float = 3.0  # programs start and settle; not recorded
    most_steal: float = 0.10  # mean share of CPU time that the hypervisor gave to others
    most_busy_before: float = 0.25  # of all CPUs, while nothing of ours plays yet
    patience_s: float = 30.0  # how long to wait for such a quiet moment
    fewest_samples: float = 0.8  # share of those asked for: a sampler that starves gives other figures

    def record(self, workload: Workload, *, seed: int, seconds: int) -> Outcome:
        """Play, warm up, record `seconds` + 1 samples one second apart, and write them as one session.

        Samples are taken at absolute deadlines, so the rhythm does not drift; one that was missed by a whole second
        is left out. Never raises for a failed session: that is an outcome. Raises JournalError.
        """
        try:
            self._await_quiet()
            with self.play(workload, seed) as playing:
                samples = self._samples(playing, seconds)
                parameters = playing.parameters
            self._check(samples, seconds, workload)
        except (_DroppedError, PlayerError) as error:
            return Outcome(workload=workload, seed=seed, result=Result.DROPPED, reason=str(error))
        self._write(samples, workload, seed, parameters)
        return Outcome(workload=workload, seed=seed, result=Result.KEPT, samples=len(samples))

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

        Sessions that the journal has already (same label, seed, host and cpus) are skipped, so that a campaign
        that was interrupted goes on, and one that dropped sessions fills them in. `on_start` gets label, seed,
        number from 1, and how many there are; `on_outcome` every outcome as it comes.
        """
        plan = [(label, seed + i) for label in labels for i in range(sessions)]
        random.Random(seed).shuffle(plan)  # noqa: S311
        present = {(s.header.label, s.header.seed, s.header.host, s.header.cpus) for s in self.journal.sessions()}
        outcomes = []
        for number, (label, one) in enumerate(plan, 1):
            on_start(label, one, number, len(plan))
            if (label, one, self.machine.host, self.machine.cpus) in present:
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
                raise _DroppedError(f"{text}; stop them and record again")
            before = now

    def _samples(self, playing: Playing, seconds: int) -> list[RawSample]:
        self.wait(self.warmup_s)
        samples: list[RawSample] = []
        start_ns = self.clock.monotonic_ns()
        tick = 0
        while tick <= seconds:
            ahead_ns = start_ns + tick * _INTERVAL_NS - self.clock.monotonic_ns()
            if ahead_ns > 0:
                self.wait(ahead_ns / 1e9)
            playing.alive()
            samples.append(self.sampler.sample())
            tick = max(tick, (self.clock.monotonic_ns() - start_ns) // _INTERVAL_NS) + 1
        playing.alive()
        return samples

    def _check(self, samples: list[RawSample], seconds: int, workload: Workload) -> None:
        if len(samples) < self.fewest_samples * (seconds + 1):
            raise _DroppedError(f"only {len(samples)} of {seconds + 1} samples were taken in time")
        steal = _share(samples[0], samples[-1], _STEAL)
        if steal > self.most_steal:
            raise _DroppedError(f"the hypervisor took {steal:.0%} of the CPUs, more than {self.most_steal:.0%}")
        busy = 1.0 - _share(samples[0], samples[-1], _IDLE, _IOWAIT)
        if workload == _IDLE_LABEL and busy > self.most_busy_before:
            raise _DroppedError(f"other programs kept the CPUs {busy:.0%} busy in a session that was to be idle")
        if len({_scheduler(sample) for sample in samples}) > 1:
            raise _DroppedError("the scheduler changed in the session")

    def _write(self, samples: list[RawSample], workload: Workload, seed: int, parameters: str) -> None:
        header = SessionHeader(
            started_ns=samples[0].wall_ns,
            asa_version=asa.__version__,
            host=self.machine.host,
            kernel=self.machine.kernel,
            cpus=self.machine.cpus,
            scheduler=_scheduler(samples[0]),
            label=workload,
            seed=seed,
            parameters=parameters,
        )
        self.journal.begin(header)
        for sample in samples:
            self.journal.add(sample)
        self.journal.commit()


def _scheduler(sample: RawSample) -> str:
    state = sample.sched_ext
    return state.ops if state is not None and state.state == "enabled" else EEVDF


def _share(before: RawSample, after: RawSample, *columns: int) -> float:
    # share of all CPU time between two samples that fell into some columns
    if before.cpu is None or after.cpu is None:
        raise _DroppedError("the sampler gives no CPU times; see asa doctor")
    spent = tuple(b - a for a, b in zip(before.cpu.total, after.cpu.total, strict=True))
    total = sum(spent)
    if total <= 0:
        raise _DroppedError("the CPU times stand still")
    return sum(spent[column] for column in columns) / total
