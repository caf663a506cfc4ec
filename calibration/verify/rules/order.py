# SPDX-License-Identifier: GPL-2.0-only
"""Rules on order: whoever waits has to be served at last, whatever the others do."""

import re
from collections.abc import Iterator

from calibration.verify.paths import DRAINS, INSERTS, Step, Way, ways
from calibration.verify.program import Call, Program, text, words
from calibration.verify.report import Finding
from calibration.verify.rules.findings import doubt, fault, needs_flag, set_by_loader
from calibration.verify.rules.queues import BUILT_IN

LONGEST_WAIT_NS = 2_000_000_000
"""As the scheduling gap that ktstr's checks allow (doc/guide/src/concepts/checking.md)."""

_GROWS = re.compile(r"vtime|vruntime|ktime|scx_bpf_now|jiffies|clock", re.IGNORECASE)
_VTIME = re.compile(r"\bdsq_vtime\b")
_BEFORE = re.compile(r"time_before|time_after|vtime_before|max\(|min\(|clamp|[<>]")
_UNITS = {"NSEC_PER_SEC": 1_000_000_000, "NSEC_PER_MSEC": 1_000_000, "NSEC_PER_USEC": 1_000}


def check(program: Program) -> Iterator[Finding]:
    """All of this file."""
    yield from _priority(program)
    yield from _age_limit(program)
    yield from _keys(program)
    yield from _charge(program)
    yield from _kept(program)
    yield from _every_cpu(program)


def _priority(program: Program) -> Iterator[Finding]:
    function = program.callback("dispatch")
    if function is None:
        return
    flags = set_by_loader(program)
    through = [way for way in ways(program, function, DRAINS) if not needs_flag(way, flags)]
    tries = [[one for one in way.calls(DRAINS) if one.arguments] for way in through]
    places = {(one.line, _queue(program, one)): one for way in tries for one in way}
    for (line, queue), later in places.items():
        first = _always_before(program, tries, line, queue)
        if first is not None and not _varies(program, through, first, later):
            known = not any(one.startswith("~") for one in (queue, _queue(program, first)))
            say = fault if known else doubt
            what = f"{later.arguments[0]} is served only while {first.arguments[0]} is empty: it may wait for ever"
            yield say("strict-priority", what, line)
    for call in program.in_use():
        if call.name in DRAINS and call.arguments and (loop := _ordered_loop(program, call)):
            yield fault(
                "strict-priority", f"queues are served in one fixed order ({loop}), the first ones first", call.line
            )


def _always_before(program: Program, tries: list[list[Step]], line: int, queue: str) -> Step | None:
    # the attempt at another queue that stands before this one on each way that has this one
    common: dict[tuple[int, str], Step] | None = None
    for way in tries:
        places = [(one.line, _queue(program, one)) for one in way]
        if (line, queue) not in places or any(one == queue for _, one in places[: places.index((line, queue))]):
            if (line, queue) in places:
                return None
            continue
        before = {
            (one.line, _queue(program, one)): one
            for one in way[: places.index((line, queue))]
            if _queue(program, one) != queue and one.outcome is False
        }
        common = before if common is None else {key: one for key, one in common.items() if key in before}
    # a queue that is served first on some other way has its turn
    for way in tries:
        if way and _queue(program, way[0]) == queue:
            return None
    return next(iter(common.values()), None) if common else None


def _queue(program: Program, step: Step) -> str:
    return "|".join(sorted(program.values(step.arguments[0], step.function)))


def _varies(program: Program, through: list[Way], first: Step, later: Step) -> bool:
    # a turn that goes round: what is asked for is not always the same queue
    for one in (first, later):
        given = program.origins(one.arguments[0], one.function)
        if re.search(r"\+\+|--|\^|%|&\s*1|!", given):
            return True
    return not through


def _ordered_loop(program: Program, call: Call) -> str:
    node = call.node.parent
    while node is not None and node.type not in {"while_statement", "for_statement"}:
        node = node.parent
    if node is None:
        return ""
    head = text(node).partition("{")[0].partition("scx_bpf")[0]
    found = re.search(r"bounded,\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)", head) or re.search(
        r"for\s*\(\s*(?:\w+\s+)*(\w+)\s*=\s*(\w+)\s*;\s*\w+\s*<=?\s*(\w+)", head
    )
    if not found:
        return ""
    name, begin, end = found.groups()
    ends = program.values(end, None)
    fixed = program.values(begin, None) | ends
    if any(not one.isdecimal() for one in fixed) or any(int(one) < 2 for one in ends):
        return ""
    indexed = program.origins(call.arguments[0], call.function)
    if name not in words(indexed) or re.search(r"%|\^", indexed):
        return ""
    if not re.search(r"\b(?:return|break)\b", text(node)):
        return ""
    return f"{name} from {begin} to {end}"


def _age_limit(program: Program) -> Iterator[Finding]:
    function = program.callback("dispatch")
    for way in ways(program, function, DRAINS) if function else ():
        for one in way.conditions:
            found = re.search(r"[-,]\s*[\w.>-]+\)?\s*>=?\s*\(?([\w *]+)\)?$", one.arguments[0])
            limit = _nanoseconds(program, found[1]) if found else None
            if limit is not None and limit > LONGEST_WAIT_NS and way.calls(DRAINS):
                what = f"a queue may wait {limit / 1e9:g} s by this limit, more than {LONGEST_WAIT_NS / 1e9:g} s"
                yield fault("age-limit", what, one.line)


