# SPDX-License-Identifier: GPL-2.0-only
"""`asa`: finds the command, runs it, and turns an AsaError into one line and exit code 1.

A command's module has its name and a `register(commands)`, which adds its parser with `set_defaults(run=function)`; the
function takes the parsed arguments and returns an exit code. It imports what it needs inside that function, so that the
agent never pays for an offline command's libraries.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import TypeAlias

import asa
from asa.cli.grammar import Parser
from asa.core.errors import AsaError

Commands: TypeAlias = (
    "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse has no public name for what add_subparsers returns
)

COMMANDS = (
    "run",
    "daemon",
    "helper",
    "status",
    "monitor",
    "explain",
    "hold",
    "switch",
    "resume",
    "machine",
    "journal",
    "report",
    "replay",
    "shadow",
    "doctor",
    "config",
    "metrics",
    "gnome",
    "install",
    "uninstall",
    "completion",
    "man",
    "demo",
    "setup",
    "deb",
    "schedulers",
    "lab",
    "record",
    "dataset",
    "train",
    "finetune",
    "model",
    "table",
    "bench",
    "calibrate",
    "adapt",
    "evaluate",
    "fleet",
    "score",
)
"""Modules beside this one, in the order in which help shows them."""

_ELSEWHERE = {
    name: f"lab.{name}"
    for name in (
        "adapt",
        "calibrate",
        "dataset",
        "deb",
        "demo",
        "evaluate",
        "finetune",
        "fleet",
        "record",
        "score",
        "setup",
        "shadow",
        "train",
    )
} | {"bench": "lab.bench.overhead", "lab": "lab.machine"}
"""Modules of the laboratory's commands."""

_CUT_OFF = 128 + signal.SIGPIPE  # as shells have it of the programs that the signal ends
_SHOWN = 80  # letters of a text that cannot be written

_TEXT = """\
ASA recognises what a Linux machine is being used for, and keeps the CPU scheduler loaded that serves that
use best: one of the sched_ext schedulers, or the kernel's own EEVDF. It never makes a scheduling decision
itself; it picks who decides. Whatever goes wrong, the machine is left on a working scheduler.

`asa run` is the agent; `asa doctor` says what this machine lacks for it.
"""
_MORE = """\
exit status:
  0    it was done
  1    it could not be done; one line on standard error says why and what to do
  2    the command line is not one that asa knows
  3    no agent is running (`asa status`, `asa explain`)
  4    not every trial was played well (`asa fleet run`)
  130  it was interrupted
  141  who read its output left before the end, as in `asa journal export | head`

environment:
  XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME, XDG_RUNTIME_DIR  where files of users other than root are

files:
  /etc/asa/asa.yaml       settings of an agent of root
  ~/.config/asa/asa.yaml  settings of any other user's
  ~/.local/state/asa      journals, models, this machine's mapping table, what was learnt
  ~/.cache/asa            schedulers, kernels, builds: what can be made again
  /run/asa                the running agent of root

examples:
  sudo asa doctor
      What this machine has, lacks, and how to get it.
  sudo asa run
      The agent, until Ctrl-C.
  asa status
      What it sees and does.
"""


def parser(only: str = "") -> argparse.ArgumentParser:
    """The whole command line, or that of one command: a daemon need not import all others."""
    top = Parser(prog="asa", description=_TEXT, epilog=_MORE, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"asa {asa.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in (only,) if only else COMMANDS:
        importlib.import_module(f"asa.cli.{_ELSEWHERE.get(name, name)}").register(commands)
    return top


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
    try:
        arguments = parser(argv[0] if argv and argv[0] in COMMANDS else "").parse_args(argv)
    except SystemExit as ended:  # argparse has shown help, or what is wrong
        return int(ended.code or 0)
    command: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return command(arguments)
    except AsaError as error:
        _say(str(error))
        return 1


def _say(line: str) -> None:
    from asa.report.markup import plain  # only now: no process that goes well pays for it

    print(f"asa: {plain(line)}", file=sys.stderr)  # names and texts of others' files are in it


def _let_go() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains again when it flushes at exit
