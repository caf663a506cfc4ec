# SPDX-License-Identifier: GPL-2.0-only
"""What an entry of a mapping table rests on, and what may therefore be done with it. Pure; reads no file.

A file says of an entry that it was measured, that the lab's figures speak for it, that somebody published it, or
nothing, which is an opinion. Where it was measured follows from the machine at the table's head, never from a word in
the file: so no table that travels calls itself measured here. What was measured here may be chosen, and what was
measured on a like machine where its interval leaves out no difference. All else may only be tried
(`asa.decide.trial`), in the order of `ORDER`.
"""

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from asa.core.decision import EEVDF
from asa.decide import fingerprint
from asa.decide.fingerprint import Machine
from asa.host import Facts

_Text = Annotated[str, Meta(min_length=1)]
_EMULATED = "QEMU"  # with it the names of emulated CPUs begin: https://www.qemu.org/docs/master/system/i386/cpu.html


class Ground(StrEnum):
    """What an entry rests on, in words for people."""

    HERE = "measured here"
    LIKE = "measured on a like machine"
    ELSEWHERE = "measured on another machine"
    PUBLISHED = "published"
    LAB = "measured in the lab"  # in an emulated guest; of such a table, where this machine is none
    OPINION = "opinion"


ORDER = tuple(Ground)
"""The surest first: in this order what may not be chosen is tried."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a file says that an entry rests on.

    `effect` is what the scheduler has above `than`, from `low` to `high`: of a score (0 to 1) its points, of a wait the
    share that is saved. None is unknown. The kernel and the versions of `measured` are those of the table's head, where
    it does not say them itself.
    """

    ground: Literal["measured", "lab", "published", "opinion"]
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    of: Literal["score", "wait"] = "score"
    than: str = str(EEVDF)
    runs: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None  # or pairs, of a trial
    source: _Text | None = None  # where it can be read, or the command that measured it
    machine: _Text | None = None  # of what was published, or of the lab
    kernel: _Text | None = None  # release
    version: str | None = None  # of the scheduler
    light: bool | None = None  # measured in a light load (`asa.core.regime`), too; None: nobody says


OPINION = Evidence(ground="opinion")


def where(machine: Machine, here: Facts | None, *, lab: bool) -> Ground:
    """What the measured entries of a table count as on the machine `here`; None: as if it was this one.

    `lab`: they are of the lab's stand-ins. A machine is this one where the CPU's model and the number of CPUs are the
    same and no other fact differs; it is a like one where it is nearer than a table without facts.
    """
    if here is None or fingerprint.same(machine, here):
        return Ground.HERE
    emulated = lab or (machine.cpu_model or "").startswith(_EMULATED)
    if emulated and machine.cpu_model != here.cpu_model:
        return Ground.LAB
    near = fingerprint.comparable(machine, here) and fingerprint.distance(machine, here) < fingerprint.NEUTRAL
    return Ground.LIKE if near else Ground.ELSEWHERE


def of(evidence: Evidence | None, measured: Ground) -> Ground:
    """The ground of an entry, in a table whose measured entries are `measured`. No evidence is an opinion."""
    if evidence is None or evidence.ground == "opinion":
        return Ground.OPINION
    return {"lab": Ground.LAB, "published": Ground.PUBLISHED}.get(evidence.ground, measured)


def choosable(evidence: Evidence | None, ground: Ground) -> bool:
    """May it be switched to as a choice? Else it may only be tried."""
    if evidence is None or evidence.effect is None:
        return False
    if ground is Ground.HERE:
        return evidence.effect > 0.0
    return ground is Ground.LIKE and evidence.low is not None and evidence.low > 0.0


def words(evidence: Evidence | None, ground: Ground) -> str:
    """The ground with its figures and its source, on one line."""
    if evidence is None or ground is Ground.OPINION:
        return str(ground)
    told = [_effect(evidence)] if evidence.effect is not None else []
    if evidence.runs is not None:
        what = "pair" if evidence.ground == "measured" and evidence.of == "wait" else "run"
        told.append(f"{evidence.runs} {what}{'s' if evidence.runs > 1 else ''}")
    told += [text for text in (evidence.machine, evidence.source) if text is not None]
    told += [f"kernel {evidence.kernel}"] if evidence.kernel is not None else []
    told += [f"version {evidence.version}"] if evidence.version is not None else []
    told += ["not in a light load"] if evidence.light is False else []
    return f"{ground}: {', '.join(told)}" if told else str(ground)


def faults(evidence: Evidence, *, head: bool) -> Iterator[tuple[str, object, str]]:
    """What is wrong with it: key ("": the whole), value, what is allowed. `head`: the table says how it was measured.

    Who claims a measurement has to say where it can be looked up.
    """
    if evidence.ground in ("lab", "published"):
        for key in ("source", "machine", "runs"):
            if getattr(evidence, key) is None:
                yield key, None, "where it can be read, on which machine and in how many runs: source, machine, runs"
    elif evidence.ground == "measured":
        if not head and (evidence.source is None or evidence.kernel is None):
            key = "source" if evidence.source is None else "kernel"
            yield key, None, "the command that measured it and its kernel: here, or in `measured` at the table's head"
        if evidence.effect is None or evidence.runs is None:
            key = "effect" if evidence.effect is None else "runs"
            yield key, None, f"what was measured: effect (above {evidence.than}) and runs"
    else:
        for key in ("effect", "low", "high", "runs"):
            if (value := getattr(evidence, key)) is not None:
                yield (
                    key,
                    value,
                    "no figures beside an opinion; `ground: measured` or `published` for those that have some",
                )
    yield from _figure_faults(evidence)


def _figure_faults(evidence: Evidence) -> Iterator[tuple[str, object, str]]:
    given = {key: value for key in ("effect", "low", "high") if (value := getattr(evidence, key)) is not None}
    odd = [(key, value) for key, value in given.items() if not (math.isfinite(value) and value <= 1.0)]
    yield from ((key, value, "a number, at most 1") for key, value in odd)
    if given and not odd:
        effect = given.get("effect")
        if effect is None:
            yield "effect", None, "the effect that low and high are of"
        elif not given.get("low", -math.inf) <= effect <= given.get("high", math.inf):
            yield "effect", effect, "an effect that lies between low and high"


def _effect(evidence: Evidence) -> str:
    def figure(value: float) -> str:
        return f"{value:+.3f}" if evidence.of == "score" else f"{100 * value:+.0f} %"

    known = evidence.effect or 0.0
    what = "score" if evidence.of == "score" else "of the wait saved"
    between = "interval unknown"
    if evidence.low is not None or evidence.high is not None:
        low, high = ("?" if end is None else figure(end) for end in (evidence.low, evidence.high))
        between = f"{low} to {high}"
    return f"{figure(known)} {what} against {evidence.than} ({between})"
