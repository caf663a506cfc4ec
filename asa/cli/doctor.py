# SPDX-License-Identifier: GPL-2.0-only
"""`asa doctor`: what this host has, what it lacks, and how to get it."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_MARKS = {"ok": "ok  ", "missing": "no  ", "warning": "look"}

_TEXT = """\
Checks the kernel, the rights, the schedulers, the probes, the desktop and the settings. It says what is
there, what is missing, and how to get it. The first line says what all of it comes to. It changes nothing.
"""
_MORE = """\
exit status:
  0  the agent can switch schedulers here
  1  it can only observe
  3  it will not work

examples:
  sudo asa doctor
      What an agent of root would find.
  asa doctor --json
      For programs.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "doctor", help="check what this machine has and lacks, and how to get it", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what the findings come to, and the findings. Exit code: `Verdict.exit_code`."""
    from asa import paths, verdict, wire
    from asa.doctor import examine

    findings = examine(paths.default())
    found = verdict.of(findings)
    if arguments.json:
        print(wire.json_text({"verdict": found.fitness, "sentence": found.sentence, "findings": findings}))
        return found.exit_code
    print(found.sentence)
    for finding in findings:
        print(f"{_MARKS[finding.level]} {finding.subject}: {finding.text}")
        if finding.remedy:
            print(f"       -> {finding.remedy}")
    return found.exit_code
