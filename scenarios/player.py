# SPDX-License-Identifier: GPL-2.0-only
"""Plays workloads (`asa lab demo`, `asa lab record --campaign`): starts programs, watches them, ends every process.

The benchmark's applications are played by `scenarios.session` and `scenarios.runner` instead.
Reads /proc (which ports are open, is this the lab) and writes one scratch folder, which is removed at the end. Whose
a process is, `scenarios.crew` knows; what to start comes from `scenarios.workloads`.
"""

import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from asa.core.decision import Workload
from asa.core.errors import AsaError
from asa.core.ports import Clock
from scenarios import workloads
from scenarios.crew import Crew, StuckError, last_words
from scenarios.session import default_folder
from scenarios.workloads import Program, Setting

_DISK_MB = 256  # larger than any device's own cache of the moment, small enough to be written in a second
_LOOK_S = 0.02
_IO_URING_SETUP = 425  # the same number on every architecture we run on (asm-generic/unistd.h)


class PlayerError(AsaError):
    """A program could not be played: missing, ended with an error, or would not come up or go away.

    `last_words` are the last lines it printed itself, "" when it said nothing.
    """

    def __init__(self, *, program: str, reason: str, last_words: str = "") -> None:
        words = f"; it said: {last_words!r}" if last_words else ""
        super().__init__(f"{program}: {reason}{words}")
        self.program = program
        self.reason = reason
        self.last_words = last_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where programs play: a fact about this machine, found by `find_stage`."""

    lab: bool  # an emulated guest
    cpus: int
    folder: Path  # scratch folders are made in it
    device: Path | None  # raw disk that may be overwritten, only in the lab
    proc: Path = Path("/proc")


def find_stage(*, cache: Path, environment: Mapping[str, str] | None = None, proc: Path = Path("/proc")) -> Stage:
    """The stage here: the lab is recognised by its kernel's command line (virtme-ng writes `virtme_` options).

    Raises PlayerError when ASA_LAB_DISK is set elsewhere, since that disk would be overwritten.
    """
    device = (os.environ if environment is None else environment).get("ASA_LAB_DISK")
    lab = "virtme_" in (proc / "cmdline").read_text()
    if device and not lab:
        reason = f"names {device!r}, which would be overwritten, but this is not the lab; unset it"
        raise PlayerError(program="ASA_LAB_DISK", reason=reason)
    return Stage(
        lab=lab,
        cpus=len(os.sched_getaffinity(0)),
        folder=default_folder(cache, lab=lab),
        device=Path(device) if device else None,
        proc=proc,
    )


@dataclass(slots=True, kw_only=True)
class _Running:
    program: Program
    process: subprocess.Popen[bytes]
    log: Path


class Player:
    """One workload being played. Start it with `Player.start`; leaving its context stops it."""

    def __init__(self, *, stage: Stage, scratch: Path, setting: Setting, programs: tuple[Program, ...]) -> None:
        self.programs = programs
        self._stage = stage
        self._scratch = scratch
        self._setting = setting
        self._crew = Crew(stage.proc)
        self._running: list[_Running] = []

    @classmethod
    def start(cls, workload: str, *, seed: int, stage: Stage, ready_limit_s: float = 60.0) -> Self:
        """Start the programs of a workload and return when all are up. Blocks for at most `ready_limit_s` each.

        Call it in a thread that outlives the player: the programs get SIGTERM when it ends (prctl(2),
        PR_SET_PDEATHSIG). Raises PlayerError; nothing is left behind then.
        """
        entry = workloads.find(workload)
        if entry is None:
            reason = f"is no workload; there are {', '.join(workloads.LABELS)}"
            raise PlayerError(program=repr(workload), reason=reason)
        try:
            stage.folder.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix="asa-play-", dir=stage.folder))
        except OSError as error:
            raise PlayerError(program=str(stage.folder), reason=f"no scratch folder: {error.strerror}") from error
        setting = Setting(
            cpus=stage.cpus,
            disk=stage.device or scratch / "disk",
            disk_mb=None if stage.device else _DISK_MB,
            port=_free_port(),
            io_uring=_io_uring_works(),
            lab=stage.lab,
        )
        player = cls(stage=stage, scratch=scratch, setting=setting, programs=workloads.programs(entry, seed, setting))
        try:
            player._open(ready_limit_s)
        except BaseException:
            player.stop()
            raise
        return player

    @property
    def parameters(self) -> str:
        """The command lines as they were started, one a line; what a program reads follows it after `<<<`."""
        lines = [shlex.join(p.argv) + (f" <<< {shlex.quote(p.stdin)}" if p.stdin else "") for p in self.programs]
        return "\n".join(lines)

    def alive(self) -> bool:
        """True while the workload plays; call it about once a second.

        A program that ended well is started again. Raises PlayerError for one that ended with an error; the others
        play on until `stop`.
        """
        for running in self._running:
            code = running.process.poll()
            if code is None:
                continue
            if code != 0:
                raise _ended(running, code)
            running.process = self._launch(running.program, running.log)
        return bool(self._running)

    def stop(self) -> None:
        """End all programs with everything they started and remove the scratch folder. May be called again.

        The programs get SIGTERM and 10 s to clean up, what is left then gets SIGKILL. Raises PlayerError when
        something survives that (a task stuck in the kernel).
        """
        try:
            self._crew.end()
        except StuckError as error:
            raise PlayerError(
                program=f"processes {list(error.pids)}", reason="do not end, even after SIGKILL; see dmesg"
            ) from error
        self._running.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def members(self) -> list[int]:
        """Process ids of the programs and all their living descendants (zombies left out)."""
        return self._crew.members()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _open(self, ready_limit_s: float) -> None:
        for program in self.programs:
            if shutil.which(program.argv[0]) is None:
                raise PlayerError(
                    program=program.argv[0], reason=f"is not installed; run: apt-get install {program.package}"
                )
        if any(program.uses_disk for program in self.programs):
            self._make_disk()
        for number, program in enumerate(self.programs):
            log = self._scratch / f"{number}.log"
            running = _Running(program=program, process=self._launch(program, log), log=log)
            self._running.append(running)
            self._await_ready(running, ready_limit_s)

    def _make_disk(self) -> None:
        if self._stage.device is not None:
            if not self._stage.device.is_block_device():
                reason = f"names {str(self._stage.device)!r}, which is no block device"
                raise PlayerError(program="ASA_LAB_DISK", reason=reason)
            return
        if self._stage.lab:
            raise PlayerError(program="ASA_LAB_DISK", reason="is not set; boot the lab with a scratch disk")
        # Written here and not by fio, so that the session starts with the load itself; random, so that no layer
        # below can store it as a hole.
        block = os.urandom(1 << 20)
        try:
            with self._setting.disk.open("wb") as file:
                for _ in range(self._setting.disk_mb or 0):
                    file.write(block)
                os.fsync(file.fileno())
        except OSError as error:
            reason = f"{_DISK_MB} MiB of scratch file cannot be written: {error.strerror}; make room"
            raise PlayerError(program=str(self._setting.disk), reason=reason) from error

    def _launch(self, program: Program, log: Path) -> subprocess.Popen[bytes]:
        source = None
        if program.stdin:
            source = log.with_suffix(".stdin")
            source.write_text(program.stdin)
        try:
            return self._crew.launch(program.argv, cwd=self._scratch, output=log, stdin=source)
        except OSError as error:
            raise PlayerError(program=program.argv[0], reason=f"cannot be started: {error.strerror}") from error

    def _await_ready(self, running: _Running, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        port = running.program.listens
        while True:
            code = running.process.poll()
            if code is not None:
                if code != 0 or port is not None:
                    raise _ended(running, code)
                return  # a short one; `alive` starts it again
            if self._is_up(running) and (port is None or port in _listening(self._stage.proc)):
                return
            if time.monotonic() > deadline:
                what = "is not up" if port is None else f"does not listen on port {port}"
                words = last_words(running.log)
                raise PlayerError(
                    program=running.program.argv[0], reason=f"{what} after {limit_s:.0f} s", last_words=words
                )
            time.sleep(_LOOK_S)

    def _is_up(self, running: _Running) -> bool:
        here = self._stage.proc / str(running.process.pid)
        try:
            threads = len(list((here / "task").iterdir()))
            # for a moment it still is this interpreter, then setpriv, and only then the program
            before = (self._stage.proc / "self/exe").readlink(), Path(shutil.which("setpriv") or "").resolve()
            return (here / "exe").readlink() not in before and threads >= running.program.threads
        except OSError:  # it ended meanwhile; its exit code is looked at next
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One part of a script: a workload that plays for at least `min_s`."""

    workload: Workload
    min_s: float
    seed: int = 0


