# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory as an arena: all candidates of a trial, the kernel's own and the router's choice play in one guest.

A use is a scenario of the benchmark, judged by its score (`calibration.switchback`), or one figure of the scale
benchmark, which takes seconds. Flags come from the manifest's knobs alone; no file of the loop says a program's words.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from asa import paths, wire
from asa.act.policies import Own, Policy
from asa.act.portfolio import Available, Portfolio
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import table
from calibration.loop.planner import Repository
from calibration.loop.story import Candidate, Learnt, Outcome, Profile
from calibration.scale import benchmark
from calibration.scale.samples import METRICS, Metric
from calibration.switchback import play, samples
from calibration.tuning.lab import bench_gain, gain
from calibration.tuning.trials import Gain
from scenarios.catalogue import Scenario
from scenarios.lab.machines import Machine

SERVES: Mapping[str, str] = {"throughput": "kernel", "launch": "kernel"}
"""Class that the router takes the load of a figure for; those of other figures it does not know."""

_PLAYS, _SECONDS = 2, 0.5  # as `calibration.tuning.lab`


@dataclass(slots=True, kw_only=True)
class InLab:
    """An `Arena`. What went wrong with guests is in `troubles`."""

    machine: Machine
    use: Scenario | Metric
    rounds: int
    out: Path
    places: paths.Places
    tell: play.Tell
    tunable: bool = True
    troubles: list[str] = field(default_factory=list)

    def observe(self) -> Profile:
        """By the machine's description; who serves without the loop is by the lab's mapping table."""
        word = workload(self.use)
        return Profile(
            machine=self.machine.name,
            cpus=self.machine.cpus,
            mixed=len(set(self.machine.speeds)) > 1,
            use=name(self.use),
            workload=word,
            objective=self.use.what if isinstance(self.use, Metric) else f"the score of {self.use.label}",
            router=router(word, portfolio(self.places)),
            reference=str(EEVDF),
        )

    def gains(self, candidates: Sequence[Candidate], seed: int) -> list[Outcome]:
        """As of `Arena`: one guest."""
        base = SchedulerName(router(workload(self.use), portfolio(self.places)))
        made = {str(one): _name(one, number) for number, one in enumerate(candidates, 1)}
        policies = tuple(_policy(one, made[str(one)]) for one in candidates if one.flags)
        names = list(dict.fromkeys((EEVDF, base, *made.values())))
        before = len(self.troubles)
        play = self._scored if isinstance(self.use, Scenario) else self._figured
        found = play(names, policies, base, seed)
        outcomes = []
        for one in candidates:
            mine = made[str(one)]
            told = found.get(mine)
            why = [words for words in self.troubles[before:] if mine in words] or self.troubles[before:]
            outcomes.append(
                Outcome(gain_pct=None, trouble=("; ".join(why) or "its trial has no figure")[:500])
                if told is None
                else Outcome(gain_pct=told.over_eevdf_pct, over_router_pct=told.pct)
            )
        return outcomes

    def _figured(
        self, names: Sequence[SchedulerName], policies: tuple[Policy, ...], base: SchedulerName, seed: int
    ) -> dict[SchedulerName, Gain | None]:
        assert isinstance(self.use, Metric)  # noqa: S101  # its caller has looked
        options = benchmark.Options(
            machines=(self.machine,),
            schedulers=tuple(Random(f"{seed}").sample(names, len(names))),  # noqa: S311  # no secret
            repeats=self.rounds,
            plays=_PLAYS,
            seconds=_SECONDS,
            modes=(self.use.mode,),
            policies=policies,
            folder=self._folder(names, policies, seed),
        )
        result = benchmark.measure(options, self.places, self.tell)
        (found,) = result.found
        self.troubles += [*result.troubles, *found.troubles]
        return {one: bench_gain(found, self.use, base, one) for one in names}

    def _scored(
        self, names: Sequence[SchedulerName], policies: tuple[Policy, ...], base: SchedulerName, seed: int
    ) -> dict[SchedulerName, Gain | None]:
        assert isinstance(self.use, Scenario)  # noqa: S101  # its caller has looked
        options = play.Options(
            machines=(self.machine,),
            scenarios=(self.use,),
            schedulers=tuple(one for one in names if one != EEVDF),
            policies=policies,
            rounds=self.rounds,
            seed=seed,
        )
        out = self._folder(names, policies, seed)
        out.mkdir(parents=True, exist_ok=True)
        self.troubles += play.play(options, out, self.places, self.tell)
        runs = samples.files(out)
        if not runs:
            return {}
        self.troubles += [f"{block.scheduler}: {block.trouble}" for block in runs[0].blocks if block.trouble]
        return {one: gain(runs[0], base, one) for one in names}

    def _folder(self, names: Sequence[SchedulerName], policies: tuple[Policy, ...], seed: int) -> Path:
        digest = hashlib.sha256(wire.json_bytes((sorted(names), policies))).hexdigest()[:12]
        return self.out / f"{seed}-{digest}"


def uses() -> dict[str, Metric]:
    """Figures of the scale benchmark that a loop may make better, by name."""
    return {one.name: one for one in METRICS}


def name(use: Scenario | Metric) -> str:
    """For people and files."""
    return use.label if isinstance(use, Scenario) else use.name


def workload(use: Scenario | Metric) -> str:
    """The class that the router would take it for; "": none that it knows."""
    return use.label if isinstance(use, Scenario) else SERVES.get(use.mode, "")


def portfolio(places: paths.Places) -> Portfolio:
    """Of this host, which the lab's guests have. Raises InputError."""
    return Portfolio.load(paths.manifest(), places.schedulers)


def router(word: str, known: Portfolio) -> str:
    """Whom the mapping table of the lab has for a class, without any trial; EEVDF for what nobody knows."""
    if not word:
        return str(EEVDF)
    chosen = _table(known).wanted(Workload(word), ())
    return str(chosen or EEVDF)


def repository(word: str, known: Portfolio, learnt: Sequence[Learnt]) -> Repository:
    """All policies that can be loaded here, what the table offers for a class, and what was learnt."""
    policies = {}
    for bare, modes in known.modes().items():
        if isinstance(known.look(SchedulerName(bare)), Available):
            for mode in modes:
                policies[str(SchedulerName.of(bare, mode))] = known.entry(SchedulerName(bare)).purpose
    offers = [str(one.name) for one in _table(known).offers(Workload(word))] if word else []
    return Repository(
        policies=dict(
            sorted(policies.items(), key=lambda one: one[0] != SchedulerName(one[0]).bare)
        ),  # modes come last
        knobs={SchedulerName(bare): known.entry(SchedulerName(bare)).knobs for bare in known.modes()},
        offers=[one for one in offers if one in policies],
        learnt=learnt,
    )


def _table(known: Portfolio) -> table.MappingTable:
    folder, modes = paths.mapping_tables(), known.modes()
    return table.load(folder / "lab.yaml", modes, rest=table.load(folder / "default.yaml", modes))


def _name(candidate: Candidate, number: int) -> SchedulerName:
    if candidate.flags:
        return SchedulerName.of(candidate.bare, f"candidate_{number}")
    return SchedulerName(candidate.scheduler)


def _policy(candidate: Candidate, made: SchedulerName) -> Policy:
    return Policy(
        id=made, version="-", purpose="a candidate of the loop", flags=dict(candidate.flags), provenance=Own()
    )
