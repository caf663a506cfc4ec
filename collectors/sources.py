# SPDX-License-Identifier: GPL-2.0-only
"""All sources of this host, one declaration each: who reads it, what it fills, its setting, and what is said of it.

Data, and look-ups in it. The sampler opens what stands here; `asa doctor`, `asa metrics`, the features, the dataset and
the overhead's page take from here what they have to know of a source.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any

from msgspec import convert

from asa.config import CollectSettings, Ebpf
from asa.core.sample import (
    BusiestProcesses,
    DesktopState,
    GpuCounters,
    GroupUsage,
    HintState,
    ProgramsAtWork,
    RealtimeCounters,
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source. `tells` names for a part that every host has a metric that is known wherever it was read."""

    name: str  # the collector's
    opener: str  # module:class, imported when it is wanted; the class takes the roots of /proc and /sys
    parts: tuple[str, ...]  # fields of RawSample that it fills
    backend: Backend
    feature: str = ""  # `models.features.Source` of its columns, "" while the model sees none
    setting: str = ""  # field of CollectSettings without which it is not opened; "": it is always read
    optional: bool = False  # a host may lack it for good
    title: str = ""  # in `asa doctor`, when it has something to tell:
    told: Callable[[Any], str] | None = None  # of its first part
    tells: Mapping[str, str] = field(default_factory=dict)

    def wanted(self, settings: CollectSettings) -> bool:
        """Whether the settings ask for it."""
        return not self.setting or getattr(settings, self.setting) not in (False, Ebpf.OFF)

    def kind(self) -> Any:
        """The collector's class."""
        module, _, name = self.opener.partition(":")
        return getattr(import_module(module), name)


def _desktop(state: DesktopState) -> str:
    blind = [name for name in ("idle_ms", "input_events", "focus") if getattr(state, name) is None]
    return f"seen through {state.source}{'; not told: ' + ', '.join(blind) if blind else ''}"


def _gpu(state: GpuCounters) -> str:
    if state.processes is None:
        return "a process holds one whose driver tells nothing through DRM: its use is unknown"
    told = "has told no busy time" if state.engine_ns is None else "tells busy time"
    return f"{state.processes} processes hold it; its driver {told}"


def _groups(state: GroupUsage) -> str:
    return f"{len(state.cpu_us)} applications and services have their own"


def _hints(state: HintState) -> str:
    signals = ("playing", "game_clients", "idle_inhibited", "sound_played", "sound_recorded")
    unknown = [name for name in signals if getattr(state, name) is None]
    front = f"{state.front or 'no known application'} in front"
    unknown += ["packages"] if state.packages is None else []
    return f"{front}; entries with categories: {len(state.entries)}; not told: {', '.join(unknown) or 'nothing'}"


def _busiest(state: BusiestProcesses) -> str:
    return f"counters of the {len(state.processes)} busiest are read, without their names"


def _programs(state: ProgramsAtWork) -> str:
    return f"{len(state.programs)} have worked lately; they are known by numbers that tell no names"


def _realtime(state: RealtimeCounters) -> str:
    return f"{state.threads}, which run before all that a scheduler decides" if state.threads else "none"


EBPF = "ebpf"
"""The source that our own programs are, or somebody who has loaded them."""

HINTS = "hints"
"""The source that looks at the same processes as the next."""

PROGRAMS = "programs"
"""The source that is given a key."""

