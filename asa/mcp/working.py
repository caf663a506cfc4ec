# SPDX-License-Identifier: GPL-2.0-only
"""Jobs of the laboratory for a client: compose, verify, tune. Each is a child process, `asa lab …`, one at a time.

Its command line is made here, of words from closed lists and of numbers; nothing of a client is a path or an option. A
job has a folder below the state folder, and a line in the audit log before and after. It ends with its server, however
that ends (`asa.mcp.child`). Nothing that it makes is installed or loaded.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asa.core.errors import AsaError
from asa.mcp import answers, asked, audit
from asa.mcp.machine import Machine
from asa.mcp.trying import Who

FOLDER = "jobs"
"""Below the state folder."""

ENDED = ("done", "failed", "cancelled")

_ROOT = Path(__file__).parents[2]  # of this program: clients hand no PYTHONPATH on
_SAID, _TOLD = "answer.json", "log"
_FINE = (0, 4, 5)  # `asa lab tune` found nothing, `asa lab verify` found faults: answers, too
_MOST_BYTES, _TAIL_BYTES = 1 << 18, 4096
_MOST_KEPT = 32
_END_S = 20.0
_CHILD = sys.executable, "-P", "-m", "asa.mcp.child"


@dataclass(slots=True, kw_only=True)
class Work:
    """A job. `changed` guards `stage` and is told of each change of it."""

    id: str
    kind: str
    who: Who
    folder: Path
    begun: audit.Line
    stage: str = "running"
    why: str = ""
    result: Any = None
    process: subprocess.Popen[bytes] | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: threading.Event = field(default_factory=threading.Event)

    def said(self) -> answers.Job:
        """As the tools answer it."""
        why = self.why or _last(self.folder / _TOLD)
        return answers.Job(id=self.id, kind=self.kind, stage=self.stage, why=why, result=self.result)


class Works:
    """The jobs of all sessions of this process."""

    def __init__(self, machine: Machine, command: Sequence[str] = _CHILD) -> None:
        """`command`: what starts `asa` with the words behind it; tests have another."""
        self._machine, self._command = machine, tuple(command)
        self._works: dict[str, Work] = {}
        self._guard = threading.Lock()

    def compose(self, who: Who, ask: asked.Compose) -> answers.Job:
        """Compile a scheduler from a template. Raises AsaError; then nothing was begun."""
        numbers = [f"--param={one.name}={one.value}" for one in ask.parameters]
        return self._begin(who, "compose", ask.why, [ask.template, "--out", "made", *numbers])

    def verify(self, who: Who, ask: asked.Verify) -> answers.Job:
        """Look for faults of a scheduler, or of what a job of this session has composed. Raises AsaError."""
        if (ask.policy is None) == (ask.made is None):
            raise AsaError("verify: give `policy`, an id that `policies` lists, or `made`, the id of a compose job")
        if ask.policy is not None:
            return self._begin(who, "verify", ask.why, [str(self._machine.host().known(ask.policy).bare)])
        made = self._own(str(ask.made), who)
        found = made.result.get("object") if made.kind == "compose" and isinstance(made.result, dict) else None
        if made.stage != "done" or not isinstance(found, str):
            raise AsaError(f"verify: {made.id} has composed nothing: it is a {made.kind} job, {made.stage}")
        return self._begin(who, "verify", ask.why, [str(made.folder / found), "--composed"])

    def tune(self, who: Who, ask: asked.Tune) -> answers.Job:
        """Search a scheduler's flags in the lab, for hours. Raises AsaError; then nothing was begun."""
        name = self._machine.host().known(ask.policy)
        words = ["--policy", str(name.bare), f"--class={ask.for_use}", "--method", ask.method, "--out", "tuned"]
        words += ["--machine", ask.machine, "--trials", str(ask.trials), "--seed", str(ask.seed)]
        return self._begin(who, "tune", ask.why, [*words, *(f"--flag={flag}" for flag in ask.flags)])

    def job(self, who: Who, ask: asked.Job) -> answers.Job:
        """How far a job is; with `cancel` it is ended first. Raises AsaError for one of another session."""
        work = self._own(ask.id, who)
        if ask.cancel:
            self._cancel(work, "cancelled by the client")
        with work.changed:
            before = work.stage
            work.changed.wait_for(lambda: work.stage != before, timeout=ask.wait_s if before == "running" else 0.0)
        return work.said()

    def has(self, number: str) -> bool:
        """Is it a job of this process?"""
        return number in self._works

    def close(self) -> None:
        """End what is under way: the client has gone."""
        for work in list(self._works.values()):
            self._cancel(work, "the client has gone")

    def _begin(self, who: Who, kind: str, why: str, words: Sequence[str]) -> answers.Job:
        with self._guard:
            for other in self._works.values():
                if other.stage == "running":
                    raise AsaError(f"{other.who.words} has a job already: {other.kind} {other.id}; one at a time")
            number = secrets.token_hex(8)
            line = audit.line_of(who, number, None, None, kind, why, audit.BEGUN)
            folder = self._machine.places.state / FOLDER / number
            try:
                folder.mkdir(parents=True)
                (folder / _SAID).touch()
                (folder / _TOLD).touch()
            except OSError as error:
                raise AsaError(f"{folder}: cannot be written: {error.strerror}; nothing was begun") from error
            audit.append(self._log, line)
            work = Work(id=number, kind=kind, who=who, folder=folder, begun=line)
            for old in list(self._works)[: 1 - _MOST_KEPT]:
                del self._works[old]
            self._works[number] = work
        command = [*self._command, "lab", kind, *words, "--json"]
        threading.Thread(target=self._run, args=(work, command), daemon=True, name=f"job-{number}").start()
        return work.said()

    def _run(self, work: Work, command: Sequence[str]) -> None:
        # this thread lives as long as the child, which ends with it (PR_SET_PDEATHSIG)
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        try:
            with (work.folder / _SAID).open("wb") as said, (work.folder / _TOLD).open("wb") as told:
                with work.changed:
                    if work.stage == "running":
                        work.process = subprocess.Popen(
                            command,
                            cwd=work.folder,
                            stdin=subprocess.DEVNULL,
                            stdout=said,
                            stderr=told,
                            env={**os.environ, "PYTHONPATH": path, "ASA_SERVER": str(os.getpid())},
                            start_new_session=True,
                        )
                code = 0 if work.process is None else work.process.wait()
            stage, why, work.result = self._outcome(work, code)
        except OSError as error:
            stage, why = "failed", f"{error.filename or command[0]}: {error.strerror}"
        with work.changed:
            if work.stage == "running":
                work.stage, work.why = stage, why
            work.changed.notify_all()
        with suppress(AsaError):  # the work is done; `job` tells it
            outcome = f"{work.stage}: {work.why}".removesuffix(": ")
            audit.append(self._log, audit.after(work.begun, outcome))
        work.ended.set()

    def _outcome(self, work: Work, code: int) -> tuple[str, str, Any]:
        if code not in _FINE:
            return "failed", _last(work.folder / _TOLD) or f"it ended with {code}", None
        with (work.folder / _SAID).open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            return "failed", f"its answer is longer than {_MOST_BYTES >> 10} KiB", None
        try:
            rows = [json.loads(line) for line in body.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            return "failed", _last(work.folder / _TOLD) or "it answered what is no JSON", None
        return "done", "", rows[0] if len(rows) == 1 else rows

    def _cancel(self, work: Work, why: str) -> None:
        with work.changed:
            if work.stage != "running":
                return
            work.stage, work.why, process = "cancelled", why, work.process
            work.changed.notify_all()
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            if work.ended.wait(_END_S):
                return

    def _own(self, number: str, who: Who) -> Work:
        work = self._works.get(number)
        if work is None:
            raise AsaError(f"there is no job {number!r}; `compose`, `verify` and `tune` answer with its id")
        if work.who != who:
            raise AsaError(f"the job {number!r} belongs to another session: {work.who.words}")
        return work

    @property
    def _log(self) -> Path:
        return self._machine.places.state / audit.NAME


def _last(path: Path) -> str:
    """The last line that a child has said, for people."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].removeprefix("asa: ")[:300] if lines else ""
