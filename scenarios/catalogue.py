# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's list: its applications in two tiers, all scenarios of them, the paper's 28 (Table 2) with their
numbers, and scenarios whose applications change in the middle.

A new background load is one module, `scenarios/background/NAME.py`, and its name in `BACKGROUND`: its metrics and their
scoring are in the module. It gets no number of the paper. A stand-in for emulated guests is a second, optional step
(`scenarios.standins`).

More programs of each kind (`scenarios.programs`) are recorded, and not scored: `programs` lists them with the
benchmark's own, `find` knows them when asked to. What they play is no part of `SCENARIOS`.
"""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from asa.core import kinds
from asa.core.errors import InputError
from asa.core.kinds import Kind
from scenarios.application import Application, Role, Tier

INTERACTIVE = ("game", "office", "web", "audio")
BACKGROUND = ("archive", "blender", "kernel", "llm", "disk", "network", "video")
"""All loads. A new one goes to the end."""

NUMBERS: Mapping[int, str] = {
    1: "game+archive",
    2: "game+blender",
    3: "game+kernel",
    4: "game+llm",
    5: "game+disk",
    6: "game+network",
    7: "game+video",
    8: "office+archive",
    9: "office+blender",
    10: "office+kernel",
    11: "office+llm",
    12: "office+disk",
    13: "office+network",
    14: "office+video",
    15: "web+archive",
    16: "web+blender",
    17: "web+kernel",
    18: "web+llm",
    19: "web+disk",
    20: "web+network",
    21: "web+video",
    22: "audio+archive",
    23: "audio+blender",
    24: "audio+kernel",
    25: "audio+llm",
    26: "audio+disk",
    27: "audio+network",
    28: "audio+video",
}
"""S1 to S28 of the paper's Table 2. They never change: kept plans, results and pages name them."""

IDLE = kinds.IDLE
"""The label of a machine that nothing plays on."""

CHANGE = "~"
"""In a label, between what plays first and what plays then. No shell takes it for its own in the middle of a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What plays together; one part is "" in a single, both are in idle. `then` is what plays after it."""

    interactive: str
    background: str
    number: int | None  # of the paper's 28, or of those that change; None for all others
    then: "Scenario | None" = None

    @property
    def label(self) -> str:
        """`web+blender`, `web`, `blender`, `idle`, or `web+blender~game+kernel`."""
        first = "+".join(part for part in (self.interactive, self.background) if part) or IDLE
        return first if self.then is None else f"{first}{CHANGE}{self.then.label}"

    @property
    def name(self) -> str:
        """`S16` for one of the 28, `P1` for one that changes, else the label."""
        if self.number is None:
            return self.label
        return f"S{self.number}" if self.then is None else f"P{self.number}"


PAIRS = tuple(
    Scenario(interactive=front, background=back, number=number)
    for number, label in NUMBERS.items()
    for front, back in (label.split("+"),)
)
"""S1 to S28."""


def _singles(fronts: Iterable[str], backs: Iterable[str]) -> tuple[Scenario, ...]:
    return (
        *(Scenario(interactive=front, background="", number=None) for front in fronts),
        *(Scenario(interactive="", background=back, number=None) for back in backs),
    )


_PAPERS_LOADS = tuple(dict.fromkeys(one.background for one in PAIRS))
_MORE_LOADS = tuple(name for name in BACKGROUND if name not in _PAPERS_LOADS)

PAPER = (
    Scenario(interactive="", background="", number=None),
    *_singles(INTERACTIVE, _PAPERS_LOADS),
    *PAIRS,
)
"""The 40 of the paper: idle, 4 + 7 singles, 28 pairs. The shipped model, kept tables and pages are about these."""

SCENARIOS = (
    *PAPER,
    *_singles((), _MORE_LOADS),
    *(Scenario(interactive=front, background=back, number=None) for back in _MORE_LOADS for front in INTERACTIVE),
)
"""All: the paper's, then each other load alone and beside each interactive application."""


def _changing(number: int | None, first: str, then: str) -> Scenario:
    parts = {one.label: one for one in SCENARIOS}
    return replace(parts[first], number=number, then=replace(parts[then], number=None))


CHANGING = (
    _changing(1, "web+kernel", "audio+disk"),
    _changing(2, "game+blender", "office+archive"),
    _changing(3, "office+video", "web+network"),
    _changing(4, "audio+llm", "game+kernel"),
)
"""P1 to P4: each interactive application twice, the first time beside a load that keeps all processors busy."""

_MODULES = {
    **{name: f"scenarios.interactive.{name}" for name in INTERACTIVE},
    **{name: f"scenarios.background.{name}" for name in BACKGROUND},
}
_OF_KINDS = (
    *("compress", "render", "compile", "infer", "disk", "network", "encode"),
    *("browse", "play", "write", "watch", "sound", "call"),
)
"""Modules of `scenarios.programs`, each with its `PROGRAMS`; beside them `other`, of no kind."""


@cache
def applications(tier: Tier) -> Mapping[str, Application]:
    """By name. In the real tier each is the `APPLICATION` of its module.

    In the lab those in `scenarios.standins` stand in for them; a load without a stand-in plays itself.
    """
    if tier is Tier.LAB:
        stand_ins: Mapping[str, Application] = importlib.import_module("scenarios.standins").APPLICATIONS
        return {name: stand_ins.get(name) or real(name) for name in _MODULES}
    return {name: real(name) for name in _MODULES}


def real(name: str) -> Application:
    """The application itself, of its module."""
    found: Application = importlib.import_module(_MODULES[name]).APPLICATION
    return found


