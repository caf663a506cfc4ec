# SPDX-License-Identifier: GPL-2.0-only
"""The figures of kinds of use on recordings: trainings without programs and machines, done when they are asked for.

`make bench-recognition` measures and keeps, `make figures-recognition` prints what is kept.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from asa import paths
from asa.core.errors import AsaError
from asa.core.kinds import OTHER
from asa.decide import hints
from calibration.goals import Named
from calibration.kept import Count
from calibration.recognition import uses
from calibration.recognition.evaluation import Options
from calibration.recognition.uses import Judged, UseFigure
from models.artefact import Array
from models.train import held_out, hinting, programs, training
from models.train.dataset import Dataset
from models.train.export import factored_artefact
from models.train.factored import Kind
from models.train.held_out import Outcome, Task, Tell
from models.train.hinting import Told
from models.train.programs import Split

KEPT = Path(__file__).parents[1] / "results" / "recognition.json"


class Bench:
    """Each training is done once. `data` with what serves each class; `everywhere`: with other machines' recordings."""

    def __init__(self, data: Dataset, everywhere: Callable[[], Dataset], options: Options, tell: Tell) -> None:
        self._data, self._everywhere, self._tell = data, everywhere, tell
        self._recipe, self._seed, self._jobs, self._kept = options.recipe, options.seed, options.jobs, options.kept
        self._schedulers = np.array(data.served)

    def counts(self) -> Mapping[Named, Count]:
        """How each figure is measured."""
        data = self._data
        curve = (UseFigure.CURVE_1, UseFigure.CURVE_2, UseFigure.CURVE_3, UseFigure.CURVE_5)
        return {
            UseFigure.RIGHT: lambda: self._told(uses.voted(data, self._base, self._schedulers)[0]),
            UseFigure.PLAIN: lambda: self._told(uses.voted(data, self._plain, self._schedulers)[0]),
            UseFigure.BACKGROUND: lambda: self._told(uses.halves(data, self._base, 1)),
            UseFigure.DESKTOP: lambda: self._told(uses.halves(data, self._base, 0, desktop=True)),
            UseFigure.NO_DESKTOP: lambda: self._told(uses.halves(data, self._base, 0, desktop=False)),
            UseFigure.WRONG: lambda: self._told(uses.taken(data, self._base)[0]),
            UseFigure.UNKNOWN: lambda: self._told(uses.taken(data, self._base)[1]),
            UseFigure.SCHEDULER: lambda: self._told(uses.voted(data, self._base, self._schedulers)[1]),
            UseFigure.NO_LABEL: self._no_label,
            UseFigure.MACHINE: self._machine,
            UseFigure.GAIN: self._gain,
            UseFigure.HINT: lambda: self._hinted(lie=False),
            UseFigure.HARM: lambda: self._hinted(lie=True),
            UseFigure.TAUGHT: self._taught,
            **{name: functools.partial(self._curve, count) for name, count in zip(curve, uses.CURVE, strict=True)},
        }

    @functools.cached_property
    def _known(self) -> Array:
        labels = np.array([one.label for one in self._data.sessions])
        return np.asarray((labels != OTHER)[self._data.session])

    @functools.cached_property
    def _splits(self) -> tuple[Split, ...]:
        found = programs.splits(self._data, self._known)
        if not found:
            raise AsaError("no kind has recordings of two programs; record programs with `asa lab record`")
        judges = uses.judges(self._data)
        return tuple(replace(one, test=one.test & judges) for one in found)

    @functools.cached_property
    def _plain(self) -> list[Judged]:
        return self._run(self._splits, "programs")

    @functools.cached_property
    def _base(self) -> list[Judged]:
        return self._with_hints(self._hints)

    @functools.cached_property
    def _hints(self) -> Told:
        return hinting.told(self._data, hints.load(paths.mapping_tables() / hints.NAME, 0.0))

    @functools.cached_property
    def _weights(self) -> list[float]:
        # of each training by the other trainings' rows, without sessions of its programs
        return [self._weight(~programs.plays(self._data, one.away)) for one in self._plain]

    def _weight(self, use: Array) -> float:
        rows = [np.flatnonzero(one.test & use) for one in self._plain]
        shares = [one.outcome.blended[use[one.test]] for one in self._plain]
        joined = np.concatenate(rows)
        if not len(joined):
            return 0.0
        return hinting.chosen(np.concatenate(shares), self._hints.speaks[joined], self._data.y[joined])

    def _with_hints(self, told: Told) -> list[Judged]:
        return [
            replace(one, outcome=_over(one.outcome, told.select(one.test), weight))
            for one, weight in zip(self._plain, self._weights, strict=True)
        ]

    def _told(self, value: float) -> tuple[float, str]:
        away = sum(len(one.away) for one in self._plain)
        return value, f"{away} programs held out, in {len(self._plain)} trainings"

    def _gain(self) -> tuple[float, str]:
        sighted = uses.halves(self._data, self._plain, 0, desktop=True)
        blind = uses.halves(self._data, self._plain, 0, hidden="gnome", desktop=True)
        return sighted - blind, f"{sighted:.1f} and {blind:.1f} %, without hints"

    def _hinted(self, *, lie: bool) -> tuple[float, str]:
        if not self._hints.speaks.any():
            raise AsaError("no recording has what desktop or distribution know; record sessions with hints")
        order = np.random.default_rng(self._seed).permutation(len(self._data.y))
        found = self._with_hints(self._hints.select(order)) if lie else self._base
        change = uses.right(self._data, found) - uses.right(self._data, self._plain)
        words = f"weight {min(self._weights):.2f} to {max(self._weights):.2f}"
        return (-change if lie else change), words

    def _taught(self) -> tuple[float, str]:
        found = dict[str, float]()
        for number, one in enumerate(self._splits):
            if not uses.teachable(self._data, one.away):
                continue
            self._tell(f"taught, fold {number + 1}", 0.0)
            task = uses.task(one, f"taught, fold {number + 1}")
            model = held_out.model_of(held_out.slim(self._data), task, self._recipe, self._seed)
            shipped = factored_artefact(model.heads, training.header(self._data, model, self._seed))
            found |= uses.taught(self._data, one.away, shipped)
        if not found:
            raise AsaError(f"no held-out program has {uses.TAUGHT_TICKS} ticks alone to teach and as many to judge")
        return float(np.mean(list(found.values()))), f"{len(found)} programs"

    def _curve(self, count: int) -> tuple[float, str]:
        found = [uses.fewer(self._data, one, count) for one in self._splits]
        parts = [one for one in found if one is not None]
        if not parts:
            raise AsaError(f"some kind has fewer than {count} programs to learn from beside one to judge by")
        return self._told(uses.right(self._data, self._run(parts, f"{count} programs a kind")))

    def _no_label(self) -> tuple[float, str]:
        if self._known.all():
            raise AsaError("no recording of a situation of no kind")
        one = Task(name=OTHER, train=self._known, test=~self._known, kinds=(Kind.FACTORED,), by_program=True)
        (outcome,) = self._outcomes([one])
        names = programs.by_kind(self._data, ~self._known)[OTHER]
        if self._hints.speaks.any():
            everything = np.ones(len(self._data.y), dtype=bool)
            outcome = _over(outcome, self._hints.select(one.test), self._weight(everything))
        return uses.no_kind(self._data, one.test, outcome, self._schedulers), f"{len(names)} situations"

    def _machine(self) -> tuple[float, str]:
        data = self._everywhere()
        places = data.places()
        if len(places) < 2:
            raise AsaError(f"all recordings are of {places[0]!r}")
        drops = {}
        for number, name in enumerate(places):
            there = np.array([one.place == name for one in data.sessions])[data.session]
            inside, outside = uses.machine_out(data, there)
            if outside:
                known, new = (self._run(parts, f"place {number + 1}", data) for parts in (inside, outside))
                drops[name] = uses.right(data, known) - uses.right(data, new)
        if not drops:
            raise AsaError("no machine can be left out: the others have no two programs of a kind that it plays")
        return max(drops.values()), "; ".join(f"{name} {drop:+.1f}" for name, drop in drops.items())

    def _run(self, parts: Sequence[Split], what: str, data: Dataset | None = None) -> list[Judged]:
        tasks = [uses.task(one, f"{what}, fold {number + 1}") for number, one in enumerate(parts)]
        done = self._outcomes(tasks, data)
        return [
            Judged(away=one.away, test=task.test, outcome=outcome)
            for one, task, outcome in zip(parts, tasks, done, strict=True)
        ]

    def _outcomes(self, tasks: Sequence[Task], data: Dataset | None = None) -> list[Outcome]:
        return held_out.run(
            data or self._data,
            tasks,
            recipe=self._recipe,
            seed=self._seed,
            jobs=self._jobs,
            kept=self._kept,
            tell=self._tell,
        )


def _over(outcome: Outcome, told: Told, weight: float) -> Outcome:
    shares, known = told.over(outcome.blended, outcome.known, weight)
    return replace(outcome, of={**outcome.of, outcome.kind: shares}, known=known)
