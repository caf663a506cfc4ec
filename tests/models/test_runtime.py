# SPDX-License-Identifier: GPL-2.0-only
"""The NumPy runtime says what the training libraries say."""

import dataclasses
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_model import Size, made_up

from asa.core.decision import FeatureFrame
from asa.core.errors import ModelError
from calibration.recognition.candidates import frames_of
from models import artefact, features, runtime_compiled
from models.artefact import SURE, Array, Artefact, OpenWorld, Score
from models.runtime import Ensemble
from models.train.ensemble import Fitted, Rows

WIDTH = len(features.NAMES)
NUMBER = st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(-3, 3).map(float) | st.none()


def of_all_kinds(seed: int, own: dict[int, float | None]) -> list[float | None]:
    """A row by chance, but for what is given by place."""
    chance = random.Random(seed)  # noqa: S311
    kinds = (lambda: None, lambda: float(chance.randint(-3, 3)), lambda: chance.uniform(-1e6, 1e6), chance.random)
    values = [chance.choice(kinds)() for _ in range(WIDTH)]
    for place, value in own.items():
        values[place] = value
    return values


ROW = st.builds(of_all_kinds, st.integers(0, 2**32), st.dictionaries(st.integers(0, WIDTH - 1), NUMBER, max_size=40))


@pytest.fixture(scope="module", params=["numpy", "compiled"])
def library(request) -> Path | None:
    return request.getfixturevalue("evaluator") if request.param == "compiled" else None


@pytest.fixture(scope="module")
def runtime(model_file: Path, library: Path | None) -> Ensemble:
    return made(artefact.load(model_file), library)


@pytest.fixture(scope="module")
def joined(factored_file: Path, library: Path | None) -> Ensemble:
    return made(artefact.load(factored_file), library)


def made(model: Artefact, library: Path | None) -> Ensemble:
    found = Ensemble(model, library)
    assert found.engine.name == ("numpy" if library is None else "compiled")  # or the tests would test one twice
    return found


def frame_of(values) -> FeatureFrame:
    return FeatureFrame(schema=features.SCHEMA, values=np.array(values, dtype=np.float64))  # None becomes NaN


def matrix(values) -> Array:
    return np.array([values], dtype=np.float64).astype(np.float32)


@settings(max_examples=150, deadline=None)
@given(values=ROW)
def test_every_member_says_what_its_library_says(runtime: Ensemble, fitted: Fitted, values):
    expected = fitted.by_member(matrix(values))[:, 0]
    assert np.abs(runtime.members(frame_of(values))[0] - expected).max() < 1e-5


def test_training_rows_blend_as_in_training(runtime: Ensemble, fitted: Fitted, rows: Rows):
    expected = fitted.probabilities(rows.x[:100])
    got = np.array([runtime.predict(frame_of(row)).values for row in rows.x[:100]])
    assert np.abs(got - expected).max() < 1e-5
    assert (expected.argmax(axis=1) == rows.y[:100]).mean() > 0.9  # or there would be nothing to compare


def calibrated(blended: Array, temperature: float) -> Array:
    hardened = blended ** (1.0 / temperature)
    return hardened / hardened.sum()


@settings(max_examples=60, deadline=None)
@given(values=ROW)
def test_a_label_has_the_product_of_its_factors(joined: Ensemble, factors: tuple[Fitted, Fitted], values):
    front, behind = (one.probabilities(matrix(values))[0] for one in factors)
    expected = np.outer(calibrated(front, 1.5), behind)
    found = joined.predict(frame_of(values))
    assert found.classes == ("idle", "disk", "llm", "web", "web+disk", "web+llm")
    assert np.abs(np.array(found.values).reshape(2, 3) - expected).max() < 1e-5
    assert sum(found.values) == pytest.approx(1.0)


def test_what_is_far_from_everything_learnt_is_unknown(joined: Ensemble, rows: Rows):
    near = [joined.judge(frame_of(row)) for row in rows.x[:50]]
    assert sum(one.known for one in near) >= 45
    far = joined.judge(frame_of([50.0 * (-1) ** number for number in range(WIDTH)]))
    assert not far.known
    assert far.score is not None
    assert far.score < 0.01
    assert sum(far.probabilities.values) == pytest.approx(1.0)


@pytest.mark.parametrize("score", list(Score))
def test_each_score_has_its_threshold(factored: Artefact, library: Path | None, rows: Rows, score: Score):
    frames = [frame_of(row) for row in rows.x[:40]]
    model = made(factored, library)
    found = [model.scores(frame)[score] for frame in frames]
    least = float(np.median(found))
    header = msgspec.structs.replace(factored.header, open_world=OpenWorld(score=score, least=least))
    model = made(dataclasses.replace(factored, header=header), library)
    judged = [model.judge(frame) for frame in frames]
    assert [one.score for one in judged] == found
    sure = [max(one.probabilities.values) >= SURE for one in judged]
    assert [one.known for one in judged] == [value >= least or of for value, of in zip(found, sure, strict=True)]
    assert any(one.known for one in judged)


