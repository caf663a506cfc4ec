# SPDX-License-Identifier: GPL-2.0-only
"""Rules on tasks: each is put into one queue, once, where it may run, for a time that ends."""

import re
from collections.abc import Iterator

from calibration.verify.paths import INSERTS, PUSHES, Way, inserted, ways
from calibration.verify.program import Function, Program, text, walk
from calibration.verify.report import Finding
from calibration.verify.rules.findings import doubt, fault, needs_flag, note, set_by_loader
from calibration.verify.rules.queues import BUILT_IN, inserts

LONGEST_SLICE_NS = 1_000_000_000
SHORTEST_SLICE_NS = 10_000
MOST_ROUNDS = 100_000
"""Of a loop that nothing leaves early: on 1 GHz a millisecond or so with the scheduler's lock held."""

_IDLE = frozenset(
    {
        "scx_bpf_select_cpu_dfl",
        "scx_bpf_select_cpu_and",
        "scx_bpf_pick_idle_cpu",
        "scx_bpf_test_and_clear_cpu_idle",
        "scx_bpf_get_idle_cpumask",
        "scx_bpf_get_idle_smtmask",
    }
)
_ANY_CPU = re.compile(r"bpf_get_prandom_u32|bpf_get_smp_processor_id|%")
_ALLOWED = re.compile(r"cpus_ptr|nr_cpus_allowed|is_migration_disabled|scx_bpf_task_cpu|select_cpu|pick_(?:idle|any)")


def check(program: Program) -> Iterator[Finding]:
    """All of this file."""
    yield from _twice(program)
    yield from _lost(program)
    yield from _last(program)
    yield from _affinity(program)
    yield from _only_in_select(program)
    yield from _slices(program)
    yield from _loops(program)
    yield from _maybe_null(program)
    yield from _idle(program)
    yield from _leaks(program)
    yield from _prints(program)


def _twice(program: Program) -> Iterator[Finding]:
    for name in ("select_cpu", "enqueue"):
        function = program.callback(name)
        if function is None or not function.parameters:
            continue
        for way in ways(program, function, frozenset(INSERTS)):
            found = list(inserted(way, function.parameters[0]))
            if len(found) > 1:
                say = fault if _sure(way, found[0].line, found[-1].line) else doubt
                yield say(
                    "double-insert", f"a task is put into a queue twice, first in line {found[0].line}", found[-1].line
                )
            elif (
                found and found[0].loop is not None and way.flow not in {"return", "error"} and not _left(found[0].loop)
            ):
                yield doubt("double-insert", "a task is put into a queue in a loop that goes on", found[0].line)


def _sure(way: Way, first: int, last: int) -> bool:
    # whether nothing is asked between the two
    return not any(first < one.line <= last for one in way.conditions)


def _left(loop: object) -> bool:
    return bool(re.search(r"\bbreak\b", text(loop)))  # type: ignore[arg-type]


def _lost(program: Program) -> Iterator[Finding]:
    function = program.callback("enqueue")
    if function is None:
        return
    flags = set_by_loader(program)
    dispatch = program.callback("dispatch")
    later = dispatch is not None and "bpf_task_from_pid" in {one.name for one in program.in_use()}
    for way in ways(program, function, frozenset(INSERTS) | PUSHES):
        if way.flow == "error" or way.calls(INSERTS) or any(not one.outcome for one in way.calls(PUSHES)):
            continue
        line = max((one.line for one in way.steps), default=function.line)
        if flag := needs_flag(way, flags):
            yield note("task-lost", f"a task is put nowhere where the loader sets {flag}", line)
        elif later or way.calls(PUSHES):
            yield doubt("task-lost", "a task that is woken up may be put nowhere", line)
        else:
            yield fault("task-lost", "a task that is woken up is put nowhere: it never runs again", line)


def _last(program: Program) -> Iterator[Finding]:
    if "SCX_OPS_ENQ_LAST" in program.ops.get("flags", "") and "enqueue" not in program.ops:
        yield fault("enq-last", "SCX_OPS_ENQ_LAST needs ops.enqueue: the kernel refuses it")


