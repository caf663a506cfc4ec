# SPDX-License-Identifier: GPL-2.0-only
"""Plays the trials of a calibration: on this machine, or in guests of the lab that stand for one.

Both keep results in a run's folder (`scenarios.runner_folder`), what the machine is in `machine.json` of the campaign's
and recordings in its `recordings`. Neither decides what is played.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from asa import config, host, paths, wire
from asa.act.forcing import Forcing, check_startable, version_of
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.core.decision import DEFAULT_MODE, EEVDF, SchedulerName
from asa.core.errors import AsaError, SchedulerError
from asa.decide import fingerprint
from asa.host import Facts
from calibration.controllers import columns as controllers
from calibration.stages.agent import Stages
from calibration.stages.columns import LIVE, SHADOW, plain
from calibration.stages.guest import FACTS, Options
from calibration.stages.record import SUFFIX, Recorder
from scenarios import catalogue, runner, runner_folder
from scenarios.application import Tier
from scenarios.guests import Boot, booter, power, ready
from scenarios.lab.machines import Machine
from scenarios.runner_folder import Folder
from scenarios.runner_guests import Guests
from scenarios.runner_plan import Outcome, Result, Trial
from scenarios.session import default_folder, place_for, prepare

MACHINE, RECORDINGS = "machine.json", "recordings"
_GUESTS, _OPTIONS = "guests", "options"

Tell = Callable[[str, float], None]
"""Takes the step under way, and the share done of the present trials."""


class Player(Protocol):
    """Where trials are played."""

    tier: Tier
    batch: int
    """How many trials are worth a round: a guest takes long to boot."""

    def check(self, names: Iterable[str]) -> None:
        """Raises AsaError for the first column that could not be at work here."""
        ...

    def play(self, folder: Folder, trials: Sequence[Trial]) -> None:
        """All of them; each result is kept in `folder` as it comes. Raises AsaError."""
        ...


def usable(portfolio: Portfolio, *, modes: bool) -> tuple[tuple[SchedulerName, ...], dict[SchedulerName, str]]:
    """All that could be started, EEVDF first, each mode a policy of its own; and why the others could not.

    Without `modes` each in its default one.
    """
    found: list[SchedulerName] = []
    lacking: dict[SchedulerName, str] = {}
    for name in portfolio.names():
        for mode in portfolio.modes()[name] if modes else (DEFAULT_MODE,):
            full = SchedulerName.of(name, mode)
            try:
                check_startable((full,), portfolio)
            except SchedulerError as error:
                lacking[full] = error.reason
            else:
                found.append(full)
    found.sort(key=lambda name: name != EEVDF)
    return tuple(found), lacking


def bare(names: Iterable[str]) -> list[SchedulerName]:
    """The schedulers that columns need; those of an agent's own table are not known here."""
    return list(controllers.schedulers(name.removeprefix(LIVE).removeprefix(SHADOW) for name in names))


def read_facts(campaign: Path) -> Facts:
    """What the machine of a campaign is; nothing known before its first trial. Raises AsaError."""
    try:
        return wire.from_json((campaign / MACHINE).read_bytes(), Facts)
    except FileNotFoundError:
        return Facts()
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{campaign / MACHINE}: cannot be read: {error}; remove it") from error


@dataclass(slots=True, kw_only=True)
class Here:
    """This machine."""

    places: paths.Places
    campaign: Path
    options: Options
    again: int
    tell: Tell
    tier: Tier = Tier.REAL
    batch: int = 1
    checked: bool = False  # what the campaign has kept is of this kernel and these schedulers

    def check(self, names: Iterable[str]) -> None:
        """Also that an agent could be started: none runs, and a kernel with sched_ext."""
        wanted = bare(names)
        if sched_ext_state(self.places.sys) is None and wanted != [EEVDF]:
            raise AsaError("this kernel has no sched_ext, only eevdf can be in force; --in-lab has guests stand for it")
        with Forcing(self.places) as forcing:
            for name in wanted:
                forcing.check_usable(name)

    def play(self, folder: Folder, trials: Sequence[Trial]) -> None:
        """One after another."""
        asked = folder.plan.asked
        owners = config.load(self.places.config).switch.trusted_owners
        if not self.checked:
            portfolio = Portfolio.load(paths.manifest(), self.places.schedulers, owners=owners)
            _of_this_time(self.campaign, portfolio, os.uname().release)
            self.checked = True
        runner_folder.write(self.campaign / MACHINE, host.facts(self.places.proc, self.places.sys))
        with ExitStack() as stack:
            record = None
            if self.options.record:
                recorder = Recorder(self.places, self.campaign / RECORDINGS, self.tier, asked.cpus)
                stack.callback(recorder.close)
                record = recorder.begin
            scratch = default_folder(self.places.cache, lab=False)
            stages = Stages(self.places, self.options.given, scratch, owners, record=record)
            stage = runner.Stage(
                applications=catalogue.applications(self.tier),
                tier=self.tier,
                cache=self.places.cache,
                scratch=scratch,
                forcing=stages,
                seconds=asked.seconds,
                warm_up_s=asked.warm_up_s,
                again=self.again,
                told=stages.told,
            )
            steps = _Steps(self.tell, len(trials))
            runner.prepare(_applications(trials), stage, lambda line: self.tell(line, 0.0))

            def begin(trial: Trial, attempt: int) -> None:
                stages.attend(trial)
                steps.begin(trial, attempt)

            runner.play_all(trials, stage, steps.keeping(folder), begin)


