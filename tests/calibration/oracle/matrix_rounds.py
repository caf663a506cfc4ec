# SPDX-License-Identifier: GPL-2.0-only
"""Made-up rounds: what each scheduler gains on a machine in a scenario is what a table says, and noise."""

from random import Random

from calibration.oracle.rounds import Round

OWN_SCORE = 0.6


def rounds(leads, *, machines=("vm120",), seeds=(1,), count=4, noise=0.01, part="", itself=False):
    """`leads`: label -> scheduler -> lead in per cent, or a mapping of it by machine. `itself`: EEVDF's, too."""
    if itself:
        leads = {label: known | {"eevdf": 0.0} for label, known in leads.items()}
    made = []
    for machine in machines:
        for label, known in leads.items():
            for seed in seeds:
                for name, lead in known.items():
                    chance = Random(f"{machine} {label} {seed} {name}")  # noqa: S311
                    pct = lead.get(machine, 0.0) if isinstance(lead, dict) else lead
                    for number in range(1, count + 1):
                        factor = 1.0 + pct / 100.0 + chance.gauss(0.0, noise)
                        made.append(one(machine, label, seed, name, number, factor, part))
    return made


def one(machine, label, seed, name, number, factor, part=""):
    """A scheduler with a score so many times the kernel's own, waits that are as much shorter, and half the power."""
    return Round(
        run="-".join(filter(None, (machine, label, str(seed), part))),
        machine=machine,
        cpus=4,
        hybrid=False,
        tick_hz=1000,
        clock="parallel",
        kernel="6.18",
        date="2026-11-29",
        version="1.1.4",
        label=label,
        seed=seed,
        part=part,
        round=number,
        scheduler=name,
        copy=3 if name == "eevdf" else 1,
        wait_of="office.key_ms",
        rate_of="archive.compress_mb_per_s",
        score=OWN_SCORE * factor,
        own_score=OWN_SCORE,
        wait=50.0 / factor,
        own_wait=50.0,
        rate=4.0,
        own_rate=4.0,
        power_w=5.0,
        own_power_w=10.0,
    )