def _nanoseconds(program: Program, source: str) -> int | None:
    for name, factor in _UNITS.items():
        source = re.sub(rf"\b{name}\b", str(factor), source)
    for name in words(source):
        if name in program.constants:
            source = source.replace(name, f"({program.constants[name]})")
    for name, factor in _UNITS.items():
        source = re.sub(rf"\b{name}\b", str(factor), source)
    values = program.values(source, None)
    found = [int(one) for one in values if one.isdecimal()]
    return max(found) if found else None


def _keys(program: Program) -> Iterator[Finding]:
    for call in program.in_use():
        where = INSERTS.get(call.name, (0, None, None))
        place = where[2]
        if place is None or len(call.arguments) <= place:
            continue
        if program.values(call.arguments[where[0]], call.function) & BUILT_IN:
            continue
        key = call.arguments[place]
        origins = program.origins(key, call.function)
        if not _GROWS.search(origins):
            say = fault if not re.search(r"\w\s*\(|deadline", origins) else doubt
            yield say(
                "order-without-age", f"{key} does not grow with time: who has a low one always comes first", call.line
            )


def _charge(program: Program) -> Iterator[Finding]:
    keyed = [
        call
        for call in program.in_use()
        if (place := INSERTS.get(call.name, (0, None, None))[2]) is not None
        and len(call.arguments) > place
        and _VTIME.search(program.origins(call.arguments[place], call.function))
    ]
    if not keyed:
        return
    line = keyed[0].line
    set_ = [one for one in program.assignments if one[0].endswith("dsq_vtime")]
    setters = [call for call in program.in_use() if call.name == "scx_bpf_task_set_dsq_vtime"]
    charged = [one for one in set_ if one[3] not in {program.ops.get("enable"), program.ops.get("init_task")}]
    values = [value for _, value, _, _ in charged] + [call.arguments[1] for call in setters if len(call.arguments) > 1]
    every = " ; ".join(values + [program.origins(one, program.functions[where]) for _, one, _, where in charged])
    if not charged and len(setters) < 2:
        yield fault("never-charged", "a task's virtual time never grows: it comes first for ever", line)
    elif re.search(r"\*\s*p?(?:->scx\.)?\w*weight\b", every) and not re.search(r"/\s*\(?\s*[\w>.-]*weight", every):
        yield fault("weight-upside-down", "virtual time is multiplied by the weight: who weighs more gets less", line)
    here = " ; ".join(
        text(function.node) for name in ("enqueue", "select_cpu") if (function := program.callback(name)) is not None
    )
    helpers = " ; ".join(text(program.functions[name].node) for name in words(here) if name in program.functions)
    limited = [
        one
        for one in re.findall(r"[^;{}]*vtime[^;{}]*", f"{here} ; {helpers}")
        if _BEFORE.search(one.replace("->", "."))
    ]
    if not limited:
        yield fault("hoarded-time", "who sleeps keeps all its virtual time, and then runs before all others", line)
    clocks = {name for name in words(here + helpers) if "vtime" in name and re.search(rf"\b{name}\b\s*;", program.text)}
    clocks = {
        one for one in clocks if re.search(rf"^(?:static\s+)?(?:volatile\s+)?u64\s+{one}\b", program.text, re.MULTILINE)
    }
    for name in sorted(clocks):
        if not re.search(rf"\b{name}\b\s*\+?=[^=]|&{name}\b", program.text):
            yield fault("clock-stands", f"{name} never moves: who wakes up begins far before all others", line)


def _kept(program: Program) -> Iterator[Finding]:
    for place, value, _, where in program.assignments:
        if place.endswith("scx.slice") and where == program.ops.get("tick") and not re.fullmatch(r"0\w*", value):
            line = program.functions[where].line
            yield fault("slice-refilled", f"each tick gives {place} {value}: the running task never ends", line)
    function = program.callback("dispatch")
    if function is None or len(function.parameters) < 2:
        return
    task = function.parameters[1]
    for way in ways(program, function, frozenset(INSERTS) | DRAINS):
        steps = way.calls(frozenset(INSERTS) | DRAINS)
        if steps and steps[0].name in INSERTS and task in words(steps[0].arguments[0]) and not way.calls(DRAINS):
            what = f"{task} is put back before any queue is looked at: the others may wait for ever"
            yield fault("keeps-running", what, steps[0].line)


def _every_cpu(program: Program) -> Iterator[Finding]:
    function = program.callback("dispatch")
    if function is None or not function.parameters:
        return
    cpu = function.parameters[0]
    for way in ways(program, function, frozenset(INSERTS) | DRAINS):
        asked = way.conditions
        if way.flow != "return" or way.calls(frozenset(INSERTS) | DRAINS) or len(asked) != 1:
            continue
        what = asked[0].arguments[0]
        if re.fullmatch(rf"\(?{cpu} *(?:[<>!=]=?|&) *\w+\)?|!?{cpu}", what):
            yield fault("cpu-not-served", f"where {what} says so, a CPU is given no task", asked[0].line)
