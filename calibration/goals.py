# SPDX-License-Identifier: GPL-2.0-only
"""Figures and their goals, and how both are printed: as JSON lines, as cells of a table, as Markdown.

A benchmark declares its figures as an enum of `Named`, each with its `Goal`, and makes a `Figure` of each. Nothing is
measured here.
"""

import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import asa
from asa import host
from asa.core.errors import AsaError

_MEETS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is, and the bound that it has to meet; `bound` None: it is there to be compared with."""

    unit: str
    what: str
    why: str = ""  # why so much
    sign: str = ""  # the side of the bound that is wanted: <, <=, > or >=
    bound: float | None = None

    def __str__(self) -> str:
        """As tables have it, "" without a bound."""
        return "" if self.bound is None else f"{self.sign} {self.bound:g} {self.unit}"

    def met(self, value: float) -> bool | None:
        """None without a bound."""
        return None if self.bound is None else _MEETS[self.sign](value, self.bound)


class Named(StrEnum):
    """Base of a benchmark's figures, by the names that issue trackers and JSON lines use. It has no members of its own.

    A member is a tuple: name, unit, what it is; and where it has a goal its sign, its bound and why.
    """

    goal: Goal

    def __new__(  # noqa: D102  # see the class
        cls, name: str, unit: str, what: str, sign: str = "", bound: float | None = None, why: str = ""
    ) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.goal = Goal(unit=unit, what=what, sign=sign, bound=bound, why=why)
        return member

    @classmethod
    def only(cls, names: str | None) -> frozenset[Self]:
        """Those of a list with commas, as `--only` takes it; all for None. Raises AsaError."""
        every = {str(one): one for one in cls}
        wanted = list(every) if names is None else [name.strip() for name in names.split(",")]
        for name in wanted:
            if name not in every:
                raise AsaError(f"--only: {name!r} is no figure of this benchmark; the figures are {', '.join(every)}")
        return frozenset(every[name] for name in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. `value` is None when it is not known; `reason` says why, or what spoils a value.

    `low` to `high` hold it with 95 % confidence. Of an estimate, `error` is the standard error: two of them count
    against a goal that is an upper bound. `spoiled`: the goal is missed, whatever the value.
    """

    name: Named
    value: float | None
    detail: str = ""
    reason: str = ""
    low: float | None = None
    high: float | None = None
    error: float = 0.0
    spoiled: bool = False

    @property
    def goal(self) -> Goal:
        """Its name's."""
        return self.name.goal

    @property
    def ok(self) -> bool | None:
        """Does it meet its goal? None where there is none."""
        if self.goal.bound is None:
            return None
        known = self.value is not None and not self.reason and not self.spoiled
        return known and bool(self.goal.met((self.value or 0.0) + 2.0 * self.error))

    @property
    def sure(self) -> bool | None:
        """Does its whole interval say the same as the value? None where there is no goal, or no interval."""
        if self.goal.bound is None or self.low is None or self.high is None:
            return None
        return all(self.goal.met(end) is self.ok for end in (self.low, self.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What was measured on, and by which command."""

    cpu: str
    cpus: int
    kernel: str
    version: str  # of asa
    command: str

    @classmethod
    def here(cls, command: str) -> Self:
        """This machine."""
        return cls(
            cpu=host.cpu_model(),
            cpus=host.cpus(),
            kernel=os.uname().release,
            version=asa.__version__,
            command=command,
        )


def rounded(value: float | None) -> float | None:
    """As JSON lines have it."""
    return None if value is None else round(value, 4)


def plain(figure: Figure, *also: str, **more: object) -> dict[str, object]:
    """A JSON line's object: name, value, unit, goal, ok; `detail` and `reason` where there are such.

    `also` names further keys (low, high, at_least, sign, sure, what); `more` is put before the words.
    """
    goal = figure.goal
    every: dict[str, object] = {
        "name": figure.name,
        "value": rounded(figure.value),
        "low": rounded(figure.low),
        "high": rounded(figure.high),
        "unit": goal.unit,
        "goal": goal.bound,
        "at_least": goal.sign == ">=",
        "sign": goal.sign or None,
        "ok": figure.ok,
        "sure": figure.sure,
        "what": goal.what,
    }
    chosen = {"name", "value", "unit", "goal", "ok", *also}
    words = {key: text for key, text in (("detail", figure.detail), ("reason", figure.reason)) if text}
    return {key: value for key, value in every.items() if key in chosen} | more | words


def as_json(figure: Figure, *also: str, **more: object) -> str:
    """`plain` as one line."""
    return json.dumps(plain(figure, *also, **more))


HEAD = ("figure", "value", "goal", "met", "")
"""Of `cells`."""


def cells(figure: Figure, form: str = ".3g", words: str = "") -> tuple[str, str, str, str, str]:
    """A figure as name, value, goal, met, and the words beside it: its own, else `words`."""
    value = "unknown" if figure.value is None else f"{figure.value:{form}} {figure.goal.unit}".strip()
    met = {None: "", True: "yes", False: "no"}[figure.ok] + (", not sure" if figure.sure is False else "")
    own = "; ".join(text for text in (figure.detail, figure.reason) if text)
    return str(figure.name), value, str(figure.goal), met, own or words


def described(names: Iterable[Named]) -> Iterator[str]:
    """A list in Markdown: what each figure is, and why it has its goal."""
    for name in names:
        yield f"- `{name}`: {name.goal.what}.{f' Goal: {name.goal.why}.' if name.goal.why else ''}"


def row(*values: object) -> str:
    """A line of a table in Markdown."""
    return "| " + " | ".join(str(value).replace("|", "\\|").replace("\n", " ") for value in values) + " |"


def rule(columns: int) -> str:
    """The line below a table's head."""
    return "|" + "---|" * columns


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table in Markdown."""
    yield row(*head)
    yield rule(len(head))
    for values in rows:
        yield row(*values)


def doubtful(warnings: Sequence[str]) -> list[str]:
    """What makes a page's figures doubtful, in Markdown."""
    return ["", *(f"**Doubtful**: {text}." for text in warnings)] if warnings else []
