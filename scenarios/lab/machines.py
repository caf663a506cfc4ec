# SPDX-License-Identifier: GPL-2.0-only
"""Machines that a guest of the lab can be: how many CPUs, how fast, which share a core or a cache, what they draw.

Reads strict YAML: the files of `machines/`, or a person's own. Makes QEMU's arguments and the kernel's. A machine's
CPUs are numbered as Linux does in the guest: cluster by cluster, core by core, the threads of a core side by side.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from asa import host, yamlfile
from asa.core.errors import InputError

MOST_CPUS = 64
"""Of a guest."""

CPU_MODEL = "QEMU TCG CPU version 2.5+"
"""How the emulated CPU calls itself, whatever its host."""

_FOLDER = Path(__file__).with_suffix("")
_SUFFIX = ".yaml"
_FULL_MHZ = 4000  # what a core of 100 % says of itself, by the driver in the lab's own kernel
_FULL_CAPACITY = 1024
_ALIKE_MB = 3072  # two applications and a scheduler
_NAME = r"[a-z0-9][a-z0-9-]{0,31}"

_Percent = Annotated[int, Meta(ge=1, le=100)]
_Watts = Annotated[float, Meta(ge=0.0, le=1000.0)]


class Role(StrEnum):
    """In the fleet: on prototypes, model and first table are made; the others are not seen before the evaluation."""

    PROTOTYPE = "prototype"
    UNSEEN = "unseen"


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of cores."""

    speed_pct: Annotated[_Percent, Meta(description="of the lab's fastest core: 4 ns an instruction")]
    watts: Annotated[_Watts, Meta(description="what a core draws while it is busy, beside the idle package")]


