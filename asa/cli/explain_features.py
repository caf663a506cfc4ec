# SPDX-License-Identifier: GPL-2.0-only
"""The part of `asa explain` about recognition: which features carried the last decision of a journal.

Replays the journal's last samples by the functions of the agent, takes the model that the session was recorded with,
and asks its boosted trees (`models.attribution`). Says so when that model is gone, or comes to something else than
was decided then.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from asa.core.decision import REGIME
from asa.core.errors import JournalError, ModelError

if TYPE_CHECKING:
    import numpy as np

    from asa.core.decision import Decision, FeatureFrame, Probabilities
    from asa.core.sample import RawSample
    from models.artefact import Artefact, Head, Part

MOST = 5  # features for and against
_TICKS = 40  # that are read back: more than any window of features, and a few without a judgement
_ALIKE = 0.005  # probabilities in which a replay may differ from what was decided


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """One feature's part. `weight` is in log odds: positive speaks for the class, negative against it."""

    name: str
    value: float | None
    weight: float
    sentence: str


class Carried(msgspec.Struct, frozen=True, kw_only=True, rename={"for_": "for"}):
    """What decided between the class of one head of the model and the next best one."""

    head: str
    workload: str  # "none" where the head saw nothing
    other: str
    for_: tuple[Feature, ...]
    against: tuple[Feature, ...]
    rest: float  # log odds of all other features
    before: float  # log odds when no feature is known


class Recognition(msgspec.Struct, frozen=True, kw_only=True):
    """Why the model saw what it saw in the last judged tick. `wrong` says why this cannot be told, "" when it can."""

    wall_ns: int = 0
    tick: str = ""  # the most probable label of this tick
    share: float = 0.0  # its probability
    vote: str | None = None  # the class in force
    refused: bool = False  # it fits no class of the model
    regime: str = ""  # what the machine did, as a table has it; of a journal that does not tell, in this tick
    heads: tuple[Carried, ...] = ()
    note: str = ""
    wrong: str = ""


def recognition(journal: Path, models: Path, configured: str | None = None) -> Recognition:
    """For the last decision in a journal; `models` is the folder of versions, `configured` a model of the settings.

    A journal or a model that cannot be read is told in the result: the rest of the explanation does not need it.
    """
    try:
        return _of_last(journal, models, configured)
    except (JournalError, ModelError) as error:
        return Recognition(wrong=str(error))


def lines(found: Recognition) -> Iterator[str]:
    """For people."""
    if found.wrong:
        yield f"features   {found.wrong}"
        return
    stands = "" if found.vote in (None, found.tick) else f"; the vote stands at {found.vote}"
    if found.refused:
        stands = f", refused: fits no class of the model{_instead(found)}"
    at = time.strftime("%H:%M:%S", time.localtime(found.wall_ns / 1e9))
    yield f"features   {at} looked like {found.tick} ({found.share:.0%}){stands}"
    if found.note:
        yield f"           {found.note}"
    for carried in found.heads:
        yield f"           {carried.workload} rather than {carried.other}, by the boosted trees"
        for word, parts in (("for", carried.for_), ("against", carried.against)):
            for part in parts:
                value = "unknown" if part.value is None else f"{part.value:.3g}"
                times = exp(min(abs(part.weight), 50.0))
                yield f"             {word:<7} x{times:<6.3g} {part.name} = {value}: {part.sentence}"


def _instead(found: Recognition) -> str:
    regime = f"; regime {found.regime.removeprefix(REGIME)}" if found.regime else ""
    if found.vote is not None and found.vote.startswith(REGIME):
        return f"{regime}. {found.vote} is the current context, which the table has an entry for"
    stays = f"{found.vote} stays the current class" if found.vote is not None else "no workload is recognised"
    return f"{regime}. {stays}, and nothing switches"


