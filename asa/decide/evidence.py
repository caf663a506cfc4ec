# SPDX-License-Identifier: GPL-2.0-only
"""From what the desktop knows to evidence, and evidence beside the model's word. Pure.

The interactive half comes from the window in front, players that play and signals; the background half from running
applications, each by the CPU time that it used: one core or more counts in full. Of several that speak for a kind the
strongest counts, so that many say no more than one.

The rule is log-linear pooling (Genest and Zidek, Statistical Science 1, 1986) with one weight: a label's probability is
multiplied by exp(weight x evidence) for each half, then all are divided by their sum. So the odds of two labels change
by exp(weight) at most for each half, whatever the evidence is: a label that the model holds for exp(2 x weight) times
as probable as any other one stays the first. Without evidence, or with weight 0, the model's word is left as it is. So
is its word that a tick fits no class.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from asa.core.decision import Judgement, Workload
from asa.core.evidence import Evidence
from asa.core.kinds import BACKGROUND, INTERACTIVE, Kind, kinds_of
from asa.core.sample import GroupUsage, HintState, RawSample
from asa.decide.hints import Hints, Row, Signal
from collectors.hints.units import entry_of

LEAST_CORES = 0.05
"""An application that uses less is not at work: what it does in its sleep says nothing."""

_INTERACTIVE, _BACKGROUND = frozenset(INTERACTIVE), frozenset(BACKGROUND)


def of_tick(before: RawSample | None, sample: RawSample, hints: Hints) -> Evidence | None:
    """What the desktop's knowledge in `sample` speaks for; None where there is none.

    `before` is the sample of the tick before, None after a gap: then nothing is known of CPU time.
    """
    state = sample.hints
    if state is None:
        return None
    categories = {entry.name: entry.categories for entry in state.entries}
    interactive: dict[Kind, float] = {}
    background: dict[Kind, float] = {}
    because = []
    for words, row in (*_in_front(state, categories, hints), *_signals(state, hints)):
        told = _raise_to(interactive, row, _INTERACTIVE, 1.0)
        because.append(f"{words}{_shown(told)}")
    for name, cores in _at_work(before, sample, categories):
        told = _raise_to(background, _row(categories[name], hints), _BACKGROUND, min(1.0, cores))
        if told:
            because.append(f"{name} uses {cores:.1f} cores{_shown(told)}")
    return Evidence(interactive=interactive, background=background, because=tuple(because))


def pooled(judged: Judgement, evidence: Evidence | None, weight: float) -> Judgement:
    """The model's word together with the evidence."""
    if evidence is None or not weight or not (evidence.interactive or evidence.background):
        return judged
    strengths = (*evidence.interactive.items(), *evidence.background.items())
    factors: dict[Kind | None, float] = {kind: math.exp(weight * strength) for kind, strength in strengths}
    probabilities = judged.probabilities
    shares = [
        share * factors.get(front, 1.0) * factors.get(back, 1.0)
        for share, (front, back) in zip(probabilities.values, _halves(probabilities.classes), strict=True)
    ]
    total = math.fsum(shares)
    return replace(judged, probabilities=replace(probabilities, values=tuple(share / total for share in shares)))


def _in_front(state: HintState, categories: Mapping[str, tuple[str, ...]], hints: Hints) -> Iterator[tuple[str, Row]]:
    if state.front:
        yield f"{state.front} is in front", _row(categories.get(state.front, ()), hints)
    for name in state.playing or ():
        if name and name != state.front:
            yield f"{name} plays", _row(categories.get(name, ()), hints)


def _signals(state: HintState, hints: Hints) -> Iterator[tuple[str, Row]]:
    seen = (
        (Signal.GAME_MODE, state.game_clients, "GameMode is on"),
        (Signal.PLAYING, state.playing, "a media player plays"),
        (Signal.INHIBITED, state.idle_inhibited, "the session is kept from being idle"),
        (Signal.SOUND, state.sound_played, "a sound card plays"),
        (Signal.RECORDING, state.sound_recorded, "a sound card records"),
    )
    for signal, value, words in seen:
        if value:
            yield words, hints.signals.get(signal, {})


def _at_work(
    before: RawSample | None, sample: RawSample, categories: Mapping[str, object]
) -> Iterator[tuple[str, float]]:
    # applications of known entries with the cores that all their groups used together
    if before is None or before.groups is None or sample.groups is None or not categories:
        return
    elapsed_us = (sample.monotonic_ns - before.monotonic_ns) / 1e3
    if elapsed_us <= 0:
        return
    cores: dict[str, float] = {}
    for name, used_us in _used(before.groups, sample.groups, categories):
        cores[name] = cores.get(name, 0.0) + used_us / elapsed_us
    yield from ((name, used) for name, used in cores.items() if used >= LEAST_CORES)


def _used(before: GroupUsage, now: GroupUsage, categories: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    old = dict(before.cpu_us)
    for path, cpu_us in now.cpu_us:
        name = entry_of(path)
        if name in categories and path in old and cpu_us > old[path]:  # one that came again begins anew
            yield name, cpu_us - old[path]


def _row(categories: tuple[str, ...], hints: Hints) -> Row:
    found: dict[Kind, float] = {}
    for category in categories:
        for kind, weight in hints.categories.get(category, {}).items():
            found[kind] = max(weight, found.get(kind, 0.0))
    return found


def _raise_to(found: dict[Kind, float], row: Row, half: frozenset[Kind], share: float) -> dict[Kind, float]:
    # what the row says for this half, and the strongest of all in `found`
    told = {kind: weight * share for kind, weight in row.items() if kind in half and weight}
    for kind, weight in told.items():
        found[kind] = max(weight, found.get(kind, 0.0))
    return told


def _shown(told: Mapping[Kind, float]) -> str:
    return f" ({', '.join(f'{kind} {weight:.2f}' for kind, weight in told.items())})" if told else ""


@lru_cache(maxsize=8)
def _halves(classes: tuple[Workload, ...]) -> tuple[tuple[Kind | None, Kind | None], ...]:
    return tuple(_kinds(label) for label in classes)


def _kinds(label: Workload) -> tuple[Kind | None, Kind | None]:
    try:
        return kinds_of(label)
    except ValueError:  # a label of a model's own: nothing speaks for it
        return None, None
