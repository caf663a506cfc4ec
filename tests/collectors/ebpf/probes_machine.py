# SPDX-License-Identifier: GPL-2.0-only
"""probes.h compiled for this machine, under a clock and events of the test's own."""

import ctypes

from collectors.ebpf import layout

RUNS, ASLEEP, BLOCKED, STOPPED, DEAD, IDLE_THREAD = 0, 1, 2, 4, 0x80, 0x402
ROW_WORDS = layout.ROW_BYTES // 8
SPINS, READS, MUTEX = 1, 2, 32


class Machine:
    """Two CPUs whose time is `at` (ns); each call of an attribute is an event."""

    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._rows = (ctypes.c_uint64 * (2 * ROW_WORDS)).in_dll(self._library, "rows")

    def reset(self):
        ctypes.memset(self._rows, 0, ctypes.sizeof(self._rows))
        self.at(1_000_000)
        self.cpu(0)
        self.process(0)
        self.futex(False)
        self.waiter(0)
        self.blind()

    def at(self, ns):
        ctypes.c_uint64.in_dll(self._library, "test_ns").value = ns

    def cpu(self, number):
        ctypes.c_uint32.in_dll(self._library, "test_cpu").value = number

    def process(self, pid):
        ctypes.c_uint32.in_dll(self._library, "test_process").value = pid

    def processes(self, cpu=0):
        """pid -> (burst_ns, bursts, involuntary) of a CPU's slots."""
        first, words = cpu * ROW_WORDS + layout.ROW_WORDS, len(layout.PROCESS_WORDS)
        slots = [self._rows[at : at + words] for at in range(first, first + layout.SLOT_WORDS, words)]
        named = [slot for slot in slots if slot[0]]
        assert len({slot[0] for slot in named}) == len(named), "a process has two slots"
        return {slot[0]: tuple(slot[layout.PROCESS_WORDS.index("burst_ns") :]) for slot in named}

    def turn(self, pid, length_ns, state=ASLEEP, at=None):
        """A process comes to the CPU and leaves it."""
        start_ns = self.now() if at is None else at
        self.at(start_ns)
        self.process(0)
        self.leave(0, RUNS, pid, 1)
        self.at(start_ns + length_ns)
        self.process(pid)
        self.leave(pid, state, 0, 0)

    def now(self):
        return ctypes.c_uint64.in_dll(self._library, "test_ns").value

    def futex(self, inside):
        ctypes.c_bool.in_dll(self._library, "futex").value = inside

    def waiter(self, who):
        ctypes.c_uint32.in_dll(self._library, "test_waiter").value = who

    def network_irq(self, irq):
        ctypes.c_uint64.in_dll(self._library, "network_irq").value = irq

    def clock_calls(self):
        return ctypes.c_uint64.in_dll(self._library, "clock_calls").value

    def __getattr__(self, event):
        function = getattr(self._library, event)
        return lambda *numbers: function(*(ctypes.c_uint64(number) for number in numbers))

    def set(self, word, value):
        for cpu in (0, 1):
            self._rows[cpu * ROW_WORDS + layout.OFFSETS[word]] = value

    def __getitem__(self, name):
        words = {field.name: field.words for field in layout.FIELDS}[name]
        sums = [
            sum(self._rows[cpu * ROW_WORDS + layout.OFFSETS[name] + word] for cpu in (0, 1)) for word in range(words)
        ]
        return sums if words > 1 else sums[0]

    def filled(self, name):
        return {slot: count for slot, count in enumerate(self[name]) if count}


def slot_of(ns, starts):
    return max(slot for slot, start in enumerate(starts) if start <= ns)
