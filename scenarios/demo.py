# SPDX-License-Identifier: GPL-2.0-only
"""The demonstration's stage: plays a script of real programs beside a real agent and reports what came of each phase.

It starts `asa run` as any user would and follows its words; what the kernel runs at a phase's end is read from sysfs
here, not taken from the agent. Events go out as JSON lines. The rendering is `asa lab demo`'s.
"""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from asa import status, wire
from asa.act.choice import Kind
from asa.act.kernel import sched_ext_state, scheduler_in_force
from asa.act.portfolio import Portfolio
from asa.core.decision import Decision, Reason, SchedulerName, SwitchOutcome, Workload
from asa.core.errors import AsaError
from asa.core.ports import Clock
from asa.decide.table import MappingTable
from asa.status import Status, Switched
from scenarios.player import Moment, Phase, PhaseEvent, Stage, play_script

# Each wants another scheduler than the one before. The one that wants scx_simple is last: under that another one was
# not loaded within two minutes in two of three runs (docs/limits.md).
SCRIPT = tuple(Workload(name) for name in ("idle", "cpu", "disk", "cpu+disk", "wakeup", "network", "spawn"))
_BATCH, _FRAMES = ("scx_rusty", "eevdf"), ("scx_bpfland", "scx_flash", "eevdf")
SERVED = {
    "idle": ("eevdf",),
    **dict.fromkeys(("game", "office", "web", "watch", "call", "frames", "wakeup"), _FRAMES),
    **dict.fromkeys(("archive", "blender", "video", "llm", "cpu"), _BATCH),
    **dict.fromkeys(("kernel", "spawn"), ("scx_simple", "scx_rusty", "eevdf")),
    **dict.fromkeys(("audio", "network", "cpu+disk"), ("scx_flash", "scx_bpfland", "eevdf")),
    "disk": ("scx_cosmos", "eevdf"),
}
"""Of each class, best first, for `scenarios.planted`. Nobody measured it."""
_PHASE_MIN_S = 14.0  # more than the voting window, so that a phase cannot end on its forerunner's class
_PHASE_LIMIT_TICKS = 45  # the agent's, not seconds: it may miss some on a busy machine
_LOADED_LIMIT_S = 90.0  # two standbys of an emulated guest take half a minute, on a machine a second
_SETTLED_TICKS = 3
_AGENT_START_LIMIT_S = 120.0  # an emulated guest reads Python's libraries over 9p
_AGENT_STOP_LIMIT_S = 60.0
_RECORD_BYTES = 16_384  # more than the longest of /dev/kmsg (CONSOLE_EXT_LOG_MAX), or reading fails
# priority of the kernel itself, not of a program; as scx_exit_reason() in kernel/sched/ext.c words it
_STALLED = re.compile(rb'[0-7],[^;]*;sched_ext: BPF scheduler "([^"]+)" disabled \(runnable task stall\)')


class PhaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one phase."""

    number: int
    workload: str  # what really played
    parameters: str
    seconds: float
    recognised: str | None  # the agent's class at the end
    confidence: float
    recognise_s: float | None  # from the programs being up to the agent's first naming it; None if it never did
    switch_s: float | None  # from there to the wanted scheduler being in force
    named_by_table: str | None  # for the recognised class
    in_force: str | None  # by sysfs at the end
    right: bool
    on_wanted: bool
    way: str = ""  # how the agent made the phase's last switch; "": it made none
    gap_s: float | None = None  # the time of that switch in which neither scheduler was in force


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the stage's output; exactly one of the bodies is set."""

    at_s: float  # since the stage began
    phase: int | None = None
    moment: str | None = None
    workload: str | None = None
    say: str | None = None
    decision: Decision | None = None
    report: PhaseReport | None = None
    left: str | None = None  # sched_ext's state after the agent has ended
    stalled: tuple[str, ...] | None = None  # beside it: what the kernel's watchdog took out; None: its log is not read


class _AgentLine(msgspec.Struct, frozen=True):
    say: str | None = None
    decision: Decision | None = None


@dataclass(slots=True, kw_only=True)
class _Watch:
    """What the agent has said in the present phase."""

    phase: PhaseEvent | None = None
    began_ns: int = 0
    began_wall_ns: int = 0
    recognised_ns: int | None = None
    served_ns: int | None = None
    ticks: int = 0
    settled: int = 0  # ticks without a change, on the wanted scheduler
    last: Decision | None = None
    verdict: tuple[Decision | None, SchedulerName | None] = (None, None)  # decision and scheduler at the phase's end
    switched: Switched | None = None  # the phase's last
    reports: list[PhaseReport] = field(default_factory=list)


