# SPDX-License-Identifier: GPL-2.0-only
"""Batches with a long tail as an arena: the portfolio's schedulers and the shipped templates against the kernel's own.

The batch is that of `calibration.policies.longtail`: 40 jobs, one of them a hundred times as long, on four CPUs. A gain
is how much sooner it ends than under the kernel's own, in per cent, once such jobs have ended before. All candidates of
a trial take turns in one guest, with seeds of the trial's own. A guest that was stopped goes on.
"""

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asa import paths, wire
from asa.act.portfolio import Portfolio
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from calibration.composing import spec
from calibration.loop import lab
from calibration.loop.planner import Repository
from calibration.loop.story import Candidate, Learnt, Outcome, Profile
from calibration.policies import longtail, playing
from calibration.policies.played import Orders, Played, Subject, read
from scenarios import guests
from scenarios.lab import machines

USE = "batches"
"""Its name beside scenarios and figures."""

_COMPOSED = "scx_compose_"


@dataclass(slots=True, kw_only=True)
class Batches:
    """An `Arena`. Candidates have no flags of their own."""

    rounds: int
    out: Path
    places: paths.Places
    tell: playing.Tell
    tunable: bool = False
    _bench: playing.Bench | None = field(default=None, init=False)

    def observe(self) -> Profile:
        """The router knows no such class: EEVDF serves."""
        return Profile(
            machine=f"alike-{playing.CPUS}",
            cpus=playing.CPUS,
            mixed=False,
            use=USE,
            workload="",
            objective=f"how soon 40 jobs have ended, one of them {longtail.RATIO} times as long",
            router=str(EEVDF),
            reference=str(EEVDF),
        )

    def gains(self, candidates: Sequence[Candidate], seed: int) -> list[Outcome]:
        """As of `Arena`: one guest."""
        ready = guests.ready(self.places.cache, self.tell, machines.alike(playing.CPUS))
        self._bench = self._bench or playing.Bench(ready, self.out, self.places, self.tell)
        subjects, troubles = dict[str, Subject](), dict[str, str]()
        for one in candidates:
            try:
                subjects[str(one)] = _subject(self._bench, one)
            except AsaError as error:
                troubles[str(one)] = str(error)
        if not subjects:
            return [Outcome(gain_pct=None, trouble=troubles[str(one)]) for one in candidates]
        orders = Orders(
            subjects=(self._bench.own(), *subjects.values()),
            measures=(self._bench.batch(longtail.HUNDRED, longtail.RATIO, longtail.UNIT_US, longtail.KNOWN),),
            rounds=self.rounds,
            seed=seed,
        )
        folder = self.out / f"{seed}-{hashlib.sha256(wire.json_bytes(sorted(subjects))).hexdigest()[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        playing.boot(ready, folder, orders, self.tell)
        found = read(folder / playing.PLAYED)
        return [
            Outcome(gain_pct=None, trouble=troubles[str(one)])
            if str(one) in troubles
            else outcome(found, subjects[str(one)].name)
            for one in candidates
        ]


def outcome(found: Played, name: str) -> Outcome:
    """The mean over rounds that have both."""
    own, other = (found.values(one, longtail.HUNDRED, longtail.KNOWN, longtail.ENDED) for one in (str(EEVDF), name))
    gains = [100.0 * (own[number] - other[number]) / own[number] for number in own if number in other]
    if not gains:
        why = [words for words in found.troubles if f" {name}: " in words]
        return Outcome(gain_pct=None, trouble=("; ".join(why) or "no round has it and eevdf")[:500])
    mean = statistics.fmean(gains)
    return Outcome(gain_pct=mean, over_router_pct=mean)  # the router has EEVDF


def repository(known: Portfolio, learnt: Sequence[Learnt]) -> Repository:
    """What can be loaded here, without its modes, and the templates as they ship."""
    usable = lab.repository("", known, learnt).policies
    bare = {name: purpose for name, purpose in usable.items() if SchedulerName(name).bare == name != EEVDF}
    made = {f"{_COMPOSED}{name}": spec.load(name, {}).purpose for name in spec.preset_names()}
    return Repository(policies={**bare, **made}, knobs={}, learnt=learnt)


def _subject(bench: playing.Bench, candidate: Candidate) -> Subject:
    if candidate.scheduler.startswith(_COMPOSED):
        return bench.composed(candidate.scheduler.removeprefix(_COMPOSED))
    return bench.known(candidate.scheduler)
