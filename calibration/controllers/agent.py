# SPDX-License-Identifier: GPL-2.0-only
"""The agent as a controller: `asa run` itself, as a user starts it, with a table, a model and a fresh state of its own.

Starts it and waits until it ticks; at the end stops it, and sees to it that the kernel's own scheduler is in force. Its
lines of JSON and its status tell the course, and its journal what each tick took, where that is asked for. All that it
writes is in a scratch folder, which is removed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from asa import host, paths, status, wire
from asa.act.forcing import Check
from asa.act.kernel import sched_ext_state
from asa.act.undo import UndoJournal
from asa.core.errors import JournalError, SchedulerError
from asa.decide import table
from asa.journal import Journal
from asa.status import Status
from calibration.controllers.course import Course
from calibration.overhead.agent import cpu_clock

Settings: TypeAlias = Mapping[str, Any]

ABLATIONS: Mapping[str, Settings] = {
    "no-voting": {"voting": {"method": "none"}},
    "no-cooldown": {"policy": {"cooldown_s": 0}},
    "no-guard": {"guard": {"enabled": False}},
    "no-cost": {"policy": {"weigh_cost": False}},
}
"""What the agent lacks, by name: settings."""

FRESH = "fresh"
"""The agent of a fresh installation: no table of its own machine, nothing learnt."""

INSIDE = "inside"
"""The agent at the speed of its guest, where it has a machine's else (`calibration.controllers.hurried`)."""

LEARNT = "learnt"
"""The same with what it has learnt since: a state is given to it, and may be kept."""

_TABLELESS = (FRESH, LEARNT)

DEFAULTS: Settings = {"guard": {"baseline_s": 0}, "standby": {"count": 0}, "realtime": False}
"""Settings of a run that names none: as shipped, but for what a short trial of an agent that has just started in an
emulated guest would show too large. A class which is met first stays on EEVDF for 20 s, and standbys load (seconds of
processor time there): each once in an agent's life, or at a change of use. A tick takes so long there that nothing
else would run on that CPU for several frames; so it is of ordinary priority, as in the daemon of a user on a laptop."""

# setpriv(1) lets it end with us even when we are killed; -P: root imports nothing from the current folder
_PYTHON = ("setpriv", "--pdeathsig", "TERM", sys.executable, "-P", "-m")
_RUN = ("run", "--json", "--config")
COMMAND = (*_PYTHON, "asa.cli", *_RUN)
HURRIED = (*_PYTHON, "asa.cli.lab.hurried", *_RUN)
_NAME = "agent"
_STATE = "asa"  # below XDG_STATE_HOME: where `asa.paths` has the agent's state
_AT_WORK = ("switching", "shadow")  # as its status says; the latter for who gives such a command
_ATTACH_LIMIT_S = 120.0  # scx_lavd takes an emulated guest a minute
_START_LIMIT_S = 180.0  # emulated: Python, the model, the probes
_END_LIMIT_S = 60.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the agent is given. Paths are "" for what ASA ships; `owners` are trusted with schedulers' files.

    `table` is its machine's own: what that one does not rank, the shipped ones behind it do. One that `settings` name
    stands alone, as everywhere, and is taken where `table` is "". With `costs` it keeps a journal, and in it what each
    tick took. `state` is a folder of an earlier one that it goes on with, `keep` one that takes its own at the end.
    """

    table: str = ""
    model: str = ""
    settings: Settings = field(default_factory=dict)  # empty: DEFAULTS
    variant: str = ""  # of ABLATIONS
    owners: Collection[int] = ()
    costs: bool = False
    state: str = ""
    keep: str = ""
    hurried: bool = False  # at the speed that it has on a laptop


class _Decided(msgspec.Struct, frozen=True):
    monotonic_ns: int
    workload: str | None = None
    current: str | None = None


class _Line(msgspec.Struct, frozen=True):
    decision: _Decided | None = None


def settings(job: Job) -> dict[str, Any]:
    """The agent's file of settings."""
    found = _merged(job.settings or DEFAULTS, {"switch": {"attach_limit_s": _ATTACH_LIMIT_S}})
    trusted = (*found["switch"].get("trusted_owners", ()), *job.owners)
    found = _merged(found, {"switch": {"trusted_owners": list(dict.fromkeys(trusted))}})
    if job.table or job.variant in _TABLELESS:
        found.pop("table", None)  # the agent would look at no other
    if job.model:
        found["model"] = job.model
    if job.costs:
        found = _merged(found, {"journal": {"costs_every": 1}})
    return _merged(found, ABLATIONS.get(job.variant, {}))


