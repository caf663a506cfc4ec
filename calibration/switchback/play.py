# SPDX-License-Identifier: GPL-2.0-only
"""The host's part of switchback runs: boots a guest for each, takes back what it gave, goes on where it was stopped.

FOLDER/runs/ID.json has each run that went to its end, with what it cost this host. Tables: `tables`. Judges nothing.
"""

import re
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from asa import paths
from asa.act.forcing import check_startable
from asa.act.policies import Policy
from asa.act.portfolio import Portfolio
from asa.core.errors import AsaError
from calibration.controllers import columns
from calibration.controllers.columns import Given
from calibration.switchback import intensity, samples, tables
from calibration.switchback.guest import RUN
from calibration.switchback.samples import Orders
from scenarios import catalogue, guests, runner_folder
from scenarios.application import Tier
from scenarios.catalogue import Scenario
from scenarios.guests import AtWork, Boot
from scenarios.lab.guest import GuestResult
from scenarios.lab.machines import Machine
from scenarios.session import place_for, prepare

Tell = Callable[[str, float], None]
"""Takes what is being done now, and the share of the whole that is done, 0.0 to 1.0."""

_GUESTS, _ORDERS = "guests", "orders"
_ROUND = re.compile(r"round (\d+) of (\d+)")
_COMMAND = (sys.executable, "-P", "-m", "calibration.switchback.guest")  # -P: root imports nothing from the folder
_START_LIMIT_S, _TURN_LIMIT_S, _LOAD_LIMIT_S = 900.0, 60.0, 600.0  # of the host's time
_SLOWEST = 60.0  # times slower than its clock: many busy CPUs on a host that others use


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is played: each scenario on each machine, with seeds from `seed` on."""

    machines: tuple[Machine, ...]
    scenarios: tuple[Scenario, ...]
    schedulers: tuple[str, ...]
    rounds: int = 4
    seed: int = 1
    seeds: int = 1
    search: bool = False
    classic: bool = False  # a run for each scheduler, which is in force throughout
    lasts_s: float = 0.0  # as of Orders
    level: intensity.Level | None = None  # None: as it is kept
    settle_s: float = 2.0
    window_s: float | None = None
    at_once: int = 1
    policies: tuple[Policy, ...] = ()  # of `schedulers`, besides those that are shipped
    part: str = ""  # as of Orders
    given: Given = field(default_factory=Given)  # to agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One run."""

    machine: Machine
    orders: Orders

    @property
    def id(self) -> str:
        """As of `Orders.of`."""
        return self.orders.of(self.machine.name)


def planned(options: Options, out: Path) -> list[Work]:
    """All runs, seed by seed, so that what was played is a small picture of the whole wherever it ends.

    Raises AsaError for a scenario that changes or is idle, for a judged seed that is the search's, and for a search of
    what plays alone.
    """
    if options.search:
        seeds = [intensity.SEED]
    else:
        seeds = list(range(options.seed, options.seed + options.seeds))
        if intensity.SEED in seeds:
            raise AsaError(f"--seed {intensity.SEED}: intensities were found with it; name another")
    columns.check(options.schedulers)
    decide = [name for name in options.schedulers if columns.is_controller(name)]
    if decide and len(decide) < len(options.schedulers):
        raise AsaError(f"--scheduler: {decide[0]} decides, and takes turns with its like alone; name it in another run")
    for one in options.scenarios:
        if one.then is not None or not (one.interactive or one.background):
            raise AsaError(f"--scenario {one.label}: changes, or nothing plays; name one such as web+blender")
        if options.search and not (one.interactive and one.background):
            raise AsaError(f"--scenario {one.label}: an intensity is of a pair; name one such as web+blender")
    return [
        Work(machine=machine, orders=_orders(one, machine, scenario, seed, out))
        for seed in seeds
        for scenario in options.scenarios
        for machine in options.machines
        for one in (_classic(options) if options.classic else (options,))
    ]


def _classic(options: Options) -> list[Options]:
    names = [(name, "-".join(filter(None, (options.part, name)))) for name in options.schedulers]
    return [replace(options, schedulers=(name,), part=part) for name, part in names]


def left(works: Sequence[Work], out: Path) -> list[Work]:
    """Those that are not kept, as a file or in the tables. Raises AsaError for one that is kept of other options."""
    kept = {one.id: one.orders for one in tables.known(out)}
    for work in works:
        if work.id in kept and _alike(kept[work.id]) != _alike(work.orders):
            raise AsaError(f"{out}: {work.id} is of other options; name another folder by --out, or remove it")
    return [work for work in works if work.id not in kept]


def play(options: Options, out: Path, places: paths.Places, tell: Tell, boot: Boot | None = None) -> list[str]:
    """Play all that is left; gives what went wrong. `boot` is for tests.

    Raises AsaError where a scheduler is not installed, or the lab is not there.
    """
    return play_all(left(planned(options, out), out), out, places, tell, at_once=options.at_once, boot=boot)


