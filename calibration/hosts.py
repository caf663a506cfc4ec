# SPDX-License-Identifier: GPL-2.0-only
"""Who plays pieces of work at once, by joblib: threads here, each with a guest, or the workers of a Dask cluster.

What a piece is, and what becomes of it, is the caller's.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from asa.core.errors import AsaError

_Piece = TypeVar("_Piece")
_Played = TypeVar("_Played")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Who plays: so many guests at once here, or the cluster whose scheduler has this address."""

    jobs: int = 1
    cluster: str = ""


class Together(Protocol):
    """Calls a function with each piece, and yields what comes back, as it comes. For a cluster both are pickled."""

    def __call__(self, play: Callable[[_Piece], _Played], pieces: Sequence[_Piece], /) -> Iterator[_Played]:
        """What the function raises, it raises."""
        ...


@contextmanager
def in_parallel(where: Where) -> Iterator[Together]:
    """Raises AsaError where the cluster is not there, or goes away meanwhile."""
    joblib = importlib.import_module("joblib")
    with ExitStack() as stack:
        if where.cluster:
            client = stack.enter_context(_connected(where.cluster))
            stack.enter_context(joblib.parallel_config(backend="dask", client=client, n_jobs=-1))
        else:
            stack.enter_context(joblib.parallel_config(backend="threading", n_jobs=where.jobs))

        def together(play: Callable[[_Piece], _Played], pieces: Sequence[_Piece], /) -> Iterator[_Played]:
            # all at once, and one at a time: workers that join later find work, and none hoards it
            parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
            found: Iterator[_Played] = parallel(joblib.delayed(play)(piece) for piece in pieces)
            return found

        yield together


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """A client of the cluster. What goes wrong with the cluster inside is an AsaError."""
    distributed = importlib.import_module("distributed")
    lost = (distributed.KilledWorker, CancelledError, ImportError, OSError, ValueError)  # OSError: also a time-out
    try:
        with distributed.Client(address, set_as_default=False) as client:
            yield client
    except lost as error:
        words = next(iter(str(error).splitlines()), type(error).__name__)
        raise AsaError(
            f"--cluster {address}: {words}; it needs `dask scheduler`, and `dask worker` with asa"
        ) from error
