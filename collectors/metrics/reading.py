# SPDX-License-Identifier: GPL-2.0-only
"""The value of every metric between two samples, or why it has none; Table 1 of the paper first, then what is beyond.

Pure: it takes samples and the sampler's reasons, it reads nothing itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from asa.core.sample import RawSample
from collectors.metrics import METRICS, TABLE_1, Backend, Metric, Unit
from collectors.rates import Rates
from collectors.sources import of_part

_RATES = frozenset({Unit.PER_S, Unit.BYTES_PER_S, Unit.S_PER_S})  # nothing that happened is a rate of 0

BEYOND = "beyond the paper"
"""Category of metrics that Table 1 has not."""

_PARTS_OF_PROGRAMS = {  # counter -> how the eBPF backends name what they lack while the program itself is attached
    "run_queue_length_sum": "run queue length",
    "futex_waits": "futex waits",
    "futex_wait_ns": "futex waits",
    "tcp_packets": "packets by protocol",
    "udp_packets": "packets by protocol",
    "long_waits": "long waits",
    "waiting_ns": "long waits",
    "scanned_ns": "long waits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A metric now. `value` is None when it is unknown, and `why` says why then, "" otherwise."""

    category: str
    metric: Metric
    value: float | None
    why: str


def ordered() -> Iterator[tuple[str, Metric]]:
    """Category and metric: Table 1's in the paper's order (several may serve one of its rows), then the others."""
    for category, names in TABLE_1:
        for name in names:
            yield from ((category, metric) for metric in METRICS if metric.paper == name)
    yield from ((BEYOND, metric) for metric in METRICS if not metric.paper)


def readings(previous: RawSample, current: RawSample, rates: Rates, reasons: Mapping[str, str]) -> list[Reading]:
    """All metrics between two samples; `rates` are theirs.

    `reasons`: source, or part of one (a file, a program) -> why this host does not have it, as a HostSampler's
    `missing` and `failing` tell.
    """
    found = []
    for category, metric in ordered():
        value = getattr(rates, metric.field)
        why = "" if value is not None else _why(metric, previous, current, reasons)
        found.append(Reading(category=category, metric=metric, value=value, why=why))
    return found


def _why(metric: Metric, previous: RawSample, current: RawSample, reasons: Mapping[str, str]) -> str:
    part = getattr(current, metric.part)
    if part is None:
        source = of_part(metric.part).name
        return reasons.get(source) or f"{source} was not read"
    unknown = [name for name in metric.inputs if getattr(part, name) is None]
    if unknown:
        return _of_part(metric, unknown, reasons) or f"{metric.part} has no {', '.join(unknown)} here now"
    before = getattr(previous, metric.part)
    if before is None or any(getattr(before, name) is None for name in metric.inputs):
        return "was read for the first time"
    if metric.unit in _RATES:
        return "its counter began anew between the two samples"
    return "nothing of the kind between the two samples"


def _of_part(metric: Metric, unknown: list[str], reasons: Mapping[str, str]) -> str:
    if metric.backend is Backend.EBPF:
        names = [_PARTS_OF_PROGRAMS.get(name, "") for name in unknown] + metric.source.split(", ")
    else:
        names = [metric.source]
    return "; ".join(f"{name}: {reasons[name]}" for name in dict.fromkeys(names) if name in reasons)
