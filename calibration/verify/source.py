# SPDX-License-Identifier: GPL-2.0-only
"""The source stage: all rules on one C file. What no rule can follow is a doubt, never silently well."""

from collections.abc import Iterator

from calibration.verify.program import Program, SourceError
from calibration.verify.report import Finding
from calibration.verify.rules import order, queues, tasks
from calibration.verify.rules.findings import doubt, fault, note, once

LONGEST_TIMEOUT_MS = 30_000
"""SCX_WATCHDOG_MAX_TIMEOUT of kernel/sched/ext.c; it is what a scheduler without one gets, too."""


def check(source: str, *, loader: str = "", composed: bool = False) -> Iterator[Finding]:
    """What is wrong with a scheduler's BPF source. `composed`: made here, so that it has to name a timeout.

    `loader`: the source of its program in user space, where there is one. Raises SourceError for what is no scheduler.
    """
    program = Program.parse(source, loader)
    yield from _timeout(program, composed=composed)
    for rules in (queues, order, tasks):
        try:
            yield from once(rules.check(program))
        except (SourceError, RecursionError) as error:
            yield doubt("not-followed", str(error) or "the source is nested too deeply to be followed")


def _timeout(program: Program, *, composed: bool) -> Iterator[Finding]:
    given = program.ops.get("timeout_ms")
    if given is None:
        say = fault if composed else note
        yield say("timeout", f"timeout_ms is not set: the kernel waits {LONGEST_TIMEOUT_MS} ms before it steps in")
        return
    for value in program.values(given, None):
        if value.isdecimal() and not 0 < int(value) <= LONGEST_TIMEOUT_MS:
            yield fault("timeout", f"timeout_ms is {value}; it has to be 1 to {LONGEST_TIMEOUT_MS}")
