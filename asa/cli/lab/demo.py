# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab demo`: what `make run` shows. The agent itself where this host can switch; else the agent in the lab, beside
a script of real programs, with the timeline shown as it happens and a summary at the end.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_DEMO = (sys.executable, "-P", "-m", "asa.cli", "lab", "demo")  # -P: root imports nothing from the current folder
_CPUS = 2
_MEMORY_MB = 2048
_DISK_MB = 512
_LIMIT_S = 1_800.0  # of the host's time, however busy it is; the script itself ends sooner (scenarios.demo)
_ATTACH_LIMIT_S = 120.0  # an emulated verifier is slow, and the workload does not wait for it: 40 s were not enough

_TEXT = """\
Plays real programs one after the other beside the agent, shows as it happens what is recognised and which
scheduler comes into force, and compares that with the mapping table. Where this host cannot switch, all of
it runs in the lab.
"""
_MORE = """\
exit status:
  0  every phase ended on the scheduler that the table names, and at least 4 of 5 classes were right
  1  not so, or it could not be played

files:
  run.json  the record, or what `--out` names

examples:
  asa lab demo
      On this host if it can switch, else in the lab.
  asa lab demo --lab --seed 7 --out seven.json
      In the lab, with other parameters of the programs.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "demo",
        help="watch the agent handle real programs",
        description=_TEXT,
        epilog=_MORE,
    )
    command.add_argument("--out", type=Path, default=Path("run.json"), metavar="FILE", help="where the record goes")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="chooses the parameters of the programs")
    command.add_argument("--lab", action="store_true", help="use the lab even where this host has sched_ext")
    command.add_argument("--stage", type=int, metavar="UID", help=argparse.SUPPRESS)  # the guest's half
    command.add_argument("--emulated", action="store_true", help=argparse.SUPPRESS)  # and whether that is slow
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when every phase ended on what the table names, and at least 4 of 5 classes were right."""
    if arguments.stage is not None:
        return _stage(arguments.seed, owner=arguments.stage, emulated=arguments.emulated)
    from asa import paths
    from asa.act.kernel import sched_ext_state
    from asa.cli.lab import setup

    places = paths.default()
    began_s = time.monotonic()
    on_host = sched_ext_state(places.sys) is not None and os.geteuid() == 0 and not arguments.lab
    setup.ensure(lab=not on_host, workloads=not on_host)
    if on_host:
        print("this host has sched_ext: the agent runs here; Ctrl-C ends it and puts the kernel back")
        os.execv(sys.executable, [sys.executable, "-P", "-m", "asa.cli", "run"])  # noqa: S606  # our own argument list
    return _in_lab(arguments, setup_s=time.monotonic() - began_s)


def _in_lab(arguments: argparse.Namespace, *, setup_s: float) -> int:
    import tempfile

    from asa import paths
    from asa.cli.lab.demo_view import View
    from asa.core.errors import LabError
    from scenarios.lab import guest
    from scenarios.lab.emulator import Clock

    cache = paths.default().cache
    began_s = time.monotonic()
    with View() as view, tempfile.TemporaryDirectory(prefix="asa-demo-") as folder:
        lab = guest.ready(cache, view.note)
        how = "under KVM" if lab.emulator.kvm else "emulated"
        # emulated, a second is the guest's own: what the host gives to others would look like a task that is not run
        clock = Clock.WALL if lab.emulator.kvm else Clock.STEADY
        view.note(f"booting Linux {lab.kernel.version} in the lab, {_CPUS} virtual CPUs, {how}")
        code = 1
        try:
            code = guest.run(
                [*_DEMO, *_half(os.geteuid(), arguments.seed, emulated=not lab.emulator.kvm)],
                lab=lab,
                out=Path(folder),
                on_output=view.line,
                on_error=view.note,
                cpus=_CPUS,
                memory_mb=_MEMORY_MB,
                clock=clock,
                disk_mb=_DISK_MB,
                limit_s=_LIMIT_S,
            ).exit_code
        except LabError as error:
            view.note(str(error))  # what was seen until then is still worth a record
    run_s = time.monotonic() - began_s
    return view.summary(
        out=arguments.out,
        facts={"kernel": lab.kernel.version, "cpus": _CPUS, "machine": how, "clock": clock, "seed": arguments.seed},
        exit_code=code,
        setup_s=setup_s,
        run_s=run_s,
    )


def _half(owner: int, seed: int, *, emulated: bool) -> list[str]:
    # the words for the guest's half of this command
    return ["--stage", str(owner), "--seed", str(seed), *(["--emulated"] if emulated else [])]


def _stage(seed: int, *, owner: int, emulated: bool) -> int:
    import tempfile

    from asa import paths, wire
    from asa.act.portfolio import Portfolio
    from asa.clock import SystemClock
    from asa.decide import table
    from scenarios import planted
    from scenarios.demo import SERVED, Demonstration, Event
    from scenarios.player import find_stage

    def emit(event: Event) -> None:
        sys.stdout.buffer.write(wire.json_bytes(event) + b"\n")
        sys.stdout.buffer.flush()

    places = paths.default()
    portfolio = Portfolio.load(paths.manifest(), places.schedulers)
    # planted: a fresh installation stays on the kernel's own, which would be a demonstration of nothing
    with tempfile.TemporaryDirectory(prefix="asa-demo-") as folder:
        chosen, settings = Path(folder) / "table.yaml", Path(folder) / "asa.yaml"
        planted.write(chosen, SERVED)
        settings.write_text(_settings(owner, chosen, emulated=emulated))
        Demonstration(
            stage=find_stage(cache=places.cache),
            portfolio=portfolio,
            table=table.load(chosen, portfolio.modes()),
            clock=SystemClock(),
            emit=emit,
            run=places.run,
        ).play(seed=seed, settings=settings)
    return 0


def _settings(owner: int, table: Path, *, emulated: bool) -> str:
    # The schedulers belong to whom ran `make run`; in the guest that user is not root. Phases are too short to measure
    # each class first, or to try anybody. An emulated CPU is 7 to 40 times slower than a machine's (docs/lab.md): what
    # waits there for 0.2 s would have waited for 5 to 30 ms, which the guard does not know, and an idle one fits no
    # class, since the agent's own work is seen.
    on_a_machine = json.dumps(not emulated)
    return f"""\
table: {json.dumps(str(table))}
switch: {{attach_limit_s: {_ATTACH_LIMIT_S}, trusted_owners: [{owner}]}}
policy: {{learn: 'off'}}
guard: {{enabled: {on_a_machine}, baseline_s: 0}}
voting: {{open_world: {on_a_machine}}}
"""
