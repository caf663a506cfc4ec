# SPDX-License-Identifier: GPL-2.0-only
"""The NumPy runtime says what the training libraries say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.decision import FeatureFrame
from asa.core.errors import ModelError
from models import features
from models.artefact import Array
from models.ensemble import Fitted, Rows
from models.runtime import NumpyEnsemble

WIDTH = len(features.NAMES)
NUMBER = st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(-3, 3).map(float) | st.none()


@pytest.fixture(scope="module")
def runtime(model_file: Path) -> NumpyEnsemble:
    return NumpyEnsemble.load(model_file)


def frame_of(values) -> FeatureFrame:
    row = [None if value is None or np.isnan(value) else float(value) for value in values]
    return FeatureFrame(schema=features.SCHEMA, values=tuple(row))


def matrix(values) -> Array:
    return np.array([values], dtype=np.float64).astype(np.float32)


@settings(max_examples=150, deadline=None)
@given(values=st.lists(NUMBER, min_size=WIDTH, max_size=WIDTH))
def test_every_member_says_what_its_library_says(runtime: NumpyEnsemble, fitted: Fitted, values):
    expected = fitted.by_member(matrix(values))[:, 0]
    assert np.abs(runtime.members(frame_of(values)) - expected).max() < 1e-5


def test_training_rows_blend_as_in_training(runtime: NumpyEnsemble, fitted: Fitted, rows: Rows):
    expected = fitted.probabilities(rows.x[:100])
    got = np.array([runtime.predict(frame_of(row)).values for row in rows.x[:100]])
    assert np.abs(got - expected).max() < 1e-5
    assert (expected.argmax(axis=1) == rows.y[:100]).mean() > 0.9  # or there would be nothing to compare


def thresholds(fitted: Fitted) -> list[tuple[int, np.float64]]:
    """Forest splits, as scikit-learn keeps them: float64, compared with <=."""
    trees = [tree.tree_ for tree in fitted.members.forest.estimators_]
    return [
        (int(column), value)
        for tree in trees
        for column, value, left in zip(tree.feature, tree.threshold, tree.children_left, strict=True)
        if left >= 0
    ]


def test_values_on_a_threshold_and_beside_it_go_the_same_way(runtime: NumpyEnsemble, fitted: Fitted, rows: Rows):
    tried = 0
    boosted = fitted.members.booster.trees_to_dataframe()
    splits = [(int(row.Feature.removeprefix("f")), row.Split) for row in boosted.itertuples() if row.Feature != "Leaf"]
    for column, value in (*thresholds(fitted)[:60], *splits[:60]):
        middle = np.float32(value)
        for at in (np.nextafter(middle, np.float32(-np.inf)), middle, np.nextafter(middle, np.float32(np.inf))):
            row = rows.x[tried % len(rows.x)].copy()
            row[column] = at
            expected = fitted.by_member(row[None])[:, 0]
            assert np.abs(runtime.members(frame_of(row)) - expected).max() < 1e-5
            tried += 1
    assert tried == 360


def test_the_order_of_frames_does_not_matter(runtime: NumpyEnsemble, rows: Rows):
    first = runtime.predict(frame_of(rows.x[0]))
    runtime.predict(frame_of([None] * WIDTH))
    runtime.predict(frame_of(rows.x[1]))
    assert runtime.predict(frame_of(rows.x[0])) == first


def test_nothing_known_still_gives_a_distribution(runtime: NumpyEnsemble):
    values = runtime.predict(frame_of([None] * WIDTH)).values
    assert sum(values) == pytest.approx(1.0)
    assert all(0.0 <= value <= 1.0 for value in values)


@pytest.mark.parametrize(("schema", "width"), [(features.SCHEMA + 1, WIDTH), (features.SCHEMA, WIDTH - 1)])
def test_a_frame_of_another_schema_is_refused(runtime: NumpyEnsemble, schema: int, width: int):
    with pytest.raises(ModelError, match="schema"):
        runtime.predict(FeatureFrame(schema=schema, values=(0.0,) * width))


def test_the_agent_does_not_pay_for_training_libraries(model_file: Path):
    # in a fresh interpreter, as the agent runs: what is imported after a load and a prediction
    script = (
        "import sys; from pathlib import Path; from asa.core.decision import FeatureFrame; "
        "from models.runtime import NumpyEnsemble; m = NumpyEnsemble.load(Path(sys.argv[1])); "
        f"m.predict(FeatureFrame(schema=m.schema, values=(0.5,) * {WIDTH})); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(model_file)], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"sklearn", "xgboost", "scipy", "pandas", "joblib", "pickle"} - {"pickle"}
