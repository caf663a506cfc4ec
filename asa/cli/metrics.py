# SPDX-License-Identifier: GPL-2.0-only
"""`asa metrics`: every metric of the paper's Table 1 and what is beyond it: name, unit, source, and its value now.

Takes two samples of this machine with the collectors that the agent would open. `--markdown` writes the list without
values, which is docs/metrics.md.
"""

import argparse
from typing import TYPE_CHECKING

from asa.cli.run import add_ebpf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.main import Commands
    from asa.config import CollectSettings, Ebpf
    from collectors.metrics import Metric
    from collectors.metrics.reading import Reading

_SHORTEST_S, _LONGEST_S = 0.1, 9.0  # ten seconds without a sample are a gap (collectors.rates), and reading takes some
_HEAD = """\
# Metrics

Written by `asa metrics --markdown`; do not edit. `asa metrics` shows them with their values on this machine, and says
why one has none.

Table 1 of the ASA paper (Wang et al., *Mixture-of-Schedulers*) names {total} metrics in {categories} categories. They
come first, in its order; several of our {ours} may serve one of them. What the paper has not comes after.

Sources: for procfs and psi the file below `/proc`; for ebpf the tracepoints (for `input_event` and
`__snd_pcm_xrun` the kernel function, for `waiting_tasks` an iterator); for drm `/proc/PID/fdinfo`, for cgroup
`cpu.stat` of version 2, for sched_ext `/sys/kernel/sched_ext`, for timer a task of our own that sleeps and wakes.
Rates, means and percentiles are of one tick. What cannot be known is None, never 0.
"""
_STEPS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))

_TEXT = """\
Takes two samples with the agent's collectors. It shows each metric with its unit, its source and its value,
or why the value is not known here.
"""
_MORE = """\
examples:
  sudo asa metrics
      With the eBPF probes, which need root.
  asa metrics --seconds 5 --json
      Over five seconds, for programs.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "metrics",
        help="list the metrics with their present values",
        description=_TEXT,
        epilog=_MORE,
    )
    command.add_argument(
        "--seconds", type=_seconds, default=1.0, metavar="S", help="between the two samples (default: %(default)s)"
    )
    add_ebpf(command)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object")
    form.add_argument("--markdown", action="store_true", help="the list without values: docs/metrics.md")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the list. Raises AsaError when the machine slept between the samples."""
    if arguments.markdown:
        print("\n".join(markdown()))
        return 0
    found = _now(arguments.seconds, arguments.ebpf)
    if arguments.json:
        _print_json(found, arguments.seconds)
    else:
        for line in _lines(found):
            print(line)
    return 0


def _now(seconds: float, ebpf: "Ebpf | None") -> "list[Reading]":
    import time

    from msgspec.structs import replace

    from asa import config, paths
    from asa.clock import SystemClock
    from asa.core.errors import AsaError
    from collectors.metrics.reading import readings
    from collectors.rates import derive
    from collectors.sampler import HostSampler, standard

    places = paths.default()
    collect = config.load(places.config).collect
    if ebpf is not None:
        collect = replace(collect, ebpf=ebpf)
    sampler = HostSampler(standard(places.proc, places.sys, collect), SystemClock())
    sampler.open()
    try:
        previous = sampler.sample()
        time.sleep(seconds)
        current = sampler.sample()
        reasons = _switched_off(collect) | sampler.missing | sampler.failing
    finally:
        sampler.close()
    rates = derive(previous, current)
    if rates is None:
        raise AsaError("no rates: the machine was suspended between the two samples; try again")
    return readings(previous, current, rates, reasons)


def _switched_off(collect: "CollectSettings") -> dict[str, str]:
    from collectors.sources import SOURCES

    return {
        source.name: f"collect.{source.setting} is off in the settings"
        for source in SOURCES
        if not source.wanted(collect)
    }


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r}: give {_SHORTEST_S} to {_LONGEST_S:g} seconds")
    return seconds


def _table_1(found: "list[Reading]") -> tuple[int, int]:
    """How many metrics Table 1 has, and how many of them have a value."""
    from collectors.metrics import TABLE_1

    known = {reading.metric.paper for reading in found if reading.value is not None}
    names = [name for _, names in TABLE_1 for name in names]
    return len(names), sum(name in known for name in names)


def _print_json(found: "list[Reading]", seconds: float) -> None:
    import json

    total, known = _table_1(found)
    metrics = [
        {
            "category": reading.category,
            "paper": reading.metric.paper,
            "name": reading.metric.field,
            "unit": reading.metric.unit,
            "source": reading.metric.source,
            "backend": reading.metric.backend,
            "value": reading.value,
            "why": reading.why,
        }
        for reading in found
    ]
    table_1 = {"metrics": total, "known": known}
    print(json.dumps({"seconds": seconds, "table_1": table_1, "metrics": metrics}))


def _lines(found: "list[Reading]") -> "Iterator[str]":
    category, paper = "", ""
    names = max(len(reading.metric.paper) for reading in found)
    fields = max(len(reading.metric.field) for reading in found)
    for reading in found:
        metric = reading.metric
        if reading.category != category:
            category = reading.category
            yield f"{category[:1].upper()}{category[1:]}"
        shown = metric.paper if metric.paper != paper else ""  # several of ours may serve one of the paper's
        paper = metric.paper
        value = "-" if reading.value is None else _shown(reading.value, metric.unit)
        why = f" ({reading.why})" if reading.why else ""
        yield f"  {shown:<{names}}  {metric.field:<{fields}}  {value:>13}  {metric.backend}: {metric.source}{why}"
    total, known = _table_1(found)
    yield f"{known} of the {total} metrics in the paper's Table 1 are known here now"


def _shown(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value:.1%}"
    if unit == "yes/no":
        return "yes" if value else "no"
    if unit.startswith("bytes"):
        for size, name in _STEPS:
            if value >= size:
                return f"{value / size:.3g} {unit.replace('bytes', name)}"
    number = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    if unit.startswith("1/"):
        return f"{number}{unit[1:]}"
    return number if unit == "count" else f"{number} {unit}"


def markdown() -> "Iterator[str]":
    """The lines of docs/metrics.md."""
    from collectors.metrics import METRICS, TABLE_1
    from collectors.metrics.reading import BEYOND, ordered

    total = sum(len(names) for _, names in TABLE_1)
    yield from _HEAD.format(total=total, categories=len(TABLE_1), ours=len(METRICS)).splitlines()
    category = ""
    for name, metric in ordered():
        if name != category:
            category = name
            yield ""
            yield f"## {name[:1].upper()}{name[1:]}"
            yield ""
            yield from _heading(beyond=name == BEYOND)
        yield _row(metric)


def _heading(*, beyond: bool) -> "Iterator[str]":
    names = (() if beyond else ("in the paper",)) + ("here", "unit", "backend", "source", "what it is")
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"


def _row(metric: "Metric") -> str:
    names = (metric.paper,) if metric.paper else ()
    cells = (*names, f"`{metric.field}`", metric.unit, metric.backend, metric.source, metric.sentence)
    return f"| {' | '.join(cells)} |"
