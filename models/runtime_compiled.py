# SPDX-License-Identifier: GPL-2.0-only
"""The members of all heads by a small compiled evaluator (`models/members.c`), where it was built.

Reads the arrays of a checked artefact, hands their addresses to the library, and gives what `models.runtime_numpy`
gives; the model stays data. `python -m models.runtime_compiled` builds the library with the system's C compiler. A
library that is missing, of another machine or made of another source, is no error here: `load` gives None.
"""

import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asa import files
from asa.core.errors import ModelError
from models.artefact import MEMBERS, Array, Artefact, Head
from models.runtime_numpy import seen

SOURCE = Path(__file__).with_name("members.c")
LIBRARY = Path(__file__).with_name("members.so")
PACKAGES = ("gcc", "libc6-dev")
"""Debian packages that building needs."""

# The default target: what is built on one machine has to run on another. -ffp-contract: sums as NumPy does them.
_LIBRARIES = ("-lm", "-Wl,--no-as-needed", "-lc")  # Debian wants a library linked against libc, used or not
_FLAGS = ("-O3", "-ffp-contract=off", "-fPIC", "-shared", "-s", "-Wall", "-Wextra")

_NODE = [("threshold", "f4"), ("slot", "u4"), ("child", "i4")]  # struct node
_POINTERS = (
    "nodes",
    "root",
    "group",
    "base",
    "boosted_leaf",
    "forest_leaf",
    "columns",
    "mean",
    "scale",
    "vectors",
    "squares",
    "coefficients",
    "intercept",
    "sigmoid",
    "z",
    "kernel",
)


class _CHead(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("gamma", ctypes.c_double),
        *((name, ctypes.c_int32) for name in ("trees", "classes", "features", "seen", "vectors_count")),
        ("leaf", ctypes.c_uint32),
    )


def build(library: Path = LIBRARY) -> None:
    """Compile the evaluator. Raises ModelError with the compiler's first line."""
    compiler = os.environ.get("CC", "cc")
    fresh = library.with_suffix(".so.new")
    command = [compiler, *_FLAGS, f'-DASA_MADE_OF="{_made_of()}"', "-o", str(fresh), str(SOURCE), *_LIBRARIES]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except OSError as error:
        raise ModelError(f"{compiler}: {error.strerror}; install gcc, or name another compiler by CC") from error
    except subprocess.CalledProcessError as error:
        words = error.stderr.strip().partition("\n")[0] or f"exit code {error.returncode}"
        raise ModelError(f"{SOURCE}: {words}; the compiler was {compiler}") from error
    fresh.chmod(0o644)  # loaded, never run
    files.move(fresh, library)


def load(library: Path = LIBRARY) -> Any:
    """The library's function, None where there is no library that this machine can load, or one of another source."""
    try:
        found = ctypes.CDLL(str(library))
        function = found.asa_members
        made_of = (ctypes.c_char * 65).in_dll(found, "asa_members_made_of").value
        if made_of != _made_of().encode():
            return None
    except (OSError, AttributeError, ValueError):  # not built; of another machine; not this library
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_int32, *(ctypes.c_void_p,) * 3)
    function.restype = None
    return function


def _made_of() -> str:
    # not the flags: they change how fast it is
    layout = repr((_NODE, [(one[0], one[1].__name__) for one in _CHead._fields_]))
    return hashlib.sha256(SOURCE.read_bytes() + layout.encode()).hexdigest()


class CompiledMembers:
    """An `Engine` of `models.runtime`. Not for several threads at once: it works in its own buffers."""

    name = "compiled"

    def __init__(self, function: Any, model: Artefact, inputs: Array) -> None:
        """`inputs` by slot, float32 (3F + 1,): read anew by every call, so it must stay where it is."""
        self._function = function
        self._inputs = inputs
        shared = _shared(model.heads[0])
        self._heads = [shared | _arrays(head) for head in model.heads]  # kept: the structures hold addresses only
        structures = [_structure(arrays, head) for arrays, head in zip(self._heads, model.heads, strict=True)]
        self._structures = (_CHead * len(structures))(*structures)
        self._members = np.zeros((len(MEMBERS), sum(len(head.trees.base) for head in model.heads)))
        self._scores = np.zeros(2)
        outputs = (inputs.ctypes.data, self._members.ctypes.data, self._scores.ctypes.data)
        self._arguments = (ctypes.addressof(self._structures), len(structures), *outputs)

    def members(self) -> Array:
        """Distributions by boosted trees, forest and machine, float64 (3, K), the heads' classes side by side.

        Overwritten by the next call.
        """
        self._function(*self._arguments)
        return self._members

    def energy(self) -> float:
        """Least of the heads, for the last frame."""
        return float(self._scores[0])

    def kinship(self) -> float:
        """For the last frame."""
        return float(self._scores[1])


def _shared(head: Head) -> dict[str, Array]:
    machine = head.machine
    columns = seen(machine)
    vectors = machine.vectors[:, columns]
    return _contiguous(
        {
            "columns": columns,
            "mean": machine.mean[columns],
            "scale": machine.scale[columns],
            "vectors": vectors,
            "squares": np.einsum("sf,sf->s", vectors, vectors, dtype=np.float64),
            "z": np.zeros(len(columns), dtype=np.float32),
            "kernel": np.zeros(len(vectors)),
        }
    )


def _arrays(head: Head) -> dict[str, Array]:
    trees, machine = head.trees, head.machine
    nodes = np.zeros(len(trees.slot), dtype=_NODE)
    nodes["threshold"], nodes["slot"], nodes["child"] = trees.threshold, trees.slot, trees.child
    return _contiguous(
        {
            "nodes": nodes,
            "root": trees.root,
            "group": trees.group,
            "base": trees.base.astype(np.float64),
            "boosted_leaf": trees.boosted_leaf.astype(np.float64),
            "forest_leaf": trees.forest_leaf,
            "coefficients": machine.coefficients,
            "intercept": machine.intercept,
            "sigmoid": machine.sigmoid,
        }
    )


def _contiguous(found: Mapping[str, Array]) -> dict[str, Array]:
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _structure(arrays: Mapping[str, Array], head: Head) -> _CHead:
    return _CHead(
        **{name: array.ctypes.data for name, array in arrays.items()},
        gamma=float(head.machine.gamma[0]),
        trees=len(head.trees.root),
        classes=len(head.trees.base),
        features=len(head.machine.mean),
        seen=len(arrays["columns"]),
        vectors_count=len(head.machine.vectors),
        leaf=3 * len(head.machine.mean),
    )


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else LIBRARY)
