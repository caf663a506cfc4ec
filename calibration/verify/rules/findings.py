# SPDX-License-Identifier: GPL-2.0-only
"""What rules share: how a finding is made, and how sure one is that depends on what a loader sets."""

import re
from collections.abc import Iterable

from calibration.verify.paths import Way
from calibration.verify.program import Program
from calibration.verify.report import Finding, Level

_SET_BY_LOADER = re.compile(r"^[ \t]*const\s+volatile\s+[\w ]+?[ *](\w+)(?:\[[^\]]*\])?\s*;", re.MULTILINE)
_WORD = re.compile(r"^!*\(*\s*(\w+)\s*\)*$")


def fault(rule: str, text: str, line: int | None = None) -> Finding:
    """What fails."""
    return Finding(rule=rule, level=Level.FAULT, text=text, line=line)


def doubt(rule: str, text: str, line: int | None = None) -> Finding:
    """What cannot be told."""
    return Finding(rule=rule, level=Level.DOUBT, text=text, line=line)


def note(rule: str, text: str, line: int | None = None) -> Finding:
    """What is said and changes nothing."""
    return Finding(rule=rule, level=Level.NOTE, text=text, line=line)


def set_by_loader(program: Program) -> frozenset[str]:
    """Constants without a value of their own: zero unless the loader sets them."""
    return frozenset(_SET_BY_LOADER.findall(program.text))


def needs_flag(way: Way, flags: frozenset[str]) -> str:
    """The constant that the loader has to set for this way; "" when it is gone without."""
    for one in way.conditions:
        found = _WORD.match(one.arguments[0])
        if found and found[1] in flags and one.outcome:
            return found[1]
    return ""


def once(findings: Iterable[Finding]) -> list[Finding]:
    """The worst of each rule and line, in their order."""
    found: dict[tuple[str, int | None], Finding] = {}
    for one in findings:
        before = found.get((one.rule, one.line))
        if before is None or list(Level).index(one.level) < list(Level).index(before.level):
            found[one.rule, one.line] = one
    return list(found.values())
