# SPDX-License-Identifier: GPL-2.0-only
"""What could evaluate the model in the agent, and how each is given the boosted trees of a head.

The boosted trees are what all candidates can evaluate, so they are the common part; the two engines of
`models.runtime` evaluate the whole model as well. Run in a process of its own for each candidate
(`calibration.recognition.probe`): what they import is part of what is measured. Nothing here is needed by the agent.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from asa.core.decision import FeatureFrame
from models import features, runtime_compiled
from models.artefact import Array, Artefact, Trees
from models.runtime import Ensemble
from models.trees import spread

_FRAMES = 64

Row = Array  # float32 (1, F), NaN where unknown
Predict = Callable[[Row], Any]


class Candidate(StrEnum):
    """By the names of the table."""

    NUMPY = "numpy"
    COMPILED = "compiled"  # models/members.c
    XGBOOST = "xgboost"
    ONNXRUNTIME = "onnxruntime"
    GTIL = "treelite"  # its interpreter
    TL2CGEN = "tl2cgen"  # treelite's trees as C, compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a candidate takes: distributions at run time, further ones to prepare, and a word about it."""

    runtime: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    what: str


NEEDS: dict[Candidate, Need] = {
    Candidate.NUMPY: Need(what="arrays, all trees a level at a time (models/runtime_numpy.py)"),
    Candidate.COMPILED: Need(what="the same arrays by a general evaluator in C (models/members.c), through ctypes"),
    Candidate.XGBOOST: Need(runtime=("xgboost-cpu",), what="Booster.inplace_predict, one thread"),
    Candidate.ONNXRUNTIME: Need(
        runtime=("onnxruntime",), prepare=("onnx",), what="TreeEnsembleRegressor, CPU provider, one thread"
    ),
    Candidate.GTIL: Need(runtime=("treelite",), what="treelite's interpreter, one thread"),
    Candidate.TL2CGEN: Need(
        runtime=("tl2cgen",),
        prepare=("treelite",),
        what="the trees as a C program of their own, compiled for the model",
    ),
}


def frames_of(model: Artefact) -> list[FeatureFrame]:
    """Frames like those of training: the model's vectors in the features' own units, the mean in columns that these
    leave out."""
    machine = model.heads[0].machine
    chosen = np.linspace(0, len(machine.vectors) - 1, _FRAMES).astype(int)
    values = np.full((_FRAMES, len(features.NAMES)), np.nan)
    picked = features.pick(model.header.features)
    values[:, slice(None) if picked is None else picked] = machine.vectors[chosen] * machine.scale + machine.mean
    return [FeatureFrame(schema=model.header.schema, values=row) for row in values]


def boosted(model: Artefact) -> list[Trees]:
    """The boosted trees of each head alone, leaves of the forest left out."""
    found = []
    for head in model.heads:
        trees = head.trees
        keep = trees.group < len(trees.base)
        tree_of, _ = spread(trees.child, trees.slot < 3 * len(model.fill), trees.root)
        nodes = np.flatnonzero(keep[tree_of])
        new = np.cumsum(keep[tree_of]) - 1
        leaf = trees.slot[nodes] == 3 * len(model.fill)
        child = np.where(leaf, trees.child[nodes], new[np.where(leaf, 0, trees.child[nodes])])
        found.append(
            Trees(
                slot=trees.slot[nodes],
                threshold=trees.threshold[nodes],
                child=child.astype(np.int32),
                cover=trees.cover[nodes],
                root=new[trees.root[keep]].astype(np.int32),
                group=trees.group[keep],
                base=trees.base,
                boosted_leaf=trees.boosted_leaf,
                forest_leaf=trees.forest_leaf[:0],
            )
        )
    return found


