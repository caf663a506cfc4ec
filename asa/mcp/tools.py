# SPDX-License-Identifier: GPL-2.0-only
"""The tools, as two tables: what each takes, what it answers, and what it does. `asa.mcp.server` publishes them."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from asa import wire
from asa.core.errors import AsaError
from asa.mcp import answers, asked, reading
from asa.mcp.changes import Changes
from asa.mcp.trying import Who
from asa.mcp.working import Works
from asa.report.markup import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `does` gets its subject, and what was asked, checked; it may take seconds.

    The subject of a tool that looks is the machine. Others have what they act on, and who asks.
    """

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    gives: type[msgspec.Struct]
    does: Callable[..., msgspec.Struct]
    read_only: bool = True

    def answer(self, arguments: Mapping[str, Any], *subject: object) -> dict[str, Any]:
        """What the tool says to these arguments, as JSON values. Raises AsaError."""
        try:
            ask = wire.shaped(dict(arguments), self.takes)
        except msgspec.ValidationError as error:
            raise AsaError(f"{self.name}: {plain(str(error))}") from None
        if not all(map(_in_a_line, _texts(wire.plain(ask)))):  # Python's `$` lets a pattern end before a line feed
            raise AsaError(f"{self.name}: a text has a letter that ends a line or controls a terminal; leave it out")
        return {key: clean(value) for key, value in wire.plain(self.does(*subject, ask)).items()}


def clean(value: Any) -> Any:
    """Without letters in any text that control a terminal or turn the direction of writing."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list | tuple):
        return [clean(one) for one in value]
    if isinstance(value, dict):
        return {plain(str(key)): clean(one) for key, one in value.items()}
    return value


def _texts(value: Any) -> Iterator[str]:
    """All that are in it, but for names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _in_a_line(text: str) -> bool:
    return not any(unicodedata.category(letter) == "Cc" for letter in text)


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
        "mapping table for that class, best first. With id one alone: version, modes, flags, kernel settings that it "
        "may change, figures in all classes, and what was found of it on this machine.",
        takes=asked.Policies,
        gives=answers.Policies,
        does=reading.policies,
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
        description="What happened lately: switches, trials, what the guard took back, or what clients changed.",
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

CHANGING = (
    Tool(
        name="trial",
        title="Trial",
        description="Try a scheduler against the one in force, in four turns, for an intent that is frozen first. "
        "Answers at once with an id for `job`. Ends by itself: only `commit` keeps a scheduler.",
        takes=asked.Trial,
        gives=answers.Trial,
        does=Changes.trial,
        read_only=False,
    ),
    Tool(
        name="commit",
        title="Commit",
        description="Keep, for so many seconds, the scheduler of a trial that has reached its intent. The guard goes "
        "on judging it.",
        takes=asked.Commit,
        gives=answers.Changed,
        does=Changes.commit,
        read_only=False,
    ),
    Tool(
        name="revert",
        title="Revert",
        description="End a trial of this session now, or take back what it committed, or its hint.",
        takes=asked.Revert,
        gives=answers.Changed,
        does=Changes.revert,
        read_only=False,
    ),
    Tool(
        name="hold",
        title="Hold",
        description="Have ASA switch nothing for so many seconds, at most as long as this session lasts.",
        takes=asked.Hold,
        gives=answers.Changed,
        does=Changes.hold,
        read_only=False,
    ),
    Tool(
        name="resume",
        title="Resume",
        description="End the hold of this session. What the user holds, the user alone ends.",
        takes=asked.Resume,
        gives=answers.Changed,
        does=Changes.resume,
        read_only=False,
    ),
    Tool(
        name="hint",
        title="Hint",
        description="Say what the machine is used for now. It counts beside the recognition, within bounds, and "
        "switches nothing by itself. `revert` takes it back.",
        takes=asked.Hint,
        gives=answers.Changed,
        does=Changes.hint,
        read_only=False,
    ),
)
"""Listed with `--allow-changes` alone."""

WORKING = (
    Tool(
        name="compose",
        title="Compose",
        description="Compile a scheduler from a template's parts, as a job. Nothing is installed or loaded.",
        takes=asked.Compose,
        gives=answers.Job,
        does=Works.compose,
        read_only=False,
    ),
    Tool(
        name="verify",
        title="Verify",
        description="Look for faults of a scheduler before it runs, as a job: pass, fail or inconclusive.",
        takes=asked.Verify,
        gives=answers.Job,
        does=Works.verify,
        read_only=False,
    ),
    Tool(
        name="tune",
        title="Tune",
        description="Search a scheduler's flags for a use in virtual machines, as a job of hours. What is best is "
        "confirmed on fresh seeds. Nothing changes on this machine.",
        takes=asked.Tune,
        gives=answers.Job,
        does=Works.tune,
        read_only=False,
    ),
)
"""Listed with `--allow-work` alone, where the laboratory is installed."""


def _job(changes: Changes | None, works: Works | None, who: Who, ask: asked.Job) -> answers.Job:
    if works is not None and works.has(ask.id):
        return works.job(who, ask)
    if changes is None:
        raise AsaError(f"there is no job {ask.id!r}; `compose`, `verify` and `tune` answer with its id")
    if ask.cancel:
        raise AsaError(f"job: {ask.id!r} is no job of the laboratory; `revert` ends a trial")
    trial = changes.job(who, ask)
    return answers.Job(id=trial.id, kind="trial", stage=trial.stage, why=trial.why, trial=trial)


JOB = Tool(
    name="job",
    title="Job",
    description="How far a trial or a job of this session is, and what it came to. cancel ends a job.",
    takes=asked.Job,
    gives=answers.Job,
    does=_job,
    read_only=False,
)
"""Listed with either."""
