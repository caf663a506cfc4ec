# SPDX-License-Identifier: GPL-2.0-only
"""Rules on queues: what is put into one has to come out of it, in an order that the queue has."""

import re
from collections.abc import Iterator

from calibration.verify.paths import DRAINS, INSERTS, ways
from calibration.verify.program import Call, Program, text, words
from calibration.verify.report import Finding
from calibration.verify.rules.findings import doubt, fault, set_by_loader

BUILT_IN = frozenset({"SCX_DSQ_GLOBAL", "SCX_DSQ_LOCAL", "SCX_DSQ_LOCAL_ON", "SCX_DSQ_BYPASS", "SCX_DSQ_INVALID"})
"""Queues that the kernel has, include/linux/sched/ext.h."""

_QUEUE_MAPS = re.compile(r"BPF_MAP_TYPE_(?:QUEUE|STACK)\b.*?\}\s*(\w+)", re.DOTALL)


def check(program: Program) -> Iterator[Finding]:
    """All of this file."""
    yield from _drained(program)
    yield from _built_in(program)
    yield from _mixed(program)
    yield from _newest_first(program)
    yield from _maps(program)


def inserts(program: Program) -> Iterator[tuple[Call, str, frozenset[str]]]:
    """Each insert with the text of its queue, and what that can be."""
    for call in program.in_use():
        if call.name in INSERTS and len(call.arguments) > INSERTS[call.name][0]:
            queue = call.arguments[INSERTS[call.name][0]]
            yield call, queue, program.values(queue, call.function)


def drained(program: Program) -> frozenset[str]:
    """What is taken out of, by a call or by a loop over a queue's tasks."""
    found: set[str] = set()
    for call in program.in_use():
        if call.name in DRAINS and call.arguments:
            found |= program.values(call.arguments[0], call.function)
    for function in program.functions.values():
        for queue in re.findall(r"bounded,\s*scx_dsq\s*,\s*\w+\s*,\s*([^,]+),", text(function.node)):
            found |= program.values(queue, function)
    return frozenset(found)


def _drained(program: Program) -> Iterator[Finding]:
    out = drained(program)
    made: set[str] = set()
    for call in program.in_use():
        if call.name == "scx_bpf_create_dsq" and call.arguments:
            made |= program.values(call.arguments[0], call.function)
    unknown_out, unknown_made = (any(one.startswith("~") for one in some) for some in (out, made))
    for call, queue, values in inserts(program):
        for value in sorted(values - BUILT_IN):
            known = not value.startswith("~")
            if not made or (known and value not in made and not unknown_made):
                yield fault("queue-not-made", f"{queue} is filled, and no scx_bpf_create_dsq makes it", call.line)
            elif known and value not in out and not unknown_out:
                yield fault("queue-not-drained", f"{queue} is filled, and nothing takes tasks out of it", call.line)
            elif not known and not unknown_out:
                say = fault if not out else doubt
                yield say("queue-not-drained", f"nothing is seen to take tasks out of {queue}", call.line)


def _built_in(program: Program) -> Iterator[Finding]:
    for call, queue, values in inserts(program):
        if INSERTS[call.name][2] is not None and values & BUILT_IN:
            text_ = f"{queue} is the kernel's own queue, which has no order by virtual time"
            yield fault("vtime-built-in", text_, call.line)


def _mixed(program: Program) -> Iterator[Finding]:
    kinds: dict[str, dict[bool, list[Call]]] = {}
    for call, _, values in inserts(program):
        for value in values - BUILT_IN:
            if not value.startswith("~"):
                kinds.setdefault(value, {}).setdefault("vtime" in call.name, []).append(call)
    for value, found in kinds.items():
        if len(found) == 2 and not _apart(
            program, {one.line for one in found[True]}, {one.line for one in found[False]}
        ):
            what = f"queue {value} is filled in order of arrival here and by virtual time elsewhere"
            yield fault("queue-of-two-orders", what, found[False][0].line)


def _apart(program: Program, some: set[int], others: set[int]) -> bool:
    # whether a constant of the loader's, or one of the preprocessor's, decides which of the two is done
    flags = set_by_loader(program)
    told: dict[bool, list[set[tuple[str, bool]]]] = {True: [], False: []}
    for name in ("select_cpu", "enqueue", "dispatch"):
        function = program.callback(name)
        for way in ways(program, function, frozenset(INSERTS)) if function else ():
            told_apart = [one for one in way.conditions if one.arguments[0] in flags or one.arguments[0].isupper()]
            said = {(one.arguments[0], bool(one.outcome)) for one in told_apart}
            for one in way.calls(INSERTS):
                if one.line in some | others:
                    told[one.line in some].append(said)
    sure = {kind: set.intersection(*said) if said else set() for kind, said in told.items()}
    return any((flag, not truth) in sure[False] for flag, truth in sure[True])


def _newest_first(program: Program) -> Iterator[Finding]:
    function = program.callback("enqueue")
    for way in ways(program, function, frozenset(INSERTS)) if function else ():
        for one in way.calls(INSERTS):
            values = program.values(one.arguments[INSERTS[one.name][0]], one.function)
            if "SCX_ENQ_HEAD" in one.arguments[-1] and not values <= BUILT_IN:
                say = doubt if way.conditions else fault
                yield say("newest-first", "each task goes before all that wait, and they may wait for ever", one.line)


def _maps(program: Program) -> Iterator[Finding]:
    taken = {"bpf_map_pop_elem", "bpf_map_peek_elem"}
    pops = [call for call in program.in_use() if call.name in taken]
    popped = frozenset().union(*(words(program.origins(call.arguments[0], call.function)) for call in pops))
    names = set(_QUEUE_MAPS.findall(program.text))
    for call in program.in_use():
        if call.name != "bpf_map_push_elem" or not call.arguments:
            continue
        name = call.arguments[0].lstrip("& ")
        if name in popped or (name not in names and pops):
            continue
        if "lookup_and_delete" in program.loader:
            continue  # the program in user space takes them out
        say = doubt if name not in names and not program.loader else fault
        yield say("map-not-drained", f"{name} is filled, and nothing takes tasks out of it", call.line)
