# SPDX-License-Identifier: GPL-2.0-only
"""What the stages of a calibration have in common on the command line: where, with whom, from which table to which."""

import argparse
import datetime
import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.act.portfolio import Portfolio
    from asa.decide.table import Machine, MappingTable, Measured, TableFile
    from asa.paths import Places
    from calibration.scenarios.scores import Played
    from calibration.stages.play import Player
    from scenarios.catalogue import Scenario
    from scenarios.lab import machines
    from scenarios.runner_plan import Asked, Plan, Result

Tell = Callable[[str, float], None]
_TABLE = "table.yaml"
_LEAST_SCHEDULERS = 2  # to compare
_COSTS = "overhead"  # the stage that compares nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A stage that is ready to be played. `old` is what lay at `out` then, `prior` what is believed."""

    arguments: argparse.Namespace
    scenarios: "tuple[Scenario, ...]"
    schedulers: tuple[str, ...]  # EEVDF first
    portfolio: "Portfolio"
    player: "Player"
    folder: Path
    out: Path
    prior: "MappingTable"
    old: bytes | None
    cpus: int

    @property
    def before(self) -> "TableFile | None":
        """The table that is to be replaced, as it is now: another stage may have written it meanwhile."""
        from asa.decide import table

        return table.read(self.out) if self.out.exists() else None

    def asked(self, *, repeats: int, columns: tuple[str, ...] = ()) -> "Asked":
        """For a plan; `columns` instead of the schedulers."""
        return _asked(self.arguments, self.scenarios, columns or self.schedulers, repeats, self.cpus)

    def played(self, run: str, results: "Sequence[Result]") -> "list[Played]":
        """The trials that did not fail."""
        from calibration.scenarios.scores import played

        return played(run, results)

    def keep(self, plan: "Plan", results: "Sequence[Result]") -> None:
        """All trials as tables, into the campaign's folder."""
        from calibration.scenarios import tables as bench_tables

        bench_tables.write(self.folder, plan, results)

    def machine(self) -> "Machine":
        """What was measured, by its own facts."""
        from asa.decide import fingerprint
        from calibration.stages.play import read_facts

        facts = read_facts(self.folder)
        named = f" {self.arguments.machine}" if self.arguments.machine else ""
        place = f"lab guest{named}, " if self.arguments.in_lab else ""
        return fingerprint.machine(f"{place}{facts.cpu_model or 'unknown CPU'}, {facts.cpus or self.cpus} CPUs", facts)

    def measured(self, results: "Sequence[Result]") -> "Measured":
        """When, how and of what."""
        from asa.core.decision import SchedulerName
        from asa.decide.table import Measured, Present

        present, under = Present.of(self.portfolio), self.asked(repeats=0).under
        names = dict.fromkeys(SchedulerName(name).bare for name in self.schedulers)
        stamps = {name: present.stamp(name) for name in names}
        return Measured(
            date=_played_on(results),
            command=shlex.join(("asa", *sys.argv[1:])),
            tier="lab" if self.arguments.in_lab else "real",
            clock=under.clock if self.arguments.in_lab else None,
            tick_hz=under.tick_hz if self.arguments.in_lab else None,
            seed=self.arguments.seed,
            kernel=next((one.kernel for one in results if one.kernel), os.uname().release),
            schedulers={name: stamp for name, stamp in stamps.items() if stamp is not None},
        )

    def unchanged(self) -> str:
        """What became of the table."""
        now = self.out.read_bytes() if self.out.exists() else None
        if now != self.old:
            return f"{self.out} has been written"
        return f"{self.out} was not written" if now is None else f"{self.out} is as it was"

    def finish(
        self,
        file: "TableFile",
        results: "Sequence[Result]",
        more: dict[str, object],
        counted: "TableFile | None" = None,
    ) -> int:
        """Write the table, and say what came of it. Raises AsaError; then the old one is as it was.

        An old one that has what the new one has not, and that was not `counted` in it, stays beside it.
        """
        from asa import wire
        from asa.cli.lab import calibrate
        from asa.decide import table
        from calibration.stages import table as stages_table
        from calibration.stages.play import RECORDINGS
        from scenarios.runner_plan import Outcome

        kept = None
        if stages_table.loses(self.before, file, counted):
            kept = table.write_keeping(self.out, file)
        else:
            table.write(self.out, file)
        failed = [one for one in results if one.outcome is Outcome.FAILED]
        took_s = round(sum(one.took_s * one.attempts for one in results), 1)
        if self.arguments.json:
            facts = {"table": str(self.out), "folder": str(self.folder), "trials": len(results), "failed": len(failed)}
            facts["kept"] = None if kept is None else str(kept)
            body = {**facts, "took_s": took_s, **more, "classes": file.classes, "costs": file.costs}
            print(wire.json_text(body))
            return 0
        calibrate.show(file)
        for one in failed:
            print(f"failed  {one.trial.id}: {one.reason}")
        for name, why in _lines(more):
            print(f"{name}  {why}")
        spent = f"{took_s / 60.0:.1f} minutes of machine time"
        print(f"{len(results)} trials, {len(failed)} failed, {spent}; wrote {self.out}")
        recordings = self.folder / RECORDINGS
        if recordings.is_dir():
            print(
                f"recordings of the trials: `asa lab train --recordings {recordings} --out model.npz` learns from them"
            )
        if kept is not None:
            print(f"the table before this one, not all of which is in it, is kept as {kept}")
        return 0


