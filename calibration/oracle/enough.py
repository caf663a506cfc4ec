# SPDX-License-Identifier: GPL-2.0-only
"""How many rounds does a difference of 3 % need? By EEVDF against itself; nothing is judged with fewer. Pure.

The scatter of a scenario's score is the root mean square of EEVDF's gains over itself, of all its machines and rounds
together: their true mean is 0. The kernel's own needs three such rounds, else the scatter of all scenarios counts.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asa.core.errors import ModelError
from calibration.oracle.choices import Measure, gain
from calibration.oracle.rounds import Round
from calibration.switchback.figures import DIFFERENCE_PCT, LEAST_ROUNDS, repeats_for

_UNKNOWN = "EEVDF was not played against itself in three rounds; play `eevdf` among the schedulers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enough:
    """Rounds that are needed, by scenario and of all together (`whole`); None: not known, or beyond 10,000.

    `scatter_pct` is of all together; None: not known.
    """

    scatter_pct: float | None
    whole: int | None
    by_label: Mapping[str, int | None]

    def of(self, label: str) -> int | None:
        """Rounds of one machine that a comparison in this scenario needs."""
        return self.by_label.get(label, self.whole)

    def cell(self, label: str, count: int) -> bool:
        """Can so many rounds of this scenario be judged?"""
        needed = self.of(label)
        return needed is not None and count >= needed

    def check(self, count: int) -> None:
        """Raises ModelError where so many rounds of all scenarios together cannot be judged."""
        if self.scatter_pct is None:
            raise ModelError(_UNKNOWN)
        if self.whole is None or count < self.whole:
            raise ModelError(
                f"{count} rounds are kept, and a difference of {DIFFERENCE_PCT:g} % needs {self._needed}: EEVDF "
                f"against itself scatters by {self.scatter_pct:.2g} %; play more"
            )

    @property
    def words(self) -> str:
        """For people."""
        if self.scatter_pct is None:
            return f"What a difference needs is not known: {_UNKNOWN}."
        return (
            f"EEVDF against itself scatters by {self.scatter_pct:.2g} % of the score from round to round. "
            f"A difference of {DIFFERENCE_PCT:g} % needs {self._needed} rounds."
        )

    @property
    def _needed(self) -> str:
        return "more than 10,000" if self.whole is None else str(self.whole)


def enough(rows: Sequence[Round]) -> Enough:
    """By the rounds in which EEVDF stands between its two other blocks."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        value = gain(row, Measure.SCORE)
        if row.against_itself and value is not None:
            found[row.label].append(value)
    every = [value for values in found.values() for value in values]
    if len(every) < LEAST_ROUNDS:
        return Enough(scatter_pct=None, whole=None, by_label={})
    known = {label: repeats_for(_scatter(values)) for label, values in found.items() if len(values) >= LEAST_ROUNDS}
    return Enough(scatter_pct=_scatter(every), whole=repeats_for(_scatter(every)), by_label=known)


def rounds_of(rows: Sequence[Round]) -> int:
    """Rounds in which schedulers stand beside the kernel's own, of all machines and scenarios."""
    return len({(row.machine, row.label, row.seed, row.round) for row in rows if not row.against_itself})


def _scatter(values: Sequence[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))