@contextmanager
def running(
    job: Job, places: paths.Places, scratch: Path, course: Course, command: Sequence[str] | None = None
) -> Iterator[Check]:
    """The agent at work, its own lock and run folder below `places.run`; `course` is whole afterwards.

    Raises SchedulerError when it does not come up or may not switch; the check does when it has ended, and so does
    leaving when the kernel is not on its own scheduler then. Whatever happens, what the agent started is ended.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="asa-agent-", dir=scratch))
    try:
        agent = _Agent.start(job, places, folder, course, command or (HURRIED if job.hurried else COMMAND))
        try:
            agent.settle()
            yield agent.check
        finally:
            trouble = agent.end()
        if job.keep:
            _keep(folder / _STATE, Path(job.keep))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if trouble:
        raise SchedulerError(scheduler=_NAME, reason=trouble)


class _Agent:
    """A running agent."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        output: Path,
        journal: Path | None,
        places: paths.Places,
        course: Course,
    ) -> None:
        self._process = process
        self._output = output
        self._journal = journal
        self._places = places
        self._course = course
        self._clock = cpu_clock(process.pid)

    @classmethod
    def start(cls, job: Job, places: paths.Places, folder: Path, course: Course, command: Sequence[str]) -> Self:
        path, output = folder / "asa.yaml", folder / "output"
        journal = folder / "journal.sqlite" if job.costs else None
        words = [*command, str(path), *(() if journal is None else ("--journal", str(journal)))]
        path.write_text(json.dumps(settings(job)))  # JSON is YAML
        environment = os.environ | {"XDG_STATE_HOME": str(folder)}
        try:
            _put_table(job, places, folder / _STATE)
            with output.open("wb") as file:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise SchedulerError(scheduler=_NAME, reason=f"{error.filename}: {error.strerror}") from error
        return cls(process, output, journal, places, course)

    def settle(self) -> None:
        """Wait for its first tick."""
        end_s = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < end_s:
            self.check()
            found = self._status()
            if found is not None and found.ticks > 0:
                if found.mode not in _AT_WORK:
                    raise SchedulerError(scheduler=_NAME, reason=f"is {found.mode}: {found.mode_reason}")
                return
            time.sleep(_LOOK_S)
        raise self._error(f"did not tick within {_START_LIMIT_S:.0f} s")

    def check(self) -> None:
        """Is it at work?"""
        code = self._process.poll()
        if code is not None:
            raise self._error(f"ended with code {code}")
        self._course.cpu.append((time.monotonic_ns(), time.clock_gettime_ns(self._clock)))

    def end(self) -> str:
        """Stop it and read what it did. What went wrong in that, "" for nothing."""
        self._note(self._status() if self._process.poll() is None else None)
        trouble = self._stop()
        self._read()
        state = sched_ext_state(self._places.sys)
        if state is not None and state.state != "disabled":
            UndoJournal(self._places.run / "undo.json", self._places.proc, self._places.sys).recover(_END_LIMIT_S)
            return trouble or f"left {state.ops or state.state} in force"
        return trouble

    def _stop(self) -> str:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            code = self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return f"did not end within {_END_LIMIT_S:.0f} s and was killed"
        return "" if code == 0 else str(self._error(f"ended with code {code}"))

    def _status(self) -> Status | None:
        found = status.read(self._places.run)
        return found if found is not None and found.pid == self._process.pid else None

    def _note(self, last: Status | None) -> None:
        if last is None:
            return
        resident = last.resident_bytes
        self._course.facts |= {
            "resident_mb": None if resident is None else round(resident / 1e6, 1),
            "way": last.way,
            "mode": last.mode,
            "failures": last.failures,
            "overruns": last.overruns,
            "events": [
                {
                    "outcome": one.outcome,
                    "old": one.old,
                    "new": one.new,
                    "way": one.way,
                    "elapsed_ms": round(one.elapsed_ns / 1e6, 1),
                    "gap_ms": None if one.gap_ns is None else round(one.gap_ns / 1e6, 3),
                }
                for one in last.lately
            ],
        }

    def _read(self) -> None:
        for line in self._output.read_bytes().splitlines():
            try:
                decision = wire.from_json(line, _Line).decision
            except msgspec.DecodeError:  # a warning of Python's
                continue
            if decision is None:
                continue
            if decision.current is not None:
                self._course.held.append((decision.monotonic_ns, decision.current))
            if decision.workload is not None:
                self._course.classes.append((decision.monotonic_ns, decision.workload))
        if self._journal is not None:
            with suppress(JournalError):  # one that never came so far: what each tick took is not known
                self._read_costs(self._journal)

    def _read_costs(self, path: Path) -> None:
        with Journal.look(path) as journal:
            for session in journal.sessions():
                for one in journal.costs(session.number):
                    if one.inference_us is not None:
                        times_ms = round(one.inference_us / 1e3, 4), round(one.decision_us / 1e3, 4)
                        self._course.costs.append((one.monotonic_ns, *times_ms))

    def _error(self, reason: str) -> SchedulerError:
        lines = self._output.read_text(errors="replace").splitlines()[-1:]
        return SchedulerError(scheduler=_NAME, reason=reason, last_words=lines[0][-300:] if lines else "")


def _put_table(job: Job, places: paths.Places, state: Path) -> None:
    # where none is given the shipped one stands there, too: else the agent would take that of an ASA on the lab's host
    if job.state:
        shutil.copytree(job.state, state)
        return
    own = Path(job.table) if job.table else table.choose(paths.mapping_tables(), host.facts(places.proc, places.sys))
    state.mkdir()
    shutil.copyfile(own, state / table.NAME)


def _keep(state: Path, where: Path) -> None:
    try:
        shutil.copytree(state, where)
    except OSError as error:
        raise SchedulerError(scheduler=_NAME, reason=f"{where}: cannot keep its state: {error}") from error


def _merged(below: Settings, above: Settings) -> dict[str, Any]:
    """`above` on top of `below`, key by key in what is a mapping in both."""
    found = dict(below)
    for key, value in above.items():
        under = found.get(key)
        found[key] = _merged(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return found
