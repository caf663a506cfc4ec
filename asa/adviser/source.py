# SPDX-License-Identifier: GPL-2.0-only
"""The adviser as the agent's source: says in each tick what is told of the programs at work, and asks off the path.

A tick looks words up, and no more. Every `LOOK_NS` the busiest program that nobody knows may be asked for, where the
use fits no class or the program was never seen (`asa.adviser.asking`). A server is examined first, with programs of the
table; one that does not know them is not asked. Answers are kept for days, by numbers that tell no names. What a word
counts is the weight of who said it (`asa.adviser.record`).
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from asa.adviser import child, record
from asa.adviser.asking import Answer, Asker, Question
from asa.adviser.record import Record, Said
from asa.adviser.settings import Settings, Table, Use, askable
from asa.core.errors import AsaError
from asa.core.evidence import SURE
from asa.core.kinds import Kind, halves
from asa.core.sample import Advice, ProgramsAtWork, ProgramUse
from asa.decide.evidence import LEAST_CORES
from asa.decide.knowledge import Knowledge, Known

LOOK_NS = 5_000_000_000
"""Between two looks at who works. A program is asked for that was the busiest in two that follow each other."""

_KEEP_NS = 600 * 10**9
_MOST_WORDS = 512
_DAY_NS = 86_400 * 10**9


class Word(NamedTuple):
    """What is told of a program, and by whom. `kind` None: nothing."""

    kind: Kind | None
    sure: float = 0.0
    by_server: bool = False
    is_open: bool = False  # nobody has told anything yet


_NOBODY = Word(kind=None, is_open=True)


class Adviser:
    """Fills `advice`. `names` has the file's name of each program at work, by number, when `read` is called.

    `clock` gives CLOCK_MONOTONIC and CLOCK_REALTIME in ns. `say` gets a line where something has changed.
    """

    name = "adviser"

    def __init__(
        self,
        settings: Settings,
        table: Table,
        names: Mapping[int, str],
        kept: Path,
        say: Callable[[str], None],
        *,
        asker: Asker | None = None,
        clock: Callable[[], tuple[int, int]] = lambda: (time.monotonic_ns(), time.time_ns()),
    ) -> None:
        self.lacking: dict[str, str] = {}
        self.record, self._saved, self._saved_ns = Record(), Record(), 0
        self._settings, self._table, self._names, self._kept, self._say = settings, table, names, kept, say
        self._asker, self._clock = asker or Asker(settings.per_hour), clock
        self._serves = settings.use is Use.SERVER
        self._weights = (0.0, 0.0)  # the table's, the server's
        self._words: dict[int, Word] = {}
        self._there: tuple[ProgramUse, ...] = ()
        self._known: Mapping[int, Known] | None = None  # before the first tick
        self._unknown = False
        self._asked: Callable[[Answer], None] = lambda _: None  # what becomes of the answer to come
        self._busiest, self._look_ns = 0, 0
        self._told = ""

    def open(self) -> None:
        """Read the record; a damaged one is begun anew, which is said. Never raises."""
        try:
            found = record.load(self._kept)
        except AsaError as error:
            self._say(f"{error}; the adviser begins anew")
            found = Record()
        self._saved_ns, wall_ns = self._clock()
        found = record.fresh(found, wall_ns // _DAY_NS, self._settings.keep_days)
        self._saved = found
        self._take(record.of_server(found, self._settings.url, self._settings.model))

    def follow(self, fields: Mapping[str, object]) -> None:
        """Take what was read before in this tick. Never raises."""
        there = fields.get("programs")
        self._there = there.programs if isinstance(there, ProgramsAtWork) else ()

    def read(self) -> dict[str, object]:
        """What is told of the programs at work. Never raises."""
        said = []
        for number, _ in self._there:
            word = self._words.get(number) or self._word(number)
            weight = self._weights[word.by_server]
            if word.kind is not None and weight:
                said.append(Advice(number, word.kind, round(word.sure * weight, 3)))
        if self._serves:
            self._turn()
        return {"advice": tuple(said)} if said else {}

    def heard(self, knowledge: Knowledge, *, unknown: bool) -> None:
        """What the tick came to: what programs did, and whether the use fits no class. By it words are judged."""
        self._unknown = unknown
        if knowledge.known is not self._known:
            before, self._known = self._known, knowledge.known
            if before is not None:
                self._judge(before)

    def close(self) -> None:
        """Give up what is under way, and keep the record. Never raises."""
        self._asker.end()
        self._save(self._clock()[0])

    def _word(self, number: int) -> Word:
        name = self._names.get(number)
        if name is None:
            return _NOBODY
        in_table, kind = self._table.find(name)
        answer = self.record.answers.get(f"{number:016x}")
        word = _NOBODY
        if in_table:
            word = Word(kind=kind, sure=SURE["high"])
        elif answer is not None:
            word = Word(kind=answer.kind, sure=answer.sure, by_server=True)
        if len(self._words) >= _MOST_WORDS:
            self._words.clear()
        self._words[number] = word
        return word

    def _judge(self, before: Mapping[int, Known]) -> None:
        # the words on programs of which a sighting has ended since
        assert self._known is not None  # noqa: S101  # `heard` has it
        for number, word in self._words.items():
            now = self._known.get(number)
            if word.kind is None or now is None or now is before.get(number):
                continue
            score = record.score(word.sure, right=word.kind in halves(now.past[-1]))
            if word.by_server:
                self._take(replace(self.record, server=record.judged(self.record.server, score)))
            else:
                self._take(replace(self.record, table=record.judged(self.record.table, score)))

    def _take(self, new: Record) -> None:
        self.record = new
        self._weights = record.weight(new.table), record.weight(new.server)

    def _turn(self) -> None:
        now_ns, wall_ns = self._clock()
        if self._asker.busy:
            answer = self._asker.heard(now_ns)
            if answer is not None:
                self._answered(answer, wall_ns // _DAY_NS)
        elif now_ns >= self._look_ns:
            self._look_ns = now_ns + LOOK_NS
            self._look(now_ns)
        if now_ns - self._saved_ns >= _KEEP_NS:
            self._save(now_ns)

    def _look(self, now_ns: int) -> None:
        busiest, self._busiest = self._busiest, self._wanted()
        if self._busiest and self._busiest == busiest and self._asker.may(now_ns):
            self._ask(self._busiest, now_ns)

    def _wanted(self) -> int:
        # the busiest program that may be asked for; 0: none
        found = [
            (cores, number)
            for number, cores in self._there
            if cores >= LEAST_CORES
            and self._words.get(number, _NOBODY).is_open
            and askable(self._names.get(number, ""))
            and (self._unknown or number not in (self._known or {}))
        ]
        return max(found, default=(0.0, 0))[1]

    def _ask(self, number: int, now_ns: int) -> None:
        passed = record.passed(self.record.examined, len(self._table.first))
        if passed is False or not record.weight(self.record.server):
            return
        if passed is None:
            name, right = self._table.first[len(self.record.examined)]
            self._asked = partial(self._examined, right)
        else:
            name, self._asked = self._names[number], partial(self._learnt, number)
        question = Question(
            url=self._settings.url,
            model=self._settings.model,
            way=self.record.way,
            remote=self._settings.remote,
            program=name,
        )
        if fault := self._asker.begin(question, now_ns):
            self._news(fault)

    def _answered(self, answer: Answer, today: int) -> None:
        self._news(answer.error)
        if answer.model and answer.model != self.record.model:  # another one begins anew, with the examination
            fresh = Record(url=self._settings.url, model=answer.model, table=self.record.table)
            if self.record.model:
                self._words = {number: word for number, word in self._words.items() if not word.by_server}
                self._asked = lambda _: None
            self._take(fresh)
        if answer.error or answer.sure not in SURE:
            return
        self._take(replace(self.record, way=answer.way, examined_day=self.record.examined_day or today))
        self._asked(answer)

    def _examined(self, right: Kind, answer: Answer) -> None:
        score = record.score(SURE[answer.sure], right=answer.kind == right)
        self._take(replace(self.record, examined=(*self.record.examined, score)))
        if record.passed(self.record.examined, len(self._table.first)) is False:
            self._say(
                f"adviser.yaml: {self.record.model} does not know well-known programs, and is not asked for "
                f"{self._settings.keep_days} days"
            )

    def _learnt(self, number: int, answer: Answer) -> None:
        kind = None if answer.kind == child.NONE else Kind(answer.kind)
        said = Said(kind=kind, sure=SURE[answer.sure], day=self._clock()[1] // _DAY_NS)
        self._take(replace(self.record, answers={**self.record.answers, f"{number:016x}": said}))
        self._words.pop(number, None)

    def _news(self, fault: str) -> None:
        if fault and fault != self._told:
            self._say(f"adviser.yaml: {self._settings.url}: {fault}; it is asked again later")
        self._told = fault

    def _save(self, now_ns: int) -> None:
        self._saved_ns = now_ns
        self._take(record.fresh(self.record, self._clock()[1] // _DAY_NS, self._settings.keep_days))
        if self.record == self._saved:
            return
        try:
            record.save(self._kept, self.record)
            self._saved = self.record
        except AsaError as error:
            self._say(f"{error}; it is kept for this run only")
