# SPDX-License-Identifier: GPL-2.0-only
"""The folder of a run: plan.json, and trials/ID.json for each trial that was played. What makes a run resumable.

Files appear whole or not at all. One run works in a folder at a time.
"""

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from asa import files, wire
from asa.core.errors import AsaError
from scenarios.application import Tier
from scenarios.runner_plan import Asked, Outcome, Plan, Result, Trial

_PLAN, _TRIALS, _LOCK = "plan.json", "trials", "lock"


class Folder:
    """A run's folder, locked. A context."""

    def __init__(self, path: Path, asked: Asked, make: Callable[[str], Plan]) -> None:
        """Begin a run by `make(name)`, or go on with the one that is there, also with what `grown` adds to it.

        Raises AsaError when it holds another plan, another run works there, or it cannot be written.
        """
        self.path = path
        try:
            (path / _TRIALS).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise AsaError(f"{path}: {error.strerror}; name another folder by --out") from error
        try:
            self._take_lock()
            self._grown = False
            self.plan = self._begin(asked, make)
        except BaseException:
            os.close(self._lock)
            raise

    def results(self) -> dict[str, Result]:
        """By the trial's id. A file that cannot be read is as good as none: its trial is played again."""
        found = {}
        for trial in self.plan.trials:
            result = read_result(self._file(trial))
            if result is not None and result.trial == trial:
                found[trial.id] = result
        return found

    def left(self) -> list[Trial]:
        """What has yet to be played, failed ones again, in the plan's order."""
        known = self.results()
        return [
            trial
            for trial in self.plan.trials
            if (result := known.get(trial.id)) is None or result.outcome is Outcome.FAILED
        ]

    def keep(self, result: Result) -> None:
        """Of one that failed before, the attempts are added up: a failure is not forgotten when it is played again.

        Raises AsaError when the disk is full, and for one that a guest played under another clock than the plan's.
        """
        under, asked = result.under, self.plan.asked
        if asked.tier is Tier.LAB and under not in (None, asked.under):
            raise AsaError(
                f"{result.trial.id}: was played under {under.words}, and its plan is of {asked.under.words}; "
                "bring both hosts to one version"
            )
        if self._grown:
            write(self.path / _PLAN, self.plan)
            self._grown = False
        before = read_result(self._file(result.trial))
        if before is not None and before.trial == result.trial and before.outcome is Outcome.FAILED:
            result = msgspec.structs.replace(result, attempts=before.attempts + result.attempts)
        write(self._file(result.trial), result)

    def close(self) -> None:
        """Let another run in."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self, trial: Trial) -> Path:
        return self.path / _TRIALS / f"{trial.id}.json"

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AsaError(f"{self.path}: another run works there; name another folder by --out") from error

    def _begin(self, asked: Asked, make: Callable[[str], Plan]) -> Plan:
        path = self.path / _PLAN
        try:
            plan = wire.from_json(path.read_bytes(), Plan)
        except FileNotFoundError:
            plan = make(secrets.token_hex(4))
            write(path, plan)
            return plan
        except (OSError, msgspec.DecodeError) as error:
            raise AsaError(f"{path}: is no plan of a run: {error}; name another folder by --out") from error
        wanted = make(plan.run)
        more = grown(plan, wanted)
        if more is None:
            differing = _differing(plan.asked, asked)
            has = f" of {', '.join(differing)}" if differing else ""
            raise AsaError(f"{self.path}: holds another plan{has}; name another folder by --out")
        self._grown = more != plan  # the file grows with the first result: nothing has changed of what is refused later
        return more


def grown(plan: Plan, wanted: Plan) -> Plan | None:
    """The plan, and behind it what `wanted` has more: repeats, and in the lab schedulers and scenarios. On a machine
    these would be compared with what it did at another time. None when the plan is no part of `wanted`.
    """
    kept, whole = ({msgspec.structs.replace(trial, order=0) for trial in one.trials} for one in (plan, wanted))
    if _differing(plan.asked, wanted.asked) or not kept <= whole:
        return None
    added = [trial for trial in wanted.trials if msgspec.structs.replace(trial, order=0) not in kept]
    if not added:
        return plan
    numbered = (msgspec.structs.replace(trial, order=order) for order, trial in enumerate(added, len(kept) + 1))
    return msgspec.structs.replace(plan, asked=wanted.asked, trials=(*plan.trials, *numbered))


def _differing(kept: Asked, asked: Asked) -> list[str]:
    """What of a kept plan another one has not, even with more than that."""
    found = []
    for name in Asked.__struct_fields__:
        old, new = getattr(kept, name), getattr(asked, name)
        if name == "repeats":
            same = old <= new
        elif isinstance(old, tuple) and kept.tier is Tier.LAB:
            same = set(old) <= set(new)
        else:
            same = old == new
        if not same:
            found.append(f"{name} {old!r}")
    return found


def played(path: Path) -> set[str]:
    """Ids of the trials whose results lie in a run's folder; none where it is no such folder."""
    return {file.stem for file in (path / _TRIALS).glob("*.json")}


def read_result(path: Path) -> Result | None:
    """None when it is not there, or is no result."""
    try:
        return wire.from_json(path.read_bytes(), Result)
    except (OSError, msgspec.DecodeError):
        return None


def write(path: Path, value: Any) -> None:
    """As JSON, whole or not at all. Raises AsaError."""
    try:
        files.replace(path, wire.json_bytes(value) + b"\n", durable=True)
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror}; the same command goes on from here") from error
