# SPDX-License-Identifier: GPL-2.0-only
"""Is there anything to gain while a machine has little to do? How often somebody waits, by the load of a tick.

On recordings of real programs under the kernel's own scheduler. A wait is felt where a signal that the guard compares
is at its floor or above (`asa.decide.signals`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from asa.core.regime import Load
from asa.decide import regime
from asa.decide.signals import FLOOR, SIGNALS, Signal, of_rates, values_of
from asa.pipeline import plan
from collectors import rates
from models.train.recorded import read

_WAITS = frozenset({Signal.RUN_QUEUE, Signal.WAKEUP, Signal.PRESSURE, Signal.TIMER})


def felt(journals: Iterable[Path]) -> Mapping[Load, tuple[int, int]]:
    """By load: the ticks in which a wait is felt, and all. Raises JournalError."""
    hits, total, wanted = Counter[Load](), Counter[Load](), plan(())
    for session in (one for path in journals for one in read(path)):
        before = None
        for old, new in pairwise(session.samples):
            derived = rates.derive(old, new, wanted)
            if derived is None or new.cpu is None:
                before = None
                continue
            cpus = len(new.cpu.cores)
            before = regime.of(derived, cpus, before)
            if before is not None:
                waits = zip(SIGNALS, values_of(of_rates(derived, cpus)), strict=False)  # the load's quantities follow
                total[before.load] += 1
                hits[before.load] += any(
                    one in _WAITS and value is not None and value >= FLOOR[one] for one, value in waits
                )
    return {load: (hits[load], total[load]) for load in total}
