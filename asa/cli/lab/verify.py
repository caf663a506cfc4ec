# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab verify`: what is wrong with a scheduler, by its object, its source, and how it behaves in the lab."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.verify.objects import Kernel
    from calibration.verify.report import Report, StageReport
    from calibration.verify.subject import Subject

EXIT_FAIL = 4
EXIT_INCONCLUSIVE = 5
_BTF = Path("/sys/kernel/btf/vmlinux")
_TEXT = """\
Looks for what is wrong with a scheduler before it runs. The object is checked for what a kernel refuses, the source
for what makes tasks wait for ever. The verdict is fail, inconclusive or pass. What could not be followed to its end
is inconclusive, never a pass. With --lab the scheduler is loaded in guests with each kernel that the lab keeps, and
plays against the kernel's own scheduler there. On this machine nothing is loaded.
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
  asa lab verify scx_flash:performance --lab --soak 60
      With its flags, in guests: some minutes, and a minute of soak in place of ten.
  sudo asa lab verify scx_compose_mine --token
      All stages, and a token for this machine where it passes them.
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
    command.add_argument("--lab", action="store_true", help="load it in guests, too, and look how it behaves")
    command.add_argument(
        "--soak", type=float, default=600.0, metavar="SECONDS", help="in a guest (default: %(default)g; 0: none)"
    )
    command.add_argument("--cpus", type=int, default=4, metavar="N", help="of a guest (default: %(default)s)")
    command.add_argument(
        "--claim", choices=("work", "wakeup", "pipe", "forks"), default="", help="what it is to be better at than EEVDF"
    )
    command.add_argument(
        "--token", action="store_true", help="--lab, and where it passes, the helper is asked for its token"
    )
    command.add_argument("--json", action="store_true", help="the report as a JSON line")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code by the verdict."""
    from asa.cli.extras import need

    need("elftools", "tree_sitter", "tree_sitter_c", extra="bench")
    import msgspec

    from asa import wire
    from asa.core.errors import AsaError
    from calibration.verify import report, subject
    from calibration.verify.report import Verdict

    if arguments.token and arguments.btf is not None:
        raise AsaError("--btf: a token is for the kernel that runs here; leave it out, or --token")
    found, kernels = _subject(arguments), _kernels(arguments.btf)
    made = subject.verify(found, kernels)
    if (arguments.lab or arguments.token) and made.verdict is not Verdict.FAIL:
        made = msgspec.structs.replace(made, stages=(*made.stages, *_in_the_lab(arguments, found)))
    if arguments.json:
        print(json.dumps({"verdict": made.verdict, **wire.plain(made)}))
    else:
        print("\n".join(report.lines(made)))
    if arguments.token and made.verdict is Verdict.PASS:
        _vouch(found, made)
    return {Verdict.PASS: 0, Verdict.FAIL: EXIT_FAIL, Verdict.INCONCLUSIVE: EXIT_INCONCLUSIVE}[made.verdict]


def _in_the_lab(arguments: argparse.Namespace, found: "Subject") -> "Iterator[StageReport]":
    from asa import paths
    from asa.core.errors import AsaError
    from calibration.verify.lab import play

    if found.object is None:
        raise AsaError(f"{found.name}: source alone cannot be loaded; name its program or its object, too")
    places = paths.default()
    is_object = found.object.name.endswith(".bpf.o")
    trial = play.Trial(
        program=(str(found.object.resolve()), *found.flags),
        is_object=is_object,
        cpus=arguments.cpus,
        soak_s=max(0.0, arguments.soak),
        claim=arguments.claim,
    )
    tell = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731  # one line each
    return play.stages(trial, places.cache, tell, places.state / "verify")


def _vouch(found: "Subject", made: "Report") -> None:
    from asa import paths, wire
    from asa.act.portfolio import Portfolio
    from asa.act.tokens import Tokens
    from asa.cli.machine import ask
    from asa.core.decision import SchedulerName
    from asa.core.helper_api import INTERFACE, Verb, Vouched
    from asa.helper import vouching

    places = paths.default()
    name, tokens = SchedulerName(found.name), Tokens(places.state)
    kernel, btf = tokens.kernel
    passed = tuple(str(one.stage) for one in made.stages if one.verdict == "pass")
    said = Vouched(sha256=made.sha256[str(found.object)], flags=found.flags, kernels={kernel: btf}, stages=passed)
    if paths.is_installed():
        ask(INTERFACE, Verb.VOUCH.member, Verb.VOUCH.value.takes, (found.name, wire.json_text(said)))
    else:  # root in a checkout is its own helper
        portfolio = Portfolio.load(paths.manifest(), places.schedulers)
        portfolio.tokens = tokens
        vouching.vouch(portfolio, name, said)
    print(f"{name} has a token for kernel {kernel}", file=sys.stderr)


def _subject(arguments: argparse.Namespace) -> "Subject":
    from asa import paths
    from asa.act.manifest import COMPOSED
    from asa.act.portfolio import Available, Portfolio
    from asa.core.decision import SchedulerName
    from asa.core.errors import AsaError
    from calibration.composing.build import SOURCES
    from calibration.verify import subject

    names = arguments.subject
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    if len(names) == 1 and SchedulerName(names[0]).bare in portfolio.names():
        full = SchedulerName(names[0])
        found = portfolio.look(full.bare)
        if isinstance(found, Available) and found.path is not None:
            composed = full.startswith(COMPOSED)
            return subject.Subject(
                name=full,
                object=found.path,
                source=SOURCES[0] if composed else None,
                loader=SOURCES[1] if composed else None,
                composed=arguments.composed or composed,
                flags=portfolio.arguments(full),
            )
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
