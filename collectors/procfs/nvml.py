# SPDX-License-Identifier: GPL-2.0-only
"""What NVIDIA's own library tells of its GPUs: busy time of all programs together, who uses them, and their memory.

libnvidia-ml.so.1 comes with the driver, which tells nothing of a client in fdinfo. It is loaded by ctypes when a
process holds a device file of NVIDIA's, and let go when none does: while it is in use, the GPU does not suspend. A GPU
that is suspended is not asked, since that would wake it. Types and codes are those of NVML's documented ABI (nvml.h);
entry points carry a version, so that a newer library keeps them.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collectors.procfs.reader import reason_of

LIBRARY = "libnvidia-ml.so.1"
MOST_DEVICES, MOST_PROCESSES = 16, 1024
"""Of a machine, and of a device."""

_AGAIN_NS = 60_000_000_000  # between two tries to begin; a driver that was updated wants a reboot
_SUCCESS, _NOT_SUPPORTED, _INSUFFICIENT_SIZE = 0, 3, 7  # nvmlReturn_t
_UNKNOWN_MEMORY = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE
_VENDOR, _DISPLAY = b"0x10de", b"0x03"  # PCI: NVIDIA, and the class of display controllers


class _Utilization(ctypes.Structure):
    # nvmlUtilization_t, per cent of the time since the driver's last look (a sixth of a second to one second)
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Process(ctypes.Structure):
    # nvmlProcessInfo_v2_t, which *_v3 functions fill
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaUse:
    """All of NVIDIA's GPUs now."""

    pids: frozenset[int]  # in the namespace of the driver, which is the host's
    busy_ns: int  # a counter since this reader began
    memory_bytes: int | None  # of those processes; None where the driver tells none


class Nvml:
    """The library, while it is wanted. `load` opens it by its name, as `ctypes.CDLL`; raises OSError."""

    def __init__(self, sys: Path, load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> None:
        self.reason = "not asked yet"  # why `read` tells nothing, "" when it does
        self._sys, self._load = sys, load
        self._library: ctypes.CDLL | None = None
        self._devices: list[ctypes.c_void_p] = []
        self._cards: list[Path] | None = None  # files of sysfs that tell whether one is suspended; None: not looked for
        self._busy_ns = 0
        self._asked_ns: int | None = None
        self._retry_ns = 0

    @property
    def before(self) -> NvidiaUse | None:
        """What was counted until it was let go, nobody using it now; None where nothing was."""
        return NvidiaUse(pids=frozenset(), busy_ns=self._busy_ns, memory_bytes=None) if self._busy_ns else None

    def read(self, now_ns: int) -> NvidiaUse | None:
        """What is known at `now_ns` (CLOCK_MONOTONIC); None with a `reason`. Never raises."""
        if not self._is_awake():
            self._let_go()
            self.reason = ""
            return NvidiaUse(pids=frozenset(), busy_ns=self._busy_ns, memory_bytes=None)
        if self._library is None and (now_ns < self._retry_ns or not self._begin(now_ns)):
            return None
        elapsed_ns = 0 if self._asked_ns is None else max(0, now_ns - self._asked_ns)
        pids: set[int] = set()
        memory: int | None = None
        share = 0.0
        for device in self._devices:
            busy = self._busy_share(device)
            found = self._processes(device)
            if busy is None or found is None:
                self._fail(now_ns, "the driver refuses to tell a GPU's use")
                return None
            share += busy
            for pid, used_bytes in found.items():
                pids.add(pid)
                if used_bytes is not None:
                    memory = (memory or 0) + used_bytes
        self._asked_ns = now_ns
        self._busy_ns += int(share * elapsed_ns)
        self.reason = ""
        return NvidiaUse(pids=frozenset(pids), busy_ns=self._busy_ns, memory_bytes=memory)

    def rest(self) -> None:
        """Let go of the GPUs, so that they may suspend. What was counted stays. Never raises."""
        self._let_go()
        self._cards = None

    def _let_go(self) -> None:
        if self._library is not None:
            self._library.nvmlShutdown()
        self._library, self._devices, self._asked_ns = None, [], None

    def _is_awake(self) -> bool:
        # some GPU of NVIDIA's, by sysfs alone, which wakes none; a kernel without power management has no such file
        if self._cards is None:
            self._cards = [
                device / "power/runtime_status"
                for device in _folders(self._sys / "bus/pci/devices")
                if _text(device / "vendor") == _VENDOR and _text(device / "class").startswith(_DISPLAY)
            ]
        return not self._cards or any(_text(card) not in (b"suspended", b"suspending") for card in self._cards)

    def _begin(self, now_ns: int) -> bool:
        try:
            library = self._load(LIBRARY)
            code = library.nvmlInit_v2()
        except OSError as error:  # ctypes has the loader's words in place of a code
            self._fail(now_ns, f"{LIBRARY}: {error.args[0] if error.errno is None else reason_of(error)}")
            return False
        except AttributeError as error:
            self._fail(now_ns, f"{LIBRARY} is too old: {error}")
            return False
        if code != _SUCCESS:
            self._fail(now_ns, f"{LIBRARY} does not begin: {_words(library, code)}")
            return False
        self._library = library
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == _SUCCESS:
            for number in range(min(count.value, MOST_DEVICES)):
                device = ctypes.c_void_p()
                if library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)) == _SUCCESS:
                    self._devices.append(device)
        if not self._devices:
            self._fail(now_ns, f"{LIBRARY} knows of no GPU")
            return False
        return True

    def _busy_share(self, device: ctypes.c_void_p) -> float | None:
        told = _Utilization()
        if self._library is None or self._library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(told)):
            return None
        return min(int(told.gpu), 100) / 100

    def _processes(self, device: ctypes.c_void_p) -> dict[int, int | None] | None:
        # both lists: a process that draws and computes is in both, with the same memory
        found: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            function = getattr(self._library, f"nvmlDeviceGet{kind}RunningProcesses_v3", None)
            if function is None:
                return None
            count = ctypes.c_uint(MOST_PROCESSES)
            into = (_Process * MOST_PROCESSES)()
            code = function(device, ctypes.byref(count), into)
            if code not in (_SUCCESS, _INSUFFICIENT_SIZE, _NOT_SUPPORTED):
                return None
            for one in into[: min(count.value, MOST_PROCESSES)] if code == _SUCCESS else ():
                known = None if one.used_bytes == _UNKNOWN_MEMORY else one.used_bytes
                found[one.pid] = known if found.get(one.pid) is None else found[one.pid]
        return found

    def _fail(self, now_ns: int, why: str) -> None:
        self._let_go()
        self.reason, self._retry_ns = why, now_ns + _AGAIN_NS


def _words(library: ctypes.CDLL, code: int) -> str:
    function = library.nvmlErrorString
    function.restype = ctypes.c_char_p
    text = function(code)
    return text.decode(errors="replace") if isinstance(text, bytes) else f"code {code}"


def _folders(parent: Path) -> list[Path]:
    try:
        return list(parent.iterdir())
    except OSError:
        return []


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError:
        return b""
