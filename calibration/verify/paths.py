# SPDX-License-Identifier: GPL-2.0-only
"""The ways through a callback: which calls that matter are made one after another, and under which conditions.

Helpers of the same file are followed into where they make such calls. A loop is gone through once or not at all. A way
whose conditions contradict each other is left out; what is assigned in between makes a condition new.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from calibration.verify.program import Function, Program, SourceError, calls, substituted, text, walk, words

INSERTS = {  # name -> where DSQ, slice and virtual time stand; None: it has none
    "scx_bpf_dsq_insert": (1, 2, None),
    "scx_bpf_dispatch": (1, 2, None),
    "scx_bpf_dsq_insert_vtime": (1, 2, 3),
    "scx_bpf_dispatch_vtime": (1, 2, 3),
    "scx_bpf_dsq_move": (2, None, None),
    "scx_bpf_dsq_move_vtime": (2, None, None),
    "scx_bpf_dispatch_from_dsq": (2, None, None),
    "scx_bpf_dispatch_vtime_from_dsq": (2, None, None),
}
DRAINS = frozenset({"scx_bpf_dsq_move_to_local", "scx_bpf_consume"})
PUSHES = frozenset(
    {
        "bpf_map_push_elem",
        "bpf_map_update_elem",
        "bpf_list_push_back",
        "bpf_list_push_front",
        "bpf_rbtree_add",
        "bpf_ringbuf_submit",
        "bpf_ringbuf_output",
    }
)
ERRORS = frozenset({"scx_bpf_error", "scx_bpf_exit"})
MATTERS = frozenset(INSERTS) | DRAINS | PUSHES | ERRORS
_MOST_WAYS = 20_000
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Step:
    """A call that matters (`name`), or a condition (`name` ""), with what it came out as; None: either."""

    name: str
    arguments: tuple[str, ...]
    outcome: bool | None
    line: int
    function: Function
    loop: Node | None = None  # the innermost around it


@dataclass(frozen=True, slots=True)
class Way:
    """A way through a callback. `value`: what it returns, "" for nothing."""

    steps: tuple[Step, ...] = ()
    flow: str = ""  # "", break, continue, return, error
    value: str = ""
    truth: bool | None = None  # of an expression

    def calls(self, names: Iterable[str]) -> list[Step]:
        """The calls of these names."""
        wanted = frozenset(names)
        return [one for one in self.steps if one.name in wanted]

    @property
    def conditions(self) -> list[Step]:
        """Those that are no calls."""
        return [one for one in self.steps if not one.name]


def ways(program: Program, function: Function, matter: frozenset[str] = MATTERS) -> tuple[Way, ...]:
    """All through a function, told apart by the calls that `matter`.

    Raises SourceError where there are too many to look at.
    """
    matter |= ERRORS
    found: tuple[Way, ...] | None = program.ways.get((function.name, matter))
    if found is None:
        found = _Walk(program, matter, _interesting(program, matter)).through(function, {}, 0, None)
        program.ways[function.name, matter] = found
    return found


def _interesting(program: Program, matter: frozenset[str]) -> frozenset[str]:
    # functions that make a call that matters, themselves or by another one
    direct = {name: {call.name for call in calls(one, one.node)} for name, one in program.functions.items()}
    found = {name for name, made in direct.items() if made & matter}
    while more := {name for name, made in direct.items() if made & found} - found:
        found |= more
    return frozenset(found)


class _Walk:
    """One search."""

    def __init__(self, program: Program, matter: frozenset[str], followed: frozenset[str]) -> None:
        self._program = program
        self._matter = matter
        self._followed = followed

    def through(self, function: Function, given: dict[str, str], depth: int, loop: Node | None) -> tuple[Way, ...]:
        found = self._block(function.node.named_children, _Place(function, given, depth, loop))
        return _distinct(found)

    def _block(self, nodes: list[Node], place: "_Place") -> list[Way]:
        found = [Way()]
        for node in nodes:
            going = [one for one in found if not one.flow]
            if not going:
                break
            stopped = [one for one in found if one.flow]
            found = stopped + _joined(going, self._statement(node, place))
            found = list(_distinct(found))
            if len(found) > _MOST_WAYS:
                raise SourceError(f"{place.function.name}: has more than {_MOST_WAYS} ways through it")
        return found

    def _statement(self, node: Node, place: "_Place") -> list[Way]:
        match node.type:
            case "compound_statement":
                return self._block(node.named_children, place)
            case "if_statement":
                return self._if(node, place)
            case "while_statement" | "for_statement" | "do_statement":
                return self._loop(node, place)
            case "switch_statement":
                return self._switch(node, place)
            case "return_statement":
                return self._return(node, place)
            case "break_statement" | "continue_statement":
                return [Way(flow=text(node).rstrip("; \n"))]
            case "goto_statement":
                label = node.child_by_field_name("label")
                return self._goto(text(label) if label else "", place)
            case "labeled_statement":
                return self._block(node.named_children[1:], place)
            case "expression_statement" | "declaration":
                return [replace(one, truth=None) for one in self._expression(node, place)]
        return [Way()]

    def _if(self, node: Node, place: "_Place") -> list[Way]:
        condition, then, other = (node.child_by_field_name(one) for one in ("condition", "consequence", "alternative"))
        if condition is None or then is None:
            return [Way()]
        yes = self._statement(then, place)
        no = self._block(other.named_children, place) if other is not None else [Way()]
        tested = self._expression(condition, place)
        if yes == no == [Way()] and not any(one.calls(self._matter) for one in tested):
            return [Way()]  # nothing of it matters
        found = []
        for one in tested:
            for truth, rest in ((True, yes), (False, no)):
                if one.truth in {None, truth}:
                    found += _joined([replace(one, truth=None)], rest)
        return found

    def _loop(self, node: Node, place: "_Place") -> list[Way]:
        body = node.child_by_field_name("body")
        inside = replace(place, loop=node)
        found = [Way()]
        tested = [Way()]
        condition = node.child_by_field_name("condition")
        if condition is not None and "bounded" not in text(condition):
            tested = [replace(one, truth=None) for one in self._expression(condition, inside)]
        if body is not None:
            once = _joined(tested, self._statement(body, inside))
            found += [replace(one, flow="" if one.flow in {"break", "continue"} else one.flow) for one in once]
        return found

    def _switch(self, node: Node, place: "_Place") -> list[Way]:
        body, condition = node.child_by_field_name("body"), node.child_by_field_name("condition")
        cases = [one for one in (body.named_children if body else []) if one.type == "case_statement"]
        found = [] if any(one.child_by_field_name("value") is None for one in cases) else [Way()]
        for index, one in enumerate(cases):
            nodes = [part for later in cases[index:] for part in later.named_children]
            value = one.child_by_field_name("value")
            step = self._condition(
                f"{text(condition) if condition else ''}=={text(value) if value else ''}", node, place
            )
            for way in self._block(nodes, place):
                flow = "" if way.flow == "break" else way.flow
                found.append(replace(way, steps=(replace(step, outcome=True), *way.steps), flow=flow))
        return found

    def _return(self, node: Node, place: "_Place") -> list[Way]:
        if not node.named_children:
            return [Way(flow="return")]
        value = node.named_children[0]
        given = substituted(text(value), place.given)
        if place.depth == 0 and not self._matters(value, place):
            return [Way(flow="return", value=given)]
        return [replace(one, flow="return", value=given) for one in self._expression(value, place)]

    def _goto(self, label: str, place: "_Place") -> list[Way]:
        for node in walk(place.function.node):
            if node.type == "labeled_statement" and node.parent and text(node.named_children[0]) == label:
                if label in place.labels:
                    return [Way(flow="return")]  # it goes round
                rest = node.parent.named_children[node.parent.named_children.index(node) :]
                found = self._block(rest, replace(place, labels=place.labels | {label}))
                return [replace(one, flow=one.flow or "return") for one in found]
        return [Way(flow="return")]

    def _expression(self, node: Node, place: "_Place") -> list[Way]:
        # ways through an expression, with its truth where that is told apart
        match node.type:
            case "parenthesized_expression" if node.named_child_count == 1:
                return self._expression(node.named_children[0], place)
            case "unary_expression" if text(node).startswith("!") and node.named_children:
                found = self._expression(node.named_children[0], place)
                return [replace(one, truth=None if one.truth is None else not one.truth) for one in found]
            case "binary_expression" if (sign := node.child_by_field_name("operator")) and text(sign) in {"&&", "||"}:
                return self._both(node, text(sign), place)
            case "conditional_expression":
                return self._ternary(node, place)
            case "call_expression":
                return self._call(node, place)
            case "true" | "false" | "null":
                return [Way(truth=node.type == "true")]
            case "number_literal" if text(node) in {"0", "1"}:
                return [Way(truth=text(node) == "1")]
        if self._matters(node, place):
            found = [Way()]
            for child in node.named_children:
                found = _joined(found, [replace(one, truth=None) for one in self._expression(child, place)])
            return found
        if node.type in {"expression_statement", "declaration"}:
            return [Way()]
        step = self._condition(text(node), node, place)
        return [Way((replace(step, outcome=truth),), truth=truth) for truth in (True, False)]

    def _matters(self, node: Node, place: "_Place") -> bool:
        return any(one.name in self._matter or one.name in self._followed for one in calls(place.function, node))

    def _condition(self, source: str, node: Node, place: "_Place") -> Step:
        given = substituted(source, place.given)
        return Step("", (given,), None, node.start_point[0] + 1, place.function, place.loop)

    def _both(self, node: Node, sign: str, place: "_Place") -> list[Way]:
        left, right = (node.child_by_field_name(one) for one in ("left", "right"))
        if left is None or right is None:
            return [Way()]
        ends = sign == "||"  # the truth at which the right side is not looked at
        found = []
        for one in self._expression(left, place):
            if one.truth in {None, ends}:
                found.append(replace(one, truth=ends))
            if one.truth in {None, not ends}:
                found += _joined([one], self._expression(right, place))
        return found

    def _ternary(self, node: Node, place: "_Place") -> list[Way]:
        condition, then, other = (node.child_by_field_name(one) for one in ("condition", "consequence", "alternative"))
        if condition is None or then is None or other is None:
            return [Way()]
        found = []
        for one in self._expression(condition, place):
            for truth, rest in ((True, then), (False, other)):
                if one.truth in {None, truth}:
                    found += _joined([one], self._expression(rest, place))
        return found

    def _call(self, node: Node, place: "_Place") -> list[Way]:
        made = list(calls(place.function, node))
        if not made:
            return [Way()]
        before = [Way()]
        for child in node.named_children:
            if self._matters(child, place):
                before = _joined(before, [replace(one, truth=None) for one in self._expression(child, place)])
        call = made[-1]
        arguments = tuple(substituted(one, place.given) for one in call.arguments)
        if call.name in self._followed and place.depth < _DEEPEST:
            own = self._program.functions[call.name]
            inner = self.through(own, dict(zip(own.parameters, arguments, strict=False)), place.depth + 1, place.loop)
            return _joined(
                before, [replace(one, flow=one.flow if one.flow == "error" else "", value="") for one in inner]
            )
        if call.name in self._matter:
            step = Step(call.name, arguments, None, call.line, place.function, place.loop)
            if call.name in ERRORS:  # the kernel ends the scheduler
                return _joined(before, [Way((step,), flow="error")])
            truths = (None,) if call.name in INSERTS else (True, False)
            return _joined(before, [Way((replace(step, outcome=one),), truth=one) for one in truths])
        step = self._condition(text(node), node, place)
        return _joined(before, [Way((replace(step, outcome=one),), truth=one) for one in (True, False)])


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the search is."""

    function: Function
    given: dict[str, str]
    depth: int
    loop: Node | None
    labels: frozenset[str] = frozenset()


def _joined(first: list[Way], then: list[Way]) -> list[Way]:
    found = [one for one in first if one.flow]
    for one in first:
        for two in then if not one.flow else ():
            steps = (*one.steps, *two.steps)
            if _possible(steps):
                found.append(replace(two, steps=steps))
    return found


def _possible(steps: tuple[Step, ...]) -> bool:
    known: dict[str, bool | None] = {}
    for one in steps:
        if one.name or one.outcome is None or "(" in one.arguments[0].strip("()"):
            continue
        if known.setdefault(one.arguments[0], one.outcome) is not one.outcome:
            return False
    return True


def _distinct(found: Iterable[Way]) -> tuple[Way, ...]:
    return tuple({(one.steps, one.flow, one.value, one.truth): one for one in found}.values())


def inserted(way: Way, task: str) -> Iterator[Step]:
    """Inserts of this task."""
    for one in way.calls(INSERTS):
        where = 1 if INSERTS[one.name][1] is None else 0
        if len(one.arguments) > where and words(one.arguments[where]) == {task}:
            yield one
