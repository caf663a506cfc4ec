# SPDX-License-Identifier: GPL-2.0-only
"""Records the trials of a calibration as labelled sessions: what a model is trained from, as the agent would see it.

A thread samples once a second while a trial is played. Of a trial that was measured to its end the samples of its
window are kept, as a packed journal of one session; of all others nothing. `asa lab train --recordings` and
`asa lab dataset build` read the folder.
"""

import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import asa
from asa import config, paths
from asa.clock import SystemClock
from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from asa.core.mark import Mark, Phase
from asa.core.ports import Clock, Sampler
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader
from collectors.sampler import HostSampler, standard
from scenarios.application import Tier
from scenarios.recorder import Machine, Rhythm, machine
from scenarios.runner_plan import Trial

SUFFIX = ".journal.xz"
_BEFORE_NS = 1_500_000_000  # the sample that the window's first rates start from


class Recorder:
    """This machine's collectors, opened once. Close it."""

    def __init__(self, places: paths.Places, folder: Path, tier: Tier, cpus: int) -> None:
        """Journals go to `folder`. Raises AsaError when nothing can be sampled here."""
        self._sampler = HostSampler(
            standard(places.proc, places.sys, config.load(places.config).collect), SystemClock()
        )
        self._sampler.open()
        self._folder = folder
        self._tier = tier
        self._machine = machine(lab=tier is Tier.LAB, cpus=cpus, proc=places.proc)

    def begin(self) -> "Recording":
        """For one trial."""
        return Recording(self._sampler, SystemClock(), self._folder, self._tier, self._machine)

    def close(self) -> None:
        """Let go of the sources."""
        self._sampler.close()


class Recording:
    """Samples of one trial. A context: they are taken inside."""

    def __init__(self, sampler: Sampler, clock: Clock, folder: Path, tier: Tier, place: Machine) -> None:
        self._folder = folder
        self._tier = tier
        self._machine = place
        self._end = threading.Event()
        self._rhythm = Rhythm(sampler, clock, lambda seconds: (self._end.wait(seconds), None)[1])
        self._thread = threading.Thread(target=self._go_on, name="recording")

    def keep(self, trial: Trial, windows: Sequence[tuple[int, int]]) -> Path | None:
        """What was sampled in the window, as a journal; None of a trial with none, or with two. Raises AsaError."""
        if len(windows) != 1 or trial.then is not None:
            return None
        start_ns, end_ns = windows[0]
        taken = [one for one in self._rhythm.samples if start_ns - _BEFORE_NS <= one.monotonic_ns <= end_ns]
        if len(taken) < 2:
            return None
        path = self._folder / f"{trial.id}{SUFFIX}"
        marks = [_mark(Phase.STARTING, taken[0].monotonic_ns, trial), _mark(Phase.RUNNING, start_ns, trial)]
        # not in `folder`: a guest's is shared, and SQLite's WAL does not work there
        with (
            tempfile.TemporaryDirectory(prefix="asa-recording-") as scratch,
            Journal.open(Path(scratch) / "journal", size_mb=1024.0) as journal,
        ):
            journal.begin(self._header(trial, taken[0]))
            for sample in taken:
                journal.add(sample)
            journal.mark(marks)
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                journal.pack(path)
            except OSError as error:
                raise AsaError(f"{path}: cannot be written: {error.strerror}; the same command goes on") from error
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._end.is_set():
            self._rhythm.take()
            self._rhythm.await_due()

    def _header(self, trial: Trial, first: RawSample) -> SessionHeader:
        state = first.sched_ext
        return SessionHeader(
            started_ns=first.wall_ns,
            asa_version=asa.__version__,
            host=self._machine.host,
            kernel=self._machine.kernel,
            cpus=self._machine.cpus,
            scheduler=state.ops if state is not None and state.state == "enabled" else EEVDF,
            label=trial.label,
            seed=trial.seed,
            parameters="",
            tier=self._tier,
        )


def _mark(phase: Phase, at_ns: int, trial: Trial) -> Mark:
    return Mark(monotonic_ns=at_ns, phase=phase, interactive=trial.interactive, background=trial.background)
