# SPDX-License-Identifier: GPL-2.0-only
"""This machine as an arena of the loop: trials go the way of a client of `asa mcp`, to the user's agent.

Each has its lease and its line in the audit log, ends by itself, and is judged by the guard. Policies have no flags
here: the helper takes none. The reference is what is in force.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from statistics import median, quantiles

import asa
from asa import host, requests
from asa.cli.journal import JOURNAL
from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from asa.decide import signals
from asa.mcp import answers, asked
from asa.mcp.changes import Changes
from asa.mcp.machine import Machine
from asa.mcp.trying import Who
from asa.paths import there
from asa.report.reading import Tick, opened, ticks
from calibration.loop.story import Candidate, Outcome, Profile, Waits
from collectors import rates

WHO = Who(client="asa lab agent", version=asa.__version__, session=str(os.getpid()))

_LOOK_S = 30
_LEAST_GAIN_PCT = 5
_LAST_TICKS = 3_600
_FEWEST = 20  # ticks of a class of which a quantile is told
_WATCHED_S = 3.0
_SLOW = ("run_queue_p99_us", "wakeup_p99_us", "cpu_pressure", "input_ms", "frame_ms")


@dataclass(slots=True, kw_only=True)
class Here:
    """An `Arena`. `changes` and `machine` are for tests."""

    metric: str
    seconds: int
    tell: Callable[[str], None]
    machine: Machine = field(default_factory=Machine)
    changes: Changes | None = None
    tunable: bool = False

    def observe(self) -> Profile:
        """By the agent's status, its journal and who uses the CPUs. Raises AsaError where no agent runs."""
        _, agent = requests.agent()
        shares, waits = self._journal()
        serves = str(agent.scheduler or EEVDF)
        return Profile(
            machine="here",
            cpus=host.cpus(),
            mixed=False,
            use=agent.workload or "unknown",
            workload=agent.workload or "",
            objective=f"less {self.metric}",
            router=serves,
            reference=serves,
            shares=shares,
            waits=tuple(waits),
            busy={name: round(cores, 2) for name, _, cores in self.machine.processes(_WATCHED_S)},
        )

    def gains(self, candidates: Sequence[Candidate], seed: int) -> list[Outcome]:
        """A trial of each, one after the other; `seed` tells repeats apart alone."""
        found = []
        for one in candidates:
            self.tell(f"trial {seed} of {one}")
            try:
                ended = self._tried(one)
            except AsaError as error:
                found.append(Outcome(gain_pct=None, trouble=str(error)))
                continue
            told = ended.gain_pct
            found.append(
                Outcome(gain_pct=None, trouble=ended.why)
                if told is None
                else Outcome(gain_pct=told, over_router_pct=told)
            )
            if ended.stage == "measured":
                self._changes.revert(WHO, asked.Revert(id=ended.id, why="the search goes on"))
        return found

    def keep(self, candidate: Candidate, seconds: int) -> str:
        """One trial more, and what reaches its intent stays so long; says what came of it."""
        try:
            ended = self._tried(candidate)
            if ended.stage != "measured" or ended.verdict != "reached":
                return f"not kept: {ended.why}"
            why = "the loop found it surely better"
            return self._changes.commit(WHO, asked.Commit(id=ended.id, why=why, seconds=seconds)).outcome
        except AsaError as error:
            return f"not kept: {error}"

    @property
    def _changes(self) -> Changes:
        # made when it is first needed
        if self.changes is None:
            self.changes = Changes(self.machine)
        return self.changes

    def _tried(self, candidate: Candidate) -> answers.Trial:
        intent = asked.Intent(metric=self.metric, least_gain_pct=_LEAST_GAIN_PCT)  # type: ignore[arg-type]  # `Changes` checks it
        ask = asked.Trial(
            policy=candidate.scheduler, intent=intent, why="a trial of asa lab agent", seconds=self.seconds
        )
        found = self._changes.trial(WHO, ask)
        while found.stage == "measuring":
            found = self._changes.job(WHO, asked.Job(id=found.id, wait_s=_LOOK_S))
        return found

    def _journal(self) -> tuple[dict[str, float], list[Waits]]:
        path = self.machine.places.state / JOURNAL
        if not there(path):
            return {}, []
        with opened(path) as journal:
            sessions = journal.sessions()
            if not sessions:
                return {}, []
            newest = sessions[-1].number
            from_tick = max(0, journal.ticks(newest) - _LAST_TICKS)
            last = [one for at, one in enumerate(ticks(journal, newest)) if at >= from_tick]
        return _shares(last), list(_waits(last))


def _shares(last: Sequence[Tick]) -> dict[str, float]:
    known = Counter(str(one.decision.workload) for one in last if one.decision is not None and one.decision.workload)
    whole = sum(known.values())
    return {name: round(count / whole, 3) for name, count in known.most_common()}


def _waits(last: Sequence[Tick]) -> Iterator[Waits]:
    """Of each class that had enough ticks, the signals that people feel."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for before, now in pairwise(last):
        made = rates.derive(before.sample, now.sample)
        if made is None or now.decision is None or not now.decision.workload:
            continue
        tick = signals.of_rates(made, None)
        for one in fields(tick):
            value = getattr(tick, one.name)
            if one.name in _SLOW and value is not None:
                values[str(now.decision.workload), one.name].append(value)
    whole = max(1, len(last))
    for (use, name), found in sorted(values.items()):
        if len(found) >= _FEWEST:
            yield Waits(
                use=use,
                share=round(len(found) / whole, 3),
                signal=name,
                median=median(found),
                p95=quantiles(found, n=20)[-1],
            )
