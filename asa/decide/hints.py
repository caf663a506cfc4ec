# SPDX-License-Identifier: GPL-2.0-only
"""Which kinds of use the desktop's knowledge speaks for: a table from categories and signals to kinds, as data.

The package ships `mapping_tables/hints.yaml`. `hints.yaml` beside the settings changes it: a category or signal that
stands there has what stands there, and an empty mapping (`{}`) takes it out. Categories are those of desktop entries
(Desktop Menu Specification, "Registered Categories"), packages are told by their sections and synopses (Debian
Policy 2.4, 3.4.1) and facets (Debtags), so that no program is named. Reads YAML, decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from asa import paths, yamlfile
from asa.core.evidence import MOST_WEIGHT
from asa.core.kinds import Kind

NAME = "hints.yaml"
"""Of the shipped table, beside the mapping tables, and of the user's, beside the settings."""

Row = Mapping[Kind, float]
"""How much something speaks for kinds, 0..1."""


class Signal(StrEnum):
    """What services and sound cards know."""

    GAME_MODE = "game-mode"  # GameMode has clients
    PLAYING = "playing"  # a media player plays
    INHIBITED = "idle-inhibited"  # somebody keeps the session from being idle
    SOUND = "sound"  # a sound card plays
    RECORDING = "recording"  # a sound card records
    SOON = "sound-soon"  # a stream asks for a latency as an instrument needs it
    POWER_HELD = "power-held"  # a program, such as a game, holds the power profile


_Weights = dict[Kind, Annotated[float, Meta(ge=0.0, le=1.0)]]


class HintsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. `weight` comes before that of the model; without it, the model's is in force."""

    version: Literal[1] = 1
    weight: Annotated[float, Meta(ge=0.0, le=MOST_WEIGHT)] | None = None
    categories: dict[str, _Weights] = {}
    packages: dict[str, _Weights] = {}
    signals: dict[Signal, _Weights] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """The table in force, and how much it counts against the model; 0: nothing."""

    categories: Mapping[str, Row] = field(default_factory=dict)
    packages: Mapping[str, Row] = field(default_factory=dict)
    signals: Mapping[Signal, Row] = field(default_factory=dict)
    weight: float = 0.0


def load(settings: Path, model_weight: float, shipped: Path | None = None) -> Hints:
    """The shipped table with the changes of the one beside the file `settings`. Raises InputError."""
    base = yamlfile.load(shipped or paths.mapping_tables() / NAME, HintsFile)
    mine = settings.with_name(NAME)
    own = yamlfile.load(mine, HintsFile) if paths.there(mine) else HintsFile()
    weight = own.weight if own.weight is not None else base.weight
    return Hints(
        categories={name: row for name, row in (base.categories | own.categories).items() if row},
        packages={name: row for name, row in (base.packages | own.packages).items() if row},
        signals={name: row for name, row in (base.signals | own.signals).items() if row},
        weight=model_weight if weight is None else weight,
    )
