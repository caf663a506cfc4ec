# SPDX-License-Identifier: GPL-2.0-only
"""What speaks for a kind of use beside the model: the desktop's own knowledge, as weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from asa.core.kinds import Kind

MOST_WEIGHT = 4.0
"""Of evidence against a model: the odds of two labels change by exp(4) at most, for each half of a label."""

SURE: Mapping[str, float] = {"low": 0.5, "medium": 0.7, "high": 0.9}
"""What these words of an adviser or a client count as evidence: a choice. No word is a certainty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Of one tick. Kinds that are not named have no weight; nothing named says nothing for and nothing against."""

    interactive: Mapping[Kind, float] = field(default_factory=dict)  # 0..1: what a person looks at
    background: Mapping[Kind, float] = field(default_factory=dict)  # 0..1: what works behind
    because: tuple[str, ...] = ()  # what was seen, for people
