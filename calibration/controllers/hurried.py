# SPDX-License-Identifier: GPL-2.0-only
"""A process at the speed that it has on a laptop, in a guest: for the agent (`asa.cli.lab.hurried`).

A guest's CPU executes 250 million instructions a second, and what is played in it is made for that. The agent is not:
its tick would take 15 times as much of a CPU as on a machine. The parallel clock gives a program a speed of its own,
for what it executes in the kernel, too (scenarios/lab/qemu/icount-parallel.c). What it starts has the guest's speed.
"""

import ctypes
import mmap
import platform

from asa.core.errors import AsaError

SPEED_PCT = 1500
"""Of the guest's own. Like beside like, 2026-11-29: the model's part of a tick took 3.6 ms at the speed of a guest of
vm120, and 0.245 ms on its host; the agent took 5.5 % of a CPU, and 0.43 %. (The rest of the decision: 25 times.)"""

_LEAF = 0x41534100  # CPUID's: scenarios/lab/qemu/icount-parallel.h
_MACHINE = "x86_64"  # the lab's guests are all of it
# push rbx; mov eax, edi; mov ecx, esi; cpuid; pop rbx; ret
_CODE = bytes.fromhex("53 89f8 89f1 0fa2 5b c3")


class Hurry:
    """This process at another speed, for as long as the object lives: the clock knows it by the page of its code."""

    def __init__(self, pct: int) -> None:
        """Raises AsaError where the clock gives no program a speed of its own."""
        if platform.machine() != _MACHINE:
            raise AsaError(f"{platform.machine()}: only guests of {_MACHINE} give a program a speed of its own")
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._page.write(_CODE)
        asked = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
        call = asked(ctypes.addressof(ctypes.c_char.from_buffer(self._page)))
        if call(_LEAF, pct) != pct:
            raise AsaError("this clock gives no program a speed of its own; run it in a guest of `--clock parallel`")
