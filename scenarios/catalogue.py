# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's list: eleven applications in two tiers, the paper's 28 scenarios (Table 2), and the 40 labels.

A new application is one module and one line here.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from asa.core.errors import InputError
from scenarios.application import Application, Role, Tier

INTERACTIVE = ("game", "office", "web", "audio")
"""In the order of the paper's Table 2, as the next one."""

BACKGROUND = ("archive", "blender", "kernel", "llm", "disk", "network", "video")

IDLE = "idle"
"""The label of a machine that nothing plays on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What plays together; one part is "" in a single, both are in idle."""

    interactive: str
    background: str
    number: int | None  # of the paper's 28, None for singles and idle

    @property
    def label(self) -> str:
        """`web+blender`, `web`, `blender` or `idle`."""
        return "+".join(part for part in (self.interactive, self.background) if part) or IDLE

    @property
    def name(self) -> str:
        """`S16` for one of the 28, else the label."""
        return self.label if self.number is None else f"S{self.number}"


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
    with it, `alone:web` it alone; several are parted by commas.
    """
    wanted = {one.label for word in words.split(",") for one in _named(word.strip())}
    return tuple(one for one in SCENARIOS if one.label in wanted)


def _named(word: str) -> tuple[Scenario, ...]:
    first, dots, last = word.partition("..")
    numbers = {one.name: one.number or 0 for one in PAIRS}
    if word == "all":
        found = PAIRS
    elif word == "everything":
        found = SCENARIOS
    elif dots and first in numbers and last in numbers:
        found = tuple(one for one in PAIRS if numbers[first] <= (one.number or 0) <= numbers[last])
    elif word in INTERACTIVE or word in BACKGROUND:
        found = tuple(one for one in PAIRS if word in (one.interactive, one.background))
    else:
        found = tuple(
            one for one in SCENARIOS if word in (one.name, one.label, f"alone:{one.label}") and word != "alone:"
        )
    if not found:
        names = ", ".join((*INTERACTIVE, *BACKGROUND))
        allowed = f"all, everything, idle, S1 to S28, S1..S7, A+B, alone:A, or A of {names}"
        raise InputError(path="--scenario", key="", value=word, allowed=allowed)
    return found


def role_of(name: str) -> Role:
    """Of an application by its name."""
    return Role.INTERACTIVE if name in INTERACTIVE else Role.BACKGROUND
