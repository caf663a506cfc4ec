# SPDX-License-Identifier: GPL-2.0-only
"""What the decision keeps from tick to tick. Data alone."""

from dataclasses import dataclass, field

from asa.decide.knowledge import Knowledge
from asa.decide.learning import Lessons
from asa.decide.penalties import Bars
from asa.decide.policy_state import PolicyState
from asa.decide.told import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """`bars`, `lessons.kept` and `knowledge.known` outlive the agent; they are other objects only when they changed."""

    policy: PolicyState = field(default_factory=PolicyState)
    bars: Bars = field(default_factory=Bars)
    lessons: Lessons = field(default_factory=Lessons)
    knowledge: Knowledge = field(default_factory=Knowledge)
    told: Told | None = None  # a client's word for the present use
