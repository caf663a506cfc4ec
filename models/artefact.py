# SPDX-License-Identifier: GPL-2.0-only
"""The model on disk: one compressed NumPy archive of plain arrays and a JSON header, no pickle, nothing executable.

A model has one head, which knows whole labels, or several, which know a factor each (what is used in front, what works
behind); a head is three members over the same features. Reads and writes `.npz`; checks all of it before anyone uses
it: format, schema, shapes, types, finite values, trees that end, and a SHA-256 over everything. The hash finds
accidents (it lies in the same file); that a wrong file can do no more than misjudge is for the other checks. It
neither trains nor predicts.
"""

import hashlib
import itertools
import math
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from asa import files
from asa.core.errors import ModelError
from asa.core.evidence import MOST_WEIGHT
from models import features, trees

FORMAT = "asa-ensemble-3"  # 2 had vectors of each head's own, 1 had one head and no open world
MEMBERS = ("xgboost", "forest", "svm")
IDLE = "idle"  # the label when every factor is none
WHOLE = "workload"  # the name of a flat model's only head
MOST_HEADS = 4
MOST_TAUGHT, MOST_LESSONS = 256, 8  # rows of one lesson, and lessons: each is looked at in every tick
_MOST_COMBINATIONS = 10_000  # of the heads' classes: all are made in each tick

Array = NDArray[Any]

_LARGEST_BYTES = 64 << 20  # unpacked; ours has 2 to 20 MB, so a larger one is a mistake or a decompression bomb
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others may ask for memory without bound, and fail otherwise
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


class Score(StrEnum):
    """By what a model tells a use that it has never seen; more is more familiar."""

    PROBABILITY = "probability"  # of the most probable class, before the classes' shares are divided by their sum
    ENERGY = "energy"  # log of the sum of exp(margin) over the boosted trees' classes, the least of the heads
    KINSHIP = "kinship"  # the kernel's value for the nearest support vector, 0..1


SURE = 0.8
"""From this probability of a class on a frame is known, whatever the score says: a wrong scheduler costs five refused
ticks (`Recipe.wrong_cost`), so that a class that is right more often than in four of five is worth taking."""