def prepare(arguments: argparse.Namespace, tell: Tell) -> Setup:
    """Check all that can be checked before anything is played. Raises AsaError."""
    from asa import config, paths
    from asa.act.portfolio import Portfolio
    from asa.core.decision import SchedulerName
    from asa.decide import table
    from calibration.controllers import columns as controllers
    from calibration.stages.guest import Options
    from calibration.stages.play import Here, InLab

    places = paths.default()
    _check_options(arguments)
    guest = _guest(arguments) if arguments.in_lab else None
    cpus = len(os.sched_getaffinity(0)) if guest is None else guest.cpus
    settings = config.load(places.config)
    portfolio = Portfolio.of_host(settings.switch, places.schedulers)
    scenarios = _scenarios(arguments.scenario)
    folder = arguments.folder or places.state / "calibration" / _name(arguments, scenarios, cpus, portfolio)
    out = arguments.out or (folder / _TABLE if arguments.in_lab else table.own(places))
    _writable(out)
    prior = _prior(arguments, places, portfolio, folder, out, guest)
    schedulers = _schedulers(arguments.scheduler, portfolio, prior, tell)
    if getattr(arguments, "stage", "") != _COSTS:
        _check_rivals(arguments.scheduler, schedulers, places)
    options = Options(given=controllers.Given(), record=arguments.record)
    player: Player = (
        InLab(
            places=places,
            campaign=folder,
            options=options,
            jobs=arguments.jobs or 1,
            machine=guest,
            tell=tell,
        )
        if guest is not None
        else Here(places=places, campaign=folder, options=options, again=arguments.again, tell=tell)
    )
    player.check(SchedulerName(name) for name in schedulers)
    if settings.table is not None and not arguments.in_lab and arguments.out is None:
        tell(f"the settings name the table {settings.table}: {out} serves once they do not", 0.0)
    old = out.read_bytes() if out.exists() else None
    if old is not None:
        table.read(out)  # what is wrong with it is said now, not after the night
    return Setup(
        arguments=arguments,
        scenarios=scenarios,
        schedulers=schedulers,
        portfolio=portfolio,
        player=player,
        folder=folder,
        out=out,
        prior=prior,
        old=old,
        cpus=cpus,
    )


def _lab_cpus() -> int:
    from asa.cli.lab.calibrate import LAB_CPUS

    return LAB_CPUS


def _check_options(arguments: argparse.Namespace) -> None:
    from asa.core.errors import AsaError
    from scenarios.lab.guest import CPUS

    if not arguments.in_lab:
        for option in ("jobs", "cpus", "machine"):
            if getattr(arguments, option) is not None:
                raise AsaError(f"--{option} is of guests, which only --in-lab has")
    elif arguments.cpus is not None and arguments.machine is not None:
        raise AsaError("--cpus: a machine has its own; leave out --cpus or --machine")
    elif arguments.cpus is not None and arguments.cpus not in CPUS:
        raise AsaError(f"--cpus: a guest has {CPUS[0]} to {CPUS[-1]} CPUs, not {arguments.cpus}")


def _guest(arguments: argparse.Namespace) -> "machines.Machine":
    """What was asked for. Raises InputError."""
    from scenarios.lab.machines import alike, load

    return alike(arguments.cpus or _lab_cpus()) if arguments.machine is None else load(arguments.machine)


def _played_on(results: "Sequence[Result]") -> datetime.date:
    """The day of the last trial: a campaign that goes on to its end may be of days before."""
    last_ns = max((one.started_ns for one in results), default=0)
    when = (
        datetime.datetime.fromtimestamp(last_ns / 1e9, datetime.UTC) if last_ns else datetime.datetime.now(datetime.UTC)
    )
    return when.date()


def _writable(out: Path) -> None:
    """Raise AsaError when the table could not be written at the end: said before the night, not after it."""
    from asa.cli.lab.bench import output as bench_output
    from asa.core.errors import AsaError

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AsaError(f"{out}: {error.strerror}; name another place by --out") from error
    bench_output.writable(out)


