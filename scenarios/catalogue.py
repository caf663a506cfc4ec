# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's list: eleven applications in two tiers, the paper's 28 scenarios (Table 2), the 40 labels, and
scenarios whose applications change in the middle.

A new application is one module and one line here.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from asa.core.errors import InputError
from scenarios.application import Application, Role, Tier

INTERACTIVE = ("game", "office", "web", "audio")
"""In the order of the paper's Table 2, as the next one."""

BACKGROUND = ("archive", "blender", "kernel", "llm", "disk", "network", "video")

IDLE = "idle"
"""The label of a machine that nothing plays on."""

CHANGE = "~"
"""In a label, between what plays first and what plays then. No shell takes it for its own in the middle of a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What plays together; one part is "" in a single, both are in idle. `then` is what plays after it."""

    interactive: str
    background: str
    number: int | None  # of the paper's 28, or of those that change; None for singles and idle
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
    Scenario(interactive=front, background=back, number=1 + place * len(BACKGROUND) + other)
    for place, front in enumerate(INTERACTIVE)
    for other, back in enumerate(BACKGROUND)
)
"""S1 to S28."""

SCENARIOS = (
    Scenario(interactive="", background="", number=None),
    *(Scenario(interactive=front, background="", number=None) for front in INTERACTIVE),
    *(Scenario(interactive="", background=back, number=None) for back in BACKGROUND),
    *PAIRS,
)
"""All 40: idle, 4 + 7 singles, 28 pairs."""


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


@cache
def applications(tier: Tier) -> Mapping[str, Application]:
    """By name; in the real tier each is the `APPLICATION` of its module, in the lab all are in `scenarios.standins`."""
    if tier is Tier.LAB:
        stand_ins: Mapping[str, Application] = importlib.import_module("scenarios.standins").APPLICATIONS
        return stand_ins
    return {name: importlib.import_module(module).APPLICATION for name, module in _MODULES.items()}


def parts(scenario: Scenario, tier: Tier) -> tuple[Application, ...]:
    """The applications of a scenario, the interactive one first."""
    known = applications(tier)
    return tuple(known[name] for name in (scenario.interactive, scenario.background) if name)


def find(words: str) -> tuple[Scenario, ...]:
    """Scenarios by what a person writes, in the catalogue's order without repeats. Raises InputError.

    `all` are the 28 and `everything` the 40; `S16`, `S1..S7`, `web+blender` and `idle` name themselves, `web` all pairs
    with it, `alone:web` it alone; `changing` are P1 to P4, `web+blender~game+kernel` is another such; several are
    parted by commas.
    """
    wanted = {one.label: one for word in words.split(",") for one in _named(word.strip())}
    listed = tuple(one for one in (*SCENARIOS, *CHANGING) if one.label in wanted)
    return (*listed, *(one for one in wanted.values() if one not in listed))


def _named(word: str) -> tuple[Scenario, ...]:
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
        found = tuple(one for one in PAIRS if word in (one.interactive, one.background))
    else:
        found = tuple(
            one
            for one in (*SCENARIOS, *CHANGING)
            if word in (one.name, one.label, f"alone:{one.label}") and word != "alone:"
        )
    if not found:
        names = ", ".join((*INTERACTIVE, *BACKGROUND))
        allowed = (
            f"all, everything, idle, S1 to S28, S1..S7, A+B, alone:A, or A of {names}; "
            f"changing, P1 to P{len(CHANGING)}, A+B{CHANGE}C+D"
        )
        raise InputError(path="--scenario", key="", value=word, allowed=allowed)
    return found


def _one_that_changes(word: str) -> tuple[Scenario, ...]:
    first, _, then = word.partition(CHANGE)
    if not {first, then} <= {one.label for one in SCENARIOS} - {IDLE}:
        return ()
    listed = {one.label: one for one in CHANGING}
    return (listed.get(word) or _changing(None, first, then),)


def role_of(name: str) -> Role:
    """Of an application by its name."""
    return Role.INTERACTIVE if name in INTERACTIVE else Role.BACKGROUND
