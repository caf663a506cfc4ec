# SPDX-License-Identifier: GPL-2.0-only
"""From the rates of one tick to the values of `models.features.table`, in a dozen NumPy calls.

The table is turned into arrays of places once; NaN stands for unknown and passes through all arithmetic.
"""

from operator import itemgetter
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from collectors.rates import Rates
from models.features.column import BUSY, Sum, Whole
from models.features.table import VALUES

Numbers = NDArray[np.float64]

LEAST_BUSY_CORES = 0.01
"""Below a hundredth of a core, events a busy core-second are noise."""

_LARGEST = 1e30  # a quotient beyond this is not finite as float32, and none that a machine gives

_SUMS: tuple[Sum, ...] = tuple(
    dict.fromkeys(one for value in VALUES for one in (value.of, value.per, BUSY) if isinstance(one, Sum))
)
FIELDS: tuple[str, ...] = tuple(dict.fromkeys(field for one in _SUMS for field in one.fields))
"""Of Rates: those that any value is made of."""

_read = itemgetter(*FIELDS)
_pack = Struct(f"{len(FIELDS)}d").pack
_UNKNOWN = float("nan")

# Places in the vector of wholes and sums: the first three are ONE, CORE and BUSY_CORE.
_WHOLES = tuple(Whole)
_FIRST = len(_WHOLES)
_PLACE: dict[Sum | Whole, int] = {
    **{whole: place for place, whole in enumerate(_WHOLES)},
    **{one: place for place, one in enumerate(_SUMS, _FIRST)},
}
_PICK = np.array([FIELDS.index(field) for one in _SUMS for field in one.fields], dtype=np.intp)
_WEIGHT = np.array([weight for one in _SUMS for weight in one.weights or (1.0,) * len(one.fields)])
_START = np.cumsum([0, *(len(one.fields) for one in _SUMS[:-1])], dtype=np.intp)
_LESS = np.array([one.less for one in _SUMS])
_BUSY = _PLACE[BUSY]
_OF = np.array([_PLACE[value.of] for value in VALUES], dtype=np.intp)
_PER = np.array([_PLACE[value.per] for value in VALUES], dtype=np.intp)
_FACTOR = np.array([value.factor for value in VALUES])
_LOGS = sum(not value.log for value in VALUES)  # where they begin: the table has them at its end


def values(rates: Rates, cpus: int) -> Numbers:
    """All values of one tick, float64 (VALUES,), NaN where unknown; `cpus` is how many cores are online, at least 1."""
    # by way of bytes: `np.array` takes twice as long, most of it for the few that are None
    raw = np.frombuffer(_pack(*[_UNKNOWN if value is None else value for value in _read(vars(rates))]))
    parts = np.empty(_FIRST + len(_SUMS))
    sums = parts[_FIRST:]
    np.add.reduceat(raw[_PICK] * _WEIGHT, _START, out=sums)
    sums -= _LESS
    np.maximum(sums, 0.0, out=sums)
    busy_cores = float(parts[_BUSY]) * cpus
    # written so that NaN stays
    parts[:_FIRST] = 1.0, cpus, LEAST_BUSY_CORES if busy_cores < LEAST_BUSY_CORES else busy_cores
    found: Numbers = parts[_OF] * _FACTOR
    # of nothing is 0, not unknown: there was no packet that could have been large
    np.copyto(parts, np.inf, where=parts == 0.0)
    found /= parts[_PER]
    np.minimum(found, _LARGEST, out=found)
    logs = found[_LOGS:]
    np.log1p(logs, out=logs)
    return found
