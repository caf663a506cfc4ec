# SPDX-License-Identifier: GPL-2.0-only
"""Made-up sessions of three uses, for tests of training and of what comes after it."""

import random

from asa.core.sample import CpuCounters, RawSample
from asa.journal import SessionHeader

CPUS = 2
S = 1_000_000_000
# user, system, idle ticks and context switches a second and core
LOADS = {"cpu": (97, 2, 1, 60), "idle": (1, 1, 98, 90), "wakeup": (20, 70, 10, 90_000)}


def samples(plan: list[tuple[str, int]], seed: int, *, spread: float = 0.2, shift: float = 1.0) -> list[RawSample]:
    """A session of uses with their lengths in ticks; `shift` makes its kernel's share another one."""
    chance = random.Random(f"{plan} {seed}")  # noqa: S311
    apart_ns = chance.randrange(S)  # no two sessions begin at the same time
    user = system = idle = switches = second = 0
    made = []
    for label, ticks in plan:
        for _ in range(ticks):
            loads = [int(load * chance.uniform(1 - spread, 1 + spread)) for load in LOADS[label]]
            user, system, idle = user + loads[0], system + int(loads[1] * shift), idle + loads[2]
            switches, second = switches + loads[3] * CPUS, second + 1
            core = (user, 0, system, idle, 0, 0, 0, 0)
            cpu = CpuCounters(
                total=tuple(CPUS * ticks for ticks in core),
                cores=tuple((number, core) for number in range(CPUS)),
                interrupts=switches // 2,
                context_switches=switches,
                forks=second,
                softirqs=(0, second, 0, 0, 0, 0, 0, switches // 4, 0, second),
                runnable=2,
                blocked=0,
            )
            at_ns = seed * 1000 * S + second * S
            made.append(RawSample(monotonic_ns=at_ns, wall_ns=at_ns + apart_ns, cpu=cpu))
    return made


def header(label: str, seed: int | None, **more) -> SessionHeader:
    values = {"host": "lab, 2 cpus", "kernel": "6.18", "cpus": CPUS, "asa_version": "0"}
    return SessionHeader(started_ns=seed or 0, label=label, seed=seed, **(values | more))
