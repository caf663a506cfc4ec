# SPDX-License-Identifier: GPL-2.0-only
"""Puts an agent together from settings and places: what this host allows, opened and checked, or one clear line."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from asa import config, host, paths, requests, wire
from asa.act import choice
from asa.act.choice import Kind
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.priority import goes_first
from asa.act.undo import UndoJournal
from asa.adviser import settings as advice
from asa.book import Book, session_header
from asa.clock import SystemClock
from asa.core.decision import Decision, Order, OrderKind, Permit, SchedulerName, bar
from asa.core.errors import AsaError, InputError
from asa.core.ports import Collector, Switcher
from asa.daemon import Agent
from asa.decide import hints, knowledge, learning, penalties, table
from asa.decide.books import Books
from asa.decide.knowledge import Knowledge
from asa.decide.learning import LEARNING
from asa.decide.trial_budget import Stand
from asa.heed import Heed
from asa.journal import Journal, Told
from asa.lateness import LateTicks
from asa.lease import Watch
from asa.meter import Meter
from asa.model import Model
from asa.pipeline import Setup, State, plan
from asa.reporter import How, Reporter
from asa.status import StatusFile
from collectors.programs import KEY_BYTES
from collectors.running import Absence, RunDelay
from collectors.sampler import HostSampler, standard

if TYPE_CHECKING:  # `asa run` has no helper, and does not pay for its bus
    from asa.adviser.source import Adviser
    from asa.remote import Remote

_STANDING = "standing.json"
_LOOK_TICKS = 60  # between two looks at control groups' limits: some milliseconds


@dataclass(slots=True, kw_only=True)
class Assembly:
    """Everything the agent opened. Close it, whatever happened."""

    places: paths.Places
    config_path: Path | None
    may_switch: bool
    mode_reason: str
    clock: SystemClock
    sampler: HostSampler
    switcher: Switcher | None
    no_gate: str  # why switches are made the plain way, "" where the gate works
    shadow: bool
    status: StatusFile
    book: Book
    settings: config.Settings
    setup: Setup
    model: Model  # that `setup` judges by
    meter: Meter
    books: Books
    key: bytes  # of the programs' numbers
    remote: "Remote | None"  # the root helper switches
    watch: Watch
    adviser: "Adviser | None" = None
    delay: RunDelay = field(default_factory=RunDelay)

    @classmethod
    def open(
        cls,
        places: paths.Places,
        *,
        config_path: Path | None,
        observe: bool,
        journal_path: Path | None,
        say: Callable[[str], None],
        journal_needed: bool = True,
        ebpf: config.Ebpf | None = None,
        shadow: bool = False,
        remote: "Remote | None" = None,
    ) -> Self:
        """Check every input first, then take the lock, clear what an earlier agent left, and open the sources.

        `ebpf`: instead of the setting. `remote`: the helper does what needs root. A journal that is not needed is gone
        without where it cannot be had. Raises AsaError before any change.
        """
        settings = _settings(config_path, places, ebpf, say)
        portfolio = _portfolio(settings, places)
        why_not, no_gate, kind = _means(places, settings.switch, remote, observe=observe, shadow=shadow)
        meter, clock = Meter(places.proc), SystemClock()
        model = Model.first(settings, places, say)
        permit = Permit(switch=not why_not, stand_by=not no_gate)
        setup = _setup(settings, portfolio, model, meter, places, permit, config_path, shadow=shadow)
        books, key = _books(places.state, setup, clock, say)
        names, adviser = _adviser(config_path or places.config, places.state, settings.collect, say)
        sampler = _sampler(places, settings.collect, remote, clock, key, names, adviser)
        status = StatusFile(places.run)
        switcher = _switcher(None if why_not else kind, remote, portfolio, clock, settings.switch, places, say)
        book = Book(journal_path, settings.journal, say, needed=journal_needed)
        try:
            sampler.open()
            book.begin(session_header(places, clock.wall_ns(), settings, setup, model.sha256, books))
        except BaseException:  # also KeyboardInterrupt: compiling probes takes seconds
            sampler.close()
            status.close()
            raise
        return cls(
            places=places,
            config_path=config_path,
            may_switch=not why_not,
            mode_reason=why_not,
            clock=clock,
            sampler=sampler,
            switcher=switcher,
            no_gate=no_gate,
            shadow=shadow,
            status=status,
            book=book,
            settings=settings,
            setup=setup,
            model=model,
            meter=meter,
            books=books,
            key=key,
            remote=remote,
            watch=Watch(places.run),
            adviser=adviser,
        )

    def agent(self, say: Callable[[str], None], on_decision: Callable[[Decision], None]) -> Agent:
        """The loop over all of it."""
        reporter = Reporter(
            clock=self.clock,
            sampler=self.sampler,
            switcher=self.switcher,
            how=self._how if self.remote is None else self.remote.how,
            settings=self.settings,
            model=lambda: str(self.model.path),
            limits=lambda: heed.words,
        )
        remote = self.remote
        heed = Heed(self.places.sys, lambda settings: _portfolio(settings, self.places).entries(), say)

        def publish(agent: Agent, decision: Decision) -> None:
            if self.adviser is not None:
                self.adviser.heard(agent.state.books.knowledge, unknown=agent.state.votes.vote.unknown)
            if agent.counts.ticks % _LOOK_TICKS == 1 or agent.setup.table.limited != heed.out:
                agent.setup = heed.apply(agent.setup, self.settings)
            for line in self.sampler.news():
                say(line)
            status = reporter.status(agent, decision)
            self.status.write(status)
            if remote is not None:
                remote.published(status)
            on_decision(decision)

        return Agent(
            setup=self.setup,
            sampler=self.sampler,
            switcher=self.switcher,
            clock=self.clock,
            interval_s=self.settings.interval_s,
            journal=self.book.journal,
            journal_again=self._journal_again,
            say=say,
            publish=publish,
            reload=self.reload,
            meter=self.meter,
            take_orders=self._orders,
            lapsed=self._lapsed,
            keep_bars=lambda bars: penalties.save(self.places.state / _STANDING, bars),
            keep_learning=lambda learned: learning.save(self.places.state / LEARNING, learned),
            keep_known=lambda known: knowledge.save(self.places.state / knowledge.NAME, known, self.key),
            costs_us=lambda: self.sampler.cost_us,
            late=LateTicks(self.settings.interval_s, self.delay.waited_ns, self._slowest, goes_first).tick,
            cost_every=1 if self.shadow else self.settings.journal.costs_every,
            told=self._told,
            permit=(lambda: None) if remote is None else remote.permit,
            state=State(books=self.books),
        )

    def reload(self) -> Setup:
        """Settings, manifest, table and model read anew. Raises AsaError; then nothing has changed."""
        settings = _settings(self.config_path, self.places, None)
        portfolio = _portfolio(settings, self.places)
        permit = Permit(switch=self.may_switch, stand_by=not self.no_gate)
        if self.remote is not None:
            permit = self.remote.permit()
        model = Model.wanted(settings, self.places)
        setup = _setup(
            settings, portfolio, model, self.meter, self.places, permit, self.config_path, shadow=self.shadow
        )
        self.settings, self.setup, self.model = settings, setup, model
        return setup

    def close(self) -> None:
        """Give everything back. The switcher has rested already (`Agent.run`). Raises JournalError, all the same."""
        self.sampler.close()
        self.delay.close()
        self.status.close()
        self.meter.close()
        self.book.close()

    def _slowest(self) -> str:
        costs = self.sampler.cost_us
        return max(costs, key=lambda name: costs[name], default="")

    def _how(self) -> How:
        way = "" if self.switcher is None else "shadow" if self.shadow else "plain" if self.no_gate else "gated"
        return How(way=way, no_gate=self.no_gate, mode_reason=self.mode_reason)

    def _told(self, monotonic_ns: int) -> Told:
        return Told(
            monotonic_ns=monotonic_ns,
            settings=wire.json_text(self.settings),
            table=self.setup.table.path,
            model=self.model.sha256,
            versions=dict(self.setup.versions),
            hints=wire.json_text(self.setup.hints),
        )

    def _journal_again(self, agent: Agent) -> Journal | None:
        state, now_ns = agent.state, self.clock.wall_ns()
        return self.book.again(
            session_header(self.places, now_ns, self.settings, agent.setup, self.model.sha256, state.books)
        )

    def _orders(self) -> tuple[Order, ...]:
        now_ns = self.clock.wall_ns()
        taken = requests.take(self.places.run)
        for one in taken:
            self.watch.note(one)
        orders = (requests.order(request, now_ns) for request in taken)
        return tuple(one for one in orders if one.kind is not OrderKind.SWITCH or not self._barred(one.scheduler))

    def _lapsed(self) -> tuple[Order, ...]:
        return tuple(Order(kind=OrderKind.LAPSE, lease=gone) for gone in self.watch.gone())

    def _barred(self, name: SchedulerName | None) -> bool:
        return name is not None and bool(bar(name, self.setup.table.never))


def _portfolio(settings: config.Settings, places: paths.Places) -> Portfolio:
    return Portfolio.of_host(settings.switch, places.schedulers, state=places.state)


def _settings(
    path: Path | None, places: paths.Places, ebpf: config.Ebpf | None, say: Callable[[str], None] = lambda _: None
) -> config.Settings:
    settings = config.load(path or places.config, required=path is not None, say=say)
    if ebpf is None:
        return settings
    return msgspec.structs.replace(settings, collect=msgspec.structs.replace(settings.collect, ebpf=ebpf))


def _books(state: Path, setup: Setup, clock: SystemClock, say: Callable[[str], None]) -> tuple[Books, bytes]:
    # and the key of the programs' numbers
    bars = _bars(state / _STANDING, setup, clock, say)
    known, key = _knowledge(state / knowledge.NAME, say)
    return Books(bars=bars, lessons=_lessons(state / LEARNING, setup, say), knowledge=known), key


def _bars(path: Path, setup: Setup, clock: SystemClock, say: Callable[[str], None]) -> penalties.Bars:
    try:
        bars = penalties.load(path)
        return penalties.refresh(bars, wall_ns=clock.wall_ns(), versions=setup.versions)
    except InputError as error:
        _move_away(path, error, say)
        return penalties.Bars()


def _lessons(path: Path, setup: Setup, say: Callable[[str], None]) -> learning.Lessons:
    stand = Stand(kernel=setup.kernel, versions=setup.versions)
    try:
        return learning.begin(learning.load(path), stand)
    except InputError as error:
        _move_away(path, error, say)
        return learning.begin(learning.Learning(), stand)


def _knowledge(path: Path, say: Callable[[str], None]) -> tuple[Knowledge, bytes]:
    # and the key, a new one where there is none
    known, key = Knowledge(), b""
    try:
        base, key = knowledge.load(path)
        known = Knowledge(known=base)
    except InputError as error:
        _move_away(path, error, say)
    return (known, key) if key else (Knowledge(), os.urandom(KEY_BYTES))


def _move_away(path: Path, error: InputError, say: Callable[[str], None]) -> None:
    aside = path.with_suffix(".damaged")
    try:
        path.replace(aside)
    except OSError as failure:
        raise AsaError(f"{error}; it cannot be moved away: {failure.strerror}") from failure
    say(f"{error}; moved to {aside}, starting without")


def _switcher(
    kind: Kind | None,
    remote: "Remote | None",
    portfolio: Portfolio,
    clock: SystemClock,
    limits: config.SwitchSettings,
    places: paths.Places,
    say: Callable[[str], None],
) -> Switcher | None:
    """The helper's, else one of our own; None for `kind` None, where nothing is switched."""
    if remote is not None:
        return remote.switcher(portfolio, clock, places.sys, limits)
    if kind is None:
        return None
    undo = UndoJournal(places.run / "undo.json", places.proc, places.sys)
    cleared = undo.recover(limits.stop_limit_s)
    if cleared:
        say(cleared)
    return choice.switcher(kind, portfolio=portfolio, undo=undo, clock=clock, limits=limits, places=places)


