# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab compose`: compiles a scheduler from primitives."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.composing.spec import Spec

_TEXT = """\
Compiles a scheduler from primitives: what classes there are, the order in a queue, which queues, who is served
between them, and where a task wakes. A preset or a file says what fills these five slots. The program is built
for the lab's kernel. Nothing is installed or loaded.
"""
_MORE = """\
files of the folder:
  scx_compose_ID                the program; --help tells its parameters and their ranges
  scx_compose_ID.bpf.o          its part in the kernel
  scx_compose_ID-manifest.yaml  an entry for /etc/asa/manifest.yaml, so that the agent knows it
  ID.yaml                       what it is composed of

examples:
  asa lab compose --list
      What ships.
  asa lab compose two_level --out made --param weight-0=300
      Short bursts get three quarters of the time.
  asa lab compose made/two_level.yaml --out other
      The same again, after a change of the file.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "compose", help="compile a scheduler from primitives", description=_TEXT, epilog=_MORE
    )
    command.add_argument("spec", nargs="?", metavar="PRESET|FILE", help="what to compose")
    command.add_argument("--out", type=Path, metavar="DIR", help="folder for what is made")
    command.add_argument(
        "--param",
        action="append",
        default=[],
        type=_parameter,
        metavar="NAME=NUMBER",
        help="a parameter's default; may be given repeatedly",
    )
    command.add_argument("--list", action="store_true", help="the presets, each with its slots and parameters")
    command.add_argument("--json", action="store_true", help="presets or files as one JSON object")
    command.set_defaults(run=run, parser=command)


def _parameter(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=NUMBER, such as slice-us=5000") from None


def run(arguments: argparse.Namespace) -> int:
    """Compile, or list the presets."""
    from asa import paths, wire
    from asa.core.errors import LabError
    from calibration.composing import build, spec
    from scenarios.lab import kernel

    if arguments.list:
        found = [spec.load(name, {}) for name in spec.preset_names()]
        print(wire.json_text({one.id: one for one in found}) if arguments.json else "\n\n".join(map(_shown, found)))
        return 0
    if arguments.spec is None or arguments.out is None:
        arguments.parser.error("give a preset or a file, and --out DIR; --list shows the presets")
    wanted = spec.load(arguments.spec, dict(arguments.param))
    cache = paths.default().cache
    its = kernel.found(cache, kernel.MEASURING_HZ)
    if its is None:
        raise LabError(f"{cache / 'kernels'}: the lab's kernel is not there; run `asa lab setup --guests`")
    made = build.compose(wanted, arguments.out, cache, its, lambda line: print(line, file=sys.stderr))
    files = {"program": made.program, "object": made.object, "spec": made.spec, "manifest": made.manifest}
    if arguments.json:
        print(wire.json_text({what: str(path) for what, path in files.items()}))
    else:
        print("\n".join(map(str, files.values())))
    return 0


def _shown(one: "Spec") -> str:
    from calibration.composing.spec import parameters

    numbers = {name: found.number for name, found in parameters(one).items()}
    return "\n".join(
        [
            f"{one.id}: {one.purpose}",
            "  " + ", ".join(f"{slot} {value}" for slot, value in one.slots.items()),
            *(
                f"  {name} = {number.default:.0f} ({number.unit}, {number.low:.0f} to {number.high:.0f})"
                for name, number in numbers.items()
            ),
        ]
    )
