# SPDX-License-Identifier: GPL-2.0-only
"""The shipped model says the same by both of its evaluators, on whatever machine this is."""

import numpy as np
import pytest

from asa import paths
from asa.core.decision import FeatureFrame
from models import artefact, features, runtime_compiled
from models.runtime import Ensemble


def test_the_compiled_evaluator_says_what_numpy_says():
    model = artefact.load(paths.base_model())
    compiled, plain = Ensemble(model), Ensemble(model, library=None)
    assert runtime_compiled.LIBRARY.exists(), "`make bpf` compiles it"
    assert (compiled.engine.name, plain.engine.name) == ("compiled", "numpy")
    chance = np.random.default_rng(7)
    for _ in range(8):
        values = chance.lognormal(size=len(features.NAMES)) * chance.choice([0.01, 1.0, 1000.0])
        values[chance.random(values.shape) < 0.2] = np.nan
        frame = FeatureFrame(schema=compiled.schema, values=values.astype(np.float32))
        assert compiled.predict(frame).values == pytest.approx(plain.predict(frame).values, abs=1e-6)
