# SPDX-License-Identifier: GPL-2.0-only
"""The agent as users start it, and what it costs, seen from outside.

Reads the agent's status file, its CPU clock, /proc/PID/smaps_rollup and /proc/stat. It starts and ends one agent and
writes nothing else.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from asa import paths, procstat, status
from asa.core.errors import AsaError, SourceError
from asa.core.sample import CpuCounters
from asa.status import Status
from collectors.focus import fields_of
from collectors.procfs.cpu import parse_stat

_COMMAND = (  # setpriv(1) lets it end with us even when we are killed; -P: root imports nothing from the current folder
    *("setpriv", "--pdeathsig", "TERM", sys.executable, "-P", "-m", "asa.cli"),
    *("run", "--observe", "--json"),
)
COMMAND = "asa run --observe --json"
_SETTLED_TICKS = 5  # models loaded, sources opened, first rates computed; BCC's compiler has ended long before
_START_LIMIT_S = 120.0
_END_LIMIT_S = 30.0
_LOOK_S = 0.2
_KIB = 1024
_IDLE, _IOWAIT, _STEAL = 3, 4, 7  # places in CpuTicks


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a process holds: pages in memory, shared ones too, and pages of its own that were swapped out."""

    resident_bytes: int
    swapped_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the agent and its machine. Counters; `memory` and `load_1min` are levels."""

    monotonic_ns: int
    cpu_ns: int  # of the whole process, ended threads too, and of the processes that it keeps
    memory: Memory  # of the process alone
    ticks: int
    overruns: int
    host: CpuCounters
    load_1min: float
    kept_bytes: int = 0  # resident in the processes that it keeps

    @property
    def resident_bytes(self) -> int:
        """Memory that is resident now."""
        return self.memory.resident_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened between the first and the last of some looks. Shares are per cent of one core."""

    looks: tuple[Look, ...]

    @property
    def seconds(self) -> float:
        """How long it was."""
        return (self.looks[-1].monotonic_ns - self.looks[0].monotonic_ns) / 1e9

    @property
    def cpu_pct(self) -> float:
        """CPU time of the agent's process, all its threads, and of the processes that it keeps."""
        return (self.looks[-1].cpu_ns - self.looks[0].cpu_ns) / 1e7 / self.seconds

    @property
    def resident_mb(self) -> float:
        """Most memory that was resident, in 10^6 bytes."""
        return max(look.resident_bytes for look in self.looks) / 1e6

    @property
    def kept_mb(self) -> float:
        """Most memory that was resident in the processes that it keeps (its timer's), in 10^6 bytes."""
        return max(look.kept_bytes for look in self.looks) / 1e6

    @property
    def ticks(self) -> int:
        """Ticks that the agent counted."""
        return self.looks[-1].ticks - self.looks[0].ticks

    @property
    def overruns(self) -> int:
        """Ticks that had not ended when the next was due, by the agent's own count."""
        return self.looks[-1].overruns - self.looks[0].overruns

    @property
    def switches_per_s(self) -> float:
        """Context switches of the whole machine."""
        return (self.looks[-1].host.context_switches - self.looks[0].host.context_switches) / self.seconds

    @property
    def others_pct(self) -> float:
        """CPU time of everything but the agent."""
        return self._host_pct(lambda ticks: sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT] - ticks[_STEAL]) - self.cpu_pct

    @property
    def steal_pct(self) -> float:
        """Time that the hypervisor gave to others while this machine had work."""
        return self._host_pct(lambda ticks: ticks[_STEAL])

    @property
    def load_1min(self) -> tuple[float, float]:
        """Load average over a minute, the least and the greatest."""
        loads = [look.load_1min for look in self.looks]
        return min(loads), max(loads)

    def _host_pct(self, part: Callable[[tuple[int, ...]], int]) -> float:
        ticks = part(self.looks[-1].host.total) - part(self.looks[0].host.total)
        return 100.0 * ticks / os.sysconf("SC_CLK_TCK") / self.seconds


