# SPDX-License-Identifier: GPL-2.0-only
"""A scheduler's C source as functions, callbacks and constants, by tree-sitter's grammar of C.

The source is not preprocessed: names such as SCX_DSQ_LOCAL are what the rules look for. A few macros of
tools/sched_ext/include/scx are written as plain C first, line by line, so that lines stay what they are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import tree_sitter_c
from tree_sitter import Language, Node, Parser

from asa.core.errors import AsaError

_PARSER = Parser(Language(tree_sitter_c.language()))
_LARGEST_BYTES = 1_000_000
_DEEPEST = 6
# BPF_STRUCT_OPS(name, arguments) of scx/common.bpf.h -> name(arguments)
_CALLBACK = re.compile(r"\bBPF_STRUCT_OPS(?:_SLEEPABLE)?\(\s*(\w+)\s*,?")
_PROG = re.compile(r"\bBPF_PROG2?\(\s*(\w+)\s*,?")
_OPS = re.compile(r"\bSCX_OPS_DEFINE\(\s*(\w+)\s*,(.*?)\)\s*;", re.DOTALL)
_LOOP = re.compile(r"\bbpf_(?:for|repeat|for_each)\s*\(")
_NOISE = re.compile(r"\b(?:__hidden|__noinline|__always_inline|__weak|__ksym|__arg_\w+|__kconfig|__maybe_unused)\b")
_SECTION = re.compile(r'\bSEC\("[^"]*"\)|\bprivate\(\w+\)')
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_INTEGER = re.compile(r"^(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*$")


class SourceError(AsaError):
    """A source that cannot be read as one of a scheduler."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function that is defined in the file."""

    name: str
    parameters: tuple[str, ...]
    node: Node  # its body

    @property
    def line(self) -> int:
        """From 1."""
        return self.node.start_point[0] + 1


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the text. `arguments` are expressions as they stand there."""

    name: str
    arguments: tuple[str, ...]
    function: Function
    node: Node

    @property
    def line(self) -> int:
        """From 1."""
        return self.node.start_point[0] + 1


@dataclass(frozen=True)
class Program:
    """One source. `loader`: the text of the program in user space, "" where it is not known."""

    text: str
    tree: Node
    functions: dict[str, Function]
    constants: dict[str, str]
    ops: dict[str, str]  # the fields of struct sched_ext_ops that are set
    loader: str = ""
    ways: dict[tuple[str, frozenset[str]], Any] = field(default_factory=dict, repr=False)  # of `paths`, kept
    _expressions: dict[str, Node] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, source: str, loader: str = "") -> Self:
        """Raises SourceError for what is too long, or defines no struct sched_ext_ops."""
        if len(source) > _LARGEST_BYTES:
            raise SourceError(f"the source has {len(source)} characters, more than {_LARGEST_BYTES}")
        text = _plain(source)
        tree = _PARSER.parse(text.encode()).root_node
        constants = {name: value for name, value in _DEFINE.findall(text) if "(" not in name}
        program = cls(
            text=text, tree=tree, functions=dict(_functions(tree)), constants=constants, ops=_ops(text), loader=loader
        )
        if not program.ops:
            raise SourceError("it defines no struct sched_ext_ops; name the scheduler's .bpf.c")
        constants.update(_enumerators(tree))
        return program

    def callback(self, name: str) -> Function | None:
        """The function of an operation, such as `enqueue`."""
        return self.functions.get(self.ops.get(name, ""))

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """All, in the order of the text."""
        return tuple(call for function in self.functions.values() for call in calls(function, function.node))

    @cached_property
    def used(self) -> frozenset[str]:
        """Names of functions that a callback reaches."""
        reached, wanted = set[str](), [name for name in self.ops.values() if name in self.functions]
        wanted += [name for name in self.functions if re.search(rf"[,(&]\s*{name}\s*[,)]", self.text)]  # as of timers
        while wanted:
            name = wanted.pop()
            if name not in reached:
                reached.add(name)
                wanted += [call.name for call in calls_in(self.functions[name]) if call.name in self.functions]
        return frozenset(reached)

    def in_use(self) -> Iterator[Call]:
        """Calls of functions that a callback reaches."""
        return (call for call in self.calls if call.function.name in self.used)

    def expression(self, source: str) -> Node:
        """A text as an expression."""
        if source not in self._expressions:
            root = _PARSER.parse(f"int x = ({source});".encode()).root_node
            value = next((one for one in walk(root) if one.type == "parenthesized_expression"), root)
            self._expressions[source] = value
        return self._expressions[source]

    def values(self, source: str, function: Function | None, depth: int = _DEEPEST) -> frozenset[str]:
        """What an expression can be: decimal numbers, names of the kernel, and `~text` for what is not known."""
        return self._values(self.expression(source), function, depth)

    def origins(self, source: str, function: Function | None) -> str:
        """The text of an expression, and of all that is assigned to what it names: where its value comes from."""
        seen: dict[str, None] = {source: None}
        queue, known = [source], set[str]()
        while queue and len(seen) < 200:
            for name in set(_WORD.findall(queue.pop())) - known:
                known.add(name)
                more = list(self.assigned(name, function)) if function is not None else []
                more += [self.constants[name]] if name in self.constants else []
                if name in self.functions:
                    more.append(text(self.functions[name].node))
                fresh = [one for one in more if one not in seen]
                seen.update(dict.fromkeys(fresh))
                queue += fresh
        return " ; ".join(seen)

    def assigned(self, name: str, function: Function) -> Iterator[str]:
        """What is assigned to a variable, or to a field of that name anywhere in the file."""
        for place, value, operator, where in self.assignments:
            local = place == name and where == function.name
            if local or place.endswith((f"->{name}", f".{name}")):
                yield value if operator == "=" else f"{name} {operator[:-1]} {value}"

    @cached_property
    def assignments(self) -> tuple[tuple[str, str, str, str], ...]:
        """(what, value, operator, function) of each, an initial value included."""
        found = []
        for function in self.functions.values():
            for node in walk(function.node):
                if node.type == "assignment_expression":
                    left, right, operator = (node.child_by_field_name(one) for one in ("left", "right", "operator"))
                    if left and right and operator:
                        found.append((text(left), text(right), text(operator), function.name))
                elif node.type == "init_declarator":
                    left, right = node.child_by_field_name("declarator"), node.child_by_field_name("value")
                    if left and right:
                        found.append((text(left).lstrip("* "), text(right), "=", function.name))
        return tuple(found)

    def _values(self, node: Node, function: Function | None, depth: int) -> frozenset[str]:
        plain = text(node)
        unknown = frozenset({f"~{_tight(plain)}"})
        if depth <= 0:
            return unknown
        match node.type:
            case "parenthesized_expression" if node.named_child_count == 1:
                return self._values(node.named_children[0], function, depth)
            case "cast_expression":
                value = node.child_by_field_name("value")
                return self._values(value, function, depth) if value else unknown
            case "number_literal":
                found = _INTEGER.match(plain)
                return frozenset({str(int(found[1], 0 if found[1][:2] in {"0x", "0X"} else 10))}) if found else unknown
            case "true" | "false":
                return frozenset({str(int(plain == "true"))})
            case "identifier":
                return self._of_name(plain, function, depth)
            case "conditional_expression":
                parts = [node.child_by_field_name(one) for one in ("consequence", "alternative")]
                return frozenset().union(*(self._values(one, function, depth - 1) for one in parts if one))
            case "field_expression":
                name = node.child_by_field_name("field")
                return self._of_field(text(name), depth) if name else unknown
            case "binary_expression":
                return self._of_two(node, function, depth) or unknown
            case "call_expression":
                return self._of_call(node, depth) or unknown
        return unknown

    def _of_name(self, name: str, function: Function | None, depth: int) -> frozenset[str]:
        if name in self.constants:
            return self.values(self.constants[name], None, depth - 1)
        if re.match(r"SCX_|BPF_|NSEC_", name):
            return frozenset({name})
        given = () if function is None or name in function.parameters else tuple(self.assigned(name, function))
        mine = [one for one in given if name not in _WORD.findall(one)]
        if not mine or len(mine) < len(given):
            return frozenset({f"~{name}"})
        return frozenset().union(*(self.values(one, function, depth - 1) for one in mine))

    def _of_field(self, name: str, depth: int) -> frozenset[str]:
        # all that is ever written to a field of that name
        found: set[str] = set()
        for place, value, operator, where in self.assignments:
            if place.endswith((f"->{name}", f".{name}")):
                found |= self.values(value, self.functions[where], depth - 1) if operator == "=" else {f"~{value}"}
        return frozenset(found) or frozenset({f"~->{name}"})

    def _of_two(self, node: Node, function: Function | None, depth: int) -> frozenset[str] | None:
        sides = [node.child_by_field_name(one) for one in ("left", "right")]
        operator = node.child_by_field_name("operator")
        if None in sides or operator is None:
            return None
        left, right = (self._values(one, function, depth - 1) for one in sides if one)
        sign = text(operator)
        if "SCX_DSQ_LOCAL_ON" in left | right:
            return frozenset({"SCX_DSQ_LOCAL_ON"})
        if any(not one.isdecimal() for one in left | right):
            return None
        result = {_arithmetic(int(one), sign, int(two)) for one in left for two in right}
        return None if None in result else frozenset(str(one) for one in result)

    def _of_call(self, node: Node, depth: int) -> frozenset[str] | None:
        called = next(reversed(list(_calls(node))), None)
        own = self.functions.get(called[0]) if called else None
        if own is None or called is None:
            return None
        found: set[str] = set()
        for one in walk(own.node):
            if one.type == "return_statement" and one.named_children:
                given = substituted(text(one.named_children[0]), dict(zip(own.parameters, called[1], strict=False)))
                found |= self.values(given, own, depth - 1)
        return frozenset(found) or None


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def text(node: Node) -> str:
    """As it stands there."""
    return (node.text or b"").decode("utf-8", "replace")


def words(source: str) -> frozenset[str]:
    """The identifiers of a text."""
    return frozenset(_WORD.findall(source))


def calls(function: Function, node: Node) -> Iterator[Call]:
    """Those at or below a node of the function, the inner ones first."""
    for name, arguments, place in _calls(node):
        yield Call(name, arguments, function, place)


def calls_in(function: Function) -> Iterator[Call]:
    """Those of its body."""
    return calls(function, function.node)


def substituted(source: str, values: dict[str, str]) -> str:
    """Names of parameters replaced by what is given for them."""
    if not values:
        return source
    return _WORD.sub(lambda found: values.get(found[0], found[0]), source)


def _calls(node: Node) -> Iterator[tuple[str, tuple[str, ...], Node]]:
    for child in node.children:
        yield from _calls(child)
    if node.type == "call_expression":
        name, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if name is not None and given is not None:
            arguments = tuple(text(one) for one in given.named_children if one.type != "comment")
            yield text(name).removeprefix("__COMPAT_"), arguments, node


def _functions(tree: Node) -> Iterator[tuple[str, Function]]:
    for node in walk(tree):
        if node.type != "function_definition":
            continue
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        if declarator is None or body is None:
            continue
        name, given = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
        if name is not None and given is not None:
            names = tuple(_parameter(one) for one in given.named_children if one.type == "parameter_declaration")
            yield text(name), Function(text(name), names, body)


def _parameter(node: Node) -> str:
    found = [text(one) for one in walk(node) if one.type == "identifier"]
    return found[-1] if found else ""


def _enumerators(tree: Node) -> Iterator[tuple[str, str]]:
    for node in walk(tree):
        if node.type == "enumerator_list":
            before = "-1"
            for one in node.named_children:
                name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
                if one.type == "enumerator" and name is not None:
                    before = text(value) if value is not None else f"({before}) + 1"
                    before = "0" if before == "(-1) + 1" else before
                    yield text(name), before
        elif node.type == "declaration" and node.parent is tree and text(node).startswith(("static const ", "const ")):
            if "volatile" in text(node):  # the loader sets these
                continue
            for one in node.named_children:
                left, right = one.child_by_field_name("declarator"), one.child_by_field_name("value")
                if one.type == "init_declarator" and left is not None and right is not None:
                    yield text(left), text(right)


def _ops(source: str) -> dict[str, str]:
    found = re.search(r"struct\s+sched_ext_ops\s+\w+\s*=\s*\{(.*?)\}\s*;", source, re.DOTALL)
    if not found:
        return {}
    pairs = re.findall(r"\.(\w+)\s*=\s*((?:[^,\"]|\"[^\"]*\")+?)\s*(?=,|$)", found[1].strip())
    return {name: re.sub(r"^\(\s*void\s*\*\s*\)\s*&?", "", value.strip()) for name, value in pairs}


def _plain(source: str) -> str:
    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    source = _COMMENT.sub(blank, source).replace("\\\n", "  ")
    source = _OPS.sub(lambda found: f"struct sched_ext_ops {found[1]} = {{{found[2]}}};", source)
    source = _SECTION.sub(" ", _NOISE.sub(" ", source))
    source = _CALLBACK.sub(r"\1(", source)
    source = _PROG.sub(r"\1(", source)
    return _LOOP.sub("while (bounded, ", source)


def _arithmetic(left: int, sign: str, right: int) -> int | None:
    match sign:
        case "+":
            return left + right
        case "-" if left >= right:
            return left - right
        case "*":
            return left * right
        case "|":
            return left | right
        case "/" if right:
            return left // right
        case "<<" if right < 64:
            return left << right
    return None


def _tight(source: str) -> str:
    return re.sub(r"\s+", "", source)
