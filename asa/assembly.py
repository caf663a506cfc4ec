# SPDX-License-Identifier: GPL-2.0-only
"""Puts an agent together from settings and places: what this host allows, opened and checked, or one clear line."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

import asa
from asa import config, host, journal, paths
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.switcher import PlainSwitcher
from asa.act.undo import UndoJournal
from asa.core.decision import Decision
from asa.core.errors import InputError
from asa.daemon import Agent
from asa.decide import table
from asa.pipeline import Rules
from asa.status import Status, StatusFile
from collectors.sampler import HostSampler, SystemClock, standard
from models.runtime import NumpyEnsemble


@dataclass(slots=True, kw_only=True)
class Assembly:
    """Everything the agent opened. Close it, whatever happened."""

    places: paths.Places
    config_path: Path | None
    may_switch: bool
    mode_reason: str
    clock: SystemClock
    sampler: HostSampler
    switcher: PlainSwitcher | None
    status: StatusFile
    journal: journal.Journal | None
    settings: config.Settings
    rules: Rules
    backends: dict[str, str]
    started_ns: int = 0
    scheduler_since: tuple[str | None, int] = (None, 0)

    @classmethod
    def open(
        cls,
        places: paths.Places,
        *,
        config_path: Path | None,
        observe: bool,
        journal_path: Path | None,
        say: Callable[[str], None],
        ebpf: config.Ebpf | None = None,
    ) -> Self:
        """Check every input first, then take the lock, clear what an earlier agent left, and open the sources.

        `ebpf` stands for the setting of that name when it is given. Raises AsaError before anything on the machine
        has changed.
        """
        settings = config.load(config_path or places.config, required=config_path is not None)
        if ebpf is not None:
            settings = msgspec.structs.replace(settings, collect=msgspec.structs.replace(settings.collect, ebpf=ebpf))
        portfolio = _portfolio(settings, places)
        why_not = "told to" if observe else _why_not_switching(places)
        rules = _rules(settings, portfolio, may_switch=not why_not)
        status = StatusFile(places.run)
        clock = SystemClock()
        undo = UndoJournal(places.run / "undo.json", places.proc)
        switcher = None
        if not why_not:
            cleared = undo.recover(settings.switch.stop_limit_s)
            if cleared:
                say(cleared)
            switcher = PlainSwitcher(
                portfolio=portfolio,
                undo=undo,
                clock=clock,
                limits=settings.switch,
                sys=places.sys,
                logs=places.run / "logs",
            )
        sampler = HostSampler(standard(places.proc, places.sys, settings.collect), clock)
        try:
            sampler.open()
            book = _book(journal_path, settings.journal, _header(places, clock))
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
            status=status,
            journal=book,
            settings=settings,
            rules=rules,
            backends=sampler.backends,
            started_ns=clock.wall_ns(),
        )

    def agent(self, say: Callable[[str], None], on_decision: Callable[[Decision], None]) -> Agent:
        """The loop over all of it."""

        def publish(agent: Agent, decision: Decision) -> None:
            for line in self.sampler.news():
                say(line)
            self.status.write(self._status(agent, decision))
            on_decision(decision)

        return Agent(
            rules=self.rules,
            sampler=self.sampler,
            switcher=self.switcher,
            clock=self.clock,
            interval_s=self.settings.interval_s,
            journal=self.journal,
            say=say,
            publish=publish,
            reload=self.reload,
        )

    def reload(self) -> Rules:
        """Settings, manifest, table and model read anew. Raises AsaError; then nothing has changed."""
        settings = config.load(self.config_path or self.places.config, required=self.config_path is not None)
        return _rules(settings, _portfolio(settings, self.places), may_switch=self.may_switch)

    def close(self) -> None:
        """Give everything back. The switcher has rested already (`Agent.run`). Raises JournalError, all the same."""
        self.sampler.close()
        self.status.close()
        if self.journal is not None:
            self.journal.close()

    def _status(self, agent: Agent, decision: Decision) -> Status:
        now_ns = self.clock.wall_ns()
        scheduler = str(decision.current) if decision.current is not None else None
        if scheduler != self.scheduler_since[0]:
            self.scheduler_since = (scheduler, now_ns)
        hold = agent.state.memory.foreign
        shares = decision.probabilities
        return Status(
            pid=os.getpid(),
            asa_version=asa.__version__,
            started_ns=self.started_ns,
            updated_ns=now_ns,
            mode="hold" if hold else "switching" if self.may_switch else "observing",
            mode_reason="somebody else's scheduler is attached" if hold else self.mode_reason,
            workload=decision.workload,
            confidence=round(decision.vote.confidence, 4),
            probabilities={str(name): round(p, 4) for name, p in zip(shares.classes, shares.values, strict=True)}
            if shares is not None
            else {},
            wanted=decision.wanted,
            scheduler=scheduler,
            scheduler_since_ns=self.scheduler_since[1],
            reason=decision.reason,
            sentence=decision.sentence,
            switches=agent.counts.switches,
            failures=agent.counts.failures,
            set_aside=sorted(agent.state.memory.set_aside),
            last_event=agent.counts.last_event,
            table=agent.rules.table.path,
            model=self.settings.model or str(paths.base_model()),
            interval_s=self.settings.interval_s,
            ticks=agent.counts.ticks,
            overruns=agent.counts.overruns,
            worst_late_ms=round(agent.counts.worst_late_ms, 3),
            backends=self.backends,
            missing_sources=self.sampler.missing | self.sampler.failing,
            slow_sources=self.sampler.slow,
            cost_us=self.sampler.cost_us,
        )


def _book(path: Path | None, limits: config.JournalSettings, header: journal.SessionHeader) -> journal.Journal | None:
    if path is None:
        return None
    book = journal.Journal.open(path, size_mb=limits.size_mb, commit_s=limits.commit_s)
    book.begin(header)
    return book


def _portfolio(settings: config.Settings, places: paths.Places) -> Portfolio:
    return Portfolio.load(paths.manifest(), places.schedulers, owners=settings.switch.trusted_owners)


def _rules(settings: config.Settings, portfolio: Portfolio, *, may_switch: bool) -> Rules:
    classifier = NumpyEnsemble.load(Path(settings.model) if settings.model else paths.base_model())
    mapping = table.for_this_machine(portfolio.modes(), settings.table)
    unserved = [name for name in classifier.classes if name not in mapping.rankings]
    if unserved:
        allowed = f"a ranking for each class of the model; without one: {', '.join(unserved)}"
        raise InputError(path=mapping.path, key="classes", value=sorted(mapping.rankings), allowed=allowed)
    return Rules(
        classifier=classifier,
        table=mapping,
        voting=settings.voting,
        policy=settings.policy,
        name_of_ops=portfolio.name_of_ops,
        may_switch=may_switch,
    )


def _why_not_switching(places: paths.Places) -> str:
    if sched_ext_state(places.sys) is None:
        return "this kernel has no sched_ext (no /sys/kernel/sched_ext)"
    if os.geteuid() != 0:
        return "not root; switching schedulers needs root"
    return ""


def _header(places: paths.Places, clock: SystemClock) -> journal.SessionHeader:
    state = sched_ext_state(places.sys)
    return journal.SessionHeader(
        started_ns=clock.wall_ns(),
        asa_version=asa.__version__,
        host=host.cpu_model(),
        kernel=os.uname().release,
        cpus=host.cpus(),
        scheduler=state.ops if state is not None else "",
    )