def _affinity(program: Program) -> Iterator[Finding]:
    dispatch = program.ops.get("dispatch")
    for call, queue, values in inserts(program):
        if call.function.name == dispatch and "SCX_DSQ_LOCAL_ON" not in values:
            continue
        if values <= BUILT_IN - {"SCX_DSQ_LOCAL_ON"}:
            continue
        chosen = program.origins(queue, call.function)
        loose = _ANY_CPU.search(chosen) or "SCX_DSQ_LOCAL_ON" in values
        if loose and not _ALLOWED.search(chosen) and not _ALLOWED.search(text(call.function.node)):
            what = f"{queue} may belong to a CPU on which the task may not run; nothing looks at p->cpus_ptr"
            say = fault if _ANY_CPU.search(chosen) or "SCX_DSQ_LOCAL_ON" in values else doubt
            yield say("affinity-ignored", what, call.line)


def _only_in_select(program: Program) -> Iterator[Finding]:
    select, enqueue = program.callback("select_cpu"), program.callback("enqueue")
    if select is None or enqueue is None:
        return
    fields: dict[str, set[str]] = {}
    for place, _, _, where in program.assignments:
        if found := re.search(r"->(\w+)$", place):
            fields.setdefault(found[1], set()).add(where)
    for call, queue, _ in inserts(program):
        if call.function.name != enqueue.name:
            continue
        for name in re.findall(r"->(\w+)", program.origins(queue, call.function)):
            if fields.get(name) == {select.name}:
                what = f"{name} is set in select_cpu alone, which the kernel skips for pinned tasks"
                yield fault("pinned-tasks", what, call.line)


def _slices(program: Program) -> Iterator[Finding]:
    ends = re.search(r"SCX_KICK_PREEMPT|SCX_ENQ_PREEMPT|bpf_timer_start", program.text)
    given = [
        (call.arguments[place], call.function, call.line)
        for call in program.in_use()
        if (place := INSERTS.get(call.name, (0, None, None))[1]) is not None and len(call.arguments) > place
    ]
    kept = [program.values(source, function) == {"0"} for source, function, _ in given]
    if kept and all(kept):  # 0 leaves a task what it has, scx_bpf_dsq_insert() of kernel/sched/ext.c
        yield fault("slice-zero", "no insert gives a slice: one that is used up ends at once", given[0][2])
    given = [one for one, zero in zip(given, kept, strict=True) if not zero]
    quiet = {program.ops.get(one) for one in ("tick", "cpu_release", "yield")}
    for left, value, operator, where in program.assignments:
        if left.endswith("scx.slice") and operator == "=" and where not in quiet:
            given.append((value, program.functions[where], program.functions[where].line))
    for source, function, line in given:
        for value in program.values(source, function):
            if value == "SCX_SLICE_INF" and not ends:
                yield fault("slice-infinite", f"{source} never ends, and nothing takes the CPU away", line)
            elif value == "0":
                yield fault("slice-zero", f"a slice of {source} ends at once", line)
            elif value.isdecimal() and int(value) > LONGEST_SLICE_NS:
                yield fault("slice-infinite", f"a slice of {source} is {int(value) / 1e9:g} s, more than 1 s", line)
            elif value.isdecimal() and int(value) < SHORTEST_SLICE_NS:
                yield fault("slice-zero", f"a slice of {source} is {value} ns, less than {SHORTEST_SLICE_NS}", line)


def _loops(program: Program) -> Iterator[Finding]:
    for function in program.functions.values():
        if function.name not in program.used:
            continue
        for node in walk(function.node):
            if node.type not in {"while_statement", "for_statement", "do_statement"}:
                continue
            yield from _loop(program, function, text(node), node.start_point[0] + 1)


