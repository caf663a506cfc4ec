# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab verify`: what is wrong with a scheduler, by its object and its source, before it runs."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.verify.objects import Kernel
    from calibration.verify.subject import Subject

EXIT_FAIL = 4
EXIT_INCONCLUSIVE = 5
_BTF = Path("/sys/kernel/btf/vmlinux")
_TEXT = """\
Looks for what is wrong with a scheduler before it runs. The object is checked for what a kernel refuses, the source
for what makes tasks wait for ever. The verdict is fail, inconclusive or pass. What could not be followed to its end
is inconclusive, never a pass. Nothing is loaded.
"""
_MORE = """\
exit status:
  0  pass
  1  a file cannot be read
  4  fail
  5  inconclusive

examples:
  asa lab verify scx_flash
      The program of the portfolio: the object that it has in itself.
  asa lab verify scx_mine.bpf.c scx_mine.bpf.o --composed
      Source and object of a scheduler that was made here, for which the rules are strict.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("verify", help="look for faults of a scheduler", description=_TEXT, epilog=_MORE)
    command.add_argument(
        "subject", nargs="+", metavar="FILE", help="a scheduler's .bpf.c, .c, object and program, or its name"
    )
    command.add_argument(
        "--btf", type=Path, metavar="FILE", help="of the kernel that it is for (default: the one that runs)"
    )
    command.add_argument("--composed", action="store_true", help="it was made here: a timeout has to be named")
    command.add_argument("--json", action="store_true", help="the report as a JSON line")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code by the verdict."""
    from asa.cli.extras import need

    need("elftools", "tree_sitter", "tree_sitter_c", extra="bench")
    from asa import wire
    from calibration.verify import report, subject
    from calibration.verify.report import Verdict

    made = subject.verify(_subject(arguments), _kernels(arguments.btf))
    if arguments.json:
        print(json.dumps({"verdict": made.verdict, **wire.plain(made)}))
    else:
        print("\n".join(report.lines(made)))
    return {Verdict.PASS: 0, Verdict.FAIL: EXIT_FAIL, Verdict.INCONCLUSIVE: EXIT_INCONCLUSIVE}[made.verdict]


def _subject(arguments: argparse.Namespace) -> "Subject":
    from asa import paths
    from asa.act.portfolio import Available, Portfolio
    from asa.core.decision import SchedulerName
    from asa.core.errors import AsaError
    from calibration.verify import subject

    names = arguments.subject
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    if len(names) == 1 and SchedulerName(names[0]).bare in portfolio.names():
        found = portfolio.look(SchedulerName(names[0]).bare)
        if isinstance(found, Available) and found.path is not None:
            return subject.Subject(name=names[0], object=found.path, composed=arguments.composed)
        reason = "it is the kernel's own" if isinstance(found, Available) else found.reason
        raise AsaError(f"{names[0]}: {reason}")
    return subject.of_files([Path(name) for name in names], composed=arguments.composed)


def _kernels(btf: Path | None) -> "tuple[Kernel, ...]":
    from calibration.verify import objects

    if btf is not None:
        return (objects.kernel(btf, str(btf)),)
    if Path("/sys/kernel/sched_ext").is_dir() and _BTF.exists():
        return (objects.kernel(_BTF, os.uname().release),)
    return ()
