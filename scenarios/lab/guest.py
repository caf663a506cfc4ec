# SPDX-License-Identifier: GPL-2.0-only
"""A guest: one command run as root under the lab's kernel, over this host's own root file system.

The module `machine` says what it is made of, here `parts`; QEMU is started from here as a direct child, so that it can
be watched, stopped, and dies with us. The host's root is read-only in the guest, except
`/tmp` (writes stay in the guest) and the folder `out` (writes are the host's). Everything comes back by files in a
private folder below `out`; the console's text stays as `out/console.log`.
"""

import compileall
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from asa.core.errors import GuestCrashError, LabError, LabTimeoutError
from scenarios.conditions import Conditions, told
from scenarios.lab import emulator as emulators
from scenarios.lab import kernel as kernels
from scenarios.lab import machine as parts
from scenarios.lab.emulator import Clock, Emulator
from scenarios.lab.kernel import Kernel
from scenarios.lab.machines import MOST_CPUS, Machine

CPUS = range(1, MOST_CPUS + 1)
_NOT_OURS = " (not the lab's own QEMU: remove its folder in ~/.cache/asa/qemu and run `asa lab setup --guests`)"
BOOT_LIMIT_S = 240.0  # emulation on a busy host: 5 s when idle, 40 s seen with every core taken twice
_TRIAL_LIMIT_S = 30.0
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("asa", "calibration", "collectors", "models", "scenarios")
_POLL_S = 0.03
_PREFIX = ".lab-"
_TELLING = re.compile(r"Kernel panic|Oops|\bBUG:|\bint3:|general protection fault|double fault|Unable to mount root")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What a guest needs: a kernel, and a QEMU that knows whether it may use KVM."""

    kernel: Kernel
    emulator: Emulator


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestResult:
    """How a command in a guest ended. Times are the host's, also under a clock that counts instructions."""

    exit_code: int  # as a shell gives it: 126 and 127 for a command that cannot be run, 128 + n for signal n
    boot_s: float  # from starting QEMU to the command's start
    run_s: float
    console: Path


def ready(
    cache: Path,
    report: Callable[[str], None],
    *,
    measuring: bool = False,
    tick_hz: int | None = None,
    release: str | None = None,
) -> Lab:
    """A lab that can boot: installs, fetches or builds what is missing, tries KVM once. Raises LabError, SetupError.

    `measuring`: it can boot under the parallel clock, too; builds the QEMU for it when it is not there. `tick_hz`
    or `release` chooses the kernel, as in `kernel.ensure`.
    """
    for name in _PACKAGES:  # each process in a guest would compile them anew, emulated: it cannot write here
        compileall.compile_dir(_ROOT / name, quiet=2)
    emulator = emulators.ensure(cache, report, measuring=measuring)
    kernel = kernels.ensure(cache, report, tick_hz, release=release)

    def trial(candidate: Emulator) -> None:
        out = cache / "lab/kvm-trial"
        guest = Guest.start(["true"], kernel=kernel, emulator=candidate, out=out, boot_limit_s=_TRIAL_LIMIT_S)
        with guest:
            guest.wait(report)

    return Lab(kernel=kernel, emulator=emulators.settle_kvm(emulator, cache, trial, report))


def run(
    command: Sequence[str],
    *,
    lab: Lab,
    out: Path,
    on_output: Callable[[str], None],
    on_error: Callable[[str], None] | None = None,
    cpus: int = 2,
    memory_mb: int = 2048,
    clock: Clock = Clock.WALL,
    disk_mb: int = 0,
    env: Mapping[str, str] | None = None,
    limit_s: float = 600.0,
    machine: Machine | None = None,
    qemu_options: Sequence[str] = (),
) -> GuestResult:
    """Boot, run `command`, and give its lines to `on_output` (stderr to `on_error` if given) as they come.

    The options are those of `Guest.start`. Raises what `Guest.poll` raises; the guest is gone in any case.
    """
    guest = Guest.start(
        command,
        kernel=lab.kernel,
        emulator=lab.emulator,
        out=out,
        cpus=cpus,
        memory_mb=memory_mb,
        clock=clock,
        disk_mb=disk_mb,
        env=env,
        limit_s=limit_s,
        machine=machine,
        qemu_options=qemu_options,
    )
    with guest:
        return guest.wait(on_output, on_error)


