# SPDX-License-Identifier: GPL-2.0-only
"""Infer: layers in NumPy, a forest and nearest neighbours in scikit-learn, trees in XGBoost answer batch after batch.

    python -m scenarios.programs.infer NAME ORDERS

Sizes of model and batch, and threads, differ from session to session. Weights and training data are random. llama.cpp
is `scenarios.background.llm`.
"""

import importlib
import math
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Role
from scenarios.driving import Driver
from scenarios.programs.looping import PASSES, draw_degree, drawn, play

_LEARNT_ROWS = 500


def _draw(rng: random.Random, place: Place) -> Parameters:
    return {
        **draw_degree(rng, place),
        "batch": rng.choice((1, 8, 64, 256)),
        "inputs": rng.choice((32, 128, 512)),
        "width": rng.choice((128, 512, 1024)),
        "layers": rng.randint(2, 8),
        "trees": rng.choice((20, 100, 300)),
        "depth": rng.randint(3, 10),
        "neighbours": rng.randint(1, 20),
        "rows": rng.choice((2_000, 10_000, 30_000)),  # to look for neighbours in
        "gap_ms": rng.choice((0.0, 0.0, 1.0, 10.0)),  # between two requests
    }


def _layers(np: Any, rng: Any, given: Mapping[str, Any]) -> Callable[[Any], object]:
    sizes = [given["inputs"], *[given["width"]] * given["layers"]]
    weights = [rng.standard_normal(pair, dtype=np.float32) / pair[0] ** 0.5 for pair in pairwise(sizes)]

    def answer(x: Any) -> object:
        for weight in weights:
            x = np.maximum(x @ weight, 0.0)
        return np.exp(x - x.max(axis=1, keepdims=True))

    return answer


def _learnt(rng: Any, given: Mapping[str, Any], rows: int) -> tuple[Any, Any]:
    return rng.standard_normal((rows, given["inputs"]), dtype="float32"), rng.integers(0, 5, rows)


def _forest(_np: Any, rng: Any, given: Mapping[str, Any]) -> Callable[[Any], object]:
    from sklearn.ensemble import RandomForestClassifier

    how = {"n_estimators": given["trees"], "max_depth": given["depth"], "max_features": 4}
    forest = RandomForestClassifier(**how, n_jobs=given["threads"], random_state=0)
    forest.fit(*_learnt(rng, given, _LEARNT_ROWS))
    answer: Callable[[Any], object] = forest.predict_proba
    return answer


def _neighbours(_np: Any, rng: Any, given: Mapping[str, Any]) -> Callable[[Any], object]:
    from sklearn.neighbors import KNeighborsClassifier

    found = KNeighborsClassifier(given["neighbours"], algorithm="brute", n_jobs=given["threads"])
    answer: Callable[[Any], object] = found.fit(*_learnt(rng, given, given["rows"])).predict_proba
    return answer


def _boosted(_np: Any, rng: Any, given: Mapping[str, Any]) -> Callable[[Any], object]:
    from xgboost import XGBRegressor

    how = {"n_estimators": given["trees"], "max_depth": min(6, given["depth"]), "tree_method": "hist"}
    trees = XGBRegressor(**how, n_jobs=given["threads"], colsample_bynode=0.2)
    trees.fit(*_learnt(rng, given, _LEARNT_ROWS))
    answer: Callable[[Any], object] = trees.predict
    return answer


_MODELS: Mapping[str, tuple[str, Callable[[Any, Any, Mapping[str, Any]], Callable[[Any], object]]]] = {
    "numpy-layers": ("numpy", _layers),
    "sklearn-forest": ("sklearn", _forest),
    "sklearn-neighbours": ("sklearn", _neighbours),
    "xgboost": ("xgboost", _boosted),
}


def _answering(name: str) -> Application:
    return Application(
        name=name,
        role=Role.BACKGROUND,
        kind=Kind.INFER,
        metrics=(PASSES,),
        packages=(),
        programs=(),
        modules=(_MODELS[name][0],),
        draw=_draw,
        command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.programs.infer", name),
        ready_limit_s=120.0,
        silence_limit_s=math.inf,
    )


PROGRAMS = tuple(_answering(name) for name in _MODELS)


def main() -> None:
    """Make the model, then answer until asked to end."""
    driver = Driver.begin(interrupt=True)
    given = driver.parameters
    module, make = _MODELS[sys.argv[1]]
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = str(given["threads"])
    import numpy as np  # only now: it looks at these once

    rng = np.random.default_rng(drawn(driver).getrandbits(32))
    answer = make(np, rng, given)
    batches = [rng.standard_normal((given["batch"], given["inputs"]), dtype=np.float32) for _ in range(8)]
    driver.ready({module: str(importlib.import_module(module).__version__)})

    def work() -> None:
        until_s, number = time.monotonic() + float(given["pass_s"]), 0
        while time.monotonic() < until_s:
            answer(batches[number % len(batches)])
            number += 1
            if given["gap_ms"]:
                driver.pause(given["gap_ms"] / 1e3)

    play(driver, work)


if __name__ == "__main__":
    main()
