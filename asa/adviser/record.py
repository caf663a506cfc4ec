# SPDX-License-Identifier: GPL-2.0-only
"""What an adviser has said, how often it was right, and what its word counts by that. Pure but `load` and `save`.

A word is a kind and how sure. It is judged when a sighting of the program has ended in which the model named a class by
itself (`asa.decide.knowledge`): the square of (how sure - whether the class has that kind), 0 to 1, is its Brier score
(Monthly Weather Review 78, 1950). Who always says 0.5 has 0.25, and knows nothing. The weight is 1 - mean / 0.25 and
no less than 0, over the last `MOST_JUDGED`, with `BEGUN` of 0.125 before the first: so it begins with half.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from asa.core.kinds import Kind
from asa.decide import kept_file

NAME = "adviser.json"
"""The file's name in the agent's state folder."""
COIN = 0.25
BEGUN = 6
MOST_JUDGED = 100
MOST_ANSWERS = 500
"""The one of the oldest day is forgotten first."""
PASSED = 0.125
"""Mean score of the examination up to which a server is asked: of thirteen answers, all `high`, one may be wrong."""

_WHAT = "an adviser's record"
_Score = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer. `kind` None: none of the kinds. `day` is that of CLOCK_REALTIME, since 1970."""

    kind: Kind | None
    sure: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
    day: Annotated[int, msgspec.Meta(ge=0)]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. All but `table` is of the server and model that it names."""

    version: Literal[1] = 1
    url: str = ""
    model: str = ""
    way: str = ""  # by which the server answers (`asa.adviser.child`)
    examined: tuple[_Score, ...] = ()
    examined_day: int = 0  # of the first question; 0: none
    server: tuple[_Score, ...] = ()
    table: tuple[_Score, ...] = ()
    answers: dict[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")], Said] = {}
    """By a program's number (`collectors.programs`): no name is kept."""


def score(sure: float, *, right: bool) -> float:
    """Brier's, of one word."""
    return (sure - right) ** 2


def weight(scores: Sequence[float]) -> float:
    """What a word counts, 0..1."""
    mean = (BEGUN * COIN / 2 + sum(scores)) / (BEGUN + len(scores))
    return max(0.0, 1.0 - mean / COIN)


def passed(examined: Sequence[float], questions: int) -> bool | None:
    """Whether a server may be asked; None while questions are left."""
    if len(examined) < questions:
        return None
    return sum(examined) <= PASSED * len(examined)


def judged(scores: tuple[float, ...], new: float) -> tuple[float, ...]:
    """With one more."""
    return (*scores, new)[-MOST_JUDGED:]


def fresh(record: Record, today: int, keep_days: int) -> Record:
    """Without what is too old, or of a clock that was set back, and too much."""
    kept = {key: one for key, one in record.answers.items() if 0 <= today - one.day < keep_days}
    newest = sorted(kept, key=lambda key: kept[key].day, reverse=True)[:MOST_ANSWERS]
    found = msgspec.structs.replace(record, answers={key: kept[key] for key in newest})
    if 0 <= today - record.examined_day < keep_days:
        return found
    return msgspec.structs.replace(found, examined=(), examined_day=0)


def of_server(record: Record, url: str, model: str) -> Record:
    """As it is, or where it is of another server or model, what is left: the table's."""
    same = record.url == url and (not model or record.model in ("", model))
    return record if same else Record(url=url, model=model, table=record.table)


def load(path: Path) -> Record:
    """What `save` wrote; a new one for a missing file. Raises InputError for a damaged one."""
    return kept_file.load(path, Record, _WHAT)


def save(path: Path, record: Record) -> None:
    """Raises AsaError."""
    kept_file.save(path, record, _WHAT)