class OpenWorld(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frame whose score is below `least` is of no class that the model knows, unless it is `SURE` of one."""

    score: Score
    least: float

    def knows(self, score: float, probability: float) -> bool:
        """Whether a frame is known, by its score and the probability of its likeliest class."""
        return score >= self.least or probability >= SURE


class Taught(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person taught with their own minutes (`models.taught`): so many rows of the array TAUGHT."""

    label: str  # one of the classes
    rows: int
    reach: float  # squared distance in the machine's z: what is farther from all of the rows is not it


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a head knows and how its members count."""

    name: str
    classes: tuple[str, ...]  # "" is none of them
    weights: tuple[float, ...]  # in the order of MEMBERS, sum 1
    temperature: float = 1.0  # of the blend: p^(1/T), then divided by their sum


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the arrays mean and where they come from. A flat model has `weights`, one of several heads has `heads`."""

    format: str
    schema: int  # of `models.features`
    features: tuple[str, ...]  # its columns, in the order of its arrays; the frame may have more
    classes: tuple[str, ...]  # whole labels; with several heads: all or some of `labels(heads)`
    weights: tuple[float, ...] = ()
    temperature: float = 1.0
    heads: tuple[Part, ...] = ()
    open_world: OpenWorld | None = None  # None: everything is known
    hint_weight: float | msgspec.UnsetType = msgspec.UNSET  # of the desktop's hints beside it; unset, as before: 0
    taught: tuple[Taught, ...] | msgspec.UnsetType = msgspec.UNSET  # their rows in turn; unset: nothing
    trained: str  # ISO 8601 date and time, UTC
    seed: int
    dataset_sha256: str
    versions: dict[str, str]
    sha256: str = ""  # over the arrays and this header without the field

    @property
    def parts(self) -> tuple[Part, ...]:
        """All heads, at least one: a flat model's only one knows the labels themselves."""
        if self.heads:
            return self.heads
        return (Part(name=WHOLE, classes=self.classes, weights=self.weights, temperature=self.temperature),)


def labels(heads: Sequence[Part]) -> tuple[str, ...]:
    """All combinations of the heads' classes, the last head's changing fastest: `web+blender`, `web`, `idle`."""
    combinations = itertools.product(*(head.classes for head in heads))
    return tuple("+".join(name for name in names if name) or IDLE for names in combinations)


def places(heads: Sequence[Part], classes: Sequence[str]) -> Array:
    """Where each class stands among `labels(heads)`, intp (K,). Raises ValueError for one that is none of them."""
    found = labels(heads)
    where = {name: place for place, name in enumerate(found)}
    if len(where) != len(found):
        raise ValueError("two combinations of its heads' classes have one name")
    if strange := [name for name in classes if name not in where]:
        raise ValueError(f"its class {strange[0]!r} is no combination of its heads'")
    return np.array([where[name] for name in classes], dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """All trees of both kinds of a head in flat arrays; N nodes, T trees, K classes, F features.

    A split goes left where `x[slot] < threshold` (float32). Slots 0..F-1 hold the features with a missing value as
    -inf (goes left), F..2F-1 as +inf (goes right), 2F..3F-1 filled; slot 3F marks a leaf.
    """

    slot: Array  # uint16 (N,)
    threshold: Array  # float32 (N,), 0 at leaves
    child: Array  # int32 (N,): a split's left child, the right one follows it; at a leaf its row in the leaf table
    cover: Array  # float32 (N,): sum of hessians at a node of a boosted tree, 0 in a forest; explains, never predicts
    root: Array  # int32 (T,)
    group: Array  # uint8 (T,): the class a boosted tree adds to, K for a forest tree
    base: Array  # float32 (K,): margin before any boosted tree
    boosted_leaf: Array  # float32 (L,): margins
    forest_leaf: Array  # float32 (M, K): distributions


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The support vector machine, one class against the rest; S support vectors, all classes of all heads share them.

    Also what a linear machine over Nystroem's map comes to: its landmarks are the vectors. What stands in SHARED is
    the same array in all heads.
    """

    mean: Array  # float64 (F,): z = float32((x - mean) / scale)
    scale: Array  # float64 (F,); `runtime_numpy.UNSEEN` and more: the column is left out
    vectors: Array  # float32 (S, F), in z
    coefficients: Array  # float64 (K, S)
    intercept: Array  # float64 (K,)
    gamma: Array  # float64 (1,): kernel exp(-gamma |z - v|^2)
    sigmoid: Array  # float64 (K, 2): probability 1 / (1 + exp(a f + b)), then normalised over the classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The members that know one factor, or the whole label; K classes."""

    trees: Trees
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """A whole model, checked when it came from `load`."""

    header: Header
    fill: Array  # float32 (F,): what stands for a missing value in forest and machine, the training median
    heads: tuple[Head, ...]  # in the order of `header.parts`
    taught: Array | None = None  # float32 (R, F), in the machine's z; None where the header has no `taught`


FILL = "fill"
TAUGHT = "taught"
# name -> (dtype, shape with letters for what the header or the array itself says); of all heads, once
SHARED: dict[str, tuple[str, str]] = {
    FILL: ("float32", "F"),
    "machine.mean": ("float64", "F"),
    "machine.scale": ("float64", "F"),
    "machine.vectors": ("float32", "SF"),
    "machine.gamma": ("float64", "1"),
}
# of each head
LAYOUT: dict[str, tuple[str, str]] = {
    "trees.slot": ("uint16", "N"),
    "trees.threshold": ("float32", "N"),
    "trees.child": ("int32", "N"),
    "trees.cover": ("float32", "N"),
    "trees.root": ("int32", "T"),
    "trees.group": ("uint8", "T"),
    "trees.base": ("float32", "K"),
    "trees.boosted_leaf": ("float32", "L"),
    "trees.forest_leaf": ("float32", "MK"),
    "machine.coefficients": ("float64", "KS"),
    "machine.intercept": ("float64", "K"),
    "machine.sigmoid": ("float64", "K2"),
}


def save(artefact: Artefact, path: Path) -> None:
    """Write all or nothing; the same model gives the same bytes. Raises ModelError when it would not load again."""
    arrays = _arrays(artefact)
    header = msgspec.structs.replace(artefact.header, sha256="")
    header = msgspec.structs.replace(header, sha256=_digest(header, arrays))
    _check(header, arrays, str(path))
    encoded = np.frombuffer(msgspec.json.encode(header), dtype=np.uint8)
    stored: dict[str, Array] = {_HEADER: encoded, **arrays}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.fresh(path, durable=True) as file:
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
    except _Foreign as error:
        raise ModelError(f"{name}: format {error.args[0]!r}, this version reads {FORMAT!r}; train again") from error
    except _DAMAGE as error:
        words = " ".join(str(error).split())[:120]  # msgspec's ValidationError is a ValueError too
        raise _damaged(name, words or type(error).__name__) from error
    if header.schema != features.SCHEMA:
        raise ModelError(
            f"{name}: {len(header.features)} features of schema {header.schema!r}, this version has schema "
            f"{features.SCHEMA}; train again"
        )
    if unknown := sorted(set(header.features) - set(features.NAMES)):
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise ModelError(f"{name}: needs column {unknown[0]!r}{more}, which this version does not have; train again")
    if header.sha256 != _digest(msgspec.structs.replace(header, sha256=""), arrays):
        raise _damaged(name, "its contents do not give the recorded SHA-256")
    _check(header, arrays, name)
    return _assemble(header, arrays)


class _Foreign(Exception):  # noqa: N818  it says what the file is, not what went wrong
    """The format of a file that is an artefact, but not one of ours."""


class _Kind(msgspec.Struct, frozen=True):
    """The one field that every format has: another one's may not fit `Header`."""

    format: str


def _damaged(name: str, why: str) -> ModelError:
    return ModelError(f"{name}: not a sound model artefact: {why}; fetch or train it again")


def _read(path: Path) -> tuple[Header, dict[str, Array]]:
    found = path.stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) or found.st_size > _LARGEST_BYTES:
        raise ValueError(f"it is no file of at most {_LARGEST_BYTES} bytes")  # a pipe or a device may have no end
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":  # np.load would try other formats, pickles among them, on anything else
            raise ValueError("it is not a NumPy archive")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > _LARGEST_BYTES:
                raise ValueError(f"it unpacks to more than {_LARGEST_BYTES} bytes")
            if any(member.compress_type not in _PACKINGS for member in archive.infolist()):
                raise ValueError("it is not packed as NumPy does it")
            present = sorted(archive.namelist())
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            if f"{_HEADER}.npy" not in present:
                raise ValueError("its arrays are not those of a model")
            text = _bytes_of(stored[_HEADER])
            if (kind := msgspec.json.decode(text, type=_Kind)).format != FORMAT:
                raise _Foreign(kind.format)
            header = msgspec.json.decode(text, type=Header)
            names = _names(header)
            if present != sorted(f"{name}.npy" for name in (_HEADER, *names)):
                raise ValueError("its arrays are not those of a model")
            return header, {name: _array(stored[name], name) for name in names}


def _names(header: Header) -> tuple[str, ...]:
    heads = range(min(len(header.parts), MOST_HEADS))
    return (
        *SHARED,
        *(f"{number}.{name}" for number in heads for name in LAYOUT),
        *((TAUGHT,) if header.taught else ()),
    )


def _array(found: object, name: str) -> Array:
    if not isinstance(found, np.ndarray):  # of a member that does not begin as an array NumPy gives the bytes
        raise ValueError(f"{name} is no array")
    return found


def _bytes_of(found: object) -> bytes:
    array = _array(found, _HEADER)
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("its header is not text")
    return array.tobytes()


def _arrays(artefact: Artefact) -> dict[str, Array]:
    found = {FILL: artefact.fill} if artefact.taught is None else {FILL: artefact.fill, TAUGHT: artefact.taught}
    for number, head in enumerate(artefact.heads):
        for name in (*SHARED.keys() - {FILL}, *LAYOUT):
            part, _, field = name.partition(".")
            key, array = name if name in SHARED else f"{number}.{name}", getattr(getattr(head, part), field)
            if key in found and not np.array_equal(found[key], array, equal_nan=True):
                raise ModelError(f"the heads differ in {name}, which they share: train them by one seed")
            found[key] = array
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _assemble(header: Header, arrays: Mapping[str, Array]) -> Artefact:
    def part(prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    heads = [
        Head(trees=Trees(**part(f"{number}.trees.")), machine=Machine(**part("machine."), **part(f"{number}.machine.")))
        for number in range(len(header.parts))
    ]
    return Artefact(header=header, fill=arrays[FILL], heads=tuple(heads), taught=arrays.get(TAUGHT))


def _digest(header: Header, arrays: Mapping[str, Array]) -> str:
    total = hashlib.sha256(msgspec.json.encode(header))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _check(header: Header, arrays: Mapping[str, Array], name: str) -> None:
    try:
        _check_header(header)
        shared = {"F": len(header.features), "1": 1}
        _check_shapes(SHARED, arrays, shared)
        if not len(arrays["machine.vectors"]):
            raise ValueError("machine.vectors is empty")
        if (arrays["machine.scale"] <= 0).any():
            raise ValueError("machine.scale is not positive")
        if (arrays["machine.gamma"] <= 0).any():
            raise ValueError("machine.gamma is not positive")
        if header.taught or TAUGHT in arrays:
            rows = {"R": sum(one.rows for one in header.taught or ())}
            _check_shapes({TAUGHT: ("float32", "RF")}, arrays, {**shared, **rows})
        for number, part in enumerate(header.parts):
            head = {field: arrays[f"{number}.{field}"] for field in LAYOUT}
            sizes = {**shared, "K": len(part.classes), "2": 2}
            _check_shapes(LAYOUT, head, sizes)
            if (head["trees.cover"] < 0).any():
                raise ValueError("trees.cover is negative")
            if (leaf := head["trees.forest_leaf"]).size and (leaf.min() < 0 or not _near_one(leaf.sum(axis=1))):
                raise ValueError("trees.forest_leaf holds no distributions")
            trees.check(head, sizes)
    except ValueError as error:
        raise _damaged(name, str(error)) from error
    except KeyError as error:
        raise _damaged(name, f"it has no {error}") from error


def _check_header(header: Header) -> None:
    if not 0.0 <= (header.hint_weight or 0.0) <= MOST_WEIGHT:
        raise ValueError(f"the hints' weight {header.hint_weight!r} is not 0 to {MOST_WEIGHT:g}")
    _check_names("classes", header.classes)
    if not header.features or len(set(header.features)) != len(header.features):
        raise ValueError(f"its {len(header.features)} features are not different ones")
    if len(header.heads) == 1 or len(header.heads) > MOST_HEADS or (header.heads and header.weights):
        raise ValueError(f"weights of its own or 2 to {MOST_HEADS} heads are needed, not {len(header.heads)}")
    for part in header.parts:
        _check_names(f"classes of {part.name!r}", part.classes)
        weights = part.weights
        if len(weights) != len(MEMBERS) or min(weights) < 0 or not abs(sum(weights) - 1) < 1e-6:
            raise ValueError(f"weights {weights!r} are not {len(MEMBERS)} shares of 1")
        if not 0.01 <= part.temperature <= 100.0:  # also keeps nan out
            raise ValueError(f"temperature {part.temperature!r} is not between 0.01 and 100")
    # how many first: four heads of 200 classes have more combinations than memory
    many = math.prod(len(part.classes) for part in header.heads)
    if many > _MOST_COMBINATIONS:
        raise ValueError(f"its heads have {many} combinations, at most {_MOST_COMBINATIONS} are joined")
    places(header.parts, header.classes)
    _check_taught(header)
    if header.open_world is not None and not np.isfinite(header.open_world.least):
        raise ValueError(f"the open world's least {header.open_world.least!r} is not finite")


def _check_taught(header: Header) -> None:
    if len(header.taught or ()) > MOST_LESSONS:
        raise ValueError(f"it was taught {len(header.taught or ())} lessons, {MOST_LESSONS} are the most")
    for one in header.taught or ():
        if one.label not in header.classes:
            raise ValueError(f"it was taught {one.label!r}, which is none of its classes")
        if not 1 <= one.rows <= MOST_TAUGHT or not 0.0 < one.reach < math.inf:
            raise ValueError(f"what it was taught of {one.label!r} has {one.rows!r} rows and a reach of {one.reach!r}")


def _near_one(sums: Array) -> bool:
    return bool((np.abs(sums - 1.0) < 1e-3).all())  # rounded shares


def _check_names(what: str, names: tuple[str, ...]) -> None:
    if not 2 <= len(names) <= 200 or len(set(names)) != len(names):
        raise ValueError(f"{what} {names!r} are not 2 to 200 different ones")


def _check_shapes(layout: Mapping[str, tuple[str, str]], arrays: Mapping[str, Array], sizes: dict[str, int]) -> None:
    for key, (dtype, letters) in layout.items():
        array = arrays[key]
        if array.dtype != np.dtype(dtype) or array.ndim != len(letters):
            raise ValueError(f"{key} is {array.dtype} of {array.ndim} dimensions, not {dtype} of {len(letters)}")
        for letter, length in zip(letters, array.shape, strict=True):
            if sizes.setdefault(letter, length) != length:
                raise ValueError(f"{key} has shape {array.shape}, expected {sizes[letter]} for {letter}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{key} holds a number that is not finite")