@cache
def programs() -> Mapping[str, Application]:
    """All programs by name: the benchmark's own first, then those of `scenarios.programs`, at last those of no kind."""
    return {**applications(Tier.REAL), **{one.name: one for one in (*of_modules(), *situations())}}


def situations() -> tuple[Application, ...]:
    """What is of no kind."""
    found: tuple[Application, ...] = importlib.import_module("scenarios.programs.other").PROGRAMS
    return found


def of_modules() -> tuple[Application, ...]:
    """The programs of `scenarios.programs`, module by module."""
    modules = (importlib.import_module(f"scenarios.programs.{name}") for name in _OF_KINDS)
    return tuple(one for module in modules for one in module.PROGRAMS)


def of_kind(kind: Kind) -> tuple[Application, ...]:
    """The programs of a kind."""
    return tuple(one for one in programs().values() if one.kind is kind)


def parts(scenario: Scenario, tier: Tier) -> tuple[Application, ...]:
    """The applications of a scenario, the interactive one first; a program of a kind is the same in both tiers."""
    known = {**programs(), **applications(tier)}
    return tuple(known[name] for name in (scenario.interactive, scenario.background) if name)


def find(words: str, *, with_programs: bool = False) -> tuple[Scenario, ...]:
    """Scenarios by what a person writes, in the catalogue's order without repeats. Raises InputError.

    `all` are the paper's 28 and `everything` all there are; `S16`, `S1..S7`, `web+blender` and `idle` name themselves,
    `web` all pairs with it, `alone:web` it alone; `changing` are P1 to P4, `web+blender~game+kernel` is another such;
    several are parted by commas. `with_programs`: also programs of kinds, `pigz` and `alone:pigz` alone, `web+pigz` as
    a pair, `kind:compress` each of a kind alone, `kind:other` each of no kind, which are not paired.
    """
    wanted = {one.label: one for word in words.split(",") for one in _named(word.strip(), with_programs)}
    listed = tuple(one for one in (*SCENARIOS, *CHANGING) if one.label in wanted)
    return (*listed, *(one for one in wanted.values() if one not in listed))


def _named(word: str, with_programs: bool) -> tuple[Scenario, ...]:
    first, dots, last = word.partition("..")
    numbers = {one.name: one.number or 0 for one in PAIRS}
    if word == "all":
        found = PAIRS
    elif word == "everything":
        found = SCENARIOS
    elif word == "changing":
        found = CHANGING
    elif CHANGE in word:
        found = _one_that_changes(word)
    elif dots and first in numbers and last in numbers:
        found = tuple(one for one in PAIRS if numbers[first] <= (one.number or 0) <= numbers[last])
    elif word in INTERACTIVE or word in BACKGROUND:
        pairs = (one for one in SCENARIOS if one.interactive and one.background)
        found = tuple(one for one in pairs if word in (one.interactive, one.background))
    else:
        found = tuple(
            one
            for one in (*SCENARIOS, *CHANGING)
            if word in (one.name, one.label, f"alone:{one.label}") and word != "alone:"
        )
    found = found or (_of_programs(word) if with_programs else ())
    if not found:
        names = ", ".join((*INTERACTIVE, *BACKGROUND))
        allowed = (
            f"all, everything, idle, S1 to S28, S1..S7, A+B, alone:A, or A of {names}; "
            f"changing, P1 to P{len(CHANGING)}, A+B{CHANGE}C+D"
        )
        more = ", ".join(name for name in programs() if name not in _MODULES) if with_programs else ""
        allowed += (
            f"; kind:KIND of {', '.join((*Kind, kinds.OTHER))}, or programs of kinds alone or as A+B: {more}"
            if more
            else ""
        )
        raise InputError(path="--scenario", key="", value=word, allowed=allowed)
    return found


def _of_programs(word: str) -> tuple[Scenario, ...]:
    """Of `pigz`, `alone:pigz`, `web+pigz` (the interactive one first), `kind:compress`; none for another word."""
    known = programs()
    if word.startswith("kind:"):
        kind = word.removeprefix("kind:")
        of_it = situations() if kind == kinds.OTHER else (one for one in known.values() if one.kind == kind)
        return tuple(map(_playing, of_it))
    names = word.removeprefix("alone:").split("+")
    if not set(names) <= set(known):
        return ()
    roles = [known[name].role for name in names]
    if len(roles) > 1 and (
        None in (known[name].kind for name in names)
        or word.startswith("alone:")
        or roles != [Role.INTERACTIVE, Role.BACKGROUND]
    ):
        return ()
    return (_playing(*(known[name] for name in names)),)


def _playing(*there: Application) -> Scenario:
    names = {one.role: one.name for one in there}
    front, back = (names.get(role, "") for role in (Role.INTERACTIVE, Role.BACKGROUND))
    return Scenario(interactive=front, background=back, number=None)


def labelled(label: str) -> Scenario:
    """The scenario of a label that `find` gave. Raises InputError."""
    listed = (one for one in (*SCENARIOS, *CHANGING) if one.label == label)
    return next(listed, None) or find(label, with_programs=True)[0]


def _one_that_changes(word: str) -> tuple[Scenario, ...]:
    first, _, then = word.partition(CHANGE)
    if not {first, then} <= {one.label for one in SCENARIOS} - {IDLE}:
        return ()
    listed = {one.label: one for one in CHANGING}
    return (listed.get(word) or _changing(None, first, then),)


def role_of(name: str) -> Role:
    """Of an application by its name."""
    return Role.INTERACTIVE if name in INTERACTIVE else Role.BACKGROUND