@dataclass(slots=True, kw_only=True)
class InLab:
    """Guests of the lab. `machine`: what each is. `boot` is for tests: instead of the real ones."""

    places: paths.Places
    campaign: Path
    options: Options
    jobs: int
    machine: Machine
    tell: Tell
    tier: Tier = Tier.LAB
    batch: int = 16
    boot: Boot | None = None
    checked: bool = False  # what the campaign has kept is of these schedulers

    def check(self, names: Iterable[str]) -> None:
        """The schedulers are in this machine's cache, which guests see."""
        check_startable(bare(names), Portfolio.load(paths.manifest(), self.places.schedulers))

    def play(self, folder: Folder, trials: Sequence[Trial]) -> None:
        """So many guests at once."""
        asked = folder.plan.asked
        if not self.checked:
            _of_this_time(self.campaign, Portfolio.load(paths.manifest(), self.places.schedulers), "")
            self.checked = True
        for name in _applications(trials):  # here: a guest sees the cache, but cannot write to it
            application = catalogue.applications(self.tier)[name]
            place = place_for(application, cache=self.places.cache, tier=self.tier)
            prepare(application, place, lambda line: self.tell(line, 0.0))
        boot = self.boot or self._booter()
        shared = self.campaign / _GUESTS
        shared.mkdir(parents=True, exist_ok=True)
        steps = _Steps(self.tell, len(trials))
        kept = steps.keeping(folder)

        def keep(result: Result) -> None:
            self._take(shared, result)
            kept(result)

        with Guests(
            boot=boot,
            out=shared,
            seconds=asked.seconds,
            warm_up_s=asked.warm_up_s,
            power=power(self.machine),
            keep=keep,
            begin=lambda trial: steps.begin(trial, 1),
            command=self._command,
        ) as guests:
            guests.play(trials, self.jobs)

    def _command(self, orders: Path) -> tuple[str, ...]:
        options = orders.with_name(_OPTIONS)
        runner_folder.write(options, self.options)
        # -P: root imports nothing from the current folder
        return (sys.executable, "-P", "-m", "calibration.stages.guest", str(orders), str(options))

    def _booter(self) -> Boot:
        self.tell("the lab is made ready", 0.0)
        lab = ready(self.places.cache, lambda line: self.tell(line, 0.0), self.machine)
        return booter(lab, self.machine)

    def _take(self, shared: Path, result: Result) -> None:
        # what a guest has left beside its results
        recordings = self.campaign / RECORDINGS
        try:
            for found in shared.glob(f"*/{FACTS}"):
                found.replace(self.campaign / MACHINE)
            for found in shared.glob(f"*/{result.trial.id}{SUFFIX}"):
                recordings.mkdir(exist_ok=True)
                found.replace(recordings / found.name)
        except OSError as error:
            raise AsaError(f"{self.campaign}: cannot be written: {error.strerror}; the same command goes on") from error


class _Steps:
    """Progress over some trials."""

    def __init__(self, tell: Tell, count: int) -> None:
        self._tell = tell
        self._count = count
        self._done = 0

    def begin(self, trial: Trial, attempt: int) -> None:
        again = f", attempt {attempt}" if attempt > 1 else ""
        number = f"{self._done + 1}/{self._count}"
        self._tell(f"{number} {trial.scenario} {trial.label} {trial.scheduler}{again}", self._done / self._count)

    def keeping(self, folder: Folder) -> Callable[[Result], None]:
        def keep(result: Result) -> None:
            folder.keep(result)
            self._done += 1
            words = f"{result.trial.id} {result.outcome}"
            if result.outcome is not Outcome.DONE:
                who = f"{result.application}: " if result.application else ""
                words = f"{words}: {who}{result.reason}"
            self._tell(words, self._done / self._count)

        return keep


def of_one_time(results: Iterable[Result]) -> None:
    """Raise AsaError where trials are of two series of kernels, or of two versions of a scheduler."""
    known: dict[str, str] = {}
    for one in results:
        if one.outcome is not Outcome.FAILED:
            name = _program(one.trial)
            told = {"kernel": fingerprint.series(one.kernel) if one.kernel else "", name: one.scheduler_version}
            if name == EEVDF:
                del told[name]  # the kernel's
            for what, version in told.items():
                if version and known.setdefault(what, version) != version:
                    reason = f"trials of {what} {known[what]} and {version} make no table"
                    raise AsaError(f"{one.trial.id}: {reason}; name another folder by --folder")


def _of_this_time(campaign: Path, portfolio: Portfolio, kernel: str) -> None:
    """Raise AsaError before anything is played beside trials of another kernel ("" unknown), or of another version."""
    files = [*campaign.glob("trials/*.json"), *campaign.glob("rounds/*/trials/*.json")]
    kept = [result for path in sorted(files) if (result := runner_folder.read_result(path)) is not None]
    names = dict.fromkeys(_program(one.trial) for one in kept)
    now = {name: version_of(name, portfolio) for name in names if name != EEVDF}
    of_one_time(
        found
        for one in kept
        for found in (
            one,
            msgspec.structs.replace(one, kernel=kernel, scheduler_version=now.get(_program(one.trial), "")),
        )
    )


def _program(trial: Trial) -> SchedulerName:
    return SchedulerName(plain(trial.scheduler).removeprefix(SHADOW)).bare


def _applications(trials: Sequence[Trial]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.applications))
