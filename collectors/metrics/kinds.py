# SPDX-License-Identifier: GPL-2.0-only
"""The words in which metrics are described: units, backends, and one row of the tables beside this file."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


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


class Backend(StrEnum):
    """By which way a metric comes into the agent."""

    PROCFS = "procfs"
    PSI = "psi"
    SCHED_EXT = "sched_ext"
    EBPF = "ebpf"
    DESKTOP = "desktop"  # GNOME Shell's extension, else X11; the processes' share is from /proc
    DRM = "drm"
    CGROUP = "cgroup"
    TIMER = "timer"  # a task of ours that sleeps and wakes


class Row(NamedTuple):
    """What one field of Rates means, as the tables hold it."""

    field: str
    unit: Unit
    paper: str  # name in Table 1 of the ASA paper, "" when it is not there
    sentence: str
    inputs: str = ""  # the fields it is made of that may be unknown while the rest of their part is known


class Group(NamedTuple):
    """Rows that come out of one file or interface."""

    backend: Backend
    part: str  # field of RawSample
    source: str  # for procfs the file below the root of /proc; "" for eBPF, where the programs tell it
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What one field of Rates means.

    `paper` is its name in Table 1 of the ASA paper, "" when it is not there. `part` is the field of RawSample it comes
    from, `inputs` those fields of the part without which it is unknown although the part is there.
    """

    field: str
    unit: Unit
    backend: Backend
    part: str
    source: str
    paper: str
    sentence: str
    inputs: tuple[str, ...] = ()
