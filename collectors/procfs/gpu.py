# SPDX-License-Identifier: GPL-2.0-only
"""/proc/PID/fd, fdinfo and stat: which processes hold a GPU open, what they make it do, and their CPU time.

Walking all descriptors of all processes costs more than a whole tick may. So only descriptors of known holders are read
in each tick; who else holds a GPU is found a few processes at a time. A process that opens one is known after as long
again as it has lived by then, or after some minutes when it is older than that. Without root, only the user's own
processes can be seen: no error, the desktop's programs are the user's.

A GPU that is suspended is left alone: its clients' counters stand still, and some drivers would wake it to print them
(drivers/gpu/drm/xe/xe_drm_client.c, xe_pm_runtime_get).

Some GPUs are used through files of their own (/dev/nvidia0, /dev/kfd), whose drivers tell nothing there. While a
process holds such a file and nothing that tells, all is unknown: a 0 would say that nobody uses the GPU. Of NVIDIA's
the driver's library tells (collectors.procfs.nvml), asked while a process holds one of its files.

Busy time and CPU time are counters that begin at 0 with this collector, so that clients and processes which come and go
neither add what they used before nor take away what they used.
"""

import os
import re
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from asa import procstat
from asa.core.errors import SourceError
from asa.core.sample import GpuCounters
from collectors.procfs.drm import DrmClient, parse_fdinfo
from collectors.procfs.nvml import NvidiaUse, Nvml
from collectors.procfs.reader import KernelFile, bounded, counters, garbled, reason_of

_SOURCE = "gpu"
_DEVICES = "/dev/dri/"
# device files by which a GPU is used beside DRM; their drivers tell nothing of a client's use in fdinfo
_BLIND = re.compile(r"/dev/(nvidia.*|kfd|dxg|mali\d+|kgsl-.*|pvrsrv.*|nvhost-.*|nvmap|nvgpu/.*|galcore)")
_UNTOLD, _NVIDIA = "/", "/nvidia"  # for such a file, and for one of NVIDIA's, in place of a node's name
_NODE = re.compile(r"(card|renderD)\d+")  # in /sys/class/drm, beside their connectors (card0-eDP-1)
_NVIDIAS = "NVIDIA GPU"  # among what is lacking
_LIST_EVERY_NS = 4_000_000_000
_YOUNG = 64  # listings; a process is looked at in its 1st, 2nd, 4th, 8th ...: most open the GPU soon, or never
_OLD_A_LISTING = 4
_HOLDERS_A_LISTING = 2
_LINKS_A_READ = 256  # about 0.4 ms; a process that has been begun is looked at whole
_LINKS_AT_OPEN = 32_768
_LINKS_A_PROCESS = 1024  # descriptors count from 0, and the GPU is opened early
_MOST_CLIENTS = 256
_MOST_HOLDERS = 256  # whose CPU time is counted
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class _Client:
    """One client that is read, by the descriptor of one process, and the largest values it has told."""

    __slots__ = ("_cycles", "_engine_ns", "_text", "file", "last", "link", "node")

    def __init__(self, link: str, node: str, file: KernelFile, text: bytes, first: DrmClient, now_ns: int) -> None:
        self.link = link  # /proc/PID/fd/NUMBER
        self.node = node
        self.file = file
        self.last = first
        self._text = text
        self._engine_ns = first.engine_ns
        self._cycles = {engine: (cycles, now_ns) for engine, cycles in first.cycles.items()}

    def ask(self) -> DrmClient | None:
        """What the driver tells now; None when this descriptor is no longer this client. Raises SourceError."""
        text = _text(self.file)
        if text == self._text:
            return self.last  # most clients idle, and parsing takes longer than reading
        found = parse_fdinfo(text)
        if found is None or found.identity != self.last.identity:
            return None
        self.last, self._text = found, text
        return found

    def rest(self) -> DrmClient | None:
        """What it told last, for it is not read while its GPU is suspended; None when the descriptor is gone."""
        if _node_behind(self.link) != self.node:
            return None
        self._cycles.clear()  # the GPU's clock may stand still: no share of the time until it wakes
        return self.last

    def growth_ns(self, now: DrmClient, now_ns: int) -> int:
        """Busy nanoseconds since the last call. Values that go back are left alone until they have caught up."""
        growth = 0
        if now.engine_ns is not None:
            before = now.engine_ns if self._engine_ns is None else self._engine_ns
            growth = max(0, now.engine_ns - before)
            self._engine_ns = before + growth
        for engine, new in now.cycles.items():
            old, old_ns = self._cycles.get(engine, (None, now_ns))
            if old is not None and new.total >= old.total:
                if new.busy < old.busy or new.total == old.total:
                    continue
                share = min(new.capacity, (new.busy - old.busy) / (new.total - old.total))
                growth += int(share * (now_ns - old_ns))
            self._cycles[engine] = (new, now_ns)  # also at first sight, and where the GPU's clock began anew
        return growth