def _setup(
    settings: config.Settings,
    portfolio: Portfolio,
    model: Model,
    meter: Meter,
    places: paths.Places,
    permit: Permit,
    config_path: Path | None,
    *,
    shadow: bool,
) -> Setup:
    release = os.uname().release
    present = table.Present.of(portfolio, release)
    mapping = table.for_this_machine(portfolio.modes(), settings.table, places=places, present=present)
    mapping = replace(mapping, never=portfolio.never, canaries=portfolio.canaries())
    classifier = model.classifier
    mapping.check(classifier.classes)
    return Setup(
        classifier=meter.classifier(classifier),
        table=mapping,
        voting=settings.voting,
        policy=settings.policy,
        name_of_ops=portfolio.name_of_ops,
        permit=replace(permit, stand_by=permit.stand_by and not shadow),
        plan=plan(classifier.fields),
        hints=hints.load(config_path or places.config, classifier.hint_weight),
        guard=settings.guard,
        quarantine=settings.quarantine,
        standby=settings.standby,
        shadow=shadow,
        kernel=release,
        versions=portfolio.versions(release, host.cpu_model()),
    )


def _sampler(
    places: paths.Places,
    settings: config.CollectSettings,
    remote: "Remote | None",
    clock: SystemClock,
    key: bytes,
    names: dict[int, str] | None,
    adviser: Collector | None,
) -> HostSampler:
    found = standard(places.proc, places.sys, settings, None if remote is None else remote.probes, key, names)
    if adviser is not None:  # after the programs that it goes on from
        found.append(adviser)
    return HostSampler(found, clock, absence=Absence(RunDelay()))


