# SPDX-License-Identifier: GPL-2.0-only
"""`asa doctor`: what this host has, what it lacks, and how to get it."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_MARKS = {"missing": "no  ", "warning": "look", "ok": "ok  "}
"""By level, in the order in which they are printed: what needs somebody comes first."""

_TEXT = """\
Checks the kernel, the rights, the schedulers, the probes, the desktop and the settings. It says what is
there, what is missing, and how to get it. The first line says what all of it comes to. It changes nothing.

--fix stops and disables daemons that load schedulers by themselves, such as scx_loader --auto and scx.service, since
ASA must not switch beside them. Where others have scx_loader start schedulers (falcond, the power-profiles-daemon of
CachyOS), it masks scx_loader, and they keep their other work. It shows the commands first, and asks. --undo puts
all back as it was, and so does removing ASA.
"""
_MORE = """\
exit status:
  0  the agent can switch schedulers here
  1  it can only observe
  3  it will not work
  with --fix or --undo: 0 done, or nothing to do; 1 not done

examples:
  sudo asa doctor
      What an agent of root would find.
  sudo asa doctor --fix
      Take over from scx_loader --auto, after a question.
  asa doctor --json
      For programs.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "doctor", help="check what this machine has and lacks, and how to get it", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--fix", action="store_true", help="stop and disable daemons that load schedulers (root)")
    what.add_argument("--undo", action="store_true", help="put back what --fix has stopped (root)")
    command.add_argument("--yes", action="store_true", help="with --fix: do it without a question")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what the findings come to, and the findings. Exit code: `Verdict.exit_code`. Raises AsaError."""
    from asa import paths, verdict, wire
    from asa.doctor import examine

    if arguments.fix:
        return _fix(yes=arguments.yes)
    if arguments.undo:
        return _undo()
    findings = examine(paths.default())
    found = verdict.of(findings)
    if arguments.json:
        print(wire.json_text({"verdict": found.fitness, "sentence": found.sentence, "findings": findings}))
        return found.exit_code
    print(found.sentence)
    for finding in sorted(findings, key=lambda one: list(_MARKS).index(one.level)):
        print(f"{_MARKS[finding.level]} {finding.subject}: {finding.text}")
        if finding.remedy:
            print(f"       -> {finding.remedy}")
    return found.exit_code


def _fix(*, yes: bool) -> int:
    from asa import doctor, paths, takeover
    from asa.act import rivals

    _need_root("--fix")
    places = paths.default()
    states = rivals.unit_states()
    backend = doctor.switch_settings(places).backend
    found = rivals.found(places.proc, states)
    names = takeover.units(found, loader_is_ours=rivals.by_loader(backend, states))
    masked = tuple(name for name in takeover.masks(found, backend, states) if takeover.there(name))
    if not names and not masked:
        print("nothing to do: no unit here loads schedulers by itself, or has scx_loader do it")
        return 0
    print("\n".join(takeover.commands(names, masked)))
    if not yes and not agreed("Run this? `sudo asa doctor --undo` puts it back. [y/N] "):
        print("nothing was changed")
        return 1
    taken = takeover.take(names, _taken_over(), masked=masked)
    print(f"stopped and disabled: {', '.join(one.name for one in taken)}; `sudo asa doctor --undo` puts it back")
    return 0


def _undo() -> int:
    from asa import takeover

    _need_root("--undo")
    found = takeover.back(_taken_over())
    print(f"as before: {', '.join(one.name for one in found)}" if found else "nothing was taken over")
    return 0


def _taken_over() -> Path:
    from asa import paths, takeover

    return paths.installed().state / takeover.NAME


def _need_root(option: str) -> None:
    from asa.core.errors import SetupError

    if os.geteuid() != 0:
        raise SetupError(f"only root can do that; run `sudo asa doctor {option}`")


def agreed(question: str) -> bool:
    """Ask; anything but a yes is a no, and so is the end of the input."""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False
