# SPDX-License-Identifier: GPL-2.0-only
"""The CO-RE backend: brings the shipped object into the kernel through libbpf, and keeps its programs attached.

Each program whose hook this kernel has is loaded; one that the kernel refuses is left out and named. Nothing is
compiled and nothing read here.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from asa.config import Ebpf
from asa.core.errors import SourceError
from collectors.ebpf import hooks, layout
from collectors.ebpf.libbpf import SOURCE, KernelTypes, Library, LoadError, Object

OBJECT = Path(__file__).with_name("probes.bpf.o")
"""The compiled programs; built by `make bpf`, shipped in the wheel."""

_KPROBES = "bus/event_source/devices/kprobe"  # present with CONFIG_KPROBE_EVENTS since 4.17
_BY_KPROBE = frozenset({"input_event"})
_RUN_QUEUE_LENGTH = frozenset({"run_queue_length_sum"})
_FUTEX = frozenset({"futex_waits", "futex_wait_ns"})


@dataclass(slots=True, kw_only=True)
class _Facts:
    """What the running kernel lets the programs do."""

    programs: set[str]
    switch_tells_state: bool
    futex_calls: tuple[int, int, int] | None
    unfilled: frozenset[str] = frozenset()  # fields that attached programs leave empty on this kernel
    lacking: dict[str, str] = field(default_factory=dict)


class CoreStats:
    """A StatsMap of the CO-RE object. Made by `open_core`."""

    def __init__(self, programs: Object, cpus: int, facts: _Facts) -> None:
        self.backend = Ebpf.CORE
        self.cpus = cpus
        self.stats_fd, self.row_bytes = programs.map("stats")
        self.irq_kinds_fd, _ = programs.map("irq_kinds")
        self.fields = layout.fields_of(facts.programs) - facts.unfilled
        self.lacking = facts.lacking
        self._object = programs

    def close(self) -> None:
        """Detach the programs and give the descriptors back."""
        self._object.close()


def open_core(proc: Path, sys: Path, *, path: Path = OBJECT, library: Library | None = None) -> CoreStats:
    """Load and attach what this kernel has hooks for. Raises SourceError."""
    missing = hooks.missing_capabilities(proc)
    if missing:
        raise SourceError(source=SOURCE, reason=f"needs root ({' and '.join(missing)})")
    if not os.path.exists(path):  # noqa: PTH110
        raise SourceError(source=SOURCE, reason=f"{path}: no such file; run `make bpf`")
    library = library or Library()
    cpus, slots = hooks.possible_cpus(sys), hooks.task_slots(proc)
    facts = _facts(library, sys)
    while True:
        programs = Object(library, path)
        try:
            _load(programs, path, facts, cpus=cpus, slots=slots)
        except LoadError as error:
            programs.close()
            if error.program is None or error.program not in facts.programs:
                raise _explained(error, sys) from error
            facts.programs.discard(error.program)
            facts.lacking[error.program] = error.reason.removeprefix(f"{path}: ")
        except SourceError:
            programs.close()
            raise
        else:
            break
    refused = programs.attach(facts.programs)
    facts.programs -= set(refused)
    facts.lacking |= refused
    if not facts.programs:
        programs.close()
        reason = "; ".join(f"{name}: {why}" for name, why in sorted(facts.lacking.items())[:1])
        raise SourceError(source=SOURCE, reason=f"no program could be attached: {reason}")
    return CoreStats(programs, cpus, facts)


def _load(programs: Object, path: Path, facts: _Facts, *, cpus: int, slots: int) -> None:
    settings = programs.settings()
    if len(settings) != len(layout.SETTINGS) or settings[layout.SETTINGS.index("layout")] != layout.VERSION:
        reason = f"{path}: compiled for another layout than {layout.VERSION:#018x}; run `make bpf`"
        raise SourceError(source=SOURCE, reason=reason)
    futex = facts.futex_calls or (0, 0, 0)
    settings[:] = (layout.VERSION, slots - 1, int(facts.switch_tells_state), *futex)
    programs.resize("stats", cpus)
    programs.resize("tasks", slots)
    programs.choose(facts.programs)
    programs.load()


def _facts(library: Library, sys: Path) -> _Facts:
    types = KernelTypes(library, sys / "kernel/btf/vmlinux")
    try:
        arguments = {name: types.tracepoint_arguments(name) for name in layout.PROGRAMS if name not in _BY_KPROBE}
        lacking = {name: "this kernel has no such tracepoint" for name, count in arguments.items() if count is None}
        unfilled: frozenset[str] = frozenset()
        if not types.has_member("cfs_rq", "rq"):
            unfilled |= _RUN_QUEUE_LENGTH
            lacking["run queue length"] = "this kernel has no struct cfs_rq.rq (CONFIG_FAIR_GROUP_SCHED)"
        calls = hooks.futex_calls()
        if calls is None or not types.has_value("bpf_func_id", "BPF_FUNC_task_pt_regs"):
            calls = None
            unfilled |= _FUTEX
            lacking["futex waits"] = "a task's system call cannot be told (x86-64 or aarch64, Linux 5.15)"
    finally:
        types.close()
    if not os.path.exists(sys / _KPROBES):  # noqa: PTH110  # Path's raises where a folder may not be looked into
        lacking |= dict.fromkeys(_BY_KPROBE, "this kernel has no kprobes (CONFIG_KPROBE_EVENTS)")
    return _Facts(
        programs=set(layout.PROGRAMS) - set(lacking),
        switch_tells_state=(arguments["sched_switch"] or 0) >= 4,
        futex_calls=calls,
        unfilled=unfilled,
        lacking=lacking,
    )


def _explained(error: LoadError, sys: Path) -> SourceError:
    """The same failure with its likely cause, where the system's word alone would not tell what to do."""
    mode = hooks.lockdown(sys)
    if mode == "confidentiality":
        return SourceError(source=SOURCE, reason=f"kernel lockdown ({mode!r}) forbids it: {error.reason}")
    if error.denied:
        advice = "needs CAP_BPF and CAP_PERFMON, and on kernels before 5.11 a raised memlock limit (ulimit -l)"
        return SourceError(source=SOURCE, reason=f"{error.reason}; {advice}")
    return error
