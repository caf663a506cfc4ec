# SPDX-License-Identifier: GPL-2.0-only
"""What a scheduler lets be set: flags with units, ranges and values, and the arguments that a choice of them makes.

The manifest has them for each scheduler. The names come from the binary's own help, the ranges are ASA's: a scheduler
may take more, or ignore what it does not know. Starts nothing and reads no file.
"""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

Flag: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(-[a-zA-Z]|--[a-z0-9][a-z0-9-]*)$")]
Value: TypeAlias = bool | int | float | str
"""Of a flag in a policy: true for a switch, a number, or one of a choice's words."""

_Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.,-]{1,64}$")]


class Scale(StrEnum):
    """How a number is searched: by equal steps, or by equal factors."""

    LINEAR = "linear"
    LOG = "log"


class Number(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flag that takes a number of `unit` in low..high."""

    unit: Annotated[str, msgspec.Meta(min_length=1)]
    low: float
    high: float
    default: float | None  # None: the help names none
    scale: Scale = Scale.LINEAR
    whole: bool = True
    at_most: Flag | None = None  # another number that it may not pass

    def at(self, share: float) -> int | float:
        """The value `share` (0..1) of the way from low to high, on its scale."""
        share = min(max(share, 0.0), 1.0)
        if self.scale is Scale.LOG:
            found = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            found = self.low + share * (self.high - self.low)
        found = min(max(found, self.low), self.high)  # exp may miss the ends by a bit
        return round(found) if self.whole else found

    def share(self, value: float) -> float:
        """What `at` takes to give `value`."""
        if self.scale is Scale.LOG:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


class Knobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that may be set of one scheduler."""

    numbers: dict[Flag, Number] = {}
    choices: dict[Flag, Annotated[tuple[_Word, ...], msgspec.Meta(min_length=1)]] = {}  # the first is its default
    switches: tuple[Flag, ...] = ()

    def flags(self) -> tuple[str, ...]:
        """Their names."""
        return (*self.numbers, *self.choices, *self.switches)

    def faults(self) -> Iterator[tuple[str, object, str]]:
        """What contradicts itself: key, value, what is allowed."""
        for index, flag in enumerate(self.switches):
            if self.flags().count(flag) > 1:
                yield f"switches[{index}]", flag, "each flag once"
        for flag in self.choices.keys() & self.numbers.keys():
            yield f"choices.{flag}", flag, "each flag once"
        for flag, one in self.numbers.items():
            key = f"numbers.{flag}"
            if not all(map(math.isfinite, (one.low, one.high))) or not one.low < one.high:
                yield f"{key}.low", one.low, f"a number below {key}.high"
            elif one.scale is Scale.LOG and one.low <= 0:
                yield f"{key}.low", one.low, "more than 0 on a scale of factors"
            elif one.default is not None and not one.low <= one.default <= one.high:
                yield f"{key}.default", one.default, f"{one.low:g} to {one.high:g}"
            elif one.at_most is not None and (one.at_most == flag or one.at_most not in self.numbers):
                yield f"{key}.at_most", one.at_most, "another flag of numbers"

    def wrong(self, flags: Mapping[str, Value]) -> tuple[str, Value, str] | None:
        """The first of `flags` that cannot be: its name, its value, what is allowed. None when all can."""
        for flag, value in flags.items():
            allowed = self._allowed(flag, value, flags)
            if allowed:
                return flag, value, allowed
        return None

    def _allowed(self, flag: str, value: Value, flags: Mapping[str, Value]) -> str:
        if flag in self.switches:
            return "" if value is True else "true, or leave the flag out"
        if flag in self.choices:
            return "" if value in self.choices[flag] else f"one of {', '.join(map(repr, self.choices[flag]))}"
        if flag not in self.numbers:
            return f"one of its knobs in the manifest: {', '.join(self.flags()) or 'it has none'}"
        knob = self.numbers[flag]
        allowed = f"{'a whole number' if knob.whole else 'a number'} of {knob.unit}, {knob.low:g} to {knob.high:g}"
        if isinstance(value, bool | str) or not knob.low <= value <= knob.high or (knob.whole and value != int(value)):
            return allowed
        bound = flags.get(knob.at_most, self.numbers[knob.at_most].default) if knob.at_most else None
        if isinstance(bound, int | float) and value > bound:
            return f"at most {bound:g}, which {knob.at_most} is"
        return ""


def arguments(flags: Mapping[str, Value]) -> tuple[str, ...]:
    """What the scheduler's program is called with, in the order of `flags`.

    Short flags have their value as a word of its own, as getopt wants it; long ones after `=`, so that -1 is no flag.
    """
    words: list[str] = []
    for flag, value in flags.items():
        if value is True:
            words.append(flag)
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        words += [f"{flag}={text}"] if flag.startswith("--") else [flag, text]
    return tuple(words)
