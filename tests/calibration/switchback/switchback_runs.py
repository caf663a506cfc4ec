# SPDX-License-Identifier: GPL-2.0-only
"""Made-up switchback runs: an office beside an archive, whose keys take what a table says."""

from random import Random

from asa.core.decision import EEVDF
from calibration.switchback.design import orders
from calibration.switchback.samples import Block, Orders, Run, Samples
from scenarios.conditions import Conditions
from scenarios.energy import Energy

KEYS, SLOW_MS = 40, 60.0


def samples(metric, values, application="office"):
    return Samples(application=application, metric=metric, at_s=[0.1 * n for n in range(len(values))], values=values)


def block(order, place, number, key_ms, mb_per_s, after):
    turn = order[place]
    return Block(
        round=number,
        place=place + 1,
        scheduler=turn.scheduler,
        copy=turn.copy,
        after=after,
        window_s=5.0,
        switch_ms=3.5,
        gap_ms=2.5,
        way="standby",
        energy=Energy(busy_s=[1.0], joules=50.0, watts=10.0),
        series=[
            samples("key_ms", key_ms),
            samples("slide_ms", [2.0 * one for one in key_ms]),
            samples("compress_mb_per_s", [mb_per_s] * 4, "archive"),
        ],
    )


def run(names=(EEVDF, "scx_a"), rounds=6, seed=1, *, times=None, after=None, noise=0.05, drift=0.0, **changes):
    """`times`: how long a scheduler's keys take, times SLOW_MS; `after` it: those of the block after it."""
    chance = Random(seed)  # noqa: S311
    times, after, made = times or {}, after or {}, []
    for number, order in enumerate(orders(names, rounds, seed), 1):
        before = ""
        for place, turn in enumerate(order):
            level = SLOW_MS * times.get(turn.scheduler, 1.0) * after.get(before, 1.0) * (1.0 + drift * place)
            keys = [level * chance.lognormvariate(0.0, noise) for _ in range(KEYS)]
            made.append(block(order, place, number, keys, 4.0 / times.get(turn.scheduler, 1.0), before))
            before = turn.scheduler
    whole = {
        "orders": Orders(label="office+archive", seed=seed, schedulers=tuple(names), rounds=rounds, out="/out"),
        "interactive": "office",
        "background": "archive",
        "machine": "vm120",
        "cpus": 4,
        "kernel": "6.18",
        "asa_version": "0.1.0",
        "under": Conditions(clock="parallel", tick_hz=1000, machine="vm120"),
        "window_s": 5.0,
        "memories_s": {"office.key_ms": 0.5},
        "alone": [samples("compress_mb_per_s", [8.0] * 4, "archive"), samples("key_ms", [5.0] * 40)],
        "blocks": tuple(made),
        "whole": True,
        "guest_s": 300.0,
        "host_s": 500.0,
        "host_cpu_s": 480.0,
    }
    return Run(**(whole | changes))
