# SPDX-License-Identifier: GPL-2.0-only
"""What a tuning came to, as its folder's `outcome.json` keeps it: the search, the confirmation, what became of it.

Types, and how they are made of a search's parts; nothing is played here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from asa import files, wire
from asa.act.knobs import arguments
from asa.core.errors import AsaError
from calibration.tuning.racing import Verdict
from calibration.tuning.screening import Effect
from calibration.tuning.tune import Asked, Confirmed, Found, Method, Screened

FILE = "outcome.json"
_MIDDLE = 0.5
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Race(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The confirmation, in per cent: over the scheduler without flags, on seeds that nobody searched with.

    `regression_pct`: by how much the search had it too good. `elsewhere_pct`: use -> gain over the kernel's own.
    """

    machine: _Text
    verdict: Verdict
    seeds: tuple[int, ...]
    gain_pct: float
    interval_pct: tuple[float, float]  # of 95 % over all looks together
    regression_pct: float
    over_eevdf_pct: float
    elsewhere_pct: dict[str, float] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one call. `gains_pct` are the candidates' in their order. Without a winner there is no race."""

    scheduler: _Text
    method: Method
    workload: _Text
    machine: _Text
    seed: int
    rounds: int
    trials: int
    gains_pct: tuple[float | None, ...]
    effects: tuple[Effect, ...] = ()
    arguments: tuple[str, ...] = ()
    upper: dict[str, bool] = {}  # of the winner's numbers: is it in the upper half of its range, on its scale?
    gain_pct: float | None = None
    race: Race | None = None
    policy: str | None = None

    @property
    def best_after(self) -> int:
        """How many candidates it took to find the best one, that one included."""
        told = [gain for gain in self.gains_pct if gain is not None]
        return self.gains_pct.index(max(told)) + 1 if told else len(self.gains_pct)

    @property
    def elsewhere(self) -> bool:
        """Was it confirmed on another machine than that of the search?"""
        return self.race is not None and self.race.machine != self.machine


def of(
    asked: Asked, found: Found | None, *, workload: str, machine: str, rounds: int, screened: Screened | None = None
) -> Outcome:
    """Of a search, or of a screening."""
    gains: tuple[float | None, ...] = screened.gains_pct if screened else found.gains_pct if found else ()
    return Outcome(
        scheduler=str(asked.scheduler),
        method=asked.method,
        workload=workload,
        machine=machine,
        seed=asked.seed,
        rounds=rounds,
        trials=found.trials if found else len(gains),
        gains_pct=gains,
        effects=screened.effects if screened else (),
        arguments=arguments(found.flags) if found else (),
        upper={
            name: asked.knobs.numbers[name].share(value) >= _MIDDLE
            for name, value in (found.flags.items() if found else ())
            if name in asked.knobs.numbers and isinstance(value, int | float)
        },
        gain_pct=found.gain_pct if found else None,
    )


def raced(before: Outcome, confirmed: Confirmed, machine: str, elsewhere: Mapping[str, float]) -> Outcome:
    """With its confirmation."""
    made = Race(
        machine=machine,
        verdict=confirmed.race.verdict,
        seeds=confirmed.seeds,
        gain_pct=confirmed.race.mean,
        interval_pct=(confirmed.race.low, confirmed.race.high),
        regression_pct=confirmed.regression_pct,
        over_eevdf_pct=confirmed.over_eevdf_pct,
        elsewhere_pct=dict(elsewhere),
    )
    return msgspec.structs.replace(before, race=made)


def write(outcome: Outcome, path: Path) -> None:
    """Whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, msgspec.json.format(wire.json_bytes(outcome), indent=1) + b"\n")


def read(path: Path) -> Outcome:
    """What `write` wrote. Raises AsaError."""
    try:
        return wire.from_json(path.read_bytes(), Outcome)
    except (OSError, msgspec.MsgspecError) as error:
        raise AsaError(f"{path}: no outcome of a tuning that can be read: {error}; run `asa lab tune` again") from error


def all_of(folder: Path) -> list[Outcome]:
    """Those of a folder, by name. Raises AsaError for a file that holds something else."""
    return [read(path) for path in sorted(folder.glob("*.json"))]