def _adviser(
    beside: Path, state: Path, settings: config.CollectSettings, say: Callable[[str], None]
) -> tuple[dict[int, str] | None, "Adviser | None"]:
    # with a place for the names of programs; both None where it is off, as without numbers of programs
    found = advice.load(beside)
    if found.use is advice.Use.OFF:
        return None, None
    if not settings.processes:
        say(f"{advice.NAME}: not used, for `collect.processes` is false")
        return None, None
    if found.use is advice.Use.SERVER and os.geteuid() == 0:
        say(f"{advice.NAME}: root's agent asks no server; it has the table of well-known programs")
        found = msgspec.structs.replace(found, use=advice.Use.TABLE)
    from asa.adviser import record, source

    names: dict[int, str] = {}
    return names, source.Adviser(found, advice.table(), names, state / record.NAME, say)


def _means(
    places: paths.Places, limits: config.SwitchSettings, remote: "Remote | None", *, observe: bool, shadow: bool
) -> tuple[str, str, Kind]:
    """Why nothing is switched here, "" when it is; why not by the gate; and how. Raises AsaError for shadow without."""
    if remote is not None:
        return remote.lacking(), remote.lacking(), Kind.PLAIN
    why_not, no_gate, by_loader = _why_not_switching(places, observe=observe), "", False
    if not why_not:
        try:
            by_loader = choice.through_loader(limits, places.proc)
            no_gate = choice.why_no_gate(limits, places.run, by_loader=by_loader)
        except choice.RivalError as rival:
            why_not = str(rival)
    no_gate = why_not or no_gate
    if shadow and no_gate:
        raise AsaError(f"shadow mode is not possible here: {no_gate}; `asa doctor` says more")
    kind = Kind.SHADOW if shadow else Kind.LOADER if by_loader else Kind.PLAIN if no_gate else Kind.GATED
    return why_not, no_gate, kind


def _why_not_switching(places: paths.Places, *, observe: bool) -> str:
    if observe:
        return "by --observe"
    if sched_ext_state(places.sys) is None:
        return "this kernel has no sched_ext (no /sys/kernel/sched_ext)"
    return "not root; switching schedulers needs root" if os.geteuid() != 0 else ""
