# SPDX-License-Identifier: GPL-2.0-only
"""A switchback run as values: what a guest is told to play, and what it gives back. JSON between guest and host.

Tables of many runs are `calibration.switchback.tables`. Judges nothing.
"""

from pathlib import Path

import msgspec

from asa import wire
from asa.act.policies import Policy
from asa.core.errors import AsaError
from calibration.controllers.columns import Given
from scenarios.conditions import Conditions
from scenarios.energy import Energy, Power


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """For a guest. Times in seconds of the guest.

    `search`: find how hard the load has to be, and play no rounds. `classic`: one scheduler throughout, in as many
    windows as there are rounds. `lasts_s`: no turns, but a controller at work for so long, which keeps what it learns.
    """

    label: str
    seed: int
    schedulers: tuple[str, ...]
    rounds: int
    out: str
    search: bool = False
    classic: bool = False
    lasts_s: float = 0.0
    crowd: float = 1.0
    effort: float = 1.0
    settle_s: float = 2.0
    alone_s: float = 5.0
    pilot_s: float = 12.0
    window_s: float | None = None  # None: by the pilot
    power: Power | None = None
    policies: tuple[Policy, ...] = ()  # of `schedulers`, besides those that are shipped
    part: str = ""  # of the matrix: tells apart runs of one seed with other schedulers
    lead_s: float = 30.0  # of an agent or rule, from its first look to what counts: it recognises, and switches
    given: Given = Given()  # to the agent

    @property
    def in_turns(self) -> bool:
        """Do schedulers take turns beside the kernel's own, so that they are compared?"""
        return not (self.search or self.classic or self.lasts_s)

    def of(self, machine: str) -> str:
        """A run's name on a machine, which is a file's: `vm120-web+blender-7`, `vm120-web+blender-7-modes`."""
        return "-".join(filter(None, (machine, self.label, str(self.seed), self.part)))


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Of one metric in a window; times since its start, values in the unit that ends the name."""

    application: str
    metric: str
    at_s: list[float]
    values: list[float]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler in force for a window. With a trouble it counts for nothing."""

    round: int  # from 1
    place: int  # in the round, from 1
    scheduler: str
    copy: int
    after: str  # the scheduler before; "" after the pause in which all load
    window_s: float
    switch_ms: float | None = None  # None: nothing was switched
    gap_ms: float | None = None
    way: str = ""
    energy: Energy | None = None
    series: list[Samples] = []
    told: dict[str, object] = {}  # what an agent or rule did in it: calibration.controllers.course
    trouble: str = ""


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """How hard a load was, and the score of the kernel's own scheduler under it."""

    crowd: float
    effort: float
    score: float | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A guest's whole. `host_s` and `host_cpu_s` are the host's seconds, and QEMU's on its processors."""

    orders: Orders
    interactive: str
    background: str
    machine: str
    cpus: int
    kernel: str
    asa_version: str
    under: Conditions
    versions: dict[str, str] = {}
    parameters: dict[str, dict[str, object]] = {}
    window_s: float = 0.0
    memories_s: dict[str, float | None] = {}  # metric -> seconds, by the pilot
    alone: list[Samples] = []  # each application alone, under the kernel's own
    blocks: tuple[Block, ...] = ()
    rungs: tuple[Rung, ...] = ()
    troubles: tuple[str, ...] = ()
    whole: bool = False
    date: str = ""  # ISO, of the day on which it ended
    guest_s: float = 0.0
    host_s: float = 0.0
    host_cpu_s: float = 0.0

    @property
    def id(self) -> str:
        """As of `Orders.of`."""
        return self.orders.of(self.machine)

    @property
    def parts(self) -> tuple[str, ...]:
        """Who plays: the interactive application first; one of a single."""
        return tuple(filter(None, (self.interactive, self.background)))


FILES = "runs"
"""Below a folder of runs: a file each."""

STATES = "states"
"""Below it: what agents had learnt at the end of a run, a folder each."""


def read(path: Path) -> Run:
    """Raises AsaError where there is none."""
    try:
        return wire.from_json(path.read_bytes(), Run)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: is no switchback run: {error}") from error


def files(folder: Path) -> list[Run]:
    """All runs that are kept as files, by name. Raises AsaError for one that is none."""
    return [read(path) for path in sorted((folder / FILES).glob("*.json"))]