def only_boosted(model: Artefact) -> Artefact:
    """The model with its forest cut to a single leaf and its machine to a single vector: the common part."""
    heads = []
    for head, trees in zip(model.heads, boosted(model), strict=True):
        classes, machine = len(trees.base), head.machine
        stump = {
            "slot": np.array([3 * len(model.fill)], dtype=np.uint16),
            "threshold": np.zeros(1, dtype=np.float32),
            "child": np.zeros(1, dtype=np.int32),
            "cover": np.zeros(1, dtype=np.float32),
            "root": np.array([len(trees.slot)], dtype=np.int32),
            "group": np.array([classes], dtype=np.uint8),
        }
        grown = {name: np.concatenate([getattr(trees, name), array]) for name, array in stump.items()}
        uniform = np.full((1, classes), 1.0 / classes, dtype=np.float32)
        cut = {"vectors": machine.vectors[:1], "coefficients": machine.coefficients[:, :1]}
        heads.append(replace(head, trees=replace(trees, forest_leaf=uniform, **grown), machine=replace(machine, **cut)))
    return replace(model, heads=tuple(heads))


def prepare(candidate: Candidate, model: Artefact, folder: Path) -> None:
    """Write what `load` will read. Raises ImportError when a library is missing, ModelError without a compiler."""
    if candidate is Candidate.NUMPY:
        return
    if candidate is Candidate.COMPILED:
        runtime_compiled.build(folder / "members.so")
        return
    for number, trees in enumerate(boosted(model)):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(as_xgboost(trees, len(model.fill))))
        if candidate is Candidate.ONNXRUNTIME:
            import_module("onnx").save(as_onnx(trees, len(model.fill)), str(folder / f"{number}.onnx"))
        elif candidate is Candidate.TL2CGEN:
            trees_of = import_module("treelite").frontend.load_xgboost_model(str(file))
            library = folder / f"{number}.so"
            import_module("tl2cgen").export_lib(
                trees_of, toolchain="gcc", libpath=library, params={"parallel_comp": 16}, nthread=1
            )


def load(candidate: Candidate, model: Artefact, folder: Path) -> list[Predict]:
    """A function for each head: a row to margins (1, K) or so. Raises ImportError when a library is missing."""
    heads = range(len(model.heads))
    match candidate:
        case Candidate.NUMPY | Candidate.COMPILED:
            raise ValueError(f"{candidate}: evaluates whole models, see `whole`")
        case Candidate.XGBOOST:
            booster = import_module("xgboost").Booster
            boosters = [booster({"nthread": 1}, model_file=str(folder / f"{one}.json")) for one in heads]
            return [partial(one.inplace_predict, predict_type="margin") for one in boosters]
        case Candidate.ONNXRUNTIME:
            onnxruntime = import_module("onnxruntime")
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            sessions = [onnxruntime.InferenceSession(str(folder / f"{one}.onnx"), options) for one in heads]
            return [partial(_run, session) for session in sessions]
        case Candidate.GTIL:
            treelite = import_module("treelite")
            models = [treelite.frontend.load_xgboost_model(str(folder / f"{one}.json")) for one in heads]
            return [partial(treelite.gtil.predict, one, nthread=1, pred_margin=True) for one in models]
        case Candidate.TL2CGEN:
            tl2cgen = import_module("tl2cgen")
            predictors = [tl2cgen.Predictor(folder / f"{one}.so", nthread=1) for one in heads]
            return [partial(_predict, tl2cgen.DMatrix, one) for one in predictors]


def _run(session: Any, row: Row) -> Any:
    return session.run(None, {"x": row})[0]


def _predict(matrix: Any, predictor: Any, row: Row) -> Any:
    return predictor.predict(matrix(row), pred_margin=True)


def whole(candidate: Candidate, model: Artefact, folder: Path) -> Ensemble:
    """The runtime itself, by one of its two engines."""
    found = Ensemble(model, folder / "members.so" if candidate is Candidate.COMPILED else None)
    if found.engine.name != candidate:
        raise ImportError(f"{folder / 'members.so'} cannot be loaded")
    return found