class _Holder:
    """A process that holds a GPU open."""

    __slots__ = ("_stat", "_used_ns")

    def __init__(self, stat: KernelFile | None) -> None:
        self._stat = stat
        self._used_ns: int | None = None

    def growth_ns(self) -> int | None:
        """CPU time since the last call, None when the process has ended or does not tell."""
        if self._stat is None:
            return 0
        try:
            before_ns, self._used_ns = self._used_ns, used_ns(self._stat.read(b"\n"))
        except SourceError:
            return None
        return 0 if before_ns is None else max(0, self._used_ns - before_ns)

    def close(self) -> None:
        if self._stat is not None:
            self._stat.close()


class GpuCollector:
    """Fills `gpu`."""

    name = _SOURCE

    def __init__(
        self,
        proc: Path,
        sys: Path,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        nvml: Nvml | None = None,
    ) -> None:
        self.lacking: dict[str, str] = {}
        self._proc = proc
        self._sys = sys
        self._monotonic_ns = monotonic_ns
        self._listed_ns: int | None = None
        self._ages: dict[int, int] = {}  # every process there is -> listings it has been in
        self._old_next = 0  # pid from which old processes are looked at again
        self._holder_next = 0  # the same for holders
        self._queue: deque[int] = deque()
        self._holders: dict[int, _Holder] = {}
        self._clients: dict[tuple[bytes, int], _Client] = {}
        self._unread: dict[int, str] = {}  # holders with a client that was suspended when they were looked at -> node
        self._blind: dict[int, bool] = {}  # processes that use a GPU of which no DRM driver tells -> it is NVIDIA's
        self._nvidia: set[int] = set()  # processes that hold a file of NVIDIA's
        self._nvml = Nvml(sys) if nvml is None else nvml
        self._suspended: dict[str, bool] = {}  # node -> in this tick
        self._busy_ns: int | None = None
        self._cpu_ns = 0

    def open(self) -> None:
        """Look at all processes once. Raises SourceError when no driver here has a DRM device."""
        folder = self._sys / "class/drm"
        try:
            names = os.listdir(folder)  # noqa: PTH208  # as below
        except (FileNotFoundError, NotADirectoryError):
            names = []
        except OSError as error:  # a /sys that is closed to this user
            raise SourceError(source=_SOURCE, reason=f"{folder}: {reason_of(error)}") from error
        if not any(_NODE.fullmatch(name) for name in names) and not (self._sys / "module/nvidia").is_dir():
            raise SourceError(source=_SOURCE, reason=f"no GPU with a DRM driver ({folder} names no card)")
        self._suspended.clear()
        self._look(self._monotonic_ns(), _LINKS_AT_OPEN)
        self._ages = dict.fromkeys(self._ages, _YOUNG)

    def read(self) -> dict[str, object]:
        """Holders now, their busy and CPU time since `open`, and their memory. Raises SourceError."""
        now_ns = self._monotonic_ns()
        self._suspended.clear()
        for pid in [pid for pid, node in self._unread.items() if not self._is_suspended(node)]:
            del self._unread[pid]
            self._queue.appendleft(pid)
        self._look(now_ns, _LINKS_A_READ)
        for pid, holder in list(self._holders.items()):
            grown_ns = holder.growth_ns()
            if grown_ns is None:
                self._let_go(pid)
            else:
                self._cpu_ns += grown_ns
        memory: int | None = None if self._holders else 0
        for identity, client in list(self._clients.items()):
            found = self._ask(client)
            if found is None:
                self._forget(identity)
                continue
            if found.engine_ns is not None or found.cycles:
                self._busy_ns = (self._busy_ns or 0) + client.growth_ns(found, now_ns)
            if found.memory_bytes is not None:
                memory = (memory or 0) + found.memory_bytes
        busy_ns, holders = self._busy_ns, set(self._holders)
        use = self._of_nvidia(now_ns)
        if use is not None:
            busy_ns = (busy_ns or 0) + use.busy_ns
            holders |= use.pids
            memory = memory if use.memory_bytes is None else (memory or 0) + use.memory_bytes
        bounded(_SOURCE, "fdinfo", engine_ns=busy_ns or 0, memory_bytes=memory or 0, cpu_ns=self._cpu_ns)
        if not all(nvidia and use is not None for nvidia in self._blind.values()):
            # what one uses that nobody tells of is unknown, and so is the sum
            return {"gpu": GpuCounters(processes=None, engine_ns=None, memory_bytes=None, cpu_ns=None)}
        return {"gpu": GpuCounters(processes=len(holders), engine_ns=busy_ns, memory_bytes=memory, cpu_ns=self._cpu_ns)}

    def close(self) -> None:
        """Give the descriptors back."""
        for client in self._clients.values():
            client.file.close()
        self._clients.clear()
        for pid in list(self._holders):
            self._let_go(pid)
        self._ages.clear()
        self._queue.clear()
        self._unread.clear()
        self._blind.clear()
        self._nvidia.clear()
        self._nvml.rest()
        self._listed_ns = None

    def _of_nvidia(self, now_ns: int) -> NvidiaUse | None:
        # None as well where none was ever used: the busy time of one that is let go stays in the sum
        if self._nvidia:
            use = self._nvml.read(now_ns)
            if use is None:
                self.lacking[_NVIDIAS] = self._nvml.reason
            else:
                self.lacking.pop(_NVIDIAS, None)
            return use
        self._nvml.rest()
        return self._nvml.before

    def _ask(self, client: _Client) -> DrmClient | None:
        if self._is_suspended(client.node):
            return client.rest()
        try:
            return client.ask()
        except SourceError as error:
            self._skip(client.link, error)
            return None

    def _skip(self, link: str, error: SourceError) -> None:
        # one client whose driver says what we do not understand must not hide the others
        self.lacking.setdefault("gpu clients", f"{link}: {error.reason}; such clients are left out")

    def _is_suspended(self, node: str) -> bool:
        suspended = self._suspended.get(node)
        if suspended is None:
            path = self._sys / "class/drm" / node / "device/power/runtime_status"  # sysfs-devices-power; wakes nothing
            try:
                suspended = path.read_bytes().strip() in (b"suspended", b"suspending")
            except OSError:
                suspended = False  # no device of its own, or no power management
            self._suspended[node] = suspended
        return suspended

    def _forget(self, identity: tuple[bytes, int]) -> None:
        # The client may live on in another process, which inherited the descriptor; so all holders are looked at again
        client = self._clients.pop(identity)
        client.file.close()
        self._queue.extendleft([pid for pid in self._holders if pid not in self._queue])

    def _look(self, now_ns: int, links: int) -> None:
        if self._listed_ns is None or now_ns - self._listed_ns >= _LIST_EVERY_NS:
            self._listed_ns = now_ns
            self._list()
        while self._queue and links > 0:
            links -= self._look_at(self._queue.popleft(), now_ns)

    def _list(self) -> None:
        try:
            names = os.listdir(self._proc)  # noqa: PTH208  # as text: a Path for each would cost more than the call
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"{self._proc}: {reason_of(error)}") from error
        pids = {int(name) for name in names if name.isdecimal() and len(name) < 10}
        ages = self._ages
        self._ages = {pid: ages.get(pid, 0) + 1 for pid in pids}
        for pid in (self._holders.keys() | self._blind.keys() | self._nvidia) - pids:
            self._let_go(pid)
        young = [pid for pid, age in self._ages.items() if age <= _YOUNG and age & (age - 1) == 0]
        old, self._old_next = _next_few(pids, self._old_next, _OLD_A_LISTING)
        holders, self._holder_next = _next_few(
            self._holders.keys() | self._blind.keys(), self._holder_next, _HOLDERS_A_LISTING
        )
        queued = [pid for pid in self._queue if pid in pids]
        self._queue = deque(dict.fromkeys(queued + young + holders + old))

    def _look_at(self, pid: int, now_ns: int) -> int:
        # returns how many links were read, at least 1
        folder = f"{self._proc}/{pid}/fd"
        try:
            with os.scandir(folder) as entries:  # all of 19,000 would take 14 ms, so many 0.6 ms
                numbers = [entry.name for entry in islice(entries, _LINKS_A_PROCESS)]
        except OSError:  # it ended, or belongs to somebody else
            self._let_go(pid)
            return 1
        nodes = {number: _node_behind(f"{folder}/{number}") for number in numbers}
        untold = {_UNTOLD, _NVIDIA}.intersection(nodes.values())
        held = {number: node for number, node in nodes.items() if node is not None and node not in untold}
        if not held and _NVIDIA not in untold:
            self._let_go(pid)
        elif pid not in self._holders:
            self._holders[pid] = _Holder(self._stat_of(pid))
        told = False
        for number, node in held.items():
            if self._is_suspended(node):
                self._unread[pid] = node
            else:
                told |= self._meet(pid, number, node, now_ns)
        self._blind.pop(pid, None)
        self._nvidia.discard(pid)
        if untold and not told:
            self._blind[pid] = _UNTOLD not in untold
        if _NVIDIA in untold:
            self._nvidia.add(pid)
        return len(numbers) + 1

    def _stat_of(self, pid: int) -> KernelFile | None:
        if len(self._holders) >= _MOST_HOLDERS:
            return None
        try:
            return KernelFile(_SOURCE, self._proc / str(pid) / "stat")
        except SourceError:
            return None  # ended meanwhile

    def _let_go(self, pid: int) -> None:
        self._unread.pop(pid, None)
        self._blind.pop(pid, None)
        self._nvidia.discard(pid)
        holder = self._holders.pop(pid, None)
        if holder is not None:
            holder.close()

    def _meet(self, pid: int, number: str, node: str, now_ns: int) -> bool:
        # whether its driver tells of it
        if len(self._clients) >= _MOST_CLIENTS:
            return True
        try:
            file = KernelFile(_SOURCE, self._proc / str(pid) / "fdinfo" / number)
        except SourceError:
            return False  # closed meanwhile
        link = f"{self._proc}/{pid}/fd/{number}"
        text = _text(file)
        try:
            found = parse_fdinfo(text)
        except SourceError as error:
            self._skip(link, error)
            found = None
        if found is None or found.identity in self._clients:
            file.close()
        else:
            self._clients[found.identity] = _Client(link, node, file, text, found, now_ns)
        return found is not None


