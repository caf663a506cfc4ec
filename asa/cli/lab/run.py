# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab run`: run a command in a virtual machine that has sched_ext.

Gives the command's own exit code, or 123: the guest's kernel crashed, 124: the limit passed, 125: the lab could not do
its work. Progress goes to stderr, the command's stdout and stderr to ours.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa import paths
from asa.core.errors import AsaError, GuestCrashError, LabTimeoutError

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from scenarios.lab.guest import Lab
    from scenarios.lab.machines import Machine

EXIT_CRASH = 123
EXIT_LIMIT = 124
EXIT_LAB = 125
_CPUS, _MEMORY_MB = 2, 2048

_TEXT = """\
Runs a command as root in a virtual machine whose kernel has sched_ext. The guest sees the file system of
the host read-only, except the folder of `--out`. Output and exit code are those of the command.
"""
_MORE = """\
exit status:
  N    that of the command in the guest
  123  the guest's kernel crashed
  124  the limit of time passed
  125  the lab could not do its work

environment:
  ASA_LAB_DISK  in the guest: the empty disk of `--disk`

files:
  ~/.local/state/asa  the default of `--out` is a folder below it

examples:
  asa lab run -- cat /sys/kernel/sched_ext/state
      One command.
  asa lab run --cpus 4 --clock parallel --out results -- ./measure
      With a clock that counts instructions, and a folder to write to.
  asa lab run --machine laptop-hybrid -- lscpu --extended
      In a guest with fast and slow cores.
  asa lab run --kernel 7.2 -- asa doctor
      What a kernel of this version makes of ASA; it is fetched the first time.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    run = commands.add_parser(
        "run", help="run a command as root in a virtual machine with sched_ext", description=_TEXT, epilog=_MORE
    )
    run.add_argument("--cpus", type=int, metavar="N", help=f"virtual CPUs, 1 to 64 (default {_CPUS})")
    run.add_argument(
        "--clock",
        choices=("wall", "steady", "parallel"),
        default="wall",
        help="parallel measures, wall is faster, steady is of one CPU's speed and shows (default: wall)",
    )
    run.add_argument("--memory", type=int, metavar="MB", help=f"of the guest (default {_MEMORY_MB})")
    run.add_argument(
        "--machine", metavar="NAME|FILE", help="in place of both: of `asa lab fleet list`, or a YAML file (docs/lab.md)"
    )
    which = run.add_mutually_exclusive_group()
    which.add_argument(
        "--kernel", metavar="VERSION", help="Debian's newest of this beginning, such as 7.2: to look, not to measure"
    )
    which.add_argument(
        "--tick-hz",
        type=int,
        choices=(250, 1000),
        help="the kernel built with this tick rate (default: Debian's own; to measure, the machine's, or 1000)",
    )
    run.add_argument("--limit", type=float, default=600.0, metavar="S", help="seconds for the command (default 600)")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder shared read-write (default: below asa's state)")
    run.add_argument("--disk", type=int, default=0, metavar="MB", help="an empty disk, named by ASA_LAB_DISK")
    run.add_argument("argv", nargs="+", metavar="COMMAND", help="after --, with its arguments")
    run.set_defaults(run=_run)


def prepare(cache: Path, *, measuring: bool = False, tick_hz: int | None = None, release: str | None = None) -> "Lab":
    """Everything a guest needs, with progress on stderr; nothing to do takes no time. Raises LabError, SetupError."""
    from scenarios.lab import guest  # the agent never pays for the lab

    return guest.ready(cache, _progress, measuring=measuring, tick_hz=tick_hz, release=release)


def _run(arguments: argparse.Namespace) -> int:
    from scenarios.lab import guest
    from scenarios.lab.emulator import Clock

    places = paths.default()
    try:
        machine = _machine(arguments)
        clock = Clock(arguments.clock)
        if arguments.kernel is not None and (machine is not None or clock is Clock.PARALLEL):
            raise AsaError("--kernel: Debian's, which shows what works there; leave out --machine and --clock parallel")
        tick_hz = None if arguments.kernel is not None else _tick_hz(arguments, machine)
        lab = prepare(places.cache, measuring=clock is Clock.PARALLEL, tick_hz=tick_hz, release=arguments.kernel)
        result = guest.run(
            arguments.argv,
            lab=lab,
            out=arguments.out or places.state / "lab",
            on_output=lambda line: print(line, flush=True),
            on_error=lambda line: print(line, file=sys.stderr, flush=True),
            cpus=_CPUS if arguments.cpus is None else arguments.cpus,
            memory_mb=_MEMORY_MB if arguments.memory is None else arguments.memory,
            machine=machine,
            clock=clock,
            disk_mb=arguments.disk,
            limit_s=arguments.limit,
        )
    except GuestCrashError as error:
        return _said(error, EXIT_CRASH)
    except LabTimeoutError as error:
        return _said(error, EXIT_LIMIT)
    except AsaError as error:
        return _said(error, EXIT_LAB)
    return result.exit_code


def _machine(arguments: argparse.Namespace) -> "Machine | None":
    from scenarios.lab import machines

    if arguments.machine is None:
        return None
    if arguments.cpus is not None or arguments.memory is not None:
        raise AsaError("--machine: it has its own CPUs and memory; leave out --cpus and --memory")
    return machines.load(arguments.machine)


def _tick_hz(arguments: argparse.Namespace, machine: "Machine | None") -> int | None:
    """Of a kernel of the lab's own; None: Debian's."""
    from scenarios.lab.emulator import Clock
    from scenarios.lab.kernel import MEASURING_HZ

    if arguments.tick_hz is not None or arguments.clock != Clock.PARALLEL:
        tick_hz: int | None = arguments.tick_hz
        return tick_hz
    return MEASURING_HZ if machine is None else machine.tick_hz


def _progress(line: str) -> None:
    print(f"lab: {line}", file=sys.stderr, flush=True)


def _said(error: AsaError, code: int) -> int:
    print(f"asa: {error}", file=sys.stderr)
    return code
