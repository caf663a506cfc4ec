# SPDX-License-Identifier: GPL-2.0-only
"""What the evaluation of the model costs the agent, by each candidate that could do it: `asa lab bench recognition`.

Every candidate runs in processes of its own (`calibration.recognition.probe`), in turn with the others and as often,
so that a busy machine slows all of them alike and the ratios hold where the milliseconds do not. Returns values; it
prints and writes nothing but a temporary folder.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from asa import paths, wire
from asa.core.decision import Workload
from asa.core.errors import AsaError
from asa.pipeline import plan
from asa.report.reading import opened
from calibration.recognition import hint_cost
from calibration.recognition.candidates import Candidate
from calibration.recognition.frame_cost import Cost
from calibration.recognition.frame_cost import measure as measure_way
from models import artefact
from models.artefact import Artefact
from models.runtime import Ensemble

KEPT = Candidate.COMPILED
"""What the agent uses, where it was built."""

FALLBACK = Candidate.NUMPY
"""What it uses elsewhere; also what the ratios are to."""

_MOST_TICKS = 600  # of the session that gives them
_LONGEST_S = 300.0  # of one process; a generated C program takes minutes to compile

Tell = Callable[[str, float], None]


class Spent(msgspec.Struct, frozen=True):
    """Of single predictions, in milliseconds; `cpu_mean_ms` is the thread's own time."""

    mean_ms: float
    median_ms: float
    p99_ms: float
    cpu_mean_ms: float


class Turn(msgspec.Struct, frozen=True):
    """What one process of one candidate found."""

    import_ms: float
    load_ms: float
    rss_mb: float
    install_mb: float
    shares: tuple[tuple[float, ...], ...]  # of the first frame, by the boosted trees of each head
    boosted: Spent
    whole: Spent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One candidate: its turns, or why there are none."""

    candidate: Candidate
    turns: tuple[Turn, ...] = ()
    prepare_s: float | None = None
    missing: str = ""

    def median(self, of: Callable[[Turn], float]) -> float | None:
        """Over its turns; None when there are none."""
        return statistics.median(of(turn) for turn in self.turns) if self.turns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run."""

    model: Path
    candidates: tuple[Candidate, ...] = tuple(Candidate)
    turns: int = 1_000  # predictions of a process
    rounds: int = 3  # processes of a candidate
    python: Path = field(default_factory=lambda: Path(sys.executable))  # that has the candidates installed
    samples: Path | None = None  # a journal, packed or not: its ticks are taken all the way from the sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was found. Arithmetic beside it is in `calibration.recognition.runtimes_report`."""

    began_s: float
    took_s: float
    model: str  # in words
    numpy_rss_mb: float  # of an interpreter with NumPy and nothing else
    measured: tuple[Measured, ...]
    way: tuple[Cost, ...] = ()  # from sample to probabilities, by what the agent uses here
    way_of: str = ""  # which recording's, or why there is none
    hints: Cost | None = None  # of the desktop, beside it

    def of(self, candidate: Candidate) -> Measured | None:
        """What was found of a candidate, None when it was not asked for."""
        return next((one for one in self.measured if one.candidate is candidate), None)


