# SPDX-License-Identifier: GPL-2.0-only
"""The model on disk: one compressed NumPy archive of plain arrays and a JSON header, no pickle, nothing executable.

Reads and writes `.npz`; checks all of it before anyone uses it: format, schema, shapes, types, finite values, trees
that end, and a SHA-256 over everything. The hash finds accidents (it lies in the same file); that a wrong file can do
no more than misjudge is for the other checks. It neither trains nor predicts.
"""

import hashlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from asa.core.errors import ModelError
from models import features

FORMAT = "asa-ensemble-1"
MEMBERS = ("xgboost", "forest", "svm")

Array = NDArray[Any]

_LARGEST_BYTES = 64 << 20  # unpacked; ours has about 2 MB, so a larger one is a mistake or a decompression bomb
_HEADER = "header"
# What zipfile and numpy's header reader raise on garbage; the latter also tokenises what looks like Python 2's.
_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the arrays mean and where they come from."""

    format: str
    schema: int  # of `models.features`
    features: tuple[str, ...]
    classes: tuple[str, ...]
    weights: tuple[float, ...]  # in the order of MEMBERS, sum 1
    trained: str  # ISO 8601 date and time, UTC
    seed: int
    dataset_sha256: str
    versions: dict[str, str]
    sha256: str = ""  # over the arrays and this header without the field


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """All trees of both kinds in flat arrays; N nodes, T trees, K classes, F features.

    A split goes left where `x[slot] < threshold` (float32). Slots 0..F-1 hold the features with a missing value as
    -inf (goes left), F..2F-1 as +inf (goes right), 2F..3F-1 filled; slot 3F marks a leaf.
    """

    slot: Array  # uint16 (N,)
    threshold: Array  # float32 (N,), 0 at leaves
    child: Array  # int32 (N,): a split's left child, the right one follows it; at a leaf its row in the leaf table
    root: Array  # int32 (T,)
    group: Array  # uint8 (T,): the class a boosted tree adds to, K for a forest tree
    base: Array  # float32 (K,): margin before any boosted tree
    boosted_leaf: Array  # float32 (L,): margins
    forest_leaf: Array  # float32 (M, K): distributions


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The support vector machine, one class against the rest; S support vectors, all classes share them."""

    mean: Array  # float64 (F,): z = float32((x - mean) / scale)
    scale: Array  # float64 (F,)
    vectors: Array  # float32 (S, F), in z
    coefficients: Array  # float64 (K, S)
    intercept: Array  # float64 (K,)
    gamma: Array  # float64 (1,): kernel exp(-gamma |z - v|^2)
    sigmoid: Array  # float64 (K, 2): probability 1 / (1 + exp(a f + b)), then normalised over the classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """A whole model, checked when it came from `load`."""

    header: Header
    fill: Array  # float32 (F,): what stands for a missing value in forest and machine, the training median
    trees: Trees
    machine: Machine


# name -> (dtype, shape with letters for what the header or the array itself says)
_LAYOUT: dict[str, tuple[str, str]] = {
    "fill": ("float32", "F"),
    "trees.slot": ("uint16", "N"),
    "trees.threshold": ("float32", "N"),
    "trees.child": ("int32", "N"),
    "trees.root": ("int32", "T"),
    "trees.group": ("uint8", "T"),
    "trees.base": ("float32", "K"),
    "trees.boosted_leaf": ("float32", "L"),
    "trees.forest_leaf": ("float32", "MK"),
    "machine.mean": ("float64", "F"),
    "machine.scale": ("float64", "F"),
    "machine.vectors": ("float32", "SF"),
    "machine.coefficients": ("float64", "KS"),
    "machine.intercept": ("float64", "K"),
    "machine.gamma": ("float64", "1"),
    "machine.sigmoid": ("float64", "K2"),
}


def save(artefact: Artefact, path: Path) -> None:
    """Write the artefact; the same model gives the same bytes. Raises ModelError when it would not load again."""
    arrays = _arrays(artefact)
    header = msgspec.structs.replace(artefact.header, sha256="")
    header = msgspec.structs.replace(header, sha256=_digest(header, arrays))
    _check(header, arrays, str(path))
    encoded = np.frombuffer(msgspec.json.encode(header), dtype=np.uint8)
    stored: dict[str, Array] = {_HEADER: encoded, **arrays}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **stored)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}; choose another place") from error


def load(path: Path) -> Artefact:
    """Read and check an artefact. Raises ModelError, one line, for every kind of damage; executes nothing."""
    name = str(path)
    try:
        header, arrays = _read(path)
    except OSError as error:
        raise ModelError(f"{name}: cannot be read: {error.strerror or error}; train one or name another") from error
    except _DAMAGE as error:
        words = " ".join(str(error).split())[:120]  # msgspec's ValidationError is a ValueError too
        raise _damaged(name, words or type(error).__name__) from error
    if header.format != FORMAT:
        raise ModelError(f"{name}: format {header.format!r}, this version reads {FORMAT!r}; train again")
    if header.schema != features.SCHEMA or header.features != features.NAMES:
        raise ModelError(
            f"{name}: features of schema {header.schema!r}, this version has {features.SCHEMA}; train again"
        )
    if header.sha256 != _digest(msgspec.structs.replace(header, sha256=""), arrays):
        raise _damaged(name, "its contents do not give the recorded SHA-256")
    _check(header, arrays, name)
    return _assemble(header, arrays)


