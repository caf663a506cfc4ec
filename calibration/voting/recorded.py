# SPDX-License-Identifier: GPL-2.0-only
"""Streams from recorded sessions with marks, classified as the agent would: what filters are judged on.

Reads journals and a model; writes nothing. Whether the model has seen a session in training is for the caller to know.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from asa.core.decision import FeatureFrame, Judgement, Probabilities, Workload
from asa.core.errors import ModelError
from asa.core.kinds import among
from asa.core.sample import RawSample
from asa.decide.voting import open_world
from calibration.voting.streams import Stream, spans
from models import features
from models.train import recorded


class Judging(Protocol):
    """A loaded model, as `models.runtime` has it."""

    @property
    def classes(self) -> tuple[Workload, ...]:
        """Its labels."""
        ...

    def judge(self, frame: FeatureFrame) -> Judgement:
        """Of one frame."""
        ...


def read(paths: Iterable[Path], model: Judging) -> list[Stream]:
    """A stream of each session, its labels as the model calls them. Raises JournalError, and ModelError for a session
    without marks or one that stands twice."""
    found: dict[str, Stream] = {}
    for path in paths:
        for session in recorded.read(path):
            if not session.marks or not session.samples:
                name = f"its session of {session.header.label!r}"
                raise ModelError(f"{path}: {name} has no marks; record by `asa lab record --sequence` or --scenario")
            if session.id in found:
                raise ModelError(f"{path}: its session of {session.header.label!r} was read before; name it once")
            end_ns = session.samples[-1].monotonic_ns + 1
            found[session.id] = Stream(
                name=session.id,
                group=f"{session.header.label} {session.header.seed}",
                ticks=tuple(classify(session.samples, model)),
                spans=tuple(
                    replace(one, workload=Workload(among(one.workload, model.classes)))
                    for one in spans(session.marks, end_ns)
                ),
            )
    return [found[name] for name in sorted(found)]


def classify(samples: Sequence[RawSample], model: Judging) -> Iterator[tuple[int, Probabilities | None]]:
    """A tick for each sample but the first, as the agent makes them; None where there is nothing to judge by."""
    for tick in features.ticks(samples):
        if tick.window is None:
            yield tick.at_ns, None
            continue
        judged = model.judge(features.frame(tick.window))
        yield tick.at_ns, open_world(judged.probabilities, fits=judged.known)
