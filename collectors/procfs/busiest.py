# SPDX-License-Identifier: GPL-2.0-only
"""/proc/PID/stat of the processes that use the CPU the most: what kinds of processes a load is made of.

To read all processes in each tick would cost the agent more than everything else together, so it follows a few, whose
files it keeps open, and looks at the others in turn. Listing /proc is half of what remains (1 to 2 us a process), and
is left out while the number of the process made last, which /proc/loadavg tells, stays the same: then there is no new
one. No name and no command line is read or kept. Of processes that hidepid (proc(5)) hides from this user nothing is
known; that is no failure.
"""

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from asa import procstat
from asa.core.errors import SourceError
from asa.core.sample import BusiestProcesses, ProcessUsage
from collectors.procfs.reader import KernelFile, bounded, counters, garbled, reason_of

MOST_FOLLOWED = 24
"""Each takes a descriptor, 5 to 10 us a tick and some 30 bytes of the journal. Seldom do as many use a clock tick or
more in a second; where they do, as a parallel build's compilers, two dozen of them tell what kind all are."""

_SOURCE = "busiest"
_FILE = "stat"
_MADE = "loadavg"  # its last field: proc_loadavg(5)
_LONGEST_UNLISTED = 8  # ticks; a container's own loadavg (lxcfs), or a /proc of other processes, may not tell
_MOST_NEW = 32  # processes looked at when they are new, 10 us each; when more come in a tick: the newest of them
_ROUND = 16  # ticks in which each process that is not followed is looked at once,
_MOST_IN_TURN = 64  # unless there are more than a thousand; then it takes longer
_WHOLE_LOOKS = 2  # first reads that look at all: between them passes the first tick that tells who is at work
_IDLE = 60  # ticks without use after which a process is no longer followed
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LINE_END = b"\n"  # a second read would have the kernel write the line anew
_LONGEST_LINE = 4096  # 52 numbers, most of them below 2**64
# proc_pid_stat(5): places after the name, which may hold anything but ends with the last ")"
_PLACES = (
    procstat.FLAGS,
    procstat.MINOR_FAULTS,
    procstat.MAJOR_FAULTS,
    procstat.USER,
    procstat.SYSTEM,
    procstat.THREADS,
    procstat.STARTED,
    procstat.RESIDENT,
)


@dataclass(slots=True, kw_only=True)
class _Process:
    usage: ProcessUsage
    looked: int  # the tick in which its usage was read
    last: int  # the last tick in which it was seen to have used the CPU
    used: float = 0.0  # clock ticks then, in one of our ticks

    @property
    def cpu_ticks(self) -> int:
        return self.usage.user_ticks + self.usage.system_ticks