def play_all(
    works: Sequence[Work],
    out: Path,
    places: paths.Places,
    tell: Tell,
    *,
    at_once: int = 1,
    hours: float | None = None,
    boot: Boot | None = None,
) -> list[str]:
    """Play these in their order; after `hours` none is begun any more. As `play` else.

    Raises AsaError, too, where a run goes on with what another one has learnt, and that is not there.
    """
    if not works:
        return []
    portfolio = Portfolio.load(paths.manifest(), places.schedulers)
    portfolio.add([policy for one in works for policy in one.orders.policies])
    check_startable(columns.schedulers(name for one in works for name in one.orders.schedulers), portfolio)
    scenarios = [catalogue.labelled(label) for label in dict.fromkeys(one.orders.label for one in works)]
    for name in dict.fromkeys(name for one in scenarios for name in (one.interactive, one.background) if name):
        application = catalogue.applications(Tier.LAB)[name]
        place = place_for(application, cache=places.cache, tier=Tier.LAB)
        prepare(application, place, lambda line: tell(line, 0.0))
    follow = any(one.orders.given.keep for one in works)  # one goes on with what another has learnt
    with _Guests(works, out, places, tell, boot, hours) as running:
        running.follow(1 if follow else at_once)
        return running.troubles


def _orders(options: Options, machine: Machine, scenario: Scenario, seed: int, out: Path) -> Orders:
    crowd, effort = options.level or intensity.of(machine, scenario.label)
    whole = Orders(
        label=scenario.label,
        seed=seed,
        schedulers=options.schedulers,
        rounds=options.rounds,
        out="",
        search=options.search,
        classic=options.classic,
        lasts_s=options.lasts_s,
        crowd=crowd,
        effort=effort,
        settle_s=options.settle_s,
        window_s=options.window_s,
        power=guests.power(machine),
        policies=options.policies,
        part=options.part,
        given=options.given,
    )
    return msgspec.structs.replace(whole, out=str((out / _GUESTS / whole.of(machine.name)).resolve()))


def _alike(orders: Orders) -> Orders:
    return msgspec.structs.replace(orders, out="")


class _Guests(guests.Loop[Work]):
    """A guest for each run."""

    def __init__(
        self,
        works: Sequence[Work],
        out: Path,
        places: paths.Places,
        tell: Tell,
        boot: Boot | None,
        hours: float | None,
    ) -> None:
        super().__init__()
        self.troubles: list[str] = []
        self._out = out
        self._end_s = None if hours is None else time.monotonic() + 3600.0 * hours
        self._places = places
        self._tell = tell
        self._boot = boot
        self._rounds, self._all_rounds = 0, max(1, sum(_rounds(one.orders) for one in works))
        self._cpu_s = _children_s()
        self._queue.extend(works)

    def _start(self, work: Work) -> AtWork[Work]:
        if work.orders.given.state and not Path(work.orders.given.state).is_dir():
            raise AsaError(f"{work.orders.given.state}: is not there; the run before {work.id} has to be played first")
        out = Path(work.orders.out)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        runner_folder.write(out / _ORDERS, work.orders)
        boot = self._boot
        if boot is None:
            lab = guests.ready(self._places.cache, lambda line: self._say(work, line), work.machine)
            boot = guests.booter(lab, work.machine)
        self._say(work, "the guest boots")
        guest = boot((*_COMMAND, str(out / _ORDERS)), out, _limit_s(work.orders))
        return AtWork(guest=guest, work=work, out=out)

    def _hear(self, one: AtWork[Work], line: str) -> None:
        self._rounds += _ROUND.search(line) is not None
        self._say(one.work, line)

    def _ended(self, one: AtWork[Work], result: GuestResult | None, trouble: str) -> None:
        if self._end_s is not None and time.monotonic() > self._end_s:
            self._queue.clear()
        cpu_s = _children_s()
        spent_s, self._cpu_s = cpu_s - self._cpu_s, cpu_s  # a guest's time counts when it has ended
        if result is not None and result.exit_code == 0:
            run = samples.read(one.out / RUN)
            run = msgspec.structs.replace(
                run,
                date=time.strftime("%Y-%m-%d"),
                host_s=round(time.monotonic() - one.since_s, 1),
                host_cpu_s=round(spent_s, 1),
            )
            (self._out / samples.FILES).mkdir(exist_ok=True)
            if one.work.orders.given.keep:
                self._keep_state(one.work)
            runner_folder.write(self._out / samples.FILES / f"{one.work.id}.json", run)
            shutil.rmtree(one.out, ignore_errors=True)
            self._say(
                one.work, f"done: {run.host_cpu_s:.0f} s of a host's CPU, {run.guest_s:.0f} s of the guest's time"
            )
            return
        said = trouble or f"the guest's part ended with code {result.exit_code if result else '?'}: {one.words!r}"
        self.troubles.append(f"{one.work.id}: {said}; see {one.out}")
        self._say(one.work, said)

    def _keep_state(self, work: Work) -> None:
        place = self._out / samples.STATES / work.id
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(work.orders.given.keep, place)

    def _say(self, work: Work, line: str) -> None:
        self._tell(f"{work.id}: {line}", self._rounds / self._all_rounds)


def _limit_s(orders: Orders) -> float:
    if orders.lasts_s:
        return _START_LIMIT_S + _SLOWEST * orders.lasts_s
    window_s = orders.window_s or 20.0
    turns = len(orders.schedulers) + 2
    lead_s = orders.lead_s * sum(map(columns.is_controller, orders.schedulers))
    round_s = turns * (_TURN_LIMIT_S + _SLOWEST * (orders.settle_s + window_s)) + _SLOWEST * lead_s
    return _START_LIMIT_S + orders.rounds * (round_s + len(orders.schedulers) * _LOAD_LIMIT_S)


def _rounds(orders: Orders) -> int:
    return 1 if orders.classic or orders.lasts_s else orders.rounds


def _children_s() -> float:
    # of those that were waited for
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