def last_switch(agent: Status | None, since_ns: int) -> Switched | None:
    """The last confirmed one since then (CLOCK_REALTIME), of those that the agent tells of."""
    made = [one for one in agent.lately if one.outcome == SwitchOutcome.CONFIRMED] if agent is not None else []
    return made[-1] if made and made[-1].at_ns >= since_ns else None


def loaded(decision: Decision | None, agent: Status | None) -> bool:
    """Whether the agent has the standbys loaded that it wants; also true of one that keeps none."""
    if agent is None or decision is None:
        return False
    ready = {one.scheduler for one in agent.standbys if one.ready}
    return agent.way != Kind.GATED or (bool(decision.standbys) and ready.issuperset(decision.standbys))


def late(ticks: int, decision: Decision | None) -> bool:
    """Whether a phase of so many ticks has had its time: a switch under way is waited for, which the agent bounds."""
    return ticks >= _PHASE_LIMIT_TICKS and (decision is None or decision.reason is not Reason.BUSY)


def stalled(log: Path) -> tuple[str, ...] | None:
    """The schedulers that the kernel's watchdog took out since boot, by `log` (/dev/kmsg); None: it cannot be read."""
    found: list[str] = []
    try:
        reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        while record := _record(reader):
            if match := _STALLED.match(record):
                found.append(match[1].decode(errors="replace"))
    except OSError:
        return None
    finally:
        os.close(reader)
    return tuple(found)


def _record(reader: int) -> bytes:
    # b"" at the log's end; EPIPE: the oldest were overwritten, the next read goes on with what there is
    while True:
        try:
            return os.read(reader, _RECORD_BYTES)
        except BrokenPipeError:
            continue
        except BlockingIOError:
            return b""


def _gap_s(switched: Switched | None) -> float | None:
    return None if switched is None or switched.gap_ns is None else switched.gap_ns / 1e9


