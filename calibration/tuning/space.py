# SPDX-License-Identifier: GPL-2.0-only
"""From points to flags: a search moves in a cube of shares (0..1), a scheduler takes values on scales of their own.

Pure. Ranges and scales are the manifest's knobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asa.act.knobs import Knobs, Value
from asa.core.errors import AsaError

Point = Sequence[float]
"""A share of each dimension's range, 0..1."""

Flags = Mapping[str, Value]

LEADS: Mapping[str, tuple[str, ...]] = {
    "scx_bpfland": ("--slice-us", "--slice-us-lag"),
    "scx_flash": ("--slice-us", "--slice-us-lag"),
    "scx_cosmos": ("--slice-us", "--slice-lag-us"),
    "scx_lavd": ("--slice-max-us", "--slice-min-us", "--pinned-slice-us"),
    "scx_p2dq": ("--min-slice-us",),
    "scx_rusty": ("--slice-us-overutil", "--slice-us-underutil"),
}
"""Of each scheduler the one flag that golden section sets; those behind it follow in the ratio of their defaults.

So the study of CFS set three parameters by its period alone. The choice of flags is ours.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Numbers of a scheduler, each a dimension."""

    knobs: Knobs
    names: tuple[str, ...]

    def flags(self, point: Point) -> dict[str, Value]:
        """What a point stands for; a number that may not pass another one stays below it."""
        found = {name: self.knobs.numbers[name].at(share) for name, share in zip(self.names, point, strict=True)}
        return dict(_bounded(self.knobs, found))


def space(scheduler: str, knobs: Knobs, names: Sequence[str] = ()) -> Space:
    """Of these numbers, without any of all that a scheduler has. Raises AsaError for one that it has not."""
    for name in names:
        if name not in knobs.numbers:
            known = ", ".join(knobs.numbers) or "none"
            raise AsaError(f"{name} is no number that may be set of {scheduler}; those are: {known}")
    if not knobs.numbers:
        raise AsaError(f"{scheduler} has no number that may be set: there is nothing to search")
    return Space(knobs=knobs, names=tuple(names or knobs.numbers))


def derived(scheduler: str, knobs: Knobs, share: float) -> dict[str, Value]:
    """Flags of a single parameter: the leading one at `share` of its range, the others in proportion, in their ranges.

    Raises AsaError for a scheduler that has none.
    """
    if scheduler not in LEADS:
        raise AsaError(f"{scheduler} has no leading flag; golden section can tune {', '.join(LEADS)}")
    lead, *others = LEADS[scheduler]
    value = knobs.numbers[lead].at(share)
    found: dict[str, int | float] = {lead: value}
    for name in others:
        knob = knobs.numbers[name]
        of = (knob.default or 0.0) / (knobs.numbers[lead].default or 1.0)
        wanted = min(max(of * value, knob.low), knob.high)
        found[name] = round(wanted) if knob.whole else wanted
    return dict(_bounded(knobs, found))


def levels(knobs: Knobs, flag: str) -> tuple[Flags, Flags]:
    """What a screening compares of a flag: low and high.

    A quarter and three quarters of a number's range, a choice's first and last word, a switch off and on.
    """
    if flag in knobs.numbers:
        knob = knobs.numbers[flag]
        return {flag: knob.at(0.25)}, {flag: knob.at(0.75)}
    if flag in knobs.choices:
        return {flag: knobs.choices[flag][0]}, {flag: knobs.choices[flag][-1]}
    if flag in knobs.switches:
        return {}, {flag: True}
    raise AsaError(f"{flag} is none of the flags that may be set; those are: {', '.join(knobs.flags())}")


def bounded(knobs: Knobs, flags: Flags) -> dict[str, Value]:
    """The same, with each number that may not pass another one brought below it."""
    numbers = {name: value for name, value in flags.items() if isinstance(value, int | float) and value is not True}
    return dict(flags) | dict(_bounded(knobs, numbers))


def _bounded(knobs: Knobs, found: dict[str, int | float]) -> dict[str, int | float]:
    for name, value in found.items():
        above = knobs.numbers[name].at_most
        if above is not None:
            most = found.get(above, knobs.numbers[above].default)
            found = found | {name: value if most is None else type(value)(min(value, most))}
    return found