def spread(child: Array, split: Array, root: Array) -> tuple[Array, Array]:
    """Tree of each node (N,) and depth of each tree (T,), found level by level; the nodes must form separate trees."""
    tree = np.zeros(len(child), dtype=np.intp)
    depth = np.zeros(len(root), dtype=np.intp)
    nodes, owner = root.astype(np.intp), np.arange(len(root))
    while len(nodes):
        tree[nodes] = owner
        inner = split[nodes]
        nodes, owner = nodes[inner], owner[inner]
        depth[owner] += 1
        nodes, owner = np.concatenate([child[nodes], child[nodes] + 1]), np.concatenate([owner, owner])
    return tree, depth


def _damaged(name: str, why: str) -> ModelError:
    return ModelError(f"{name}: not a sound model artefact: {why}; fetch or train it again")


def _read(path: Path) -> tuple[Header, dict[str, Array]]:
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":  # np.load would try other formats, pickles among them, on anything else
            raise ValueError("it is not a NumPy archive")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > _LARGEST_BYTES:
                raise ValueError(f"it unpacks to more than {_LARGEST_BYTES} bytes")
            expected = sorted(f"{name}.npy" for name in (_HEADER, *_LAYOUT))
            if sorted(archive.namelist()) != expected:
                raise ValueError("its arrays are not those of a model")
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            header = msgspec.json.decode(_bytes_of(stored[_HEADER]), type=Header)
            return header, {name: stored[name] for name in _LAYOUT}


def _bytes_of(array: Array) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("its header is not text")
    return array.tobytes()


def _arrays(artefact: Artefact) -> dict[str, Array]:
    def value(name: str) -> Array:
        part, _, field = name.rpartition(".")
        holder = getattr(artefact, part) if part else artefact
        return np.ascontiguousarray(getattr(holder, field))

    return {name: value(name) for name in _LAYOUT}


def _assemble(header: Header, arrays: Mapping[str, Array]) -> Artefact:
    def part(prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    return Artefact(
        header=header, fill=arrays["fill"], trees=Trees(**part("trees.")), machine=Machine(**part("machine."))
    )


def _digest(header: Header, arrays: Mapping[str, Array]) -> str:
    total = hashlib.sha256(msgspec.json.encode(header))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _check(header: Header, arrays: Mapping[str, Array], name: str) -> None:
    _check_header(header, name)
    sizes = {"F": len(header.features), "K": len(header.classes), "1": 1, "2": 2}
    for key, (dtype, letters) in _LAYOUT.items():
        array = arrays[key]
        if array.dtype != np.dtype(dtype) or array.ndim != len(letters):
            raise _damaged(name, f"{key} is {array.dtype} of {array.ndim} dimensions, not {dtype} of {len(letters)}")
        for letter, length in zip(letters, array.shape, strict=True):
            if sizes.setdefault(letter, length) != length:
                raise _damaged(name, f"{key} has shape {array.shape}, expected {sizes[letter]} for {letter}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _damaged(name, f"{key} holds a number that is not finite")
    if (arrays["machine.scale"] <= 0).any():
        raise _damaged(name, "machine.scale is not positive")
    _check_trees(arrays, sizes, name)


def _check_header(header: Header, name: str) -> None:
    if not 2 <= len(header.classes) <= 200 or len(set(header.classes)) != len(header.classes):
        raise _damaged(name, f"classes {header.classes!r} are not 2 to 200 different ones")
    weights = header.weights
    if len(weights) != len(MEMBERS) or min(weights) < 0 or not abs(sum(weights) - 1) < 1e-6:
        raise _damaged(name, f"weights {weights!r} are not {len(MEMBERS)} shares of 1")


def _check_trees(arrays: Mapping[str, Array], sizes: Mapping[str, int], name: str) -> None:
    slot, child, root = arrays["trees.slot"], arrays["trees.child"], arrays["trees.root"]
    leaf = 3 * sizes["F"]
    if (slot > leaf).any() or (arrays["trees.group"] > sizes["K"]).any():
        raise _damaged(name, "a tree names a feature or class that is not there")
    nodes = np.arange(len(slot))
    split = slot < leaf
    # children after their parent: no cycle; each node entered once: neither loops nor trees that share branches
    if (child[split] <= nodes[split]).any() or (child[split] + 1 >= len(slot)).any():
        raise _damaged(name, "a child index is out of range or before its parent")
    if len(root) == 0 or (root < 0).any() or (root >= len(slot)).any():
        raise _damaged(name, "a root index is out of range")
    entered = np.bincount(np.concatenate([root, child[split], child[split] + 1]), minlength=len(slot))
    if (entered != 1).any():
        raise _damaged(name, "the nodes do not form separate trees")
    tree_of, _ = spread(child, split, root)
    forest = arrays["trees.group"] == sizes["K"]
    if not forest.any():
        raise _damaged(name, "it has no forest")
    rows = np.where(forest, sizes["M"], sizes["L"])[tree_of]
    ends = ~split
    if (child[ends] < 0).any() or (child[ends] >= rows[ends]).any():
        raise _damaged(name, "a leaf names a row that is not in its table")
