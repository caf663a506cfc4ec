# SPDX-License-Identifier: GPL-2.0-only
"""From what the desktop knows to evidence, and evidence beside the model's word. Pure.

The interactive half comes from the window in front, players that play and signals; the background half from running
applications, each by the CPU time that it used: half a core or more counts in full. What packages say of programs at
work, in this tick and in the seconds before, counts in both. Of several that speak for a kind the strongest counts, so
that many say no more than one.

The rule is log-linear pooling (Genest and Zidek, Statistical Science 1, 1986) with one weight: a label's probability is
multiplied by exp(weight x evidence) for each half, then all are divided by their sum. So the odds of two labels change
by exp(weight) at most for each half, whatever the evidence is: a label that the model holds for exp(2 x weight) times
as probable as any other one stays the first. Without evidence, or with weight 0, the model's word is left as it is.

A tick that fits no class of the model is known all the same where both agree: the first label then is what is told in
each half, and nothing else is told.
"""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.evidence import Evidence
from asa.core.kinds import BACKGROUND, INTERACTIVE, Kind, halves
from asa.core.sample import GroupUsage, HintState, PackageUse, RawSample
from asa.decide.disturbed import SOON_MS, is_soon
from asa.decide.hints import Hints, Row, Signal
from collectors.hints.units import entry_of

LEAST_CORES = 0.05
"""An application that uses less is not at work: what it does in its sleep says nothing."""

WHOLE_CORES = 0.5
"""What uses as much speaks in full: with pauses, or beside others, one thread has less than a core."""

HOLD_NS = 4_000_000_000
"""So long a program counts as at work after a tick: a pass ends, the next begins, and a tick may see neither."""

AGREED = 0.8
"""What speaks as much for a kind tells it. A prior, as the table's weights are. The section of a package alone does not
tell: a call in a browser has the browser's."""

_INTERACTIVE, _BACKGROUND = frozenset(INTERACTIVE), frozenset(BACKGROUND)


Uses = tuple[tuple[int, tuple[PackageUse, ...]], ...]
"""Programs at work by the time of the tick, CLOCK_MONOTONIC, the oldest first."""


def at_work(recent: Uses, sample: RawSample) -> Uses:
    """With this tick's, without those that are older than `HOLD_NS`."""
    now_ns, uses = sample.monotonic_ns, None if sample.hints is None else sample.hints.packages
    return (*(one for one in recent if one[0] > now_ns - HOLD_NS), *(((now_ns, uses),) if uses else ()))


def of_tick(before: RawSample | None, sample: RawSample, hints: Hints, recent: Uses) -> Evidence | None:
    """What the desktop's knowledge in `sample` speaks for; None where there is none.

    `before` is the sample of the tick before, None after a gap: then nothing is known of CPU time. `recent` is what
    `at_work` gave for this tick.
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
    for name, cores in _applications(before, sample, categories):
        row = _row(categories[name], hints.categories)
        told = _raise_to(background, row, _BACKGROUND, _share(cores))
        if told:
            because.append(f"{name} uses {cores:.1f} cores{_shown(told)}")
    for use in _most(recent):
        row = _row(use.facets, hints.packages)
        told = {
            **_raise_to(interactive, row, _INTERACTIVE, 1.0),
            **_raise_to(background, row, _BACKGROUND, _share(use.cores)),
        }
        if told:
            because.append(f"a program of {', '.join(use.facets)} uses {use.cores:.1f} cores{_shown(told)}")
    return Evidence(interactive=interactive, background=background, because=tuple(because))


def pooled(judged: Judgement, evidence: Evidence | None, weight: float) -> Judgement:
    """The model's word together with the evidence."""
    if evidence is None or not weight or not (evidence.interactive or evidence.background):
        return judged
    strengths = (*evidence.interactive.items(), *evidence.background.items())
    classes, shares = judged.probabilities.classes, list(judged.probabilities.values)
    labels, places = _layout(classes)
    for kind, strength in strengths:
        factor = math.exp(weight * strength)
        for place in places.get(kind, ()):
            shares[place] *= factor
    total = math.fsum(shares)
    values = tuple([share / total for share in shares])
    known = judged.known or agrees(labels[values.index(max(values))], evidence)
    # not by `replace`, which takes five times as long: twice in each tick
    return Judgement(probabilities=Probabilities(classes=classes, values=values), score=judged.score, known=known)


def agrees(label: tuple[Kind | None, Kind | None], evidence: Evidence) -> bool:
    """Whether a label is what is told: each of its halves, and of a half that it does not have nothing."""
    both = zip(label, (evidence.interactive, evidence.background), strict=True)
    return any(label) and all(
        told.get(kind, 0.0) >= AGREED if kind else max(told.values(), default=0.0) < AGREED for kind, told in both
    )


def _most(recent: Uses) -> Iterator[PackageUse]:
    # of each package its busiest tick
    cores: dict[tuple[str, ...], float] = {}
    for _, uses in recent:
        for use in uses:
            cores[use.facets] = max(use.cores, cores.get(use.facets, 0.0))
    return (PackageUse(facets=facets, cores=used) for facets, used in cores.items())


def _in_front(state: HintState, categories: Mapping[str, tuple[str, ...]], hints: Hints) -> Iterator[tuple[str, Row]]:
    if state.front:
        how = ", by its control group" if state.front_by_groups else ""
        yield f"{state.front} is in front{how}", _row(categories.get(state.front, ()), hints.categories)
    for name in state.playing or ():
        if name and name != state.front:
            yield f"{name} plays", _row(categories.get(name, ()), hints.categories)


def _signals(state: HintState, hints: Hints) -> Iterator[tuple[str, Row]]:
    seen = (
        (Signal.GAME_MODE, state.game_clients, "GameMode is on"),
        (Signal.PLAYING, state.playing, "a media player plays"),
        (Signal.INHIBITED, state.idle_inhibited, "the session is kept from being idle"),
        (Signal.SOUND, state.sound_played, "a sound card plays"),
        (Signal.RECORDING, state.sound_recorded, "a sound card records"),
        (Signal.SOON, state.sound_played and is_soon(state), f"sound is wanted within {SOON_MS:g} ms"),
        (Signal.POWER_HELD, state.power_held, "a program holds the power profile"),
    )
    for signal, value, words in seen:
        if value:
            yield words, hints.signals.get(signal, {})


def _applications(
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


def _share(cores: float) -> float:
    return min(1.0, cores / WHOLE_CORES)


def _row(words: tuple[str, ...], table: Mapping[str, Row]) -> Row:
    found: dict[Kind, float] = {}
    for word in words:
        for kind, weight in table.get(word, {}).items():
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


@lru_cache(maxsize=8)  # asked once in a call: to look up a tuple of all classes takes as long as what is asked
def _layout(
    classes: tuple[Workload, ...],
) -> tuple[tuple[tuple[Kind | None, Kind | None], ...], Mapping[Kind, tuple[int, ...]]]:
    # the halves of each class, and by kind the places of the classes that have it
    labels = tuple(map(halves, classes))
    kinds = {kind for both in labels for kind in both if kind}
    return labels, {kind: tuple(place for place, both in enumerate(labels) if kind in both) for kind in kinds}