def _of_last(journal: Path, models: Path, configured: str | None) -> Recognition:
    from asa.report.reading import opened
    from models import artefact, versions

    with opened(journal) as book:
        for session in reversed(book.sessions()):
            samples = deque(book.samples(session.number), maxlen=_TICKS)
            decisions = [one for one in deque(book.decisions(session.number), maxlen=_TICKS) if one.probabilities]
            if decisions:
                break
        else:
            return Recognition(wrong=f"{journal} holds no decision yet; the agent writes it every few seconds")
        sha256 = session.header.model
        for told in book.told(session.number):  # settings were read again before the last decision
            if told.model and told.monotonic_ns < decisions[-1].monotonic_ns:
                sha256 = told.model
    path = versions.by_hash(models, sha256, configured)
    if path is None:
        return Recognition(wrong=f"the model of that decision ({sha256[:12]}) is not kept here any more")
    return _explained(artefact.load(path), tuple(samples), decisions[-1])


def _explained(model: "Artefact", samples: "Sequence[RawSample]", decision: "Decision") -> Recognition:
    from models.own import ticks
    from models.runtime import Ensemble

    frame = next((tick.frame for tick in ticks(samples) if tick.at_ns == decision.monotonic_ns), None)
    then = decision.probabilities
    if frame is None or then is None:
        return Recognition(wrong="the samples before the last decision are not in the journal any more")
    now = Ensemble(model).predict(frame)
    differs = now.classes != then.classes or max(map(_apart, now.values, then.values)) > _ALIKE
    tick = max(now.classes, key=now.of)
    return Recognition(
        wall_ns=next((one.wall_ns for one in samples if one.monotonic_ns == decision.monotonic_ns), 0),
        tick=str(tick),
        share=now.of(tick),
        vote=decision.workload,
        refused=bool(decision.refused),
        regime=decision.vote.regime or _regime(samples, decision.monotonic_ns),
        heads=tuple(_heads(model, frame, now)),
        note="not what was decided then: this version derives other features or weighs them otherwise"
        if differs
        else "",
    )


def _regime(samples: "Sequence[RawSample]", at_ns: int) -> str:
    from asa.decide import regime
    from collectors import rates

    found = None
    for previous, sample in pairwise(one for one in samples if one.monotonic_ns <= at_ns):
        derived = rates.derive(previous, sample)
        cpus = 0 if sample.cpu is None else len(sample.cpu.cores)
        found = None if derived is None else regime.of(derived, cpus, found)
    return "" if found is None else found.workload


def _apart(one: float, other: float) -> float:
    return abs(one - other)


def _heads(model: "Artefact", frame: "FeatureFrame", now: "Probabilities") -> Iterator[Carried]:
    import numpy as np

    from models import artefact

    parts = model.header.parts
    joint = np.zeros([len(part.classes) for part in parts])
    joint.flat[artefact.places(parts, model.header.classes)] = now.values  # it may know some combinations only
    best = np.unravel_index(int(joint.argmax()), joint.shape)
    for number, (part, head) in enumerate(zip(parts, model.heads, strict=True)):
        marginal = joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis != number))
        yield _carried(part, head, model, frame, marginal, int(best[number]))


def _carried(
    part: "Part", head: "Head", model: "Artefact", frame: "FeatureFrame", marginal: "np.ndarray", one: int
) -> Carried:
    import numpy as np

    from models import features
    from models.attribution import Attributor, compare

    other = next(place for place in (-marginal).argsort(kind="stable").tolist() if place != one)
    names = model.header.features
    picked = features.pick(names)
    values = np.asarray(frame.values)
    values = values if picked is None else values[picked]
    found, before = compare(Attributor(head.trees, model.fill), values, one, other)
    sentences = {column.name: column.sentence for column in features.TABLE}
    told = [
        Feature(
            name=names[it.feature],
            value=it.value,
            weight=it.weight,
            sentence=sentences[names[it.feature]],
        )
        for it in found
    ]
    speak_for = [it for it in told if it.weight > 0][:MOST]
    against = [it for it in told if it.weight < 0][:MOST]
    named = sum(it.weight for it in (*speak_for, *against))
    return Carried(
        head=part.name,
        workload=part.classes[one] or "none",
        other=part.classes[other] or "none",
        for_=tuple(speak_for),
        against=tuple(against),
        rest=sum(it.weight for it in told) - named,
        before=before,
    )