@dataclass(slots=True)
class _Follower:
    """The complete lines that a growing file has gained since the last look."""

    path: Path
    offset: int = 0
    rest: bytes = b""

    def lines(self, *, last: bool = False) -> list[str]:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                new = file.read()
        except FileNotFoundError:
            return []
        self.offset += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        if last and self.rest:
            lines.append(self.rest)
            self.rest = b""
        return [line.decode("utf-8", "replace") for line in lines]


@dataclass(slots=True, kw_only=True)
class Guest:
    """A running guest. Use it as a context manager: leaving it kills QEMU and removes the private folder.

    QEMU is also killed when the thread that called `start` ends for whatever reason, kill -9 included; then only the
    private folder `out/.lab-PID-*` remains, and the next guest with the same `out` removes it.
    """

    out: Path
    limit_s: float
    boot_limit_s: float
    _private: Path
    _process: subprocess.Popen[bytes]
    _stdout: _Follower
    _stderr: _Follower
    _begun: float = field(default_factory=time.monotonic)
    _started: float | None = None
    _result: GuestResult | None = None
    _closed: bool = False

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        kernel: Kernel,
        emulator: Emulator,
        out: Path,
        cpus: int = 2,
        memory_mb: int = 2048,
        clock: Clock = Clock.WALL,
        disk_mb: int = 0,
        env: Mapping[str, str] | None = None,
        limit_s: float = 600.0,
        boot_limit_s: float = BOOT_LIMIT_S,
        machine: Machine | None = None,
        qemu_options: Sequence[str] = (),
    ) -> Self:
        """Boot a guest that runs `command` (an argument list, no shell) in this process's working directory.

        `out` is shared read-write at the same path. `disk_mb` > 0 adds an empty, sparse disk; its device is in the
        command's ASA_LAB_DISK. `limit_s` counts from the command's start. `machine` says what CPUs and memory the guest
        has, in place of `cpus` and `memory_mb`; `qemu_options` come last. Raises LabError.
        """
        if not command:
            raise LabError("the lab was given no command; name one after --")
        if machine is not None:
            cpus, memory_mb = machine.cpus, machine.memory_mb
        if cpus not in CPUS:
            raise LabError(f"a guest has {CPUS[0]} to {CPUS[-1]} CPUs, not {cpus!r}")
        out = out.resolve()
        parts.check_shared(out)
        private = _private_folder(out)
        try:
            under = Conditions(clock=clock, tick_hz=kernel.tick_hz, machine=machine.name if machine is not None else "")
            parts.write_runner(command, private, kernel, {**told(under), **(env or {})}, disk=disk_mb > 0)
            qemu = parts.plan(
                kernel, emulator, private, out, cpus=cpus, memory_mb=memory_mb, clock=clock, machine=machine
            )
            qemu += parts.disk(private, disk_mb) if disk_mb else []
            qemu += [*(machine.smp(parts.device(emulator, clock)) if machine is not None else ()), *qemu_options]
            process = _spawn(qemu, private)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        return cls(
            out=out,
            limit_s=limit_s,
            boot_limit_s=boot_limit_s,
            _private=private,
            _process=process,
            _stdout=_Follower(private / "stdout"),
            _stderr=_Follower(private / "stderr"),
        )

    @property
    def pid(self) -> int:
        """QEMU's process id."""
        return self._process.pid

    @property
    def console(self) -> Path:
        """The console's text, while the guest runs and afterwards."""
        return self.out / parts.CONSOLE if self._closed else self._private / parts.CONSOLE

    def poll(self) -> GuestResult | None:
        """The result once the command has ended, else None. Never blocks.

        Raises GuestCrashError when the kernel crashed or the machine vanished, LabTimeoutError when the command's limit
        passed, and LabError when the guest did not boot. The guest is stopped then.
        """
        if self._result is not None:
            return self._result
        if self._closed:
            raise LabError("the guest was stopped before its command had ended")
        gone = self._process.poll() is not None  # before looking for files: they may have come with its last breath
        now = time.monotonic()
        if self._started is None and (self._private / "started").exists():
            self._started = now
        code = _text(self._private / "exit").strip()
        if code:
            begun = self._begun if self._started is None else self._started
            boot_s, run_s = begun - self._begun, now - begun
            result = GuestResult(exit_code=int(code), boot_s=boot_s, run_s=run_s, console=self.out / parts.CONSOLE)
            self._kill()
            self._result = result
            return result
        self._judge(now, gone=gone)
        return None

    def output(self) -> tuple[list[str], list[str]]:
        """Lines of (stdout, stderr) since the last call; an unfinished last line comes when the command has ended."""
        last = self._process.returncode is not None
        return self._stdout.lines(last=last), self._stderr.lines(last=last)

    def wait(self, on_output: Callable[[str], None], on_error: Callable[[str], None] | None = None) -> GuestResult:
        """Follow the command to its end; raises what `poll` raises. All lines that came are given in any case."""
        while True:
            try:
                result = self.poll()
            finally:
                normal, errors = self.output()
                for line in normal:
                    on_output(line)
                for line in errors:
                    (on_error or on_output)(line)
            if result is not None:
                return result
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)

    def stop(self) -> None:
        """Kill the machine and tidy up. Twice is once. The console's text stays in `out`."""
        if self._closed:
            return
        self._kill()
        self._closed = True
        console = self._private / parts.CONSOLE
        with contextlib.suppress(OSError):  # somebody removed `out`, or the disk is full: nothing to keep
            with console.open("ab") as file:
                file.write(_text(self._private / "qemu.log").encode())  # what QEMU said itself belongs to the story
            console.replace(self.out / parts.CONSOLE)
        shutil.rmtree(self._private, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _judge(self, now: float, *, gone: bool) -> None:
        # Without an exit code: is this an ordinary wait, or the end of it?
        see = f"see {self.out / parts.CONSOLE}"  # where the text will be for who reads the message
        failed = _text(self._private / "failed").strip()
        if failed:
            self._kill()
            raise LabError(f"the guest could not be prepared: {failed!r}; {see}")
        if gone:
            self._explain_end(see)
        if self._started is None and now - self._begun > self.boot_limit_s:
            self._kill()
            raise LabError(f"the guest did not boot within {self.boot_limit_s:.0f} s; {see}")
        if self._started is not None and now - self._started > self.limit_s:
            self._kill()
            words = telling(_text(self._private / parts.CONSOLE))
            hint = f" (its kernel said: {words!r})" if words else ""
            raise LabTimeoutError(f"the command did not end within {self.limit_s:.0f} s{hint}; {see}")

    def _explain_end(self, see: str) -> NoReturn:
        words = telling(_text(self._private / parts.CONSOLE))
        qemu = _text(self._private / "qemu.log").strip()[-300:]
        if not words and self._started is None:
            code = self._process.returncode
            hint = _NOT_OURS if "parameter 'parallel'" in qemu else ""
            raise LabError(f"QEMU ended with {code} before the guest was up: {qemu!r}{hint}; {see}")
        said = words or qemu or "the machine vanished without a word"
        raise GuestCrashError(f"the guest's kernel crashed: {said!r}; {see}")


def _spawn(qemu: Sequence[str], private: Path) -> subprocess.Popen[bytes]:
    # Its own session keeps the terminal's Ctrl-C from it: we get that, and stop it ourselves. setpriv(1) is util-linux.
    # Had we died before setpriv asked for the signal, it would never come: so the last step looks who the parent is.
    guard = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(os.getpid())]
    with (private / "qemu.log").open("ab") as log:
        command = [*guard, *qemu]
        try:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        except OSError as error:
            raise LabError(f"setpriv: {error.strerror}; install util-linux") from error


def _private_folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
        _sweep(out)
        return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=out))
    except OSError as error:
        raise LabError(f"{out}: {error.strerror}; choose a folder that can be written") from error


def _sweep(out: Path) -> None:
    # private folders of processes that were killed before they could tidy up
    for folder in out.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def telling(console: str) -> str:
    """The first three lines of a console's text that tell of a kernel crash, without time stamps; "" if none does."""
    lines = [re.sub(r"^\[ *[\d.]+\] ", "", line.strip()) for line in console.splitlines() if _TELLING.search(line)]
    return " / ".join(list(dict.fromkeys(lines))[:3])