class Agent:
    """A running agent that was started here."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path, places: paths.Places) -> None:
        self.pid = process.pid
        self._process = process
        self._output = output
        self._places = places
        self._clock = cpu_clock(process.pid)
        self._kept_ns: dict[int, int] = {}  # process that it keeps -> CPU time when it was seen last

    def status(self) -> Status | None:
        """What it tells of itself, None before its first tick. Raises AsaError when it has ended."""
        if self._process.poll() is not None:
            raise AsaError(f"{COMMAND}: ended with code {self._process.returncode}: {self._last_words()!r}")
        found = status.read(self._places.run)
        return found if found is not None and found.pid == self.pid else None

    def settle(self) -> Status:
        """Wait until the start is over. Raises AsaError when it has ended, or does not tick."""
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            found = self.status()
            if found is not None and found.ticks >= _SETTLED_TICKS:
                return found
            time.sleep(_LOOK_S)
        raise AsaError(f"{COMMAND}: not {_SETTLED_TICKS} ticks in {_START_LIMIT_S:.0f} s: {self._last_words()!r}")

    def look(self) -> Look:
        """All its costs until now. Raises AsaError when it has ended."""
        found = self.status()
        if found is None:
            raise AsaError(f"{self._places.run}/status.json: withdrawn by the agent that is measured; start it again")
        kept_bytes = 0
        for pid in children(self.pid, self._places.proc):
            with suppress(AsaError, OSError):  # it ended just now
                self._kept_ns[pid] = time.clock_gettime_ns(cpu_clock(pid))
                kept_bytes += memory(pid, self._places.proc).resident_bytes
        return Look(
            monotonic_ns=time.monotonic_ns(),
            cpu_ns=time.clock_gettime_ns(self._clock) + sum(self._kept_ns.values()),
            memory=memory(self.pid, self._places.proc),
            ticks=found.ticks,
            overruns=found.overruns,
            host=parse_stat((self._places.proc / "stat").read_bytes()),
            load_1min=os.getloadavg()[0],
            kept_bytes=kept_bytes,
        )

    def follow(self, seconds: float, every_s: float, on_look: Callable[[float], None]) -> Window:
        """Look again and again for so long; `on_look` gets the seconds that passed since it was last called."""
        looks = [self.look()]
        start_s = last_s = time.monotonic()
        while last_s < start_s + seconds:
            due_s = min(start_s + len(looks) * every_s, start_s + seconds)
            time.sleep(max(0.0, due_s - time.monotonic()))
            looks.append(self.look())
            now_s = time.monotonic()
            on_look(now_s - last_s)
            last_s = now_s
        return Window(looks=tuple(looks))

    def _last_words(self) -> str:
        lines = self._output.read_text(errors="replace").splitlines()[-1:]
        return lines[0][-300:] if lines else "nothing"


@contextmanager
def started(places: paths.Places) -> Iterator[Agent]:
    """An agent of the users' own kind, which ends with the context. Raises AsaError when one runs here already."""
    running = status.read(places.run)
    if running is not None:
        raise AsaError(f"{places.run}: an agent runs already, pid {running.pid}; end it, its cost would be counted too")
    with tempfile.TemporaryDirectory(prefix="asa-overhead-") as folder:
        output = Path(folder) / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(_COMMAND, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            yield Agent(process, output, places)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_clock(pid: int) -> int:
    """Clock id of a process's CPU time, clock_getcpuclockid(3); for time.clock_gettime_ns. Raises AsaError."""
    clock = ctypes.c_int()
    code = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
    if code != 0:
        raise AsaError(f"process {pid}: has no CPU clock: {os.strerror(code)}")
    return clock.value


def children(pid: int, proc: Path) -> list[int]:
    """Processes whose parent this is now; proc_pid_stat(5)."""
    found = []
    for path in proc.glob("[0-9]*/stat"):
        with suppress(OSError, SourceError):  # it ended meanwhile
            if int(fields_of(path.read_bytes())[procstat.PARENT]) == pid:
                found.append(int(path.parent.name))
    return found


def memory(pid: int, proc: Path) -> Memory:
    """Memory of a process. Raises AsaError.

    From smaps_rollup, which walks the page tables: VmRSS has been a sum of per-CPU counters since Linux 6.2 (commit
    f1a7941243c1) and is off by up to 32 pages for each CPU, more than a slow leak grows in half an hour.
    """
    path = proc / str(pid) / "smaps_rollup"
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise AsaError(f"{path}: {error.strerror}; run as root") from error
    kib = {words[0]: int(words[1]) for words in map(str.split, lines) if words[0] in ("Rss:", "Swap:")}
    for name in ("Rss:", "Swap:"):
        if name not in kib:
            raise AsaError(f"{path}: no line {name!r}")
    return Memory(resident_bytes=kib["Rss:"] * _KIB, swapped_bytes=kib["Swap:"] * _KIB)


def programs_ns(pid: int, proc: Path) -> tuple[int, int] | None:
    """Run time in ns and runs of all eBPF programs that a process holds open; None when it holds none.

    From /proc/PID/fdinfo (bpf_prog_show_fdinfo in kernel/bpf/syscall.c); they only grow inside `run_times`.
    """
    found: dict[str, tuple[int, int]] = {}
    for entry in (proc / str(pid) / "fdinfo").iterdir():
        try:
            text = entry.read_text()
        except OSError:
            continue  # closed meanwhile
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        if "run_time_ns" in fields and "prog_id" in fields:
            found[fields["prog_id"].strip()] = int(fields["run_time_ns"]), int(fields["run_cnt"])
    return (sum(ns for ns, _ in found.values()), sum(runs for _, runs in found.values())) if found else None


@contextmanager
def run_times() -> Iterator[bool]:
    """The kernel takes the run times of eBPF programs inside this context; yields whether it does.

    By bpf_enable_stats (libbpf; BPF_ENABLE_STATS, Linux 5.8): unlike kernel.bpf_stats_enabled it ends with us.
    """
    try:
        descriptor = int(ctypes.CDLL("libbpf.so.1").bpf_enable_stats(0))  # BPF_STATS_RUN_TIME
    except (OSError, AttributeError):
        descriptor = -1  # no libbpf, or an old one
    try:
        yield descriptor >= 0
    finally:
        if descriptor >= 0:
            os.close(descriptor)
