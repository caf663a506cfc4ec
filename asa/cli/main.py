# SPDX-License-Identifier: GPL-2.0-only
"""`asa`: finds the command, runs it, and turns an AsaError into one line and exit code 1.

A command's module has its name and a `register(commands)`, which adds its parser with `set_defaults(run=function)`; the
function takes the parsed arguments and returns an exit code. It imports what it needs inside that function, so that the
agent never pays for an offline command's libraries. The laboratory's commands are in `asa.cli.lab`, which an
installation may lack.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import asa
from asa.cli.grammar import Parser
from asa.core.errors import AsaError
from asa.paths import LABORATORY, LIBRARIES, PROGRAM

Commands: TypeAlias = (
    "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse has no public name for what add_subparsers returns
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "the agent": ("run", "status", "monitor", "explain", "proof"),
    "steering": ("hold", "switch", "resume", "trial", "teach"),
    "records": ("journal", "report"),
    "this machine": ("doctor", "config", "schedulers", "table", "model", "gnome"),
    "installation": ("setup", "install", "uninstall"),
    "laboratory": ("calibrate", "adapt", "lab"),
}
"""What help shows, in that order."""

HIDDEN = ("daemon", "helper", "completion", "machine", "mcp", "metrics")
"""Commands that systemd, the bus, or settings of a shell or a client call, an administrator's for all users, and the
list of metrics."""

COMMANDS = (*(name for names in GROUPS.values() for name in names), *HIDDEN)

LAB_GROUPS: Mapping[str, tuple[str, ...]] = {
    "virtual machines": ("setup", "run", "status", "demo"),
    "benchmarks": ("bench", "fleet", "evaluate", "score", "shadow", "tune", "surface", "compose", "verify", "agent"),
    "models": ("record", "dataset", "train", "finetune"),
    "packages": ("deb", "man"),
}
"""What `asa lab --help` shows."""

LAB_COMMANDS = tuple(name for names in LAB_GROUPS.values() for name in names)

MOVED: Mapping[str, str] = {
    **{name: f"lab {name}" for name in LAB_COMMANDS if name not in COMMANDS},
    "replay": "journal replay",
}
"""Commands of earlier versions, and what each is now."""

_MODULES = {"bench": "bench.overhead"}  # where the command's own name is a folder's
_CUT_OFF = 128 + signal.SIGPIPE  # as shells have it of the programs that the signal ends
_SHOWN = 80  # letters of a text that cannot be written
_LAB_FROM = "`apt install asa-lab` (built by `make deb`), or the second wheel of `make wheel`"

_TEXT = """\
ASA recognises what a Linux machine is used for, and loads the sched_ext scheduler that suits this use, or
leaves the kernel's own EEVDF in place. If anything goes wrong, the machine runs on EEVDF.
"""
_LAB_TEXT = """\
The laboratory: virtual machines with sched_ext, benchmarks, recordings, and training of models.
"""
_MORE = """\
exit status:
  0    done
  1    failed; one line on standard error says why and what to do
  2    wrong command line
  3    no agent is running (`asa status`, `asa explain`)
  4    some trials failed (`asa lab fleet run`)
  130  interrupted
  141  the reader of the output left early, as in `asa journal export | head`

environment:
  XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_RUNTIME_DIR  where a user's files are (not root's)

files:
  /etc/asa/asa.yaml       settings of root's agent
  ~/.config/asa/asa.yaml  settings of a user's agent
  ~/.local/state/asa      journals, models, mapping table, learnt preferences
  ~/.cache/asa            schedulers, kernels, builds: can be deleted
  /run/asa                files of root's running agent

examples:
  asa status
      What the agent sees and does.
  asa hold 30m
      Switch nothing for half an hour.
  sudo asa doctor
      What this machine has, what it lacks, and how to get it.