SOURCES: tuple[Source, ...] = (
    Source(
        name="cpu",
        opener="collectors.procfs.cpu:CpuCollector",
        parts=("cpu",),
        backend=Backend.PROCFS,
        feature="cpu",
        tells={"cpu": "cpu_user_share"},
    ),
    Source(
        name="process",
        opener="collectors.procfs.process:ProcessCollector",
        parts=("process",),
        backend=Backend.PROCFS,
        feature="cpu",
    ),
    Source(
        name="memory",
        opener="collectors.procfs.memory:MemoryCollector",
        parts=("memory",),
        backend=Backend.PROCFS,
        feature="memory",
        tells={"memory": "memory_free_bytes"},
    ),
    Source(
        name="paging",
        opener="collectors.procfs.memory:PagingCollector",
        parts=("paging",),
        backend=Backend.PROCFS,
        feature="memory",
        tells={"paging": "page_faults_per_s"},
    ),
    Source(
        name="disk",
        opener="collectors.procfs.disk:DiskCollector",
        parts=("disk",),
        backend=Backend.PROCFS,
        feature="disk",
        tells={"disk": "disk_reads_per_s"},
    ),
    Source(
        name="network",
        opener="collectors.procfs.network:NetworkCollector",
        parts=("network", "connections"),
        backend=Backend.PROCFS,
        feature="network",
        tells={"network": "network_received_bytes_per_s", "connections": "connections_established"},
    ),
    Source(
        name="pressure",
        opener="collectors.psi:PressureCollector",
        parts=("pressure",),
        backend=Backend.PSI,
        feature="psi",
        tells={"pressure": "pressure_cpu_some_share"},
    ),
    Source(
        name="sched_ext",
        opener="collectors.schedext:SchedExtCollector",
        parts=("sched_ext",),
        backend=Backend.SCHED_EXT,
        optional=True,
    ),
    Source(
        name="power",
        opener="collectors.power:PowerCollector",
        parts=("battery_saver", "on_battery"),
        backend=Backend.PROCFS,
        optional=True,
    ),
    Source(
        name=EBPF,
        opener="collectors.ebpf.collector:EbpfCollector",
        parts=("probes", "process_bursts", "felt"),
        backend=Backend.EBPF,
        feature="probes",
        setting="ebpf",
        tells={EBPF: "switches_per_s"},
    ),
    Source(
        name="desktop",
        opener="collectors.desktop:DesktopCollector",
        parts=("desktop",),
        backend=Backend.DESKTOP,
        feature="desktop",
        setting="desktop",
        optional=True,
        title="desktop",
        told=_desktop,
    ),
    Source(
        name="gpu",
        opener="collectors.procfs.gpu:GpuCollector",
        parts=("gpu",),
        backend=Backend.DRM,
        feature="gpu",
        setting="gpu",
        optional=True,
        title="GPU",
        told=_gpu,
    ),
    Source(
        name="groups",
        opener="collectors.cgroups:GroupCollector",
        parts=("groups",),
        backend=Backend.CGROUP,
        feature="groups",
        setting="groups",
        title="control groups",
        told=_groups,
    ),
    Source(
        name="busiest",
        opener="collectors.procfs.busiest:BusiestCollector",
        parts=("busiest",),
        backend=Backend.PROCFS,
        feature="processes",
        setting="processes",
        title="processes",
        told=_busiest,
    ),
    Source(
        name=HINTS,  # after what it follows
        opener="collectors.hints.collector:HintCollector",
        parts=("hints",),
        backend=Backend.DESKTOP,
        setting="desktop",
        optional=True,
        title="hints",
        told=_hints,
    ),
    Source(
        name=PROGRAMS,  # after what it follows
        opener="collectors.programs:ProgramCollector",
        parts=("programs",),
        backend=Backend.PROCFS,
        setting="processes",
        title="programs",
        told=_programs,
    ),
    Source(
        name="realtime",
        opener="collectors.procfs.realtime:RealtimeCollector",
        parts=("realtime",),
        backend=Backend.PROCFS,
        setting="processes",
        title="real-time threads",
        told=_realtime,
    ),
    Source(
        name="timer",
        opener="collectors.timer:TimerCollector",
        parts=("timer",),
        backend=Backend.TIMER,
        feature="timer",
        setting="timer",
        title="timer",
        told=lambda _: "a task of ours tells how late it wakes",
        tells={"timer": "timer_late_mean_us"},
    ),
)
"""In the order in which they are read."""

_OF_PART: Mapping[str, Source] = {part: source for source in SOURCES for part in source.parts}


def of_part(part: str) -> Source:
    """The source that fills a field of RawSample."""
    return _OF_PART[part]


def only(settings: Collection[str]) -> CollectSettings:
    """Settings by which no optional source is opened but these, by the names of their switches."""
    off = {source.setting for source in SOURCES if source.setting} - set(settings)
    return convert({name: "off" if name == EBPF else False for name in off}, CollectSettings)