def test_a_frame_that_is_surely_of_a_class_is_known_whatever_its_score():
    world = OpenWorld(score=Score.KINSHIP, least=0.9)
    assert [world.knows(score, 0.5) for score in (0.89, 0.9)] == [False, True]
    assert [world.knows(0.1, probability) for probability in (0.79, SURE)] == [False, True]


def test_a_model_without_open_world_knows_everything(runtime: Ensemble):
    judged = runtime.judge(frame_of([1e6] * WIDTH))
    assert judged.known
    assert judged.score is None


def test_both_engines_score_alike(factored: Artefact, evaluator: Path, rows: Rows):
    one, other = made(factored, None), made(factored, evaluator)
    for row in rows.x[:60]:
        first, second = one.scores(frame_of(row)), other.scores(frame_of(row))
        assert first == pytest.approx(second, rel=1e-5)


def test_both_engines_weigh_five_and_eight_classes_alike(evaluator: Path):
    small = made_up(Size(rounds=3, boosted_leaves=6, forest_trees=4, forest_leaves=8, vectors=50), seed=2)
    one, other = made(small, None), made(small, evaluator)
    for frame in frames_of(small)[:10]:
        for first, second in zip(one.members(frame), other.members(frame), strict=True):
            assert np.abs(first - second).max() < 1e-6


def test_energy_is_that_of_the_boosted_margins(runtime: Ensemble, fitted: Fitted, rows: Rows):
    margins = fitted.members.booster.predict(xgboost.DMatrix(rows.x[:20]), output_margin=True)
    expected = np.log(np.exp(margins.astype(np.float64)).sum(axis=1))
    found = [runtime.scores(frame_of(row))[Score.ENERGY] for row in rows.x[:20]]
    assert found == pytest.approx(list(expected), abs=1e-5)


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF of another machine"])
def test_without_a_library_that_loads_numpy_does_it(model: Artefact, tmp_path: Path, content: bytes | None):
    library = tmp_path / "members.so"
    if content is not None:
        library.write_bytes(content)
    assert runtime_compiled.load(library) is None
    assert Ensemble(model, library).engine.name == "numpy"


def test_a_library_of_another_source_is_not_loaded(evaluator: Path, tmp_path: Path, monkeypatch):
    assert runtime_compiled.load(evaluator) is not None
    source = tmp_path / "members.c"
    source.write_text(runtime_compiled.SOURCE.read_text() + "// newer\n")
    monkeypatch.setattr(runtime_compiled, "SOURCE", source)
    assert runtime_compiled.load(evaluator) is None
    runtime_compiled.build(tmp_path / "members.so")
    assert runtime_compiled.load(tmp_path / "members.so") is not None
    source.unlink()
    assert runtime_compiled.load(tmp_path / "members.so") is None


def test_values_beyond_all_measure_are_judged_too(joined: Ensemble):
    for values in ([1e38] * WIDTH, [-1e38] * WIDTH, [(-1e38) ** (number % 2) for number in range(WIDTH)]):
        judged = joined.judge(frame_of(values))
        assert sum(judged.probabilities.values) == pytest.approx(1.0)
        assert not judged.known


def test_a_machine_beyond_all_measure_still_gives_a_distribution(factored: Artefact, library: Path | None):
    head = factored.heads[-1]
    machine = dataclasses.replace(
        head.machine,
        coefficients=np.full_like(head.machine.coefficients, 1e308),
        sigmoid=np.zeros_like(head.machine.sigmoid),  # nothing times infinity
    )
    spoilt = dataclasses.replace(factored, heads=(*factored.heads[:-1], dataclasses.replace(head, machine=machine)))
    found = made(spoilt, library).predict(frame_of([None] * WIDTH))
    assert sum(found.values) == pytest.approx(1.0)


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    with pytest.raises(ModelError, match=r"/cc: No such file.*CC"):
        runtime_compiled.build(tmp_path / "members.so")


def test_a_compiler_that_fails_leaves_the_old_library(tmp_path: Path, monkeypatch):
    library = tmp_path / "members.so"
    library.write_text("old")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(ModelError, match="the compiler was false"):
        runtime_compiled.build(library)
    assert library.read_text() == "old"


def thresholds(fitted: Fitted) -> list[tuple[int, np.float64]]:
    """Forest splits, as scikit-learn keeps them: float64, compared with <=."""
    trees = [tree.tree_ for tree in fitted.members.forest.estimators_]
    return [
        (int(column), value)
        for tree in trees
        for column, value, left in zip(tree.feature, tree.threshold, tree.children_left, strict=True)
        if left >= 0
    ]


