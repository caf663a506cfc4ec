# SPDX-License-Identifier: GPL-2.0-only
"""What each field of `collectors.rates.Rates` means: unit, source, backend, name in the paper, and a sentence.

The classes beside this file declare each metric once, with its name and with how it is computed where that is simple;
here they are listed. It measures nothing (`collectors.metrics.reading` puts values beside it).
"""

from collections.abc import Iterator
from dataclasses import replace

from collectors.ebpf import layout
from collectors.metrics.desktop import DesktopRates
from collectors.metrics.felt import FeltRates
from collectors.metrics.kinds import Metric, Unit, declared
from collectors.metrics.paper import TABLE_1
from collectors.metrics.probes import ProbeRates
from collectors.metrics.processes import ProcessRates
from collectors.metrics.procfs import ProcfsRates
from collectors.sources import Backend

__all__ = ["METRICS", "TABLE_1", "Backend", "Metric", "Unit"]

_PROGRAMS = {field.name: field.programs for field in layout.FIELDS}


def _all() -> Iterator[Metric]:
    for kind in (ProcfsRates, ProbeRates, FeltRates, DesktopRates, ProcessRates):
        for metric in declared(kind):
            programs = dict.fromkeys(program for name in metric.inputs for program in _PROGRAMS.get(name, ()))
            yield metric if metric.source else replace(metric, source=", ".join(programs))


METRICS: tuple[Metric, ...] = tuple(_all())
"""Every field of Rates, by source."""
