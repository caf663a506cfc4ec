# SPDX-License-Identifier: GPL-2.0-only
"""The loop: a planner searches within the budget for what was observed; its best is confirmed on fresh seeds.

Deterministic but for what is measured, and what a language model answers. What is not surely better than the reference
is not taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from asa.core.errors import AsaError
from calibration.loop.stage import Ledger, SpentError, Stage
from calibration.loop.story import Candidate, Play, Profile
from calibration.tuning.racing import LEAST, MOST, Race, Verdict, race

FLOOR_PCT = 0.5
"""The smallest scatter of a gain that means anything, as in `calibration.tuning.tune`."""

FRESH = 1_000
"""Seeds of the confirmation begin so far from those of the search."""


class Planner(Protocol):
    """Who says what is tried next."""

    notes: list[str]

    def search(self, profile: Profile, stage: Stage) -> None:
        """Ask for trials. Raises SpentError where the budget ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What a loop came to. `chosen` None: nothing is surely better than the reference, which stays."""

    profile: Profile
    best: Candidate | None
    race: Race | None  # of `best` against the reference; None: it was not confirmed
    over_router_pct: float | None  # the mean over the race's trials
    chosen: Candidate | None
    plays: Sequence[Play]
    ledger: Ledger
    notes: Sequence[str]
    stopped: str  # why the search ended before it was content; "": it was

    @property
    def gain_pct(self) -> float:
        """Of the whole loop against the reference: 0 where it changes nothing."""
        return self.race.mean if self.chosen is not None and self.race is not None else 0.0


def run(stage: Stage, profile: Profile, planner: Planner, seed: int, tell: Callable[[str], None]) -> Story:
    """Plan and execute for what was observed. Raises AsaError where nothing can be played."""
    tell("plan")
    stopped = ""
    try:
        planner.search(profile, stage)
    except SpentError as spent:
        stopped = str(spent)
    best = stage.best()
    raced = None
    over: list[float] = []
    if best is not None:
        tell(f"confirm {best}")
        raced, over, trouble = _confirmed(stage, best, seed)
        stopped = "; ".join(filter(None, (stopped, trouble)))
    sure = raced is not None and raced.verdict is Verdict.BETTER
    return Story(
        profile=profile,
        best=best,
        race=raced,
        over_router_pct=sum(over) / len(over) if over else None,
        chosen=best if sure else None,
        plays=tuple(stage.plays),
        ledger=stage.ledger,
        notes=tuple(planner.notes),
        stopped=stopped,
    )


def _confirmed(stage: Stage, best: Candidate, seed: int) -> tuple[Race | None, list[float], str]:
    """The race on fresh seeds, the gains over the router in it, and why there is no race."""
    over: list[float] = []
    if stage.budget.kept_back < LEAST:
        return None, over, "no trials were kept back for a race"

    def difference(pair: int) -> float:
        (outcome,) = stage.confirm([best], seed + FRESH + pair, "confirmation on a fresh seed")
        if outcome.gain_pct is None:
            raise AsaError(f"{best} failed in its confirmation: {outcome.trouble}")
        if outcome.over_router_pct is not None:
            over.append(outcome.over_router_pct)
        return outcome.gain_pct

    try:
        return race(difference, FLOOR_PCT, most=min(MOST, stage.budget.kept_back)), over, ""
    except AsaError as error:
        return None, over, str(error)
