# SPDX-License-Identifier: GPL-2.0-only
"""Published figures of schedulers: `mapping_tables/evidence.yaml`, read strictly.

A row is one figure of one source, at one or several numbers of CPUs. Compares nothing: `agreement`.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from asa import yamlfile
from asa.core.decision import EEVDF
from asa.core.errors import InputError
from calibration.scale.samples import FOREIGN_METRICS, METRICS

_Cpus = Annotated[int, Meta(ge=1, le=4096)]
_Value = Annotated[float, Meta(gt=0.0)]
_LAB = dict.fromkeys(metric.name for metric in (*METRICS, *FOREIGN_METRICS))


class Trust(StrEnum):
    """How far a source is to be believed."""

    LOW = "low"  # once each, or with a known fault
    FAIR = "fair"
    AUTHOR = "author"  # published by the author of one of the schedulers


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the machine."""

    cpu: str
    cpus: _Cpus
    kernel: str = ""  # "": not said


class Measure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the figures."""

    unit: str
    more_is_better: bool


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The figures at a number of CPUs, by scheduler."""

    cpus: _Cpus
    figures: Annotated[dict[str, _Value], Meta(min_length=2)]


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published figure. `lab` names the scale benchmark's metric that measures the like; "": there is none."""

    id: Annotated[str, Meta(pattern=r"^G[0-9]+(-[a-z]+)*$")]
    what: str
    workload: str
    machine: Facts
    metric: Measure
    lab: str = ""
    runs: Annotated[int, Meta(ge=1)]
    trust: Trust
    source: str
    doubt: str  # why it may be wrong
    at: Annotated[tuple[At, ...], Meta(min_length=1)]

    def goodness(self, at: At) -> dict[str, float]:
        """More is better, by scheduler; for ranks alone."""
        sign = 1.0 if self.metric.more_is_better else -1.0
        return {name: sign * value for name, value in at.figures.items()}

    def effects_pct(self, at: At) -> dict[str, float]:
        """By how much each scheduler is better than EEVDF; nothing where EEVDF was not measured."""
        own = at.figures.get(EEVDF)
        if own is None:
            return {}
        ratios = {name: value / own for name, value in at.figures.items() if name != EEVDF}
        return {
            name: 100.0 * ((ratio if self.metric.more_is_better else 1.0 / ratio) - 1.0)
            for name, ratio in ratios.items()
        }


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    version: Literal[1]
    rows: Annotated[tuple[Row, ...], Meta(min_length=1)]


def read(path: Path) -> Evidence:
    """Raises InputError with what is wrong, where, and what is allowed."""
    evidence = yamlfile.load(path, Evidence)
    for key, value, allowed in _faults(evidence):
        raise InputError(path=str(path), key=key, value=value, allowed=allowed)
    return evidence


def _faults(evidence: Evidence) -> Iterator[tuple[str, object, str]]:
    seen: set[str] = set()
    for place, row in enumerate(evidence.rows):
        if row.id in seen:
            yield f"rows[{place}].id", row.id, "an id that no row above has"
        seen.add(row.id)
        if row.lab and row.lab not in _LAB:
            yield f"rows[{place}].lab", row.lab, f"one of {', '.join(_LAB)}"
        counts = [at.cpus for at in row.at]
        if len(set(counts)) < len(counts):
            yield f"rows[{place}].at", counts, "each number of CPUs once"