class Cores(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alike ones that stand side by side in a cluster."""

    kind: str
    cores: Annotated[int, Meta(ge=1, le=MOST_CPUS)]
    threads: Literal[1, 2] = 1  # of each core


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """One. `place` is what it would be among the cores of a machine whose clusters are as large as its largest."""

    kind: Kind
    cluster: int
    place: int
    cpus: tuple[int, ...]


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As its file describes it; the file's name is its own."""

    name: Annotated[str, Meta(pattern=f"^{_NAME}$")]
    note: str
    role: Role | None = None
    memory_mb: Annotated[int, Meta(ge=256, le=1 << 20)]
    tick_hz: Literal[250, 1000] = 1000
    kinds: Annotated[dict[str, Kind], Meta(min_length=1)]
    clusters: Annotated[
        tuple[Annotated[tuple[Cores, ...], Meta(min_length=1)], ...],
        Meta(min_length=1, description="each has a last-level cache"),
    ]
    shared_pct: Annotated[
        _Percent | None, Meta(description="of a core's speed, what each of two busy threads gets")
    ] = None
    turbo_pct: Annotated[tuple[_Percent, ...], Meta(description="speed of all with 1, 2, ... busy cores")] = ()
    idle_watts: Annotated[_Watts, Meta(description="what the package draws while nothing runs")]
    sources: Annotated[tuple[str, ...], Meta(min_length=1, description="of speeds, shares and watts")]

    @property
    def prototype(self) -> bool:
        """Of the fleet."""
        return self.role is Role.PROTOTYPE

    @property
    def cores(self) -> tuple[Core, ...]:
        """In Linux's order."""
        found: list[Core] = []
        number = 0
        for place, cluster in enumerate(self.clusters):
            alike = [one for one in cluster for _ in range(one.cores)]
            for step, one in enumerate(alike):
                found.append(
                    Core(
                        kind=self.kinds[one.kind],
                        cluster=place,
                        place=place * self._width + step,
                        cpus=tuple(range(number, number + one.threads)),
                    )
                )
                number += one.threads
        return tuple(found)

    @property
    def cpus(self) -> int:
        """Threads of all cores."""
        return sum(one.cores * one.threads for cluster in self.clusters for one in cluster)

    @property
    def speeds(self) -> tuple[int, ...]:
        """Percent, by Linux CPU."""
        return tuple(core.kind.speed_pct for core in self.cores for _ in core.cpus)

    @property
    def caches(self) -> tuple[frozenset[int], ...]:
        """Linux CPUs that share a last-level cache, a set a cluster."""
        return tuple(
            frozenset(cpu for core in self.cores if core.cluster == place for cpu in core.cpus)
            for place in range(len(self.clusters))
        )

    @property
    def shape(self) -> str:
        """`8 fast x 2 + 4 slow`, for people; clusters are parted by commas."""
        return ", ".join(
            " + ".join(f"{one.cores} {one.kind}{' x 2' if one.threads == 2 else ''}" for one in cluster)
            for cluster in self.clusters
        )

    @property
    def facts(self) -> host.Facts:
        """What such a guest will tell of itself, but for its kernel's release."""
        speeds = sorted({core.kind.speed_pct for core in self.cores}, reverse=True)
        return host.Facts(
            cpu_model=CPU_MODEL,
            cpus=self.cpus,
            cores=len(self.cores),
            smt=self._threads > 1,
            kinds=tuple(self._told(speed, by_capacity=len(speeds) > 1) for speed in speeds) if self.append() else None,
            caches=len(self.clusters),
            memory_gb=round(self.memory_mb * 2**20 / 1e9, 1),
        )

    def smp(self, device: str = "max-x86_64-cpu") -> tuple[str, ...]:
        """QEMU arguments for exactly these CPUs; the last `-smp` counts. `device` is QEMU's name for its CPU model.

        QEMU's grid is of alike sockets and cores. Where the machine is not, what it lacks of the grid is left out.
        """
        grid = f"sockets={len(self.clusters)},cores={self._width},threads={self._threads}"
        whole = len(self.clusters) * self._width * self._threads
        if self.cpus == whole:
            return ("-smp", f"{whole},{grid}")
        found = ["-smp", f"1,maxcpus={whole},{grid}"]
        for core in self.cores:
            for thread, cpu in enumerate(core.cpus):
                if cpu:  # the first is QEMU's own
                    where = f"socket-id={core.cluster},core-id={core.place % self._width},thread-id={thread}"
                    found += ["-device", f"{device},{where}"]
        return tuple(found)

    def icount(self) -> str:
        """What QEMU's `-icount` is given beside the clock: speeds by its own numbers, which count what is left out."""
        words = []
        if set(self.speeds) != {100}:
            speeds = [100] * (len(self.clusters) * self._width * self._threads)
            for core in self.cores:
                for thread in range(len(core.cpus)):
                    speeds[core.place * self._threads + thread] = core.kind.speed_pct
            words.append(f",speeds={_listed(speeds)}")
        if self._threads > 1:
            words.append(f",shared={self.shared_pct}")
        if self.turbo_pct:
            words.append(f",turbo={_listed(self.turbo_pct)}")
        return "".join(words)

    def append(self) -> tuple[str, ...]:
        """Words for the kernel: the lab's own shows them as capacity and frequencies, others ignore them."""
        speeds = self.speeds
        if set(speeds) == {100}:
            return ()
        return (f"asa_machine.speeds={','.join(map(str, speeds))}",)

    @property
    def _width(self) -> int:
        return max(sum(one.cores for one in cluster) for cluster in self.clusters)

    @property
    def _threads(self) -> int:
        return max(one.threads for cluster in self.clusters for one in cluster)

    def _told(self, speed_pct: int, *, by_capacity: bool) -> host.Kind:
        return host.Kind(
            cores=sum(core.kind.speed_pct == speed_pct for core in self.cores),
            max_mhz=_FULL_MHZ * speed_pct // 100,
            capacity=_FULL_CAPACITY * speed_pct // 100 if by_capacity else None,
        )


def read(path: Path) -> Machine:
    """The machine that a file describes. Raises InputError with what is wrong, where, and what is allowed."""

    def named(data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if "name" in data:
            raise InputError(path=str(path), key="name", value=data["name"], allowed="no name: the file's is taken")
        return data | {"name": path.name.removesuffix(_SUFFIX)}

    machine = yamlfile.load(path, Machine, named)
    for key, value, allowed in _faults(machine):
        raise InputError(path=str(path), key=key, value=value, allowed=allowed)
    return machine


@cache
def shipped() -> tuple[Machine, ...]:
    """All that the lab has, by name."""
    return tuple(read(path) for path in sorted(_FOLDER.glob(f"*{_SUFFIX}")))


def alike(cpus: int) -> Machine:
    """So many CPUs of full speed that share one cache, each a core of vm120: a guest without a description."""
    one = load("vm120")
    (kind,) = one.kinds
    return msgspec.structs.replace(
        one,
        name=f"alike-{cpus}",
        note="CPUs alike",
        role=None,
        memory_mb=_ALIKE_MB,
        clusters=((Cores(kind=kind, cores=cpus),),),
    )


def fleet() -> tuple[Machine, ...]:
    """The ten of the paper (Table 3), in its order."""
    return tuple(one for one in shipped() if one.role is not None)


def find(words: str) -> tuple[Machine, ...]:
    """Machines by what a person writes: the lab's in their order without repeats, then those of files.

    `all` (the fleet), `prototypes`, `unseen`, `laptops`, names, or YAML files; several are parted by commas. Raises
    InputError.
    """
    groups = {
        "all": fleet(),
        "prototypes": tuple(one for one in fleet() if one.prototype),
        "unseen": tuple(one for one in fleet() if not one.prototype),
        "laptops": tuple(one for one in shipped() if one.role is None),
    }
    wanted = [one for word in words.split(",") for one in groups.get(word.strip()) or (load(word.strip(), groups),)]
    own = {one.name: one for one in wanted if one not in shipped()}
    return (*(one for one in shipped() if one in wanted), *own.values())


def load(word: str, groups: Sequence[str] | dict[str, Any] = ()) -> Machine:
    """One machine by its name or its file. `groups` are words that are allowed, too, for the error: InputError."""
    names = [one.name for one in shipped()]
    if word in names:
        return shipped()[names.index(word)]
    if not word.endswith(_SUFFIX):
        allowed = f"{', '.join([*groups, *names])}, or a file that ends in {_SUFFIX}"
        raise InputError(path="--machine", key="", value=word, allowed=allowed)
    machine = read(Path(word))
    if machine.name in names:
        raise InputError(path=word, key="", value=machine.name, allowed="a file name that is no machine of the lab")
    return machine


def _faults(machine: Machine) -> Iterator[tuple[str, object, str]]:
    """Key, value and what is allowed."""
    for place, cluster in enumerate(machine.clusters):
        for step, one in enumerate(cluster):
            if one.kind not in machine.kinds:
                yield f"clusters[{place}][{step}].kind", one.kind, f"one of the kinds {', '.join(machine.kinds)}"
                return
    if machine.cpus > MOST_CPUS:
        yield "clusters", f"{machine.cpus} CPUs", f"at most {MOST_CPUS} CPUs"
    if machine.shared_pct is None and any(one.threads > 1 for cluster in machine.clusters for one in cluster):
        yield "shared_pct", None, "a percentage, since cores have two threads"
    turbo = machine.turbo_pct
    if len(turbo) > len(machine.cores) or any(after > before for before, after in pairwise(turbo)):
        yield "turbo_pct", list(turbo), "a value for each number of busy cores at most, none above the one before"


def _listed(values: Sequence[int]) -> str:
    return ":".join(map(str, values))
