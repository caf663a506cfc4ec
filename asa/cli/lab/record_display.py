# SPDX-License-Identifier: GPL-2.0-only
"""How `asa lab record` shows a campaign as it goes: a bar on a terminal, else a line or a JSON object a session."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from asa.core.decision import Workload
    from scenarios.recorder import Outcome

_SPEED_S = 3600.0  # sessions take a minute: the time left comes from the last hour's


class Display(Protocol):
    """Shows a campaign as it goes; entered before the first session and left after the last."""

    def start(self, label: "Workload", seed: int, number: int, total: int) -> None:
        """A session begins: the `number`th of `total`."""

    def outcome(self, outcome: "Outcome") -> None:
        """It has ended."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def display() -> Display:
    """What fits standard output."""
    if sys.stdout.isatty():
        try:
            return Bar()
        except ImportError:  # rich is in the `lab` extra
            pass
    return Lines(as_json=False)


def words(outcome: "Outcome") -> str:
    """One line."""
    from scenarios.recorder import Result

    detail = {Result.KEPT: f" ({outcome.samples} samples)", Result.DROPPED: f": {outcome.reason}", Result.SKIPPED: ""}
    again = f" after {outcome.attempts} attempts" if outcome.attempts > 1 else ""
    return f"{outcome.workload} seed {outcome.seed} {outcome.result}{again}{detail[outcome.result]}"


class Lines:
    """One line for each session, or one JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._prefix = ""

    def start(self, label: "Workload", seed: int, number: int, total: int) -> None:  # noqa: ARG002  # shown with the outcome
        """Shown with the outcome."""
        self._prefix = f"{number}/{total} "

    def outcome(self, outcome: "Outcome") -> None:
        """A line."""
        if self._as_json:
            from asa import wire

            print(wire.json_text(outcome), flush=True)
        else:
            print(self._prefix + words(outcome), flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class Bar:
    """A progress bar over the sessions, outcomes scroll by above it."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description:32}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, speed_estimate_period=_SPEED_S)
        self._task = self._progress.add_task("")

    def start(self, label: "Workload", seed: int, number: int, total: int) -> None:
        """Names what is recorded."""
        self._progress.update(
            self._task, description=f"recording {label} seed {seed}", completed=number - 1, total=total
        )

    def outcome(self, outcome: "Outcome") -> None:
        """A line above the bar."""
        self._progress.console.print(words(outcome), markup=False, highlight=False)
        self._progress.advance(self._task)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
