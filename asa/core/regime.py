# SPDX-License-Identifier: GPL-2.0-only
"""Regimes: how much a machine does and what kind of work it is, where nobody knows what it is used for. Names alone.

A regime is a context beside the classes of a model: a mapping table may rank schedulers for `regime:heavy-computing`.
`asa.decide.regime` tells it from a tick's rates.
"""

from dataclasses import dataclass
from enum import StrEnum

from asa.core.decision import REGIME, Workload


class Load(StrEnum):
    """How much of the CPUs' time is used."""

    LIGHT = "light"
    MIXED = "mixed"
    HEAVY = "heavy"


class Doing(StrEnum):
    """What kind of work it is."""

    WAITING = "waiting"  # for a person, for a disk: tasks sleep most of the time
    COMPUTING = "computing"  # in long turns on the CPU
    WAKING = "waking"  # so many wakeups a CPU that they are what the CPUs are busy with


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """One of nine."""

    load: Load
    doing: Doing

    @property
    def workload(self) -> Workload:
        """Its name, as a table has it."""
        return Workload(f"{REGIME}{self.load}-{self.doing}")


REGIMES: tuple[Workload, ...] = tuple(Regime(load=load, doing=doing).workload for load in Load for doing in Doing)
"""All names."""


def in_words(name: str) -> str:
    """A regime's name for people, `unknown; regime heavy-computing`; a class as it is."""
    return f"unknown; regime {name.removeprefix(REGIME)}" if name.startswith(REGIME) else name
