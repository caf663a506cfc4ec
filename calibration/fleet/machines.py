# SPDX-License-Identifier: GPL-2.0-only
"""The fleet: the paper's ten machines (Table 3) as guests of the lab, as far as QEMU's emulation can express them.

What it can: numbers of CPUs up to 16, sockets, cores, threads of a core, memory. What it cannot, and how the lab's
clock divides time among CPUs, docs/fleet.md says; each machine's `note` says what is left of the paper's. Data alone.
"""

from dataclasses import dataclass

from asa.core.errors import InputError
from asa.host import Facts
from scenarios.lab.emulator import Topology

CPU_MODEL = "QEMU TCG CPU version 2.5+"
"""How the emulated CPU calls itself, whatever its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMachine:
    """One of ten. A prototype trains model and first table, the others are not seen before the evaluation."""

    name: str
    sockets: int = 1
    cores: int  # of a socket
    threads: int = 1  # of a core
    memory_mb: int
    prototype: bool = False
    note: str

    @property
    def topology(self) -> Topology:
        """For QEMU."""
        return Topology(sockets=self.sockets, cores=self.cores, threads=self.threads)

    @property
    def cpus(self) -> int:
        """All threads."""
        return self.topology.cpus

    @property
    def facts(self) -> Facts:
        """What such a guest will tell of itself, but for its kernel. CPUs of a socket share their last cache."""
        return Facts(
            cpu_model=CPU_MODEL,
            cpus=self.cpus,
            cores=self.sockets * self.cores,
            smt=self.threads > 1,
            caches=self.sockets,
            memory_gb=round(self.memory_mb * 2**20 / 1e9, 1),
        )


MACHINES = (
    FleetMachine(
        name="vm120",
        cores=4,
        memory_mb=2048,
        prototype=True,
        note="the paper's: i5-6500, 4 cores, 8 GB",
    ),
    FleetMachine(
        name="vm121",
        cores=4,
        memory_mb=4096,
        prototype=True,
        note="the paper's: i5-6500, 4 cores, 16 GB",
    ),
    FleetMachine(
        name="vm122",
        cores=6,
        memory_mb=3072,
        note="the paper's: i5-9400, 6 cores, 12 GB",
    ),
    FleetMachine(
        name="vm123",
        cores=6,
        memory_mb=4096,
        note="the paper's: i5-9400, 6 cores, 16 GB",
    ),
    FleetMachine(
        name="vm124",
        sockets=2,
        cores=2,
        memory_mb=2048,
        note="the paper's: i5-9400, 4 cores, 8 GB. Without another CPU model it would be vm120 again, so its cores are "
        "in two sockets: two domains of last-level cache",
    ),
    FleetMachine(
        name="vm125",
        cores=2,
        memory_mb=2048,
        prototype=True,
        note="the paper's: i5-9400, 2 cores, 8 GB",
    ),
    FleetMachine(
        name="vm126",
        sockets=2,
        cores=4,
        threads=2,
        memory_mb=4096,
        note="the paper's: i7-12700, 8 fast cores of two threads and 4 slow ones, 20 threads, 16 GB. A guest has 16 "
        "CPUs at most, alike and of one speed; two sockets stand for the two kinds of core",
    ),
    FleetMachine(
        name="vm127",
        cores=8,
        threads=2,
        memory_mb=4096,
        note="the paper's: i7-12700, 8 fast cores of two threads, 16 GB",
    ),
    FleetMachine(
        name="vm128",
        cores=6,
        threads=2,
        memory_mb=4096,
        prototype=True,
        note="the paper's: i7-12700, 6 fast cores of two threads, 16 GB",
    ),
    FleetMachine(
        name="vm129",
        sockets=2,
        cores=3,
        threads=2,
        memory_mb=4096,
        note="the paper's: i7-12700, 4 fast cores of two threads and 4 slow ones, 12 threads, 16 GB. QEMU's cores are "
        "alike and of one speed; two sockets stand for the two kinds of core",
    ),
)
"""In the paper's order and by its numbers, with a quarter of its memory: of the stand-ins none needs more."""


def find(words: str) -> tuple[FleetMachine, ...]:
    """Machines by what a person writes, in the fleet's order without repeats. Raises InputError.

    `all`, `prototypes`, `unseen`, or names; several are parted by commas.
    """
    wanted = {one.name for word in words.split(",") for one in _named(word.strip())}
    return tuple(one for one in MACHINES if one.name in wanted)


def _named(word: str) -> tuple[FleetMachine, ...]:
    groups = {
        "all": MACHINES,
        "prototypes": tuple(one for one in MACHINES if one.prototype),
        "unseen": tuple(one for one in MACHINES if not one.prototype),
    }
    found = groups.get(word) or tuple(one for one in MACHINES if one.name == word)
    if not found:
        allowed = f"{', '.join(groups)}, or of {', '.join(one.name for one in MACHINES)}"
        raise InputError(path="--machine", key="", value=word, allowed=allowed)
    return found