class Demonstration:
    """Agent, script and their events."""

    def __init__(
        self,
        *,
        stage: Stage,
        portfolio: Portfolio,
        table: MappingTable,
        clock: Clock,
        emit: Callable[[Event], None],
        run: Path,
        sys_root: Path = Path("/sys"),
        kernel_log: Path = Path("/dev/kmsg"),
    ) -> None:
        self._stage = stage
        self._portfolio = portfolio
        self._table = table
        self._clock = clock
        self._emit = emit
        self._run = run  # where the agent leaves its status
        self._sys = sys_root
        self._kernel_log = kernel_log
        self._began_ns = clock.monotonic_ns()
        self._watch = _Watch()
        self._buffer = b""
        self._agent: subprocess.Popen[bytes] | None = None

    def play(self, script: tuple[Workload, ...] = SCRIPT, *, seed: int, settings: Path) -> None:
        """Play the whole script. Raises AsaError when agent or programs fail; the agent is ended in any case."""
        phases = [Phase(workload=workload, min_s=0.0, seed=seed) for workload in script]
        words = [sys.executable, "-m", "asa.cli", "run", "--json", "--config", str(settings)]
        self._agent = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        try:
            self._await_first_tick()
            self._await_standbys()
            play_script(phases, stage=self._stage, until=self._until, on_event=self._on_event, clock=self._clock)
        finally:
            self._end_agent(self._agent)
        state = sched_ext_state(self._sys)
        left = state.state if state is not None else "none"
        self._emit(Event(at_s=self._now_s(), left=left, stalled=stalled(self._kernel_log)))

    def _await_first_tick(self) -> None:
        deadline_ns = self._clock.monotonic_ns() + int(_AGENT_START_LIMIT_S * 1e9)
        while self._watch.last is None:
            self._listen(0.5)
            if self._clock.monotonic_ns() > deadline_ns:
                raise AsaError(f"the agent gave no sign of life within {_AGENT_START_LIMIT_S:.0f} s")

    def _await_standbys(self) -> None:
        # emulated, loading them is the heaviest load there is, and would be taken for the first phase's
        deadline_ns = self._clock.monotonic_ns() + int(_LOADED_LIMIT_S * 1e9)
        while not loaded(self._watch.last, status.read(self._run)) and self._clock.monotonic_ns() < deadline_ns:
            self._listen(0.5)

    def _until(self, elapsed_s: float) -> bool:
        self._listen(0.0)  # asked a few times a second: what the agent says goes out as it comes
        watch = self._watch
        if elapsed_s < _PHASE_MIN_S or not (watch.settled >= _SETTLED_TICKS or late(watch.ticks, watch.last)):
            return False
        # Judged now, while the programs still play: they need seconds to end, and the agent goes on watching.
        in_force = scheduler_in_force(sched_ext_state(self._sys), self._portfolio.name_of_ops)
        watch.verdict = (watch.last, in_force)
        watch.switched = last_switch(status.read(self._run), watch.began_wall_ns)
        return True

    def _on_event(self, event: PhaseEvent) -> None:
        self._listen(0.0)
        watch = self._watch
        if event.moment is Moment.PLAYING:
            since_ns = self._clock.monotonic_ns() - event.monotonic_ns
            self._watch = _Watch(
                phase=event,
                began_ns=event.monotonic_ns,
                began_wall_ns=self._clock.wall_ns() - since_ns,
                last=watch.last,
                reports=watch.reports,
            )
        workload = event.phase.workload
        self._emit(Event(at_s=self._now_s(), phase=event.number, moment=event.moment, workload=workload))
        if event.moment is Moment.ENDED:
            report = self._report(event)
            watch.reports.append(report)
            self._emit(Event(at_s=self._now_s(), report=report))

    def _listen(self, wait_s: float) -> None:
        """Take in what the agent has said. Raises AsaError when it has ended."""
        agent = self._agent
        assert agent is not None  # noqa: S101  # play() started it
        assert agent.stdout is not None  # noqa: S101
        while select.select([agent.stdout], [], [], wait_s)[0]:
            chunk = os.read(agent.stdout.fileno(), 1 << 16)
            if not chunk:
                raise AsaError(f"the agent ended with code {agent.wait()}; its words are above")
            *lines, self._buffer = (self._buffer + chunk).split(b"\n")
            for line in lines:
                self._take(wire.from_json(line, _AgentLine))
            wait_s = 0.0

    def _take(self, line: _AgentLine) -> None:
        at_ns = line.decision.monotonic_ns if line.decision is not None else self._clock.monotonic_ns()
        self._emit(Event(at_s=(at_ns - self._began_ns) / 1e9, say=line.say, decision=line.decision))
        decision, watch = line.decision, self._watch
        if decision is None:
            return
        watch.ticks += 1
        served = decision.reason is Reason.SERVED
        same = watch.last is not None and watch.last.workload == decision.workload
        watch.settled = watch.settled + 1 if served and same else 0
        watch.last = decision
        if watch.phase is None or decision.monotonic_ns < watch.began_ns:
            return
        if decision.workload != watch.phase.phase.workload:
            return
        if watch.recognised_ns is None:
            watch.recognised_ns = decision.monotonic_ns
        if served and watch.served_ns is None:
            watch.served_ns = decision.monotonic_ns

    def _report(self, event: PhaseEvent) -> PhaseReport:
        watch = self._watch
        decision, in_force = watch.verdict
        recognised = decision.workload if decision is not None else None
        named = self._table.wanted(recognised, ()) if recognised is not None else None
        recognised_ns = watch.recognised_ns
        switch_s = None
        if recognised_ns is not None and watch.served_ns is not None:
            switch_s = (watch.served_ns - recognised_ns) / 1e9
        return PhaseReport(
            number=event.number,
            workload=event.phase.workload,
            parameters=event.parameters,
            seconds=(event.monotonic_ns - watch.began_ns) / 1e9,
            recognised=recognised,
            confidence=decision.vote.confidence if decision is not None else 0.0,
            recognise_s=None if recognised_ns is None else max(0.0, (recognised_ns - watch.began_ns) / 1e9),
            switch_s=switch_s,
            named_by_table=named,
            in_force=in_force,
            right=recognised == event.phase.workload,
            on_wanted=named is not None and named.bare == in_force,
            way=watch.switched.way if watch.switched is not None else "",
            gap_s=_gap_s(watch.switched),
        )

    def _end_agent(self, agent: subprocess.Popen[bytes]) -> None:
        agent.send_signal(signal.SIGINT)  # as Ctrl-C does: it must put the kernel back
        try:
            rest, _ = agent.communicate(timeout=_AGENT_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
            said = f"the agent did not end within {_AGENT_STOP_LIMIT_S:.0f} s and was killed"
            self._emit(Event(at_s=self._now_s(), say=said))
            return
        for line in (self._buffer + rest).splitlines():
            self._take(wire.from_json(line, _AgentLine))

    def _now_s(self) -> float:
        return (self._clock.monotonic_ns() - self._began_ns) / 1e9
