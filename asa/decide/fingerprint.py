# SPDX-License-Identifier: GPL-2.0-only
"""How far a mapping table's machine is from this one. Pure; reads no file.

Facts that only one of the two gives say nothing for and nothing against. So a table that names no facts (the default)
is `NEUTRAL` away from every machine, and a table of a machine that is farther than that is of no use here.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeVar

from msgspec import Meta

from asa import host
from asa.host import Facts, Kind

NEUTRAL = 0.3
"""What a fact counts that is not to be compared: less than half of what twice as many cores count. First choice."""

# First choices, not measured. What a scheduler does with a machine depends on its cores and caches; the model's name
# stands for all that is not listed here; the kernel's age is judged by itself (`asa.decide.table.Present`).
_WEIGHTS: Mapping[str, float] = {
    "cpu_model": 3.0,
    "cpus": 2.0,
    "cores": 1.0,
    "smt": 1.0,
    "kinds": 3.0,
    "caches": 2.0,
    "memory_gb": 1.0,
    "kernel": 1.0,
}
_TOLERANCE = {"kinds": 0.15, "memory_gb": 0.15}  # firmware and boost settings move them; 0.15 is a ratio of 1.11
_Any = TypeVar("_Any")


class Machine(Facts, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table's machine: a name for people, and as many facts as are known. Nothing given: any machine."""

    name: Annotated[str, Meta(min_length=1)]


def machine(name: str, facts: Facts) -> Machine:
    """`facts` under a name."""
    return Machine(name=name, **{field: getattr(facts, field) for field in Facts.__struct_fields__})


def distance(there: Machine, here: Facts) -> float:
    """0 for a machine with all the same facts; one fact twice as large everywhere counts 1 for that fact."""
    found = _distances(there, here)
    away = sum(_WEIGHTS[fact] * (value - NEUTRAL) for fact, value in found.items())
    return NEUTRAL + away / sum(_WEIGHTS.values())


def nearest(candidates: Iterable[tuple[Machine, _Any]], here: Facts) -> _Any | None:
    """What stands beside the nearest machine, the first of equals; None when none is nearer than no facts at all."""
    best, found = NEUTRAL, None
    for there, beside in candidates:
        away = distance(there, here)
        if away < best:
            best, found = away, beside
    return found


def differences(there: Machine, here: Facts) -> tuple[str, ...]:
    """What makes it another machine, a fact in words each; nothing where all facts that both give agree.

    The kernel does not count: another kernel makes a measurement old, not of another machine. Nor do speeds where
    `_speeds_are_settings`.
    """
    uncounted = ("kernel", "kinds") if _speeds_are_settings(there, here) else ("kernel",)
    return tuple(
        f"{fact} {_words(getattr(there, fact))} there, {_words(getattr(here, fact))} here"
        for fact, value in _distances(there, here).items()
        if fact not in uncounted and value > _TOLERANCE.get(fact, 0.0)
    )


def same(there: Machine, here: Facts) -> bool:
    """Is it this machine? The CPU's model and the number of CPUs are given and equal, and nothing else differs."""
    known = there.cpu_model is not None and there.cpus is not None
    return known and (there.cpu_model, there.cpus) == (here.cpu_model, here.cpus) and not differences(there, here)


def comparable(there: Machine, here: Facts) -> bool:
    """Is there a fact, the kernel aside, that both give?"""
    return any(fact != "kernel" for fact in _distances(there, here))


def series(kernel: str) -> str:
    """`6.18` of `6.18.5-amd64`: what changes between two releases of a series are repairs. Else the text itself."""
    found = re.match(r"([0-9]+\.[0-9]+)", kernel)
    return found[1] if found else kernel


def _speeds_are_settings(there: Facts, here: Facts) -> bool:
    """Is it the same model with as many cores, whose kinds were told apart by their highest frequency?

    That follows the firmware and the user: without boost (cpufreq/boost, intel_pstate/no_turbo) a machine shows other
    speeds, and sometimes other kinds, than with it.
    """
    model = here.cpu_model or ""
    by_speed = all(kind.capacity is None for kind in (*(there.kinds or ()), *(here.kinds or ())))
    # one word is an architecture (`asa.host.cpu_model`), which many models have
    return " " in model and there.cpu_model == model and there.cores == here.cores is not None and by_speed


def _distances(there: Machine, here: Facts) -> dict[str, float]:
    pairs = ((fact, getattr(there, fact), getattr(here, fact)) for fact in _WEIGHTS)
    return {fact: _MEASURES[fact](one, other) for fact, one, other in pairs if one is not None and other is not None}


def _model(there: str, here: str) -> float:
    # a table may name a family: the words with which the model's name begins (an i7-13700 is no i7-13700K)
    if here == there or here.startswith(f"{there.rstrip()} "):
        return 0.0
    one, other = set(there.split()), set(here.split())
    return 1.0 - len(one & other) / (len(one | other) or 1)


def _ratio(there: float, here: float) -> float:
    return abs(math.log2(there) - math.log2(here))


def _same(there: object, here: object) -> float:
    return 0.0 if there == here else 1.0


def _kernel(there: str, here: str) -> float:
    return _same(series(there), series(here))


def _kinds(there: tuple[Kind, ...], here: tuple[Kind, ...]) -> float:
    """The share of cores that would have to be of another kind, and how far the fastest are apart."""
    if not there or not here:
        return _same(there, here)
    shares = [[kind.cores / sum(one.cores for one in kinds) for kind in kinds] for kinds in (there, here)]
    longest = max(len(one) for one in shares)
    padded = [one + [0.0] * (longest - len(one)) for one in shares]
    moved: float = sum(abs(one - other) for one, other in zip(*padded, strict=True)) / 2
    one_mhz, other_mhz = there[0].max_mhz, here[0].max_mhz
    return moved + (_ratio(one_mhz, other_mhz) if one_mhz is not None and other_mhz is not None else 0.0)


_MEASURES: Mapping[str, Callable[..., float]] = {
    "cpu_model": _model,
    "cpus": _ratio,
    "cores": _ratio,
    "smt": _same,
    "kinds": _kinds,
    "caches": _ratio,
    "memory_gb": _ratio,
    "kernel": _kernel,
}


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " + ".join(_kind_words(kind) for kind in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kind_words(kind: host.Kind) -> str:
    speed = f" of {kind.max_mhz} MHz" if kind.max_mhz is not None else ""
    return f"{kind.cores}{speed}" if speed or kind.capacity is None else f"{kind.cores} of capacity {kind.capacity}"


def words(facts: Facts) -> tuple[tuple[str, str], ...]:
    """Each fact that is given, by its name in the file, in words for people."""
    given = ((fact, getattr(facts, fact)) for fact in _WEIGHTS)
    return tuple((fact, _words(value)) for fact, value in given if value is not None)
