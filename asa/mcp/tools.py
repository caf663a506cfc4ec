# SPDX-License-Identifier: GPL-2.0-only
"""The tools, as one table: what each takes, what it answers, and what it does. `asa.mcp.server` publishes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from asa import wire
from asa.core.errors import AsaError
from asa.mcp import answers, asked, reading
from asa.mcp.machine import Machine
from asa.report.markup import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, which looks and changes nothing. `does` gets what was asked, checked; it may take seconds."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    gives: type[msgspec.Struct]
    does: Callable[[Machine, Any], msgspec.Struct]

    def answer(self, machine: Machine, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the tool says of a machine to these arguments, as JSON values. Raises AsaError."""
        try:
            ask = wire.shaped(dict(arguments), self.takes)
        except msgspec.ValidationError as error:
            raise AsaError(f"{self.name}: {plain(str(error))}") from None
        return {key: clean(value) for key, value in wire.plain(self.does(machine, ask)).items()}


def clean(value: Any) -> Any:
    """Without letters in any text that control a terminal or turn the direction of writing."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list | tuple):
        return [clean(one) for one in value]
    if isinstance(value, dict):
        return {plain(str(key)): clean(one) for key, one in value.items()}
    return value


TOOLS = (
    Tool(
        name="status",
        title="Status",
        description="What the machine is used for, which CPU scheduler serves it and why, and whether the agent "
        "switches, observes or is on hold. Start here.",
        takes=asked.Nothing,
        gives=answers.Status,
        does=reading.status,
    ),
    Tool(
        name="workload",
        title="Workload",
        description="The recognised class of use with probabilities and the waits of the last tick. "
        "detail=features: what carried the recognition. detail=processes: who used the CPUs, by name.",
        takes=asked.Workload,
        gives=answers.Workload,
        does=reading.workload,
    ),
    Tool(
        name="explain",
        title="Explain",
        description="Why this scheduler serves now: the ranking of the class, who is out and why, what the guard "
        "has measured, and the last switches with their reasons.",
        takes=asked.Explain,
        gives=answers.Explain,
        does=reading.explain,
    ),
    Tool(
        name="policies",
        title="Policies",
        description="The schedulers that there are, each with its purpose, and with for_class the figures of the "
        "mapping table for that class, best first. ids are for the other tools.",
        takes=asked.Policies,
        gives=answers.Policies,
        does=reading.policies,
    ),
    Tool(
        name="policy",
        title="Policy",
        description="One scheduler: version, modes, flags, kernel settings that it may change, its figures in all "
        "classes, and what trials and calibration found of it on this machine.",
        takes=asked.Policy,
        gives=answers.Policy,
        does=reading.policy,
    ),
    Tool(
        name="compare",
        title="Compare",
        description="Two schedulers in one class of use: better, worse, same, or unknown, with the difference and "
        "its interval. Only what was measured on this machine counts.",
        takes=asked.Compare,
        gives=answers.Compare,
        does=reading.compare,
    ),
    Tool(
        name="history",
        title="History",
        description="What happened lately: switches, trials, or switches that the guard took back.",
        takes=asked.History,
        gives=answers.History,
        does=reading.history,
    ),
    Tool(
        name="replay",
        title="Replay",
        description="A recorded session decided once more, by its own settings or by others: which decisions and "
        "switches would differ. Nothing is changed. Takes seconds for thousands of ticks.",
        takes=asked.Replay,
        gives=answers.Replayed,
        does=reading.replayed,
    ),
)
