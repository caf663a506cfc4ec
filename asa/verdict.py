# SPDX-License-Identifier: GPL-2.0-only
"""What all findings of `asa doctor` come to, in one sentence: it works here, only observes, or will not work. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a finding came out."""

    OK = "ok"
    MISSING = "missing"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One examined thing. `needed`: the agent cannot switch without it; `vital`: it does not even observe.

    The text of a needed one is a clause that goes on after "because". `command` sets it right without a decision of
    a person, `asa setup` runs it; it begins with sudo where it takes root.
    """

    subject: str
    level: Level
    text: str
    remedy: str = ""
    needed: bool = False
    vital: bool = False
    command: tuple[str, ...] = ()


class Fitness(StrEnum):
    """What the agent can do here."""

    WORKS = "works"
    OBSERVES = "observes"
    FAILS = "fails"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer, and the findings that it follows from, the weightiest first."""

    fitness: Fitness
    because: tuple[Finding, ...]

    @property
    def sentence(self) -> str:
        """For people."""
        if self.fitness is Fitness.WORKS:
            return "ASA works here: it recognises what the machine is used for, and can switch schedulers."
        what = "only observes here" if self.fitness is Fitness.OBSERVES else "will not work here"
        more = len(self.because) - 1
        also = f" (and {more} more, marked `no` below)" if more else ""
        return f"ASA {what}, because {self.because[0].text}{also}."

    @property
    def exit_code(self) -> int:
        """Of `asa doctor`: 0 works, 1 observes only, 3 will not work. 2 is a wrong command line."""
        return {Fitness.WORKS: 0, Fitness.OBSERVES: 1, Fitness.FAILS: 3}[self.fitness]


def of(findings: Sequence[Finding]) -> Verdict:
    """What these come to; their order is kept."""
    missing = [one for one in findings if one.level is Level.MISSING]
    if vital := [one for one in missing if one.vital]:
        return Verdict(fitness=Fitness.FAILS, because=tuple(vital))
    if needed := [one for one in missing if one.needed]:
        return Verdict(fitness=Fitness.OBSERVES, because=tuple(needed))
    return Verdict(fitness=Fitness.WORKS, because=())
