# SPDX-License-Identifier: GPL-2.0-only
"""How fast and how surely the voting follows a change: recorded sequences where there are some, else spliced ones.

Spliced sequences are of predictions for held-out seeds, each side of the sweep with sessions of its own. The figures
are those of the settings that are shipped (`calibration.voting.sweep`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from asa.core.decision import Workload
from asa.core.errors import ModelError
from asa.decide.voting import UNKNOWN
from calibration.recognition.figures import RecognitionFigure
from calibration.voting import streams as voting_streams
from calibration.voting import sweep as voting_sweep
from calibration.voting.filters import Method
from calibration.voting.streams import Stream
from models.artefact import Array
from models.train import evaluation
from models.train.dataset import Dataset
from models.train.evaluation import HeldOut
from models.train.held_out import Tell

_SPLICED, _SCENARIOS = 16, 6  # sequences of a side, and scenarios in each
_QUICK = 4
_QUICK_METHODS = (Method.NONE, Method.SMOOTHING, Method.TIME_WEIGHTED)


def figures(
    data: Dataset,
    found: HeldOut,
    known: Array,
    *,
    model: Path,
    sequences: Sequence[Path],
    quick: bool,
    tell: Tell,
) -> dict[RecognitionFigure, float | None]:
    """Median delay in s and error rate in per cent of the voting that is shipped; None where there are too few sessions
    to make sequences of.
    """
    if sequences:
        return recorded(sequences, model=model, quick=quick, tell=tell)
    return _swept(lambda: spliced(data, found, known, _QUICK if quick else _SPLICED), quick=quick, tell=tell)


def recorded(
    sequences: Sequence[Path], *, model: Path, quick: bool, tell: Tell
) -> dict[RecognitionFigure, float | None]:
    """As `figures`, of recorded sequences by a model that has not learnt from them."""
    return _swept(lambda: _recorded(sequences, model), quick=quick, tell=tell)


def _swept(streams: Callable[[], list[Stream]], *, quick: bool, tell: Tell) -> dict[RecognitionFigure, float | None]:
    tell("voting", 0.0)
    try:
        methods = _QUICK_METHODS if quick else tuple(Method)
        swept = voting_sweep.sweep(
            *voting_streams.deal(streams()), methods=methods, say=lambda line: tell(f"voting: {line}", 0.5)
        )
    except ModelError:
        return {RecognitionFigure.REACTION: None, RecognitionFigure.VOTING_ERROR: None}
    reported = swept.shipped.reported
    return {RecognitionFigure.REACTION: reported.median_s, RecognitionFigure.VOTING_ERROR: reported.error_pct}


def spliced(data: Dataset, found: HeldOut, known: Array, count: int) -> list[Stream]:
    """Two sides of sequences, no session on both. Raises ModelError without two labels of two sessions."""
    labels = np.array([session.label for session in data.sessions])[data.session]
    whole = labels == np.array(data.classes)[data.y]
    use = evaluation.running(data) & (found.fold >= 0) & whole
    fits = known[use][:, None]
    values = np.concatenate([found.blended[use] * fits, ~fits], axis=1)
    classes = (*(Workload(name) for name in data.classes), UNKNOWN)
    sessions = voting_streams.by_label(values, data.y[use], data.session[use], classes)
    made = []
    for side, place in (("a", 0), ("b", 1)):
        part = {label: of[place::2] for label, of in sessions.items() if len(of) > 1}
        found_of_side = voting_streams.splice(part, count=count, scenarios=_SCENARIOS, seed=1)
        made += [replace(one, name=f"{one.name} {side}", group=side) for one in found_of_side]
    return made


def _recorded(sequences: Sequence[Path], model: Path) -> list[Stream]:
    from calibration.voting.recorded import read
    from models.runtime import Ensemble

    return read(sequences, Ensemble.load(model))
