# SPDX-License-Identifier: GPL-2.0-only
"""What fine-tuning is worth: two labelled sessions a label of a machine, or of seeds, that the base model never saw.

The base set is all other places of its sort; where there are none, other seeds, and what other places have of them:
the last three seeds take turns to judge. `models.train.finetune` decides as it does for a user, whether the tuned
model is kept; what is in use afterwards is judged on the remaining sessions.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import joblib
import numpy as np

from asa.core.errors import ModelError
from models.artefact import Array
from models.own import Own
from models.train import evaluation, factored, finetune, held_out
from models.train.dataset import Dataset
from models.train.ensemble import Recipe, Rows
from models.train.factored import Kind, Model
from models.train.finetune import Bounds
from models.train.held_out import Kept, Tell

OWN = 2
"""Labelled sessions a label."""

WHY = "no machine has three sessions of each label beside others to learn from"


def tuned(data: Dataset, kind: Kind, recipe: Recipe, seed: int, *, jobs: int, kept: Kept, tell: Tell) -> float | None:
    """Accuracy over the rows of two programs in the sessions that are neither base set nor own, in per cent."""
    splits = deals(data)
    calls = []
    for name, (base, own, test) in splits.items():
        task = held_out.Task(name=f"tuned {name}", train=base | own, test=test, kinds=(kind,))
        key = "tuned-" + held_out.key_of(data, task, recipe, seed) + _digest(own)
        calls.append((key, name, base, own, test))
    found = {key: kept.get(key) for key, *_ in calls}
    missing = [call for call in calls if found[call[0]] is None]
    # the first samples tell sessions that were learnt from
    lean = replace(data, sessions=tuple(replace(one, samples=one.samples[:1], marks=()) for one in data.sessions))
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        work = (joblib.delayed(_right)(lean, kind, recipe, seed, *masks) for _key, _name, *masks in missing)
        done = joblib.Parallel(n_jobs=jobs, return_as="generator")(work)
        for (key, name, *_), right in zip(missing, done, strict=True):
            tell(f"tuned {name}", 1.0)
            found[key] = {"right": right}
            kept.put(key, {"right": right})
    right = [arrays["right"] for arrays in found.values() if arrays is not None]
    return float(np.concatenate(right).mean() * 100) if right else None


def deals(data: Dataset) -> dict[str, tuple[Array, Array, Array]]:
    """By what judges: rows of the base set, own rows and rows to judge by, bool (n,); none where data are too few."""
    place = np.array([session.place for session in data.sessions])
    lab = np.array([session.in_lab for session in data.sessions])
    made: dict[str, tuple[Array, Array, Array]] = {}
    for name in data.places():
        here, away = np.flatnonzero(place == name), np.flatnonzero(place != name)
        alike = away[lab[away] == lab[here[0]]]  # stand-ins alone are no base for real programs, nor these for them
        machine = _machine(data, here.tolist(), alike.tolist())
        seeds = _seeds(data, here.tolist(), away.tolist())
        found = _sound(data, {name: machine} if machine is not None else {})
        made |= found or _sound(data, {f"{name}, seed {seed}": one for seed, one in seeds.items()})
    return made


def _sound(data: Dataset, parts: Mapping[str, "_Parts"]) -> dict[str, tuple[Array, Array, Array]]:
    # rows of those deals whose base set has all classes and that have something to judge by
    made = {}
    for words, one in parts.items():
        base, own, test = (np.isin(data.session, part) for part in one)
        counted = test & evaluation.pairs(data)
        if counted.any() and len(np.unique(data.y[base])) == len(data.classes):
            made[words] = (base, own & evaluation.running(data), counted)
    return made


_Parts = tuple[list[int], list[int], list[int]]  # sessions of the base set, own ones, and those to judge by


def _machine(data: Dataset, here: list[int], away: list[int]) -> _Parts | None:
    # a machine that the base set does not have: its first sessions of each label are the own ones
    groups = _by_label(data, here)
    if not groups or min(len(of) for of in groups.values()) <= OWN or not set(groups) <= set(_by_label(data, away)):
        return None
    own = [one for of in groups.values() for one in of[:OWN]]
    return away, own, [one for of in groups.values() for one in of[OWN:]]


def _seeds(data: Dataset, here: list[int], away: list[int]) -> dict[int, _Parts]:
    # a machine that the base set has with other seeds: of the last three each judges in turn, two are the own ones
    labels = set(_by_label(data, here))
    of_seed: dict[int, list[int]] = {}
    for one in here:
        of_seed.setdefault(data.sessions[one].seed or 0, []).append(one)
    seeds = [seed for seed, of in sorted(of_seed.items()) if set(_by_label(data, of)) == labels]
    new = seeds[-(OWN + 1) :]
    if len(seeds) < 2 * OWN + 1:
        return {}
    # nor does the base set have what these seeds played on other machines
    base = [one for one in [*away, *here] if (data.sessions[one].seed or 0) not in new]
    return {
        judge: (base, [one for seed in new if seed != judge for one in of_seed[seed]], of_seed[judge]) for judge in new
    }


def _by_label(data: Dataset, numbers: list[int]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number in numbers:
        groups.setdefault(data.sessions[number].label, []).append(number)
    return groups


def _right(data: Dataset, kind: Kind, recipe: Recipe, seed: int, base: Array, own: Array, test: Array) -> Array:
    held_out.apart(data, base | own, test)
    known, names = only(data, base), factored.labels_of(data)

    def fit(rows: Rows) -> Model:
        return factored.fit(kind, rows, names, recipe, seed)

    outcome = finetune.tune(known, own_of(data, own), fit, Bounds(), lambda _line: None)
    model = outcome.tuned or fit(held_out.rows_of(known, np.ones(len(known.y), dtype=bool)))
    return np.asarray(model.probabilities(data.x[test]).argmax(axis=1) == data.y[test])


def only(data: Dataset, use: Array) -> Dataset:
    """These rows, and the sessions that they are of. Raises ModelError when a class has none of them."""
    if len(np.unique(data.y[use])) < len(data.classes):
        raise ModelError("the base set lacks a label of the machine; record it there too")
    numbers, session = np.unique(data.session[use], return_inverse=True)
    chosen = data.select(use)
    sessions = tuple(data.sessions[number] for number in numbers.tolist())
    return replace(chosen, session=session.reshape(-1), sessions=sessions)


def own_of(data: Dataset, use: Array) -> Own:
    """Labelled sessions as `asa lab finetune` takes them: rows in which all of a session's label works."""
    numbers = [
        number
        for number in np.unique(data.session[use]).tolist()
        if (use & (data.session == number) & _whole(data)).any()
    ]
    rows = [np.flatnonzero(use & (data.session == number) & _whole(data)) for number in numbers]
    chosen = np.concatenate(rows)
    first = [data.sessions[number].samples for number in numbers]
    return Own(
        x=data.x[chosen],
        label=tuple(data.classes[number] for number in data.y[chosen].tolist()),
        unit=np.repeat(np.arange(len(numbers)), [len(of) for of in rows]),
        units=tuple(f"{data.sessions[number].source}: {data.sessions[number].label}" for number in numbers),
        starts=tuple((samples[0].wall_ns, samples[0].monotonic_ns) for samples in first if samples),
        by_hand=len(chosen),
        sha256=_digest(use),
    )


def _whole(data: Dataset) -> Array:
    labels = np.array([session.label for session in data.sessions])[data.session]
    return np.asarray(labels == np.array(data.classes)[data.y])


def _digest(use: Array) -> str:
    return hashlib.sha256(np.packbits(use).tobytes()).hexdigest()[:16]
