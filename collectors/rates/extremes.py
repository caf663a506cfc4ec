# SPDX-License-Identifier: GPL-2.0-only
"""Rates of two processes: of those that use the CPU, the one that keeps it the longest, and the one that does so the
shortest.

What works behind something mostly keeps the CPU until it is taken off, what a person looks at gives it back soon: by
use alone now one comes first, now the other, while by their turns they keep their places.
"""

from operator import itemgetter

from collectors.rates.arithmetic import Fields
from collectors.rates.bursts import Turns
from collectors.rates.processes import BUSY_PROCESS_CORES, TICK_NS, Use, kind, kinds_of

_LONGEST, _SHORTEST = kinds_of("turns_longest"), kinds_of("turns_shortest")
_length = itemgetter(0)


def extremes(fields: Fields, turns: list[Turns], uses: list[Use] | None, elapsed_s: float, cores: int) -> None:
    """Both, where a process with known turns is busy; what /proc does not tell of it (the kernel's threads) is unknown.

    `turns` as `bursts.turned` gives them, `uses` as `processes.used` does.
    """
    by_pid = {use.now.pid: use for use in uses or ()}
    least_ns = BUSY_PROCESS_CORES * elapsed_s * 1e9
    busy = []
    for one in turns:
        ns, count, _, pid = one
        use = by_pid.get(pid)
        if use is not None:  # a turn that is still under way is in the ticks alone
            ns = max(ns, use.ticks * TICK_NS)
        if ns >= least_ns:
            busy.append((one[0] / count, ns, one, use))
    if not busy:
        return
    capacity_ns = elapsed_s * 1e9 * cores
    busy.sort(key=_length)
    for name, kinds, (mean_ns, ns, (_, count, involuntary, _), use) in (
        ("turns_longest", _LONGEST, busy[-1]),
        ("turns_shortest", _SHORTEST, busy[0]),
    ):
        fields[f"{name}_mean_us"] = mean_ns / 1e3
        fields[f"{name}_involuntary_share"] = min(1.0, involuntary / count)
        fields[f"{name}_cpu_share"] = min(1.0, ns / capacity_ns) if cores else None
        if use is not None:
            kind(fields, kinds, use)
