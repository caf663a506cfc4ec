# SPDX-License-Identifier: GPL-2.0-only
"""Which programs are at work, each as a number that tells its name to nobody.

It is told which processes used the CPU (`follow`), and asks of those alone. A program is the file's name, the unit of
its control group and the class of its user: names of processes alone collide, as all of python3 do. The number is a
keyed hash (BLAKE2b, RFC 7693). Paths and the key never leave this module, and names only where an adviser is on, who
gives a dict for them. Of a process whose file is hidden from this user its own name stands for the file's.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path

from asa.core.sample import BusiestProcesses, ProgramsAtWork, ProgramUse
from collectors.hints.units import entry_of
from collectors.procfs.work import LEAST_CORES, Process, Work

KEY_BYTES = 32

_MOST_NEW = 8  # processes that are asked for unit and user in a tick, 10 us each
_ASK_AGAIN = 8  # ticks of work after which a process is asked for its file again: it may have become another program
_LONGEST = 4096
_CHANGING = re.compile(rb"[0-9a-f-]*[0-9][0-9a-f-]*")  # numbers of instances, and random parts
_DELETED = b" (deleted)"  # the file was replaced, as by an update: it is the same program
_SYSTEM_USERS = 1000  # first user of a person: login.defs(5), UID_MIN


class ProgramCollector:
    """Fills `programs`. Without a key it makes one, so that nothing connects its numbers with those of another run.

    `open` never fails. `names` gets the files' names of the programs that are there. `now_ns` is CLOCK_MONOTONIC.
    `work` may be another collector's, too.
    """

    name = "programs"

    def __init__(
        self,
        proc: Path,
        sys: Path,  # noqa: ARG002  # every collector is given both roots
        key: bytes = b"",
        names: dict[int, str] | None = None,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        work: Work | None = None,
    ) -> None:
        self.lacking: dict[str, str] = {}
        self._proc, self._now_ns, self._key = os.fsencode(proc), now_ns, key or os.urandom(KEY_BYTES)
        self._names = names
        self._own_uid = os.geteuid()
        self._work = work or Work()
        self._busiest: BusiestProcesses | None = None
        self._places: dict[Process, bytes] = {}  # unit and user of each process that has worked
        self._numbers: dict[Process, int] = {}  # its program, which may become another one (execve(2))
        self._asked: dict[Process, int] = {}  # ticks of work since it was asked for its file

    def open(self) -> None:
        """Nothing is opened before the first reading. Never raises."""

    def follow(self, fields: Mapping[str, object]) -> None:
        """Take what was read before in this tick."""
        busiest = fields.get("busiest")
        self._busiest = busiest if isinstance(busiest, BusiestProcesses) else None

    def read(self) -> dict[str, object]:
        """What is known now. Never raises."""
        if self._busiest is None:
            return {}
        shares = self._work.cores(self._busiest.processes, self._now_ns())
        new = 0
        busy = [(share, process) for process, share in shares.items() if share >= LEAST_CORES]
        for _, process in sorted(busy, reverse=True):
            if process not in self._places:
                if new == _MOST_NEW:
                    continue
                new += 1
                self._places[process] = self._place(process[0])
            worked = self._asked.get(process, _ASK_AGAIN) + 1
            if worked > _ASK_AGAIN:
                self._numbers[process], worked = self._number(process), 0
            self._asked[process] = worked
        for process in self._work.gone(self._numbers.keys()):
            del self._numbers[process], self._places[process], self._asked[process]
        if self._names:
            for number in self._names.keys() - self._numbers.values():
                del self._names[number]
        cores: dict[int, float] = {}
        for process, number in self._numbers.items():
            cores[number] = cores.get(number, 0.0) + shares.get(process, 0.0)
        found = [ProgramUse(number, round(used, 2)) for number, used in sorted(cores.items())]
        return {self.name: ProgramsAtWork(programs=tuple(found))}

    def close(self) -> None:
        """Forget all. Never raises."""
        for kept in (self._places, self._numbers, self._asked):
            kept.clear()

    def _number(self, process: Process) -> int:
        file = self._file(process[0])
        named = b"\0".join((file, self._places[process]))
        number = int.from_bytes(blake2b(named, digest_size=8, key=self._key).digest(), "big")
        if self._names is not None and not file.startswith(b"/"):
            self._names[number] = os.fsdecode(file)
        return number

    def _file(self, pid: int) -> bytes:
        # with what no file is called, where it is not the file's name
        try:
            path = os.readlink(b"%s/%d/exe" % (self._proc, pid))  # noqa: PTH115  # each tick, and any bytes
            return path.removesuffix(_DELETED).rpartition(b"/")[2]
        except OSError:
            return b"/" + self._text(pid, b"comm")[0].strip(b"\n")

    def _place(self, pid: int) -> bytes:
        text, uid = self._text(pid, b"cgroup")
        path = next((line[3:] for line in text.split(b"\n") if line.startswith(b"0::")), b"")  # cgroups(7): version 2
        entry = entry_of(os.fsdecode(path))
        unit = os.fsencode(entry) or _CHANGING.sub(b"#", path.rpartition(b"/")[2])
        return b"\0".join((unit, self._user(uid)))

    def _user(self, uid: int) -> bytes:
        if uid in (0, self._own_uid):
            return b"own" if uid == self._own_uid else b"root"
        return b"system" if uid < _SYSTEM_USERS else b"other"

    def _text(self, pid: int, name: bytes) -> tuple[bytes, int]:
        # of a file of the process, and whose process it is; nobody's where it has ended
        try:
            descriptor = os.open(b"%s/%d/%s" % (self._proc, pid, name), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b"", -1
        try:
            return os.read(descriptor, _LONGEST), os.fstat(descriptor).st_uid
        except OSError:
            return b"", -1
        finally:
            os.close(descriptor)
