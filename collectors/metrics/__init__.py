# SPDX-License-Identifier: GPL-2.0-only
"""What each field of `collectors.rates.Rates` means: unit, source, backend, name in the paper, and a sentence.

Data, and a lookup of it; it measures nothing (`collectors.metrics.reading` puts values beside it).
"""

from collectors.ebpf import layout
from collectors.metrics import desktop, probes, processes, procfs
from collectors.metrics.kinds import Backend, Group, Metric, Row, Unit
from collectors.metrics.paper import TABLE_1

__all__ = ["METRICS", "TABLE_1", "Backend", "Metric", "Unit"]

_PROGRAMS = {field.name: field.programs for field in layout.FIELDS}


def _metric(group: Group, row: Row) -> Metric:
    inputs = tuple(row.inputs.split())
    source = group.source or ", ".join(dict.fromkeys(program for name in inputs for program in _PROGRAMS[name]))
    return Metric(
        field=row.field,
        unit=row.unit,
        backend=group.backend,
        part=group.part,
        source=source,
        paper=row.paper,
        sentence=row.sentence,
        inputs=inputs,
    )


METRICS: tuple[Metric, ...] = tuple(
    _metric(group, row)
    for group in (*procfs.GROUPS, *probes.GROUPS, *desktop.GROUPS, *processes.GROUPS)
    for row in group.rows
)
"""Every field of Rates, by source."""