class Moment(StrEnum):
    """What happened to a phase."""

    STARTING = "starting"  # its programs are about to be started
    PLAYING = "playing"  # all of them are up
    ENDED = "ended"  # all of them are gone


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEvent:
    """A moment of a script. `parameters` are the command lines, "" while starting."""

    monotonic_ns: int
    number: int  # of the phase, from 0
    phase: Phase
    moment: Moment
    parameters: str = ""


def play_script(
    phases: Sequence[Phase],
    *,
    stage: Stage,
    until: Callable[[float], bool],
    on_event: Callable[[PhaseEvent], None],
    clock: Clock,
    look_s: float = 0.25,
) -> None:
    """Play phases one after another; blocks until the last has ended.

    `until` is asked about every `look_s` seconds with the time in seconds that the present phase has played
    (`on_event` tells which one it is), first when `min_s` have passed; the phase ends when it answers True.
    Raises PlayerError when a program fails, and passes on what `until` and `on_event` raise; the phase is stopped then.
    """
    for number, phase in enumerate(phases):
        on_event(PhaseEvent(monotonic_ns=clock.monotonic_ns(), number=number, phase=phase, moment=Moment.STARTING))
        with Player.start(phase.workload, seed=phase.seed, stage=stage) as player:
            began_ns = clock.monotonic_ns()
            words = player.parameters
            on_event(
                PhaseEvent(monotonic_ns=began_ns, number=number, phase=phase, moment=Moment.PLAYING, parameters=words)
            )
            while player.alive():
                elapsed_s = (clock.monotonic_ns() - began_ns) / 1e9
                if elapsed_s >= phase.min_s and until(elapsed_s):
                    break
                time.sleep(look_s)
        now_ns = clock.monotonic_ns()
        on_event(PhaseEvent(monotonic_ns=now_ns, number=number, phase=phase, moment=Moment.ENDED, parameters=words))


def _ended(running: _Running, code: int) -> PlayerError:
    reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return PlayerError(program=running.program.argv[0], reason=reason, last_words=last_words(running.log))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listening(proc: Path) -> set[int]:
    # proc_net_tcp: `sl local_address rem_address st ...`, address and port in hexadecimal, state 0A is LISTEN
    ports = set()
    for name in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):  # no IPv6
            for line in (proc / "net" / name).read_text().splitlines()[1:]:
                _, local, _, state = line.split()[:4]
                if state == "0A":
                    ports.add(int(local.rpartition(":")[2], 16))
    return ports


def _io_uring_works() -> bool:
    # Asked of the kernel itself: it may be compiled out, switched off (kernel.io_uring_disabled) or filtered (seccomp)
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)  # struct io_uring_params
    ring = libc.syscall(_IO_URING_SETUP, 1, parameters)
    if ring < 0:
        return False
    os.close(ring)
    return True
