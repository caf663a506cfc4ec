# SPDX-License-Identifier: GPL-2.0-only
"""`asa`: finds the command, runs it, and turns an AsaError into one line and exit code 1.

A command module has `register(commands)`, which adds its parser with `set_defaults(run=function)`; the function takes
the parsed arguments and returns an exit code. Modules import what they need inside that function, so that the agent
never pays for an offline command's libraries.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import TypeAlias

import asa
from asa.core.errors import AsaError

Commands: TypeAlias = (
    "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse has no public name for what add_subparsers returns
)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    from asa.cli import bench, demo, doctor, gnome, lab, metrics, record, run, schedulers, setup, status, train

    top = argparse.ArgumentParser(prog="asa", description=asa.__doc__, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"asa {asa.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (run, status, doctor, metrics, gnome, demo, setup, schedulers, lab, record, train, bench):
        module.register(commands)
    return top


def main(argv: list[str] | None = None) -> None:
    """Entry point of the console script; the only place that calls sys.exit."""
    try:
        arguments = parser().parse_args(argv)
        command: Callable[[argparse.Namespace], int] = arguments.run
        code = command(arguments)
        sys.stdout.flush()  # here, so that a reader who has left is noticed below
    except AsaError as error:
        print(f"asa: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains again when it flushes at exit
        code = 0
    sys.exit(code)