def measure(options: Options, tell: Tell) -> Result:
    """Run every candidate. One that is not installed or fails is named as such; an unusable model raises ModelError."""
    began_s, start = time.time(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="asa-recognition-") as name:
        folder = Path(name)
        model, path = artefact.load(options.model), options.model
        steps = len(options.candidates) * (options.rounds + 1)
        missing: dict[Candidate, str] = {}
        prepared: dict[Candidate, float] = {}
        turns: dict[Candidate, list[Turn]] = {candidate: [] for candidate in options.candidates}
        for number, candidate in enumerate(options.candidates):
            tell(f"{candidate}: prepare", number / steps)
            (folder / candidate).mkdir()
            found = _probe(options, "prepare", candidate, path, folder / candidate)
            if "missing" in found:
                missing[candidate] = found["missing"]
            else:
                prepared[candidate] = found["prepare_s"]
        for turn in range(options.rounds):
            for number, candidate in enumerate(options.candidates):
                if candidate in missing:
                    continue
                tell(f"{candidate}: {turn + 1} of {options.rounds}", ((turn + 1) * len(turns) + number) / steps)
                found = _probe(options, "measure", candidate, path, folder / candidate)
                if "missing" in found:
                    missing[candidate] = found["missing"]
                else:
                    turns[candidate].append(wire.shaped(found, Turn))
        bare = _probe(options, "measure", "bare", path, folder)
        tell("from sample to probabilities", 1.0)
        way, way_of = _way(options.samples, model)
        hints = hint_cost.measure(tuple(Workload(name) for name in model.header.classes))
    measured = [
        Measured(
            candidate=candidate,
            turns=tuple(turns[candidate]) if candidate not in missing else (),
            prepare_s=prepared.get(candidate),
            missing=missing.get(candidate, ""),
        )
        for candidate in options.candidates
    ]
    return Result(
        began_s=began_s,
        took_s=time.monotonic() - start,
        model=_words(model, options.model),
        numpy_rss_mb=bare.get("rss_mb", 0.0),
        measured=tuple(measured),
        way=way,
        way_of=way_of,
        hints=hints,
    )


def _way(path: Path | None, model: Artefact) -> tuple[tuple[Cost, ...], str]:
    if path is None:
        return (), "no recording to take ticks from"
    ensemble = Ensemble(model)
    with opened(path) as journal:
        session = max(journal.sessions(), key=lambda one: sum(1 for _ in journal.samples(one.number)), default=None)
        samples = [] if session is None else list(islice(journal.samples(session.number), _MOST_TICKS))
    label = "" if session is None else f", a session of {session.header.label or 'the agent'}"
    return measure_way(
        samples, ensemble.judge, plan=plan(ensemble.fields)
    ), f"{path.name}{label}, {len(samples)} samples, {ensemble.engine.name}"


def recording() -> Path | None:
    """A journal of the package whose ticks are timed; None where there is none.

    Of sequences where there are any: they tell what probes and single processes do, as the agent does, and some of the
    others do not, which costs less to derive.
    """
    folder = paths.base_model().parent.parent / "recordings"
    globs = ("sequences/*.journal.xz", "scenarios/*.journal.xz", "host*.journal.xz")
    return next((path for glob in globs for path in sorted(folder.glob(glob))), None)


def differences(measured: Sequence[Measured]) -> Mapping[Candidate, float]:
    """The largest difference of each candidate's probabilities from those of `FALLBACK`, on one frame."""
    known = {one.candidate: one.turns[0].shares for one in measured if one.turns}
    ours = known.get(FALLBACK)
    if ours is None:
        return {}
    return {
        candidate: max(
            abs(share - other)
            for head, others in zip(ours, shares, strict=True)
            for share, other in zip(head, others, strict=True)
        )
        for candidate, shares in known.items()
    }


def _words(model: Artefact, path: Path) -> str:
    trees = sum(len(head.trees.root) for head in model.heads)
    nodes = sum(len(head.trees.slot) for head in model.heads)
    vectors = len(model.heads[0].machine.vectors)  # all heads share them
    sizes = " and ".join(str(len(part.classes)) for part in model.header.parts)
    return (
        f"{path.name}: {len(model.header.features)} features, {sizes} classes for {len(model.header.classes)} labels, "
        f"{trees} trees with {nodes} nodes, {vectors} support vectors"
    )


def _probe(options: Options, task: str, candidate: str, path: Path, folder: Path) -> dict[str, Any]:
    words = ["-m", "calibration.recognition.probe", task, candidate, str(path), str(folder), str(options.turns)]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    code, out, error = _finished([str(options.python), *words], environment)
    if code is None:
        return {"missing": f"it was not done within {_LONGEST_S:g} s"}
    if code != 0:
        last = error.strip().splitlines() or [f"exit code {code}"]
        return {"missing": f"it failed: {last[-1][:160]}"}
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def _finished(command: list[str], environment: Mapping[str, str]) -> tuple[int | None, str, str]:
    """Exit code (None: it took too long), output, complaints. However it ends, what it started ends too: compilers."""
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise AsaError(f"{command[0]}: {error.strerror}; name another interpreter by --python") from error
    with process:
        try:
            out, complaints = process.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            return None, "", ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, complaints
