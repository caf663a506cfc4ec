# SPDX-License-Identifier: GPL-2.0-only
"""What the agent itself costs, tick by tick: the time of its parts, its processor time and its memory.

Reads the clock, and /proc/self/statm when asked for the costs of a tick. It runs always and takes some microseconds a
tick; the journal has the costs of one tick in `journal.costs_every`. Times are what passed: under load other tasks have
run in between.
"""

import os
import time
from enum import Enum
from pathlib import Path

from asa.core.decision import FeatureFrame, Judgement, Workload
from asa.core.ports import Classifier
from asa.journal import Costs

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Part(Enum):
    """What a lap was spent on."""

    COLLECTION = 0
    STEP = 1  # inference and the rest of the pure step
    ACTION = 2  # ordering a switch: checking the binary and starting its process
    JOURNAL = 3


class Meter:
    """Laps of one tick after the other: `start`, a `lap` after each part, `costs`."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._since_ns = 0
        self._laps_ns: list[int | None] = [None for _ in Part]
        self._inference_ns: int | None = None
        try:
            self._statm = os.open(proc / "self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._statm = -1

    def start(self) -> None:
        """A tick begins."""
        self._laps_ns = [None for _ in Part]
        self._inference_ns = None
        self._since_ns = time.monotonic_ns()

    def lap(self, part: Part) -> None:
        """All since `start` or the last lap went into `part`."""
        now_ns = time.monotonic_ns()
        self._laps_ns[part.value] = now_ns - self._since_ns
        self._since_ns = now_ns

    def classifier(self, classifier: Classifier) -> Classifier:
        """The same classifier, with its time told apart from that of the rest of the step."""
        return _Metered(classifier, self)

    def inferred(self, took_ns: int) -> None:
        """The model has run."""
        self._inference_ns = took_ns + (self._inference_ns or 0)

    def costs(self, monotonic_ns: int, sources_us: dict[str, float]) -> Costs:
        """Of the tick whose sample was taken at `monotonic_ns`; `sources_us` is the sampler's `cost_us`."""
        collection_ns, step_ns, action_ns, journal_ns = self._laps_ns
        return Costs(
            monotonic_ns=monotonic_ns,
            collection_us=(collection_ns or 0) / 1e3,
            sources_us=sources_us,
            inference_us=None if self._inference_ns is None else self._inference_ns / 1e3,
            decision_us=((step_ns or 0) - (self._inference_ns or 0)) / 1e3,
            action_us=(action_ns or 0) / 1e3,
            journal_us=None if journal_ns is None else journal_ns / 1e3,
            cpu_ns=time.process_time_ns(),
            resident_bytes=self.resident_bytes(),
        )

    def close(self) -> None:
        """Give the descriptor back."""
        if self._statm >= 0:
            os.close(self._statm)
        self._statm = -1

    def resident_bytes(self) -> int | None:
        """The agent's memory now, None when /proc does not tell."""
        try:
            return int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE_BYTES  # proc_pid_statm(5): resident
        except (OSError, ValueError, IndexError):
            return None


class _Metered:
    """A classifier that tells the meter how long it took."""

    __slots__ = ("_classifier", "_meter", "classes", "schema")

    def __init__(self, classifier: Classifier, meter: Meter) -> None:
        self._classifier = classifier
        self._meter = meter
        self.schema: int = classifier.schema
        self.classes: tuple[Workload, ...] = classifier.classes

    def judge(self, frame: FeatureFrame) -> Judgement:
        """As the classifier itself."""
        begun_ns = time.monotonic_ns()
        try:
            return self._classifier.judge(frame)
        finally:
            self._meter.inferred(time.monotonic_ns() - begun_ns)
