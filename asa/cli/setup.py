# SPDX-License-Identifier: GPL-2.0-only
"""`asa setup`: does what `asa doctor` finds left to do, as far as it takes no decision of a person."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.verdict import Finding

_TEXT = """\
Looks at this machine as `asa doctor` does, and does what is left to do: install ASA, build schedulers where
the distribution has none, install the GNOME extension, start the agent. It asks nothing. What takes root is
left to `sudo asa setup`, and what takes your decision to `asa doctor`.

You can repeat it. It ends with the first line of `asa doctor`, and with what is left to you. For a kernel without
sched_ext it builds no schedulers.
"""
_MORE = """\
exit status:
  0  the agent can switch schedulers here
  1  it can only observe, or a step failed
  3  it will not work

examples:
  sudo asa setup --dry-run
      What would be done.
  sudo asa setup
      The machine's part.
  asa setup
      Your session's part.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "setup", help="do what is left to do on this machine", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--dry-run", action="store_true", help="say what would be done, change nothing")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Take the steps; the first that fails ends it. Exit code: `Verdict.exit_code`, 1 where one failed."""
    from asa import paths, verdict, wire
    from asa.doctor import examine

    findings, taken = examine(paths.default()), list[_Step]()
    while news := _take(findings, taken, dry=arguments.dry_run, quiet=arguments.json):
        taken += news
        if any(one.outcome is _Outcome.DONE for one in news):
            findings = examine(paths.default())
        if news[-1].outcome is _Outcome.FAILED:
            break
    found = verdict.of(findings)
    if arguments.json:
        print(wire.json_text({"steps": taken, "verdict": found.fitness, "sentence": found.sentence}))
    else:
        left = [f"  -> {one.remedy}" for one in found.because if one.remedy and not one.command]
        print("\n".join([*(() if taken else ("nothing is left for `asa setup` to do",)), found.sentence, *left]))
    return 1 if taken and taken[-1].outcome is _Outcome.FAILED else found.exit_code


class _Outcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    TO_DO = "to do"
    FOR_ROOT = "left to `sudo asa setup`"


@dataclass(frozen=True, slots=True)
class _Step:
    command: str
    why: str
    outcome: _Outcome


def _take(findings: "Sequence[Finding]", taken: Sequence[_Step], *, dry: bool, quiet: bool) -> list[_Step]:
    """Each step of what was found that was not taken yet, to the first that fails. None is taken twice."""
    known, news = {one.command for one in taken}, list[_Step]()
    for finding in findings:
        if finding.command and (command := shlex.join(finding.command)) not in known:
            news.append(_Step(command, finding.text, _do(finding.command, dry=dry, quiet=quiet)))
            if not quiet:
                print(f"{news[-1].outcome}: {command} ({finding.text})", flush=True)
            if news[-1].outcome is _Outcome.FAILED:
                break
    return news


def _do(command: Sequence[str], *, dry: bool, quiet: bool) -> _Outcome:
    from asa import paths

    words = list(command)
    if words[0] == "sudo":
        if os.geteuid() != 0:
            return _Outcome.FOR_ROOT
        del words[0]
    if dry:
        return _Outcome.TO_DO
    if words[0] == "asa":
        words[:1] = paths.program()
    try:
        code = subprocess.run(words, check=False, stdout=sys.stderr if quiet else None).returncode
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr)
        return _Outcome.FAILED
    return _Outcome.FAILED if code else _Outcome.DONE
