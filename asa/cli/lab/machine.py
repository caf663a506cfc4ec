# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab run|setup|status`: run a command in a virtual machine that has sched_ext.

`run` gives the command's own exit code, or one of its own: 123 the guest's kernel crashed, 124 the limit passed,
125 the lab could not do its work. Progress goes to stderr, the command's stdout and stderr to ours.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa import paths
from asa.core.errors import AsaError, GuestCrashError, LabTimeoutError

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from scenarios.lab.guest import Lab

EXIT_CRASH = 123
EXIT_LIMIT = 124
EXIT_LAB = 125

_TEXT = """\
Runs a command as root in a virtual machine whose kernel has sched_ext, sets that machine up, or says what
there is. The guest sees the file system of the host read-only, but for the folder of `--out`. Output and
exit code are the command's own.
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
  asa lab run --cpus 4 --clock icount --out results -- ./measure
      With a clock that counts instructions, and a folder to write to.
"""


def register(commands: "Commands") -> None:
    """Add `lab` and its three commands."""
    lab = commands.add_parser(
        "lab", help="run a command in a virtual machine that has sched_ext", description=_TEXT, epilog=_MORE
    )
    actions = lab.add_subparsers(dest="action", metavar="ACTION", required=True)

    run = actions.add_parser(
        "run",
        help="boot, run a command as root, and end with its exit code",
    )
    run.add_argument("--cpus", type=int, default=2, metavar="N", help="virtual CPUs, 1 to 16 (default %(default)s)")
    run.add_argument("--clock", choices=("wall", "icount"), default="wall", help="icount measures, wall is faster")
    run.add_argument("--memory", type=int, default=2048, metavar="MB", help="of the guest (default %(default)s)")
    run.add_argument("--limit", type=float, default=600.0, metavar="S", help="seconds for the command (default 600)")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder shared read-write (default: below asa's state)")
    run.add_argument("--disk", type=int, default=0, metavar="MB", help="an empty disk, named by ASA_LAB_DISK")
    run.add_argument("argv", nargs="+", metavar="COMMAND", help="after --, with its arguments")
    run.set_defaults(run=_run)

    setup = actions.add_parser("setup", help="install QEMU and a kernel, and try KVM")
    setup.set_defaults(run=_setup)

    status = actions.add_parser("status", help="what is there, and whether guests run under KVM")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)


def prepare(cache: Path) -> "Lab":
    """Everything a guest needs, with progress on stderr; nothing to do takes no time. Raises LabError, SetupError."""
    from scenarios.lab import guest  # the agent never pays for the lab

    return guest.ready(cache, _progress)


def _run(arguments: argparse.Namespace) -> int:
    from scenarios.lab import guest
    from scenarios.lab.emulator import Clock

    places = paths.default()
    try:
        lab = prepare(places.cache)
        result = guest.run(
            arguments.argv,
            lab=lab,
            out=arguments.out or places.state / "lab",
            on_output=lambda line: print(line, flush=True),
            on_error=lambda line: print(line, file=sys.stderr, flush=True),
            cpus=arguments.cpus,
            memory_mb=arguments.memory,
            clock=Clock(arguments.clock),
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


def _setup(arguments: argparse.Namespace) -> int:  # noqa: ARG001  # every command takes them
    lab = prepare(paths.default().cache)
    print(f"kernel    {lab.kernel.version}  {lab.kernel.root}")
    print(f"emulator  QEMU {_dotted(lab.emulator.version)}  {lab.emulator.binary}")
    print(f"guests    {_mode(lab.emulator.kvm)}: {lab.emulator.why}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from scenarios.lab import emulator, kernel

    cache = paths.default().cache
    qemu, image = emulator.found(cache), kernel.found(cache)
    facts = {
        "kernel": {"version": image.version, "path": str(image.root)} if image else None,
        "emulator": {"version": _dotted(qemu.version), "path": str(qemu.binary)} if qemu else None,
        "kvm": qemu.kvm if qemu else None,
        "kvm_reason": qemu.why if qemu else None,
    }
    if arguments.json:
        print(json.dumps(facts, indent=1))
        return 0
    missing = "missing; asa lab setup fetches it"
    print(f"kernel    {f'{image.version}  {image.root}' if image else missing}")
    print(f"emulator  {f'QEMU {_dotted(qemu.version)}  {qemu.binary}' if qemu else missing}")
    if qemu:
        print(f"guests    {_mode(qemu.kvm)}: {qemu.why}")
    return 0


def _mode(kvm: bool | None) -> str:
    return {True: "KVM", False: "emulation", None: "KVM or emulation"}[kvm]


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


def _progress(line: str) -> None:
    print(f"lab: {line}", file=sys.stderr, flush=True)


def _said(error: AsaError, code: int) -> int:
    print(f"asa: {error}", file=sys.stderr)
    return code
