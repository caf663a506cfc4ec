# SPDX-License-Identifier: GPL-2.0-only
"""What clients may change, where the server was started with `--allow-changes`: one change at a time, each with an end.

Every change has its line in the audit log before its first step (`asa.mcp.audit`).
"""

import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asa import requests, status, wire
from asa.core.decision import EEVDF, SchedulerName, bar
from asa.core.errors import AsaError
from asa.lease import HINT, NAME, Lease, Note, check_free, held
from asa.mcp import answers, asked, audit
from asa.mcp.machine import Machine
from asa.mcp.measuring import frozen
from asa.mcp.trying import COMMIT_S, Trial, Who
from asa.status import Status

_MOST_KEPT = 32  # trials that `job` tells of
_END_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """A hold or a hint, which lasts as long as its client."""

    id: str
    who: Who
    lease: Lease
    folder: Path
    pid: int
    timer: threading.Timer

    def end(self) -> None:
        """The agent sees it at once."""
        self.timer.cancel()
        self.lease.close()
        with suppress(AsaError):
            requests.wake(self.pid)


class Changes:
    """The changes of all sessions of this process."""

    def __init__(self, machine: Machine, *, second_s: float = 1.0, commit_s: float = COMMIT_S) -> None:
        """`second_s`: how long a second of a turn lasts; `commit_s`: how long `commit` is awaited. Tests set both."""
        self._machine, self._second_s, self._commit_s = machine, second_s, commit_s
        self._trials: dict[str, Trial] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._holding: _Standing | None = None
        self._hint: _Standing | None = None
        self._guard = threading.Lock()  # of these two

    @property
    def _log(self) -> Path:
        return self._machine.places.state / audit.NAME

    def trial(self, who: Who, ask: asked.Trial) -> answers.Trial:
        """Begin a trial, and answer at once. Raises AsaError before any change."""
        folder, agent = requests.agent()
        _check(agent, folder)
        policy = self._usable(ask.policy, agent)
        against = SchedulerName(agent.scheduler or EEVDF)
        if policy == against:
            raise AsaError(f"{policy} is in force already; `policies` lists others")
        _check_measured(ask.intent, agent)
        number, intent = secrets.token_hex(8), wire.plain(ask.intent)
        whole = {"id": number, "client": who.client, "session": who.session, "policy": policy, "against": against}
        hashed = frozen(whole | {"seconds": ask.seconds, "intent": intent})
        what = f"it tries {policy} against {against}"
        lease = self._lease(folder, who, number, what)
        trial = Trial(
            id=number,
            who=who,
            asked=ask,
            policy=policy,
            against=against,
            workload=agent.workload,
            folder=folder,
            agent=agent,
            lease=lease,
            intent_sha256=hashed,
            second_s=self._second_s,
            commit_s=self._commit_s,
        )
        begun = self._line(trial, "trial", ask.why, audit.BEGUN, intent=intent, intent_sha256=hashed)
        _written(self._log, begun, lease)
        for old in list(self._trials)[: 1 - _MOST_KEPT]:
            del self._trials[old]
        self._trials[number] = trial
        thread = threading.Thread(target=self._run, args=(trial, begun), daemon=True, name=f"trial-{number}")
        self._threads = {number: thread}  # one at a time: the lease sees to it
        thread.start()
        return trial.said()

    def _run(self, trial: Trial, begun: audit.Line) -> None:
        if not trial.run():
            return
        trial.why += self._told(audit.after(begun, f"{trial.why}; {trial.agent.scheduler} in force"))
        trial.to("ended")

    def job(self, who: Who, ask: asked.Job) -> answers.Trial:
        """How far a trial is. Raises AsaError for one of another session."""
        trial = self._own(ask.id, who)
        with trial.changed:
            before = trial.stage
            trial.changed.wait_for(lambda: trial.stage != before, timeout=ask.wait_s)
        return trial.said()

    def commit(self, who: Who, ask: asked.Commit) -> answers.Changed:
        """Keep what has reached its intent. Raises AsaError; then nothing has changed, but for the end of the trial."""
        trial = self._own(ask.id, who)
        with trial.changed:
            if trial.stage != "measured":
                raise AsaError(f"commit: the trial is {trial.stage}, and waits for no commit; {trial.why}".rstrip("; "))
            if trial.verdict is None or trial.verdict.verdict != "reached":
                raise AsaError(f"commit: what has not reached its intent is not kept: {trial.why}")
            trial.stage = "committing"
            trial.changed.notify_all()
        try:
            return self._kept(trial, ask)
        except AsaError as error:
            trial.why = str(error)
            raise
        finally:
            if trial.stage == "committing":
                trial.give_back()
                trial.to("ended")

    def _kept(self, trial: Trial, ask: asked.Commit) -> answers.Changed:
        begun = self._line(trial, "commit", ask.why, audit.BEGUN)
        audit.append(self._log, begun)
        until_ns = time.time_ns() + ask.seconds * 10**9

        def settled(found: Status) -> bool:
            return found.lease != trial.id or (found.chosen == trial.policy == found.scheduler)

        request = requests.Switch(
            scheduler=trial.policy, until_ns=until_ns, client=trial.who.client, lease=trial.id, kept=True
        )
        after = requests.ask(trial.folder, trial.agent, request, settled=settled, limit_s=_END_S)
        done = after.lease == trial.id and after.scheduler == trial.policy
        outcome = f"{trial.policy} is kept" if done else f"{trial.policy} is not in force: {after.sentence}"
        outcome += self._told(audit.after(begun, outcome))
        if not done:
            raise AsaError(outcome)
        trial.lease.close()
        trial.why = f"{trial.why}; {outcome}"
        trial.to("committed")
        return answers.Changed(id=trial.id, scheduler=after.scheduler, until_ns=until_ns, outcome=outcome)

    def revert(self, who: Who, ask: asked.Revert) -> answers.Changed:
        """End a trial of this session, or take back what it committed, or its hint. Raises AsaError where none is."""
        if (taken := self._unhint(who, ask)) is not None:
            return taken
        trial = self._own(ask.id, who)
        with trial.changed:
            running = trial.stage in ("measuring", "measured")
            if running:
                trial.why = f"taken back by the client: {ask.why}"
                trial.stop.set()
                trial.lease.close()
            elif trial.stage != "committed":
                raise AsaError(f"revert: the trial is {trial.stage}; there is nothing to take back")
        if running:
            with suppress(AsaError):
                requests.wake(trial.agent.pid)
            with trial.changed:
                trial.changed.wait_for(lambda: trial.stage == "ended", timeout=_END_S)
        else:
            trial.agent = self._lapse(trial)
            trial.to("ended")
        outcome = f"taken back; {trial.agent.scheduler} in force"
        outcome += self._told(
            audit.line_of(trial.who, trial.id, trial.policy, trial.against, "revert", ask.why, outcome)
        )
        return answers.Changed(id=trial.id, scheduler=trial.agent.scheduler, until_ns=None, outcome=outcome)

    def _lapse(self, trial: Trial) -> Status:
        found = status.read(trial.folder)
        if found is None or found.lease != trial.id:
            trial.to("ended")
            raise AsaError("revert: what was committed has ended already")
        request = requests.Lapse(lease=trial.id)
        return requests.ask(trial.folder, found, request, settled=lambda now: now.lease != trial.id, limit_s=_END_S)

    def hold(self, who: Who, ask: asked.Hold) -> answers.Changed:
        """Have the agent switch nothing for a while. Raises AsaError before any change."""
        folder, agent = requests.agent()
        _check(agent, folder)
        number = secrets.token_hex(8)
        lease = self._lease(folder, who, number, "it holds")
        until_ns = time.time_ns() + ask.seconds * 10**9
        begun = audit.line_of(who, number, agent.scheduler, agent.scheduler, "hold", ask.why, audit.BEGUN)
        _written(self._log, begun, lease)
        try:
            request = requests.Hold(until_ns=until_ns, client=who.client, lease=number)
            after = requests.ask(folder, agent, request, settled=lambda found: found.lease == number)
            if after.lease != number:
                raise AsaError(f"hold: the agent does not hold: {after.mode_reason or after.sentence}")
        except AsaError:
            lease.close()
            raise
        self._told(audit.after(begun, after.mode_reason))
        with self._guard:
            self._holding = _standing(who, lease, folder, agent.pid, ask.seconds)
        return answers.Changed(id=number, scheduler=after.scheduler, until_ns=until_ns, outcome=after.mode_reason)

    def resume(self, who: Who, ask: asked.Resume) -> answers.Changed:
        """End the hold of this session. The user's own is the user's to end. Raises AsaError."""
        with self._guard:
            holding = self._holding
            if holding is None or holding.who != who:
                raise AsaError("resume: this session has no hold; the user's own ends by `asa resume`")
            self._holding = None
        holding.end()
        after = _until(holding.folder, lambda found: found.lease != holding.id)
        scheduler = None if after is None else after.scheduler
        line = audit.line_of(who, holding.id, scheduler, scheduler, "resume", ask.why, "the hold is over")
        self._told(line)
        return answers.Changed(id=holding.id, scheduler=scheduler, until_ns=None, outcome=line.outcome)

    def hint(self, who: Who, ask: asked.Hint) -> answers.Changed:
        """Tell the agent what the machine is used for; a session's next one takes the place of its last.

        Raises AsaError; then nothing is told.
        """
        if ask.interactive is None and ask.background is None:
            raise AsaError("hint: give `interactive`, `background` or both")
        folder, agent = requests.agent()
        _check(agent, folder)
        check_free(folder)
        use, number = "+".join(filter(None, (ask.interactive, ask.background))), secrets.token_hex(8)
        with self._guard:
            before, self._hint = (self._hint, None) if self._hint and self._hint.who == who else (None, self._hint)
        if before is not None:
            before.end()
        lease = self._lease(folder, who, number, f"it says that the use is {use}", HINT)
        until_ns = time.time_ns() + ask.seconds * 10**9
        begun = audit.line_of(who, number, agent.workload, use, "hint", ask.why, audit.BEGUN)
        _written(self._log, begun, lease)
        try:
            request = requests.Hint(use=use, sure=ask.confidence, until_ns=until_ns, client=who.client, lease=number)
            after = requests.ask(folder, agent, request, settled=lambda found: _told_by(found) == number)
            if after.told is None or after.told.lease != number:
                raise AsaError("hint: the agent has not taken it; ask again")
        except AsaError:
            lease.close()
            raise
        outcome = after.told.words
        self._told(audit.after(begun, outcome))
        with self._guard:
            self._hint = _standing(who, lease, folder, agent.pid, ask.seconds)
        return answers.Changed(id=number, scheduler=after.scheduler, until_ns=until_ns, outcome=outcome)

    def _unhint(self, who: Who, ask: asked.Revert) -> answers.Changed | None:
        """Take back a hint of this session; None: it is not of a hint."""
        with self._guard:
            hint = self._hint
            if hint is None or hint.id != ask.id or hint.who != who:
                return None
            self._hint = None
        hint.end()
        after = _until(hint.folder, lambda found: _told_by(found) != hint.id)
        scheduler = None if after is None else after.scheduler
        line = audit.line_of(who, hint.id, None, None, "revert", ask.why, "the hint is taken back")
        self._told(line)
        return answers.Changed(id=hint.id, scheduler=scheduler, until_ns=None, outcome=line.outcome)

    def close(self) -> None:
        """End what is under way: the client has gone."""
        with self._guard:
            standing = (self._holding, self._hint)
            self._holding = self._hint = None
        for one in standing:
            if one is not None:
                one.end()
        for trial in self._trials.values():
            with trial.changed:
                if trial.stage not in ("measuring", "measured"):
                    continue
                trial.why = "the client has gone"
                trial.stop.set()
                trial.lease.close()
            with suppress(AsaError):
                requests.wake(trial.agent.pid)
        for thread in self._threads.values():
            thread.join(_END_S)

    def _usable(self, policy: str, agent: Status) -> SchedulerName:
        host = self._machine.host()
        name = host.known(policy)
        _, reason = host.look(name)
        if reason:
            raise AsaError(f"{name} cannot be loaded here: {reason}")
        if one := bar(name, agent.never):
            raise AsaError(f"{name} is not brought up: switch.never in the settings names {one}")
        if name in agent.set_aside:
            raise AsaError(f"{name} failed here and is set aside; the user may let it try again by `asa resume {name}`")
        return name

    def _lease(self, folder: Path, who: Who, number: str, what: str, name: str = NAME) -> Lease:
        now_ns = time.time_ns()
        audit.check_pace(self._log, now_ns)
        note = Note(lease=number, client=who.client, what=what, pid=os.getpid(), since_ns=now_ns)
        return Lease(folder, note, name)

    def _own(self, number: str, who: Who) -> Trial:
        trial = self._trials.get(number)
        if trial is not None and trial.who == who:
            return trial
        if trial is not None:
            raise AsaError(f"the trial {number!r} belongs to another session: {trial.who.words}")
        for line in audit.read(self._log):
            if line.id == number and (line.client, line.session) != (who.client, who.session):
                raise AsaError(f"{number!r} belongs to another session, of the client {line.client!r}")
            if line.id == number:
                raise AsaError(f"{number!r} is a {line.what} and no trial, or has ended; `history` tells")
        raise AsaError(f"there is no trial {number!r}; `trial` answers with its id")

    def _told(self, line: audit.Line) -> str:
        """Add the outcome of what is done already; what went wrong with that, for the client."""
        try:
            audit.append(self._log, line)
        except AsaError as error:
            return f"; not in the log: {error}"
        return ""

    def _line(self, trial: Trial, what: str, why: str, outcome: str, **more: Any) -> audit.Line:
        return audit.line_of(trial.who, trial.id, trial.against, trial.policy, what, why, outcome, **more)