def used_ns(text: bytes) -> int:
    """utime + stime of the text of /proc/PID/stat, in nanoseconds. Raises SourceError."""
    fields = procstat.fields(text, procstat.SYSTEM + 1)
    if len(fields) <= procstat.SYSTEM + 1:
        raise garbled(_SOURCE, "stat", text)
    return sum(counters(_SOURCE, "stat", [fields[procstat.USER], fields[procstat.SYSTEM]])) * _TICK_NS


def _next_few(pids: set[int], start: int, count: int) -> tuple[list[int], int]:
    # some pids from `start` on, and where to go on the next time
    later = sorted(pid for pid in pids if pid >= start)
    return later[:count], later[count] if len(later) > count else 0


def _node_behind(link: str) -> str | None:
    # "renderD128" for a descriptor of a GPU; None for others. "" for one that /sys has no folder for
    try:
        target = os.readlink(link)  # noqa: PTH115  # as above
    except OSError:
        return None  # closed meanwhile
    if not target.startswith(_DEVICES):
        if not target.startswith("/dev/") or not _BLIND.fullmatch(target):
            return None
        return _NVIDIA if target.startswith("/dev/nvidia") else _UNTOLD
    name = target[len(_DEVICES) :]
    return name if _NODE.fullmatch(name) else ""


def _text(file: KernelFile) -> bytes:
    try:
        return file.read()
    except SourceError:
        return b""  # the process closed it, or ended