def _prior(
    arguments: argparse.Namespace,
    places: "Places",
    portfolio: "Portfolio",
    folder: Path,
    out: Path,
    guest: "machines.Machine | None",
) -> "MappingTable":
    """What is believed before. In the lab: the campaign's own table, else the shipped one of such guests.

    Before the first trial a guest is taken to be what was asked for, with the lab's kernel.
    """
    import msgspec

    from asa import paths
    from asa.decide import table
    from calibration.stages.play import read_facts
    from scenarios.lab import kernel

    known = portfolio.modes()
    present = table.Present.of(portfolio)
    if guest is None:
        return table.for_this_machine(known, places=places, present=present, first=arguments.prior)
    here = read_facts(folder)
    if here.cpu_model is None:
        lab = kernel.found(places.cache, guest.tick_hz)
        here = msgspec.structs.replace(guest.facts, kernel=None if lab is None else lab.version)
    there = table.Present(kernel=here.kernel, schedulers=present.schedulers) if here.kernel else None
    shipped = paths.mapping_tables()
    mine = [path for path in (arguments.prior or out,) if path.is_file() or path == arguments.prior]
    found = dict.fromkeys((*mine, table.choose(shipped, here), shipped / "default.yaml"))
    return table.chain(tuple(found), known, present=there, here=here)


def _schedulers(words: str, portfolio: "Portfolio", prior: "MappingTable", tell: Tell) -> tuple[str, ...]:
    """By what a person writes; EEVDF first, which all are compared with. Raises InputError for a name it has not."""
    from asa.core.decision import EEVDF
    from calibration.stages.play import usable

    if words in ("all", "default"):
        found, lacking = usable(portfolio, modes=words == "all")
        for name, why in lacking.items():
            tell(f"without {name}: {why}", 0.0)
    elif words == "ranked":
        ranked = {entry.name for ranking in prior.rankings.values() for entry in ranking}
        found = tuple(name for name in usable(portfolio, modes=True)[0] if name in ranked)
    else:
        return tuple(dict.fromkeys((str(EEVDF), *(word.strip() for word in words.split(",")))))
    return tuple(dict.fromkeys((str(EEVDF), *map(str, found))))


def _check_rivals(words: str, schedulers: Sequence[str], places: "Places") -> None:
    from asa.core.errors import AsaError

    if len(schedulers) < _LEAST_SCHEDULERS:
        all_ = words in ("all", "default")
        hint = f"`asa schedulers install` puts schedulers into {places.schedulers}" if all_ else "name another one"
        raise AsaError(f"--scheduler {words}: there is nothing to compare {schedulers[0]} with; {hint}")


def _scenarios(words: str) -> "tuple[Scenario, ...]":
    """Those that a table can rank: something is played, and it stays what it is. Raises AsaError."""
    from asa.core.errors import AsaError
    from scenarios import catalogue

    found = tuple(one for one in catalogue.find(words) if one.label != catalogue.IDLE)
    changing = [one.label for one in found if one.then is not None]
    if changing:
        raise AsaError(f"--scenario {changing[0]}: changes while it is played; a table ranks one use at a time")
    return found


def _asked(
    arguments: argparse.Namespace, scenarios: "Sequence[Scenario]", columns: Sequence[str], repeats: int, cpus: int
) -> "Asked":
    from scenarios.application import Tier
    from scenarios.guests import conditions
    from scenarios.runner_plan import Asked

    under = conditions(_guest(arguments)) if arguments.in_lab else None
    return Asked(
        tier=Tier.LAB if arguments.in_lab else Tier.REAL,
        scenarios=tuple(one.label for one in scenarios),
        schedulers=tuple(columns),
        repeats=repeats,
        seed=arguments.seed,
        seconds=arguments.seconds,
        warm_up_s=arguments.warm_up,
        cpus=cpus,
        clock="" if under is None else under.clock,
        tick_hz=None if under is None else under.tick_hz,
        machine="" if under is None else under.machine,
    )


def _name(arguments: argparse.Namespace, scenarios: "Sequence[Scenario]", cpus: int, portfolio: "Portfolio") -> str:
    """Of the default folder: the same for the same request, kernel and schedulers."""
    from asa import wire

    asked = _asked(arguments, scenarios, arguments.scheduler.split(","), getattr(arguments, "repeat", 0), cpus)
    more = [str(getattr(arguments, name, "")) for name in ("trials", "minutes", "without_agent", "record", "prior")]
    more += [arguments.machine] if arguments.machine else []
    here = [os.uname().release, sorted((name, one.sha256) for name, one in portfolio.records().items())]
    stage = getattr(arguments, "stage", "adapt")
    return f"{stage}-{hashlib.sha256(wire.json_bytes((asked, more, here))).hexdigest()[:8]}"


def _lines(more: dict[str, object]) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = []
    for name, value in more.items():
        if isinstance(value, dict):
            lines += [(name, f"{key}: {one}") for key, one in value.items()]
        elif isinstance(value, list):
            lines += [(name, one) for one in value]
        else:
            lines.append((name, value))
    return lines