def as_xgboost(trees: Trees, features: int) -> dict[str, Any]:
    """XGBoost's own JSON of a multi-class model with these trees."""
    classes = len(trees.base)
    params = {"num_deleted": "0", "num_feature": str(features), "size_leaf_vector": "1"}
    bounds = [*trees.root.tolist(), len(trees.slot)]
    found = []
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        slot, child = trees.slot[first:last].astype(int), trees.child[first:last].astype(int)
        leaf, count = slot == 3 * features, last - first
        left = np.where(leaf, -1, child - first)
        parents = np.full(count, 2**31 - 1)
        parents[left[~leaf]] = parents[left[~leaf] + 1] = np.flatnonzero(~leaf)
        value = np.where(leaf, trees.boosted_leaf[np.where(leaf, child, 0)], trees.threshold[first:last])
        found.append(
            {
                "id": number,
                "tree_param": {**params, "num_nodes": str(count)},
                "left_children": left.tolist(),
                "right_children": np.where(leaf, -1, left + 1).tolist(),
                "parents": parents.tolist(),
                "split_indices": np.where(leaf, 0, slot % features).tolist(),
                "split_conditions": value.astype(float).tolist(),
                "default_left": (~leaf & (slot < features)).astype(int).tolist(),
                "split_type": [0] * count,
                "sum_hessian": trees.cover[first:last].astype(float).tolist(),
                **{key: [0.0] * count for key in ("base_weights", "loss_changes")},
                **{f"categories{key}": [] for key in ("", "_nodes", "_segments", "_sizes")},
            }
        )
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(found))},
        "iteration_indptr": list(range(0, len(found) + 1, classes)),
        "tree_info": trees.group.tolist(),
        "trees": found,
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
    }
    learner = {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": json.dumps(trees.base.astype(float).tolist()),
            "boost_from_average": "1",
            "num_class": str(classes),
            "num_feature": str(features),
            "num_target": "1",
        },
        "objective": {"name": "multi:softprob", "softmax_multiclass_param": {"num_class": str(classes)}},
    }
    return {"learner": learner, "version": [3, 0, 0]}


def as_onnx(trees: Trees, features: int) -> Any:
    """An ONNX model with one tree ensemble, row to margins. Needs `onnx`."""
    onnx = import_module("onnx")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    bounds = np.diff([*trees.root.tolist(), len(trees.slot)])
    tree = np.repeat(np.arange(len(bounds)), bounds)
    node = np.arange(len(trees.slot)) - trees.root[tree]
    leaf = trees.slot == 3 * features
    left = np.where(leaf, 0, trees.child - trees.root[tree])
    ends = np.flatnonzero(leaf)

    def names(split: str) -> list[str]:
        return ["LEAF" if end else split for end in leaf]

    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["margins"],
        domain="ai.onnx.ml",
        n_targets=len(trees.base),
        aggregate_function="SUM",
        base_values=trees.base.astype(float).tolist(),
        nodes_treeids=tree.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_featureids=np.where(leaf, 0, trees.slot % features).tolist(),
        nodes_values=trees.threshold.astype(float).tolist(),
        nodes_modes=names("BRANCH_LT"),
        nodes_truenodeids=left.tolist(),
        nodes_falsenodeids=np.where(leaf, 0, left + 1).tolist(),
        nodes_missing_value_tracks_true=(~leaf & (trees.slot < features)).astype(int).tolist(),
        target_treeids=tree[ends].tolist(),
        target_nodeids=node[ends].tolist(),
        target_ids=trees.group[tree[ends]].astype(int).tolist(),
        target_weights=trees.boosted_leaf[trees.child[ends]].astype(float).tolist(),
    )
    inputs = [helper.make_tensor_value_info("x", number, [1, features])]
    outputs = [helper.make_tensor_value_info("margins", number, [1, len(trees.base)])]
    versions: Sequence[Any] = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(
        helper.make_graph([ensemble], "boosted", inputs, outputs), opset_imports=versions, ir_version=8
    )