def _loop(program: Program, function: Function, source: str, line: int) -> Iterator[Finding]:
    left = re.search(r"\b(?:break|return|goto)\b", source)
    head = source.partition("{")[0]
    endless = re.match(r"while\s*\(\s*(?:1|true)\s*\)|for\s*\(\s*;\s*;|for\s*\([^;]*;\s*;", head)
    if not endless and source.startswith("do"):
        endless = re.search(r"while\s*\(\s*(?:1|true)\s*\)\s*;$", source)
    if endless and "can_loop" not in source and not left:
        yield fault("loop-endless", "a loop that nothing ends", line)
        return
    found = re.search(r"bounded,\s*\w+\s*,\s*([^,]+),\s*([^)]+)\)", head) or re.search(r"bounded,\s*()([^,)]+)\)", head)
    found = found or re.search(r"for\s*\([^;]*?()\s*;[^;<]*<=?\s*([^;]+);", head)
    if found and "scx_dsq" not in head and not left:
        for value in program.values(found[2], function):
            if value == "BPF_MAX_LOOPS" or (value.isdecimal() and int(value) > MOST_ROUNDS):
                yield fault("loop-long", f"a loop of {found[2]} rounds that nothing leaves early", line)


def _maybe_null(program: Program) -> Iterator[Finding]:
    for name in ("dispatch", "yield"):
        function = program.callback(name)
        if function is None or len(function.parameters) < 2:
            continue
        task, body = function.parameters[1], text(function.node)
        used = re.search(rf"\b{task}->", body)
        asked = re.search(rf"!\s*{task}\b|\b{task}\s*(?:&&|\)|[!=]=|\?)", body[: used.start()] if used else "")
        if used and not asked:
            line = function.line + body[: used.start()].count("\n")
            yield fault("maybe-null", f"{task} is NULL at times, and is used unasked", line)


def _idle(program: Program) -> Iterator[Finding]:
    if "update_idle" not in program.ops or "KEEP_BUILTIN_IDLE" in program.ops.get("flags", ""):
        return
    for call in program.in_use():
        if call.name in _IDLE:
            what = f"{call.name} fails: ops.update_idle ends the kernel's own tracking of idle CPUs"
            yield fault("idle-tracking-off", what, call.line)


def _leaks(program: Program) -> Iterator[Finding]:
    maps = re.findall(r"BPF_MAP_TYPE_HASH\b.*?\}\s*(\w+)", program.text, re.DOTALL)
    for call in program.in_use():
        name = call.arguments[0].lstrip("& ") if call.arguments else ""
        if call.name == "bpf_map_update_elem" and name in maps:
            key = program.origins(call.arguments[1].lstrip("& "), call.function)
            if re.search(r"\bpid\b|\btgid\b", key) and f"&{name}" not in "".join(
                one.arguments[0] for one in program.in_use() if one.name == "bpf_map_delete_elem"
            ):
                if "bpf_map_delete_elem" in program.loader:
                    continue
                yield fault(
                    "map-grows", f"{name} keeps an entry of each task that ever was: it is full one day", call.line
                )
    used = [call.name for call in program.in_use()]
    for take, give in (
        ("bpf_task_from_pid", "bpf_task_release"),
        ("scx_bpf_get_idle_cpumask", "scx_bpf_put_idle_cpumask"),
        ("scx_bpf_get_online_cpumask", "scx_bpf_put_cpumask"),
        ("bpf_cpumask_create", "bpf_cpumask_release"),
        ("bpf_obj_new", "bpf_obj_drop"),
    ):
        kept = take in {"bpf_cpumask_create", "bpf_obj_new"} and "bpf_kptr_xchg" in used
        if take in used and give not in used and not kept:
            line = next(call.line for call in program.in_use() if call.name == take)
            yield fault("reference-kept", f"what {take} gives is never given back ({give})", line)


def _prints(program: Program) -> Iterator[Finding]:
    for call in program.in_use():
        if call.name in {"bpf_printk", "bpf_trace_printk"}:
            yield note("prints", "it writes to the kernel's trace while it schedules", call.line)
            return
