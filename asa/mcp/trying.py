# SPDX-License-Identifier: GPL-2.0-only
"""One client's trial from its first order to its end: turns, guard rails, the time to commit, and the way back.

All orders go to the user's agent (`asa.requests`), under a lease (`asa.lease`): whatever becomes of this process, the
agent brings back what served before. The guard, the helper and polkit have their say as with any other switch.
"""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from asa import requests, status
from asa.core.decision import Reason, SchedulerName
from asa.core.errors import AsaError
from asa.decide.guard import SETTLE_S
from asa.lease import Lease
from asa.mcp import answers, asked
from asa.mcp.measuring import ORDER, Turn, Verdict, broken, judge
from asa.status import Status

COMMIT_S = 60.0
"""So long a trial that is measured waits for `commit`. What served before is in force meanwhile."""

_SWITCH_S = 60.0  # scx_lavd takes as long to load in an emulated machine
_SLACK_S = 120.0  # for all switches of a trial: then the agent ends it, whatever we do
_BACK_S = 15.0
_MOST_LOOK_S, _LEAST_LOOK_S = 0.25, 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A client: its own words for itself, and its session with this server."""

    client: str
    version: str
    session: str

    @property
    def words(self) -> str:
        """For people."""
        return f"the client {self.client!r} (session {self.session})"


class _OverError(AsaError):
    """The trial ends before its time. The text says why."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """A trial. `changed` guards `stage`, and is told of each change of it."""

    id: str
    who: Who
    asked: asked.Trial
    policy: SchedulerName
    against: SchedulerName
    workload: str | None
    folder: Path  # the agent's
    agent: Status  # as it was seen last
    lease: Lease
    intent_sha256: str
    second_s: float  # how long a second of a turn lasts: tests make it short
    commit_s: float
    begun_ns: int = field(default_factory=time.time_ns)
    stage: str = "measuring"
    turns: list[Turn] = field(default_factory=list)
    verdict: Verdict | None = None
    why: str = ""
    commit_by_ns: int | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def until_ns(self) -> int:
        """When the agent ends it, CLOCK_REALTIME."""
        whole_s = self.asked.seconds * self.second_s + self.commit_s + _SLACK_S
        return self.begun_ns + int(whole_s * 1e9)

    def said(self) -> answers.Trial:
        """As the tools answer it."""
        verdict = self.verdict
        return answers.Trial(
            id=self.id,
            stage=self.stage,
            policy=self.policy,
            against=self.against,
            turn=len(self.turns),
            turns=len(ORDER),
            intent_sha256=self.intent_sha256,
            verdict=None if verdict is None else verdict.verdict,
            gain_pct=None if verdict is None else verdict.gain_pct,
            pairs=() if verdict is None else verdict.pairs,
            commit_by_ns=self.commit_by_ns if self.stage == "measured" else None,
            why=self.why,
        )

    def to(self, stage: str) -> None:
        """The next stage."""
        with self.changed:
            self.stage = stage
            self.changed.notify_all()

    def run(self) -> bool:
        """Measure, and wait for a commit. False: a commit came, and what follows is its business."""
        try:
            self._measure()
            if self._wait():
                return False
        except _OverError as over:
            self.why = str(over)
        except AsaError as error:
            self.why = f"{error}; the trial is over"
        self.give_back()
        return True

    def _measure(self) -> None:
        turn_s = self.asked.seconds * self.second_s / len(ORDER)
        for candidate in ORDER:
            self.turns.append(Turn(candidate=candidate))
            self._bring(self.policy if candidate else self.against)
            self._watch(turn_s)
        self.verdict = judge(self.asked.intent, self.turns)
        self.why = self.verdict.why
        self.commit_by_ns = time.time_ns() + int(self.commit_s * 1e9)
        self.to("measured")

    def _bring(self, name: SchedulerName) -> None:
        def settled(found: Status) -> bool:
            return found.lease != self.id or (found.chosen == name and found.scheduler == name)

        request = requests.Switch(scheduler=name, until_ns=self.until_ns, client=self.who.client, lease=self.id)
        self.agent = requests.ask(self.folder, self.agent, request, settled=settled, limit_s=_SWITCH_S)
        self._still()
        if self.agent.scheduler != name:
            raise _OverError(f"{name} is not in force after {_SWITCH_S:g} s: {self.agent.sentence}")

    def _watch(self, seconds: float) -> None:
        began_s, turn, seen_ns = time.monotonic(), self.turns[-1], 0
        while time.monotonic() - began_s < seconds or not turn.enough(self.asked.intent.metric):
            self._look()
            settled = time.monotonic() - began_s >= SETTLE_S * self.second_s
            if settled and self.agent.updated_ns > seen_ns:
                seen_ns = self.agent.updated_ns
                turn.add(self.agent.signals)
                if rail := broken(self.asked.intent, self.turns):
                    raise _OverError(rail)

    def _wait(self) -> bool:
        """Until somebody commits: True, or until the time for it is over."""
        while time.time_ns() < (self.commit_by_ns or 0):
            with self.changed:
                if self.stage != "measured":
                    return True
            self._look()
        with self.changed:
            if self.stage != "measured":
                return True
            self.stage = "ending"
        verdict = self.verdict
        if verdict is not None and verdict.verdict == "reached":
            self.why = f"{self.why}; nobody committed in time"
        return False

    def _look(self) -> None:
        look_s = min(_MOST_LOOK_S, max(_LEAST_LOOK_S, self.agent.interval_s / 4.0))
        if self.stop.wait(look_s):
            raise _OverError(self.why)
        found = status.read(self.folder)
        if found is None:
            raise _OverError("the agent has ended; the helper takes out what it had brought up")
        self.agent = found
        self._still()
        if found.workload != self.workload:
            why = f"the use changed from {self.workload} to {found.workload}"
            self.verdict = self.verdict or Verdict(verdict="inconclusive", gain_pct=None, pairs=(), why=why)
            raise _OverError(f"{self.why}; {why}" if self.why else why)

    def _still(self) -> None:
        found = self.agent
        if self.stop.is_set():
            raise _OverError(self.why)
        if found.lease == self.id:
            return
        if found.held and not found.client:
            raise _OverError(f"the user's word ends it: {found.mode_reason}")
        back = found.lately[-1].why if found.lately and found.lately[-1].at_ns > self.begun_ns else ""
        why = found.sentence if found.reason in (Reason.REVERTED, Reason.HOLD, Reason.OBSERVING) else back
        raise _OverError(f"the agent ended it: {why or found.sentence}")

    def give_back(self) -> None:
        """End the lease, and wait until what served before is in force again."""
        with self.changed:
            self.lease.close()
        with suppress(AsaError):
            requests.wake(self.agent.pid)
        end_s = time.monotonic() + _BACK_S
        while time.monotonic() < end_s:
            found = status.read(self.folder)
            if found is None:
                return
            self.agent = found
            if found.lease != self.id and not (found.client and found.held):
                return
            time.sleep(_LEAST_LOOK_S * 4)