"""


def parser(only: str = "", inner: str = "") -> argparse.ArgumentParser:
    """The whole command line, or that of one command, or of one of the laboratory's: a daemon need not import all."""
    top = Parser(prog="asa", description=_TEXT, epilog=_MORE, allow_abbrev=False, groups=GROUPS)
    top.add_argument("--version", action="version", version=f"asa {asa.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in (only,) if only else COMMANDS:
        if name in GROUPS["laboratory"] and not has_laboratory():
            commands.add_parser(name, help="comes with the package asa-lab")
        elif name == "lab":
            _register_lab(commands, inner)
        else:
            folder = "asa.cli.lab" if name in GROUPS["laboratory"] else "asa.cli"
            importlib.import_module(f"{folder}.{name}").register(commands)
    return top


def has_laboratory() -> bool:
    """Are the laboratory's packages beside this one?"""
    own = Path(asa.__file__).parents[1]  # by its files: to find a part of a package would load the package
    return all((own / folder / "__init__.py").is_file() for folder in LABORATORY)


def enter_laboratory(libraries: Path, program: Path) -> None:
    """Where it is installed: its libraries come before the program's own, which lack what no agent opens.

    For what it starts, too. Without `libraries` nothing changes.
    """
    if libraries.is_dir() and str(program) in sys.path:
        sys.path.insert(sys.path.index(str(program)), str(libraries))
        os.environ["PYTHONPATH"] = f"{libraries}{os.pathsep}{program}"


def _register_lab(commands: Any, only: str) -> None:
    lab = commands.add_parser(
        "lab", help="run benchmarks, record workloads, train models", description=_LAB_TEXT, groups=LAB_GROUPS
    )
    actions = lab.add_subparsers(dest="laboratory", metavar="COMMAND", required=True)
    for name in (only,) if only else LAB_COMMANDS:
        importlib.import_module(f"asa.cli.lab.{_MODULES.get(name, name)}").register(actions)


def main(argv: list[str] | None = None) -> None:
    """Entry point of the console script; the only place that calls sys.exit."""
    code = 0
    try:
        code = _done(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # here, so that what cannot be written is noticed
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        _let_go()
        code = code or _CUT_OFF  # what the command came to stands, unless it is that all was well
    except OSError as error:  # where nobody expected it: a folder that may not be looked into, a full disk
        _let_go()
        _say(f"{error.filename or 'standard output, or another file'}: {error.strerror or error}")
        code = code or 1
    except UnicodeEncodeError as error:  # the name of a file, where text is written that has to be UTF-8
        _say(f"{error.object[: error.end][-_SHOWN:]!r} cannot be written: {error.reason}; give the file another name")
        code = 1
    sys.exit(code)


def _done(argv: list[str]) -> int:
    """Run the command; its exit code."""
    if argv and argv[0] in MOVED:
        _say(f"`asa {argv[0]}` is `asa {MOVED[argv[0]]}` now")
        return 2
    if argv and argv[0] in GROUPS["laboratory"] and not has_laboratory():
        _say(f"asa {argv[0]} comes with the package asa-lab; install it: {_LAB_FROM}")
        return 1
    if argv and argv[0] in GROUPS["laboratory"]:
        enter_laboratory(LIBRARIES, PROGRAM)
    try:
        arguments = _parsed(argv)
    except SystemExit as ended:  # argparse has shown help, or what is wrong
        return int(ended.code or 0)
    command: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return command(arguments)
    except AsaError as error:
        _say(str(error))
        return 1


def _parsed(argv: list[str]) -> argparse.Namespace:
    first, second = (*argv, "", "")[:2]
    only = first if first in COMMANDS else ""
    return parser(only, second if only == "lab" and second in LAB_COMMANDS else "").parse_args(argv)


def _say(line: str) -> None:
    from asa.report.markup import plain  # only now: no process that goes well pays for it

    print(f"asa: {plain(line)}", file=sys.stderr)  # names and texts of others' files are in it


def _let_go() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains again when it flushes at exit
