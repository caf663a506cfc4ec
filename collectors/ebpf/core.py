# SPDX-License-Identifier: GPL-2.0-only
"""The CO-RE backend: brings the shipped object into the kernel through libbpf, and keeps its programs attached.

Each program whose hook this kernel has is loaded; one that the kernel refuses is left out and named. Nothing is
compiled and nothing read here.
"""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from asa.config import Ebpf
from asa.core.errors import SourceError
from collectors.ebpf import hooks, layout
from collectors.ebpf.libbpf import SOURCE, KernelTypes, Library, LoadError, Object

OBJECT = Path(__file__).with_name("probes.bpf.o")
"""The compiled programs; built by `make bpf`, shipped in the wheel."""

_KPROBES = "bus/event_source/devices/kprobe"  # present with CONFIG_KPROBE_EVENTS since 4.17
_RUN_QUEUE_LENGTH = frozenset({"run_queue_length_sum"})
_WAITING = "waiting_tasks"
_OF_MODULE = "this kernel has no such hook, or its module was not loaded in time"
_SCANNED_SHARE = 0.002
"""Of a core, that going over all tasks may take; with very many it is done less often than once a tick."""
_SCANNED_EVERY_NS = 1_500_000_000
"""But so often at least: what starves a task for two seconds is to be gone within five. With ticks of a second it is
every second one, and the share is passed where going over all tasks takes more than 3 ms."""
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
        self._scans = _WAITING in facts.programs
        self._next_scan_ns = 0

    def scan(self) -> None:
        """Look for tasks that wait for a CPU now: `waiting_ns` and `scanned_ns` then tell of this moment."""
        now_ns = time.monotonic_ns()
        if not self._scans or now_ns < self._next_scan_ns:
            return
        began_ns = time.thread_time_ns()
        try:
            self._object.iterate(_WAITING)
        except SourceError as error:
            self._scans = False
            self.lacking[_WAITING] = error.reason
        rests_ns = int((time.thread_time_ns() - began_ns) / _SCANNED_SHARE)
        self._next_scan_ns = now_ns + min(rests_ns, _SCANNED_EVERY_NS)

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
    facts.lacking |= {name: _OF_MODULE if name in layout.OF_MODULES else why for name, why in refused.items()}
    if not facts.programs - layout.ITERATORS:
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
        others = layout.BY_KPROBE | layout.OF_MODULES | layout.ITERATORS
        arguments = {name: types.tracepoint_arguments(name) for name in layout.PROGRAMS if name not in others}
        lacking = {name: "this kernel has no such tracepoint" for name, count in arguments.items() if count is None}
        unfilled: frozenset[str] = frozenset()
        if not types.has_member("cfs_rq", "rq"):
            unfilled |= _RUN_QUEUE_LENGTH
            lacking["run queue length"] = "this kernel has no struct cfs_rq.rq (CONFIG_FAIR_GROUP_SCHED)"
            lacking[_WAITING] = lacking["run queue length"]  # its clock is looked up the same way
        elif not types.has_member("sched_info", "last_queued") or not types.has_member("bpf_iter_meta", "seq_num"):
            lacking[_WAITING] = "this kernel does not tell since when tasks wait (CONFIG_SCHED_INFO, Linux 5.8)"
        calls = hooks.futex_calls()
        if calls is None or not types.has_value("bpf_func_id", "BPF_FUNC_task_pt_regs"):
            calls = None
            unfilled |= _FUTEX
            lacking["futex waits"] = "a task's system call cannot be told (x86-64 or aarch64, Linux 5.15)"
    finally:
        types.close()
    if not os.path.exists(sys / _KPROBES):  # noqa: PTH110  # Path's raises where a folder may not be looked into
        lacking |= dict.fromkeys(layout.BY_KPROBE, "this kernel has no kprobes (CONFIG_KPROBE_EVENTS)")
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
