# SPDX-License-Identifier: GPL-2.0-only
"""Machines of the matrix by name, and their shapes: what of a machine a table can be of. Pure but for their files."""

import msgspec

from asa.decide import fingerprint
from asa.host import Kind
from scenarios.lab import machines
from scenarios.lab.machines import Machine

SLOW_TICK = "-250hz"
"""At the end of a name: that machine with a kernel of 250 Hz."""


def machine(name: str) -> Machine:
    """Of the lab, or one with another tick. Raises InputError."""
    found = machines.load(name.removesuffix(SLOW_TICK))
    return msgspec.structs.replace(found, name=name, tick_hz=250) if name.endswith(SLOW_TICK) else found


def hybrid(one: Machine) -> bool:
    """Has it cores of more than one speed?"""
    return len({core.kind.speed_pct for core in one.cores}) > 1


def words(one: Machine) -> str:
    """`4 CPUs`, `12 CPUs, hybrid, 250 Hz`."""
    also = [f"{len(one.clusters)} clusters"] if len(one.clusters) > 1 else []
    also += ["hybrid"] if hybrid(one) else []
    also += [f"{one.tick_hz} Hz"] if one.name.endswith(SLOW_TICK) else []
    return ", ".join((f"{one.cpus} CPUs", *also))


def facts(one: Machine) -> fingerprint.Machine:
    """What a table says of it: its shape, and neither a model nor memory, which a guest only stands in for."""
    speeds = sorted({core.kind.speed_pct for core in one.cores}, reverse=True)
    of_speed = [sum(core.kind.speed_pct == speed for core in one.cores) for speed in speeds]
    alike = len(speeds) == 1
    kinds = tuple(
        Kind(cores=count, capacity=None if alike else round(1024 * speed / speeds[0]))
        for count, speed in zip(of_speed, speeds, strict=True)
    )
    return fingerprint.Machine(
        name=f"{words(one)} (the lab's {one.name})",
        cpus=one.cpus,
        cores=len(one.cores),
        smt=any(len(core.cpus) > 1 for core in one.cores),
        kinds=kinds,
        caches=len(one.clusters),
    )