def _written(path: Path, line: audit.Line, lease: Lease) -> None:
    try:
        audit.append(path, line)
    except AsaError as error:
        lease.close()
        raise AsaError(f"{error}; nothing was changed") from error


def _standing(who: Who, lease: Lease, folder: Path, pid: int, seconds: int) -> _Standing:
    timer = threading.Timer(seconds, lease.close)
    timer.daemon = True
    timer.start()
    return _Standing(id=lease.lease, who=who, lease=lease, folder=folder, pid=pid, timer=timer)


def _told_by(found: Status) -> str:
    return "" if found.told is None else found.told.lease


def _check(agent: Status, folder: Path) -> None:
    """Raises AsaError where a client may not change anything now. One that is under way is told of by its lease."""
    if agent.held and agent.client and not held(folder):
        raise AsaError(f"{agent.mode_reason}; one change at a time: `revert` ends it, `asa resume`, or its time")
    if agent.held and not agent.client:
        raise AsaError(f"{agent.mode_reason}: only the user ends that, by `asa resume`; nothing was changed")
    if agent.mode == "observing":
        why = f": {agent.mode_reason}" if agent.mode_reason else ""
        raise AsaError(f"the agent only observes{why}; `asa install` brings the helper that switches for users")
    if agent.mode not in ("switching", "hold") or (agent.mode == "hold" and not agent.client):
        why = agent.mode_reason or agent.sentence
        raise AsaError(f"the agent switches nothing now ({agent.mode}): {why}; nothing was changed")
    if agent.trial is not None and agent.trial.under_way:
        raise AsaError("ASA tries a scheduler itself now; ask again when `status` shows no trial")


def _check_measured(intent: asked.Intent, agent: Status) -> None:
    for metric in (intent.metric, *(rail.metric for rail in intent.guard_rails)):
        if agent.signals.get(metric) is None:
            known = [name for name, value in agent.signals.items() if value is not None]
            raise AsaError(f"{metric} is not measured now, but {', '.join(known) or 'nothing is'}; nothing was changed")


def _until(folder: Path, settled: Callable[[Status], bool]) -> Status | None:
    end_s = time.monotonic() + _END_S
    while True:
        found = status.read(folder)
        if found is None or settled(found) or time.monotonic() > end_s:
            return found
        time.sleep(0.02)
