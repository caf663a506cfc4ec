# SPDX-License-Identifier: GPL-2.0-only
"""Figures of the paper's 28 scenarios and of the shipped model's time and voting, each by no more than it needs.

`asa lab evaluate model` has the whole page about the paper's labels. Here seeds are held out and models are of factors
alone, as most folds there prefer them. What voting follows are recorded sequences that the shipped model has not
learnt from.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial

from asa.config import Voting
from asa.core.errors import AsaError
from calibration.goals import Named
from calibration.kept import Count
from calibration.recognition import figures, following, tuned
from calibration.recognition.evaluation import Options
from calibration.recognition.figures import RecognitionFigure
from calibration.recognition.uses import UseFigure
from models.artefact import Array
from models.train import evaluation
from models.train.dataset import Dataset
from models.train.evaluation import HeldOut
from models.train.factored import Kind
from models.train.held_out import Tell

PAPERS = (
    UseFigure.PAPERS,
    UseFigure.PAPERS_VOTED,
    UseFigure.PAPERS_TUNED,
    UseFigure.MEAN,
    UseFigure.P99,
    UseFigure.REACTION,
    UseFigure.VOTING_ERROR,
)
"""What `asa lab evaluate model` measures by the same names."""


def papers(assembled: Callable[[], Dataset], options: Options, tell: Tell) -> Mapping[Named, Count]:
    """How each of `PAPERS` is measured. `assembled`: rows with the paper's labels, asked for by who needs them."""
    data = cache(assembled)

    @cache
    def held_out() -> HeldOut:
        evaluation.check(data())
        return evaluation.hold_out(
            data(),
            evaluation.by_seeds(data()),
            recipe=options.recipe,
            seed=options.seed,
            kinds=(Kind.FACTORED,),
            jobs=options.jobs,
            kept=options.kept,
            tell=tell,
            name="seeds, fold",
        )

    timed = cache(lambda: figures.runtime(options.model, quick=options.quick, tell=tell))
    followed = cache(lambda: following.recorded(options.sequences, model=options.model, quick=options.quick, tell=tell))
    return {
        UseFigure.PAPERS: lambda: _right(data(), held_out()),
        UseFigure.PAPERS_VOTED: lambda: _voted(data(), held_out()),
        UseFigure.PAPERS_TUNED: lambda: _tuned(data(), options, tell),
        UseFigure.MEAN: partial(_timed, timed, RecognitionFigure.MEAN),
        UseFigure.P99: partial(_timed, timed, RecognitionFigure.P99),
        UseFigure.REACTION: partial(_followed, followed, RecognitionFigure.REACTION),
        UseFigure.VOTING_ERROR: partial(_followed, followed, RecognitionFigure.VOTING_ERROR),
    }


def _scenarios(data: Dataset, found: HeldOut) -> tuple[Array, str]:
    use = evaluation.pairs(data) & evaluation.judged(data) & (found.fold >= 0)
    if not use.any():
        raise AsaError("no row of two programs was held out")
    return use, f"{int(use.sum())} ticks, {len(found.kinds)} folds of seeds"


def _right(data: Dataset, found: HeldOut) -> tuple[float, str]:
    use, words = _scenarios(data, found)
    return evaluation.accuracy_pct(found.blended[use], data.y[use]), words


def _voted(data: Dataset, found: HeldOut) -> tuple[float, str]:
    use, words = _scenarios(data, found)
    value = evaluation.voted_pct(data, found.blended, Voting(), use=use, known=found.known)
    if value is None:
        raise AsaError("no session is as long as the voting's window")
    return value, words


def _tuned(data: Dataset, options: Options, tell: Tell) -> tuple[float, str]:
    value = tuned.tuned(
        data, Kind.FACTORED, options.recipe, options.seed, jobs=options.jobs, kept=options.kept, tell=tell
    )
    if value is None:
        raise AsaError(tuned.WHY)
    return value, f"{tuned.OWN} sessions a label of {len(tuned.deals(data))} machines or seeds"


def _timed(timed: Callable[[], Mapping[RecognitionFigure, float | None]], name: RecognitionFigure) -> tuple[float, str]:
    value = timed()[name]
    if value is None:
        raise AsaError("no model, no compiled evaluator or no recording to time")
    return value, "the shipped model"


def _followed(
    followed: Callable[[], Mapping[RecognitionFigure, float | None]], name: RecognitionFigure
) -> tuple[float, str]:
    value = followed()[name]
    if value is None:
        raise AsaError("no recorded sequence to follow; record some with `asa lab record --sequence`")
    return value, "recorded sequences, the shipped model and voting"
