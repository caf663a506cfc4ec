# SPDX-License-Identifier: GPL-2.0-only
"""The words in which metrics are declared: units, how a rate is computed, and the declaration itself."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

from collectors.sources import Backend, of_part


class Unit(StrEnum):
    """What a metric is measured in."""

    SHARE = "share"  # 0..1
    FLAG = "yes/no"  # 1 and 0
    PER_S = "1/s"
    PER_CPU_S = "1/CPU s"  # a second of its own processor time
    COUNT = "count"
    CORES = "cores"  # processors' worth of time
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    US = "µs"
    MS = "ms"
    S = "s"
    S_PER_S = "s/s"  # time that all tasks together spent so, a second


class Seen(StrEnum):
    """How a model sees a metric that is declared to be a feature (`models.features.declared`)."""

    PLAIN = "plain"  # as it is: for shares
    LOG = "log"  # log1p of it: for durations, sizes and counts
    LOG_A_CORE = "log a core"  # log1p of it by the number of online cores: for events


class Counter(NamedTuple):
    """A rate: growth of a counter of the part, times the units in one count, by `per` seconds."""

    field: str
    times: int
    per: float


class State(NamedTuple):
    """A level: a number of the part as it is."""

    field: str


def counter(field: str, *, times: int = 1, per: float = 1.0) -> Counter:
    """What `field` grew by a second; `times`: units in one count, `per`: counts in a second's worth."""
    return Counter(field, times, per)


def state(field: str) -> State:
    """What `field` is now."""
    return State(field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What one field of Rates means.

    `paper` is its name in Table 1 of the ASA paper, "" when it is not there. `part` is the field of RawSample it comes
    from, `inputs` those fields of the part without which it is unknown although the part is there. `of` says how it is
    computed; None: a function of `collectors.rates` does. `seen`: the model's features have it, and how.
    """

    field: str
    unit: Unit
    backend: Backend
    part: str
    source: str
    paper: str
    sentence: str
    inputs: tuple[str, ...] = ()
    of: Counter | State | None = None
    seen: Seen | None = None


class Origin(NamedTuple):
    """Where metrics come from: a file or interface, and the field of RawSample that holds what it tells."""

    part: str
    source: str  # for procfs the file below the root of /proc; "" for eBPF, where the programs tell it

    def metric(
        self,
        unit: Unit,
        sentence: str,
        *,
        paper: str = "",
        of: Counter | State | None = None,
        inputs: str = "",
        seen: Seen | None = None,
    ) -> Any:  # a dataclass takes it for the field's default, which is None
        """The whole of a metric but its name, which is the field's; `inputs` as `Metric` has them, by spaces."""
        needed = tuple(inputs.split()) or (() if of is None else (of.field,))
        told = {"unit": unit, "sentence": sentence, "paper": paper, "of": of, "inputs": needed, "seen": seen}
        return field(default=None, metadata={METRIC: {**self._asdict(), **told}})


METRIC = "metric"
"""Key of a field's metadata under which its declaration is."""


def declared(rates: type[Any]) -> Iterator[Metric]:
    """The metrics of a class of fields, in order."""
    for one in fields(rates):
        told = one.metadata[METRIC]
        yield Metric(field=one.name, backend=of_part(told["part"]).backend, **told)
