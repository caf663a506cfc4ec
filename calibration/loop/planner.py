# SPDX-License-Identifier: GPL-2.0-only
"""The planner without any model: nearest profiles, halving, screening of flags, and tuning, within a budget.

1. Candidates are ordered: what helped in the nearest profiles that were learnt, then the mapping table's offers, then
   the repository. What was surely worse or failed in the same profile is left out.
2. One trial each, the better half once more with another seed, and so on (successive halving: Karnin, Koren and Somekh,
   ICML 2013).
3. Where trials are left, flags of the winner: a screening of up to eight, else golden section of the one that leads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from asa.act.knobs import Knobs, Value
from asa.core.decision import SchedulerName
from calibration.loop.stage import Stage
from calibration.loop.story import Candidate, Learnt, Profile
from calibration.tuning import golden, screening, space

NEAR = 2.0
"""Up to this distance of profiles (`Profile.far`) what was learnt speaks for a candidate: an octave of CPUs, or two."""

SAME = 0.5
"""Up to this one what was learnt speaks against it: who was bad on a machine half as large is tried again."""

_SCREENED = 4  # flags: fewer are not worth twelve trials
_WORST_PCT = -100.0  # in place of the gain of a trial that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What may be tried: policies by id with their purposes, the knobs of schedulers, and what is known of them."""

    policies: Mapping[str, str]
    knobs: Mapping[SchedulerName, Knobs]
    offers: Sequence[str] = ()  # of the mapping table for the use, best first
    learnt: Sequence[Learnt] = ()


@dataclass(slots=True)
class Nearest:
    """The deterministic planner. `notes` says what it did, a line a step."""

    repository: Repository
    seed: int
    notes: list[str] = field(default_factory=list)

    def search(self, profile: Profile, stage: Stage) -> None:
        """Ask for trials until it is content. Raises SpentError where the budget ends before."""
        self.halve(self.ordered(profile, stage), stage)
        best = stage.best()
        if best is not None and stage.arena.tunable and not best.flags:
            self._tune(best, stage)

    def ordered(self, profile: Profile, stage: Stage) -> list[Candidate]:
        """What is tried first, as many as the budget has for a first look and a second."""
        out = {str(one.candidate) for one in self.repository.learnt if _speaks_against(one, profile)}
        near = [
            one
            for one in self.repository.learnt
            if one.verdict == "better" and one.profile.far(profile) <= NEAR and _there(one.candidate, self.repository)
        ]
        near.sort(key=lambda one: (one.profile.far(profile), -(one.gain_pct or 0.0)))
        plain = [Candidate(scheduler=name) for name in (*self.repository.offers, *self.repository.policies)]
        found = {str(one): one for one in (*(one.candidate for one in near), *plain)}
        known = [one for name, one in found.items() if name not in out and one.scheduler != profile.reference]
        usable = known if stage.arena.tunable else [one for one in known if not one.flags]
        self.notes.append(
            f"{len(near)} helped in near profiles, {len(out)} left out that were worse or failed in this one, "
            f"{len(usable)} candidates"
        )
        return usable

    def halve(self, candidates: Sequence[Candidate], stage: Stage) -> None:
        """The first so many that leave trials for the second look, then the better half, down to one."""
        playing = list(candidates)[: max(1, (2 * stage.left) // 3)]
        seed = self.seed
        while playing and stage.left >= len(playing):
            outcomes = stage.play(playing, seed, f"halving, {len(playing)} candidates")
            self.notes.append(f"seed {seed}: {len(playing)} candidates played")
            if len(playing) == 1:
                return
            order = sorted(
                zip(playing, outcomes, strict=True),
                key=lambda one: -(_WORST_PCT if one[1].gain_pct is None else one[1].gain_pct),
            )
            alive = [one for one, outcome in order if outcome.gain_pct is not None]
            playing, seed = alive[: len(playing) // 2], seed + 1

    def _tune(self, best: Candidate, stage: Stage) -> None:
        knobs = self.repository.knobs.get(best.bare, Knobs())
        if best.scheduler != best.bare:
            self.notes.append(f"{best} is its author's mode, whose flags stay as they are")
        elif len(knobs.flags()) >= _SCREENED and stage.left >= screening.RUNS:
            self._screen(best, knobs, stage)
        elif best.bare in space.LEADS and stage.left >= 2:  # golden section's least
            self._golden(best, knobs, stage)
        else:
            self.notes.append(f"no trials are left to tune {best}")

    def _screen(self, best: Candidate, knobs: Knobs, stage: Stage) -> None:
        names = knobs.flags()[: screening.MOST]
        levels = {name: space.levels(knobs, name) for name in names}
        rows = []
        for row in screening.design():
            chosen = dict[str, Value]()
            for name, sign in zip(names, row, strict=False):
                chosen |= levels[name][sign > 0]
            rows.append(Candidate(scheduler=best.scheduler, flags=space.bounded(knobs, chosen)))
        outcomes = stage.play(rows, self.seed, f"screening of {best.scheduler}")
        gains = [one.gain_pct for one in outcomes if one.gain_pct is not None]
        if len(gains) < len(rows):
            self.notes.append(f"{len(rows) - len(gains)} of {len(rows)} trials failed: the screening says nothing")
            return
        effects = [one for one in screening.effects(names, gains) if one.matters]
        self.notes.append(f"screening of {len(names)} flags: {', '.join(one.flag for one in effects) or 'none'} matter")
        chosen = dict[str, Value]()
        for one in effects:
            chosen |= levels[one.flag][one.effect > 0]
        if chosen and stage.left:
            made = Candidate(scheduler=best.scheduler, flags=space.bounded(knobs, chosen))
            by = "what the screening chose, and the same without flags"
            stage.play([made, best][: stage.left], self.seed + 1, by)

    def _golden(self, best: Candidate, knobs: Knobs, stage: Stage) -> None:
        def costs(shares: Sequence[float]) -> list[float]:
            made = [Candidate(scheduler=best.scheduler, flags=space.derived(best.bare, knobs, one)) for one in shares]
            outcomes = stage.play(made, self.seed, f"golden section of {best.scheduler}")
            return [-(_WORST_PCT if one.gain_pct is None else one.gain_pct) for one in outcomes]

        again = 2  # the winner and who has no flags, with another seed
        found = golden.search(costs, max(2, stage.left - again))
        made = Candidate(scheduler=best.scheduler, flags=space.derived(best.bare, knobs, found.best))
        self.notes.append(f"golden section: {made}")
        if stage.left >= again:
            stage.play([made, best], self.seed + 1, "golden section's best, and the same without flags")


def _speaks_against(one: Learnt, profile: Profile) -> bool:
    return one.verdict in ("worse", "failed") and one.profile.far(profile) <= SAME


def _there(candidate: Candidate, repository: Repository) -> bool:
    if candidate.scheduler not in repository.policies:
        return False
    return repository.knobs.get(candidate.bare, Knobs()).wrong(candidate.flags) is None if candidate.flags else True
