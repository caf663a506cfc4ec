# SPDX-License-Identifier: GPL-2.0-only
"""What the verifier says: findings, a report for each stage, and one verdict. Finds nothing itself.

Verdicts are ordered: fail before inconclusive before pass. What was not seen to the end is inconclusive, never a pass.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from time import monotonic

import msgspec

from asa.core.errors import AsaError


class Verdict(StrEnum):
    """From worst to best."""

    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"  # noqa: S105  # a verdict


class Stage(StrEnum):
    """In the order in which they are done."""

    OBJECT = "object"
    SOURCE = "source"
    LOAD = "load"
    BEHAVIOUR = "behaviour"


class Level(StrEnum):
    """What a finding does to the verdict."""

    FAULT = "fault"  # fail
    DOUBT = "doubt"  # inconclusive
    NOTE = "note"  # nothing


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a rule found."""

    rule: str
    level: Level
    text: str
    line: int | None = None  # of the source, from 1


class StageReport(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of one file. `died`: why it did not come to its end, "" when it did."""

    stage: Stage
    findings: tuple[Finding, ...] = ()
    died: str = ""
    elapsed_s: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """A fault fails, also in a stage that died later."""
        levels = {one.level for one in self.findings}
        if Level.FAULT in levels:
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if self.died or Level.DOUBT in levels else Verdict.PASS


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that was done with one subject. `sha256`: of each file that was read, by its path."""

    subject: str
    sha256: dict[str, str]
    stages: tuple[StageReport, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of the stages'; inconclusive without any."""
        return worst(one.verdict for one in self.stages)

    @property
    def caught(self) -> Stage | None:
        """The first stage that failed."""
        return next((one.stage for one in self.stages if one.verdict is Verdict.FAIL), None)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Inconclusive for none at all."""
    found = set(verdicts)
    return next((one for one in Verdict if one in found), Verdict.INCONCLUSIVE)


def stage(name: Stage, find: Callable[[], Iterable[Finding]]) -> StageReport:
    """Do a stage. Whatever ends it early, as an AsaError or an OSError, leaves it inconclusive."""
    start, found, died = monotonic(), [], ""
    try:
        for one in find():
            found.append(one)  # noqa: PERF402  # what was found before it died counts
    except (AsaError, OSError) as error:
        died = " ".join(str(error).split())
    return StageReport(stage=name, findings=tuple(found), died=died, elapsed_s=monotonic() - start)


def lines(report: Report) -> Iterator[str]:
    """As a person reads it."""
    yield f"{report.subject}: {report.verdict}"
    for one in report.stages:
        died = f": it died: {one.died}" if one.died else ""
        yield f"  {one.stage:<9} {one.verdict} in {one.elapsed_s:.2f} s{died}"
        for found in one.findings:
            where = f" (line {found.line})" if found.line else ""
            yield f"    {found.level:<5} {found.rule}: {found.text}{where}"