class BusiestCollector:
    """Fills `busiest`. A process that ends or cannot be read is gone; only /proc itself can fail."""

    name = _SOURCE

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self.lacking: dict[str, str] = {}
        self._proc = proc
        self._folder = -1
        self._made: KernelFile | None = None
        self._last_made = b""  # before the last listing
        self._tick = 0
        self._ourselves = ""
        # each process, by its number as /proc writes it, is in one of these
        self._followed: dict[str, _Process] = {}  # the busiest first
        self._watched: dict[str, _Process | None] = {}  # in the order of their next look; None: not read yet
        self._kernels: set[str] = set()  # the kernel's own threads, which are not read again
        self._files: dict[str, KernelFile] = {}  # of the followed

    def open(self) -> None:
        """Open /proc, and follow those that used the most a second of their lives. Raises SourceError."""
        try:
            self._folder = os.open(self._proc, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"{self._proc}: {reason_of(error)}") from error
        try:
            self._made = KernelFile(_SOURCE, self._proc / _MADE)
        except SourceError:
            self._made = None  # listed each time, then
        self._tick = 0
        self._ourselves = str(os.getpid())
        found = [process for name in sorted(self._arrived()) if (process := self._look(name)) is not None]
        now_ticks = max((process.usage.started_ticks for process in found), default=0)  # of the youngest: about now
        for process in found:
            process.used = process.cpu_ticks / (1 + now_ticks - process.usage.started_ticks)
        self._choose(found)

    def read(self) -> dict[str, object]:
        """Counters of those followed. Raises SourceError."""
        if self._folder < 0:  # which os.listdir would take for the present folder
            raise SourceError(source=_SOURCE, reason="not opened")
        self._tick += 1
        arrived = self._arrived()
        self._read_followed()
        self._choose([*self._look_at(arrived), *self._look_around()])
        # of a list: CPython keeps tuples that were made of a generator where it does not look for them again
        return {"busiest": BusiestProcesses(processes=tuple([process.usage for process in self._followed.values()]))}

    def close(self) -> None:
        """Give the descriptors back."""
        if self._made is not None:
            self._made.close()
        for file in self._files.values():
            file.close()
        for kept in (self._files, self._followed, self._watched, self._kernels):
            kept.clear()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _arrived(self) -> set[str]:
        # who is there and was not at the last listing; whoever is not there any more is forgotten
        made = self._number_made()  # before the listing: whoever comes between is in it, and has it made once more
        if made and made == self._last_made and self._tick % _LONGEST_UNLISTED:
            return set()
        try:
            present = set(filter(str.isdecimal, os.listdir(self._folder)))  # noqa: PTH208  # by descriptor
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"{self._proc}: {reason_of(error)}") from error
        self._last_made = made
        present.discard(self._ourselves)
        known = self._followed.keys() | self._watched.keys() | self._kernels
        for name in known - present:
            self._forget(name)
        return present - known

    def _number_made(self) -> bytes:
        # the number of the process or thread that was made last, b"" where it is not told
        if self._made is None:
            return b""
        try:
            return self._made.read(_LINE_END).rpartition(b" ")[2]
        except SourceError:
            return b""

    def _forget(self, name: str) -> None:
        self._kernels.discard(name)
        self._watched.pop(name, None)
        if self._followed.pop(name, None) is not None:
            self._files.pop(name).close()

    def _read_followed(self) -> None:
        for name, process in list(self._followed.items()):
            try:
                _, usage = parse_stat(process.usage.pid, self._files[name].read(_LINE_END))
            except SourceError:
                self._forget(name)  # ended; the next listing says whether its number is another's by now
                continue
            before, process.usage, process.looked = process.cpu_ticks, usage, self._tick
            if process.cpu_ticks > before:
                process.used, process.last = process.cpu_ticks - before, self._tick

    def _look_at(self, arrived: set[str]) -> list[_Process]:
        # New ones. Numbers grow until they wrap around, so the greatest is the newest as a rule.
        newest = sorted(arrived, key=int, reverse=True)
        self._watched.update(dict.fromkeys(newest[_MOST_NEW:]))
        return [process for name in newest[:_MOST_NEW] if (process := self._look(name)) is not None]

    def _look_around(self) -> list[_Process]:
        # those of the watched whose turn it is that did something since their last look
        count = min(_MOST_IN_TURN, -(-len(self._watched) // _ROUND))
        if self._tick <= _WHOLE_LOOKS:
            count = len(self._watched)
        awake = []
        for name in list(islice(self._watched, count)):
            before = self._watched.pop(name)
            now = self._look(name)
            if now is None:
                continue
            if before is not None and before.usage.started_ticks == now.usage.started_ticks:
                grown = now.cpu_ticks - before.cpu_ticks
                if grown <= 0:
                    self._watched[name] = now
                    continue
                now.used = grown / (self._tick - before.looked or 1)
            awake.append(now)
        return awake

    def _look(self, name: str) -> _Process | None:
        # A process that is seen for the first time, or None. It is watched then, or known as the kernel's.
        try:
            flags, usage = parse_stat(int(name), self._text(name))
        except (OSError, SourceError):
            self._watched[name] = None  # ended, or hidden from this user
            return None
        if flags & _KERNEL_THREAD:
            self._kernels.add(name)
            return None
        process = _Process(usage=usage, looked=self._tick, last=self._tick)
        if process.cpu_ticks:
            process.used = process.cpu_ticks
        else:  # when many come at once they shall not push out one that works, and rests in this very tick
            process.last -= 1
        return process

    def _text(self, name: str) -> bytes:
        # as a KernelFile's, in two thirds of the time
        descriptor = os.open(f"{name}/{_FILE}", os.O_RDONLY, dir_fd=self._folder)
        try:
            return os.pread(descriptor, _LONGEST_LINE, 0)
        finally:
            os.close(descriptor)

    def _choose(self, candidates: list[_Process]) -> None:
        # whom to follow from now on; the others are watched, files are opened and closed accordingly
        everyone = sorted(
            [*self._followed.values(), *candidates],
            key=lambda process: (process.last, process.used),
            reverse=True,
        )
        followed: dict[str, _Process] = {}
        for process in everyone:
            name = str(process.usage.pid)
            idle = self._tick - process.last >= _IDLE
            if not idle and len(followed) < MOST_FOLLOWED and self._can_follow(name):
                followed[name] = process
                continue
            self._watched[name] = process
            if name in self._files:
                self._files.pop(name).close()
        self._followed = followed

    def _can_follow(self, name: str) -> bool:
        if name not in self._files:
            try:
                self._files[name] = KernelFile(_SOURCE, self._proc / name / _FILE)
            except SourceError:
                return False  # it has just ended
        return True


def parse_stat(pid: int, text: bytes) -> tuple[int, ProcessUsage]:
    """(flags, usage) of the text of /proc/`pid`/stat, proc_pid_stat(5). Raises SourceError."""
    fields = procstat.fields(text, _PLACES[-1] + 1)
    if len(fields) <= _PLACES[-1] or not text.endswith(_LINE_END):
        raise garbled(_SOURCE, _FILE, text)
    flags, minor, major, user, system, threads, started, pages = counters(
        _SOURCE, _FILE, [fields[place] for place in _PLACES]
    )
    return flags, ProcessUsage(
        pid=pid,
        started_ticks=started,
        user_ticks=user,
        system_ticks=system,
        minor_faults=minor,
        major_faults=major,
        threads=threads,
        **bounded(_SOURCE, _FILE, resident_bytes=pages * _PAGE_BYTES),
    )
