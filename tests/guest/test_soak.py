# SPDX-License-Identifier: GPL-2.0-only
"""Seventy switches in a row: descriptors, processes, memory and the kernel's BPF objects are as before.

Runs as root inside the lab.
"""

import ctypes
import errno
import os
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from agents import attached, clean_machine, events_until, eventually, gated, scheduler_processes, switched

from asa.core.decision import SchedulerName, Way

SIMPLE, FIFO = SchedulerName("scx_simple"), SchedulerName("scx_simple:fifo")
SWITCHES, WARM_UP = 70, 20
GROWTH_BYTES = 2 << 20  # of 50 switches: 40 kB each; the interpreter's own slack is one arena of 1 MB
NEXT_ID = {"programs": 11, "maps": 12, "links": 31}  # BPF_PROG_GET_NEXT_ID, .., enum bpf_cmd
BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


def bpf_objects():
    libc = ctypes.CDLL(None, use_errno=True)
    found = {}
    for kind, command in NEXT_ID.items():
        last, found[kind] = 0, 0
        buffer = ctypes.create_string_buffer(16)
        while True:
            struct.pack_into("IIII", buffer, 0, last, 0, 0, 0)
            if libc.syscall(BPF, command, buffer, 16) < 0:
                assert ctypes.get_errno() == errno.ENOENT
                break
            last = struct.unpack_from("II", buffer)[1]
            found[kind] += 1
    return found


def descriptors():
    """Kinds or paths of what is open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # of the folder itself
            found.append(str(entry.readlink()).partition(":")[0])
    return sorted(found)


def threads():
    return sorted(Path("/proc/self/task").iterdir())


def own_bytes():
    fields = Path("/proc/self/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def stand_by(switcher, name):
    switcher.keep_ready((name,))
    assert not events_until(switcher, lambda: switcher.standbys() and switcher.standbys()[0].ready)


def quiet(switcher):
    """One is in force and one stands by; the last one has gone."""
    assert not events_until(switcher, lambda: len(scheduler_processes()) == 2)
    assert not events_until(switcher, lambda: len(switcher.descriptors()) == 5)  # two of each, and the kernel's word


@pytest.fixture
def switcher(tmp_path):
    switcher = gated(tmp_path)
    yield switcher
    assert switcher.rest()


def test_many_switches(switcher):
    before, following = None, FIFO
    switched(switcher, SIMPLE)
    for number in range(SWITCHES):
        stand_by(switcher, following)
        if number == WARM_UP:
            quiet(switcher)
            before = descriptors(), bpf_objects(), threads(), own_bytes()
        assert switched(switcher, following).way is Way.STANDBY
        following = FIFO if following == SIMPLE else SIMPLE
    stand_by(switcher, following)
    quiet(switcher)
    assert attached() == "simple"
    assert eventually(lambda: no_more(bpf_objects(), before[1])), (bpf_objects(), before[1])  # some are freed late
    assert descriptors() == before[0]
    assert threads() == before[2]
    assert own_bytes() - before[3] < GROWTH_BYTES


def no_more(now, before):
    return all(count <= before[kind] for kind, count in now.items())