def test_values_on_a_threshold_and_beside_it_go_the_same_way(runtime: Ensemble, fitted: Fitted, rows: Rows):
    tried = 0
    boosted = fitted.members.booster.trees_to_dataframe()
    splits = [(int(row.Feature.removeprefix("f")), row.Split) for row in boosted.itertuples() if row.Feature != "Leaf"]
    for column, value in (*thresholds(fitted)[:60], *splits[:60]):
        middle = np.float32(value)
        for at in (np.nextafter(middle, np.float32(-np.inf)), middle, np.nextafter(middle, np.float32(np.inf))):
            row = rows.x[tried % len(rows.x)].copy()
            row[column] = at
            expected = fitted.by_member(row[None])[:, 0]
            assert np.abs(runtime.members(frame_of(row))[0] - expected).max() < 1e-5
            tried += 1
    assert tried == 360


def test_the_order_of_frames_does_not_matter(runtime: Ensemble, rows: Rows):
    first = runtime.predict(frame_of(rows.x[0]))
    runtime.predict(frame_of([None] * WIDTH))
    runtime.predict(frame_of(rows.x[1]))
    assert runtime.predict(frame_of(rows.x[0])) == first


def test_nothing_known_still_gives_a_distribution(runtime: Ensemble):
    values = runtime.predict(frame_of([None] * WIDTH)).values
    assert sum(values) == pytest.approx(1.0)
    assert all(0.0 <= value <= 1.0 for value in values)


@pytest.mark.parametrize(("schema", "width"), [(features.SCHEMA + 1, WIDTH), (features.SCHEMA, WIDTH - 1)])
def test_a_frame_of_another_schema_is_refused(runtime: Ensemble, schema: int, width: int):
    with pytest.raises(ModelError, match="schema"):
        runtime.predict(FeatureFrame(schema=schema, values=np.zeros(width)))


def test_the_agent_does_not_pay_for_training_libraries(model_file: Path):
    # in a fresh interpreter, as the agent runs: what is imported after a load and a prediction
    script = (
        "import sys; from pathlib import Path; import numpy as np; from asa.core.decision import FeatureFrame; "
        "from models.runtime import Ensemble; m = Ensemble.load(Path(sys.argv[1])); "
        f"m.predict(FeatureFrame(schema=m.schema, values=np.full({WIDTH}, 0.5))); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(model_file)], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"sklearn", "xgboost", "scipy", "pandas", "joblib", "pickle"} - {"pickle"}


def test_a_column_more_in_the_frame_changes_nothing(model_file: Path, library: Path | None, rows: Rows, monkeypatch):
    # as in a version that knows a metric more, which stands before all others
    before = [made(artefact.load(model_file), library).predict(frame_of(row)) for row in rows.x[:20]]
    monkeypatch.setattr(features, "NAMES", ("newer", *features.NAMES))
    monkeypatch.setattr(features, "_PLACES", {name: place for place, name in enumerate(features.NAMES)})
    runtime = made(artefact.load(model_file), library)
    after = [runtime.predict(frame_of(np.concatenate(([7.0], row)))) for row in rows.x[:20]]
    assert after == before
    with pytest.raises(ModelError, match="schema"):
        runtime.predict(frame_of(rows.x[0]))


def test_columns_are_found_by_name():
    places = features.pick(tuple(reversed(features.NAMES)))
    assert places is not None
    assert places.tolist() == list(reversed(range(WIDTH)))
    assert features.pick(features.NAMES) is None
    with pytest.raises(KeyError, match="nonsense"):
        features.pick(("busy_share", "nonsense"))


def test_what_no_split_asks_for_need_not_be_known(factored: Artefact, library: Path | None, rows: Rows):
    model = made(factored, library)
    assert 0 < len(model.fields) < len(features.FIELDS)
    blind = [not features.fields_of([name]) <= model.fields for name in features.NAMES]
    for row in rows.x[:20]:
        assert model.predict(frame_of(np.where(blind, np.nan, row))) == model.predict(frame_of(row))


def test_columns_are_made_of_rates():
    assert features.fields_of(["burst_p50", "burst_p50_mean3s"]) == {"burst_p50_us"}
    busy = {f"cpu_{mode}_share" for mode in ("user", "nice", "system", "irq", "softirq")}
    assert features.fields_of(["switches_a_busy_core_slope6s"]) == {"context_switches_per_s", *busy}
    assert features.fields_of(features.NAMES) == {*features.FIELDS}
    with pytest.raises(KeyError, match="nonsense"):
        features.fields_of(["nonsense"])
