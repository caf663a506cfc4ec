# SPDX-License-Identifier: GPL-2.0-only
"""`asa run`: the agent in the foreground; switching with root and sched_ext, observing otherwise.

With `--shadow` each chosen scheduler is loaded and verified but not attached (the paper's stage 2), and a journal takes
what that and the agent itself cost; `asa lab shadow report` shows it.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.config import Ebpf
    from asa.core.decision import Decision

SHADOW_JOURNAL = "shadow.sqlite"  # below paths.Places.state
_LONGEST_S = 1e9  # thirty years; also keeps nan and inf out

_TEXT = """\
Runs the agent in the foreground. Once a second it recognises what this machine is used for. It loads the
sched_ext scheduler that the mapping table names for this use, or leaves the kernel's own EEVDF in place.
When it ends, the kernel's scheduler is as it was before.

Switching needs root and a kernel with sched_ext. Without them, or with `--observe`, the agent only says what
it would do. SIGHUP makes it read settings, table and model again. It ends at SIGINT or SIGTERM.
"""
_MORE = """\
exit status:
  0  it ended, and the kernel's scheduler is as it was
  1  it could not start, or a scheduler of its own is still in force; the last line says what to do

files:
  /etc/asa/asa.yaml       settings of an agent of root
  ~/.config/asa/asa.yaml  settings of any other user's
  /run/asa  what the running agent keeps: its status, a lock, how to undo what it did
  ~/.local/state/asa/shadow.sqlite  the journal of the shadow mode

examples:
  sudo asa run
      Switch schedulers until Ctrl-C.
  asa run --observe --for 60 --journal minute.sqlite
      Only look, for a minute, and keep samples and decisions.
  sudo asa run --shadow
      Find out what switching would cost here; then `asa lab shadow report`.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "run",
        help="run the agent in this terminal",
        description=_TEXT,
        epilog=_MORE,
    )
    mode = command.add_mutually_exclusive_group()
    mode.add_argument("--observe", action="store_true", help="decide, but leave the kernel's scheduler alone")
    mode.add_argument(
        "--shadow", action="store_true", help="load and verify each chosen scheduler, attach none, journal the cost"
    )
    command.add_argument("--config", type=Path, metavar="FILE", help="settings (default: /etc/asa/asa.yaml if there)")
    command.add_argument("--journal", type=Path, metavar="FILE", help="keep samples and decisions here (SQLite)")
    add_ebpf(command)
    add_limit(command)
    command.add_argument("--json", action="store_true", help="one JSON object a tick, and one for each other line")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal comes."""
    from asa import inbox

    with inbox.remembered(signal.SIGHUP), killed_like_interrupted():  # until the loop has its own handlers
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read once, when numpy loads: threads would only cost memory
    from asa import paths
    from asa.act.priority import go_first
    from asa.assembly import Assembly

    printer = Printer(as_json=arguments.json)
    places = paths.default()
    journal = arguments.journal or (places.state / SHADOW_JOURNAL if arguments.shadow else None)
    assembly = Assembly.open(
        places,
        config_path=arguments.config,
        observe=arguments.observe,
        shadow=arguments.shadow,
        journal_path=journal,
        say=printer.say,
        ebpf=arguments.ebpf,
    )
    try:
        for source, reason in assembly.sampler.missing.items():
            if source != "sched_ext":  # the line below says it
                printer.say(f"going on without {source}: {reason}")
        if arguments.shadow:
            printer.say(f"choosing by {assembly.setup.table.path} ({assembly.setup.table.machine})")
            printer.say(f"shadow mode: what is chosen loads and is not attached; costs go to {journal}")
        elif assembly.may_switch:
            printer.say(f"switching by {assembly.setup.table.path} ({assembly.setup.table.machine})")
        else:
            printer.say(f"observing only: {assembly.mode_reason}; `asa doctor` says more")
        if assembly.settings.realtime:
            go_first()
        agent = assembly.agent(printer.say, printer.decision)
        agent.run(arguments.limit_s)
    finally:
        assembly.close()
    if not agent.clean:
        if arguments.shadow:
            printer.say("ended, but a scheduler that was tried has not; `asa run` stops it")
        else:
            printer.say("ended, but a scheduler of ours is still in force; `asa run` stops it, or Alt-SysRq-S")
        return 1
    if arguments.shadow:
        printer.say(f"ended; `asa lab shadow report {journal}` shows what was found")
    else:
        printer.say("ended; the kernel's scheduler is as it was" if assembly.may_switch else "ended")
    return 0


@contextmanager
def killed_like_interrupted() -> Iterator[None]:
    """SIGTERM as Ctrl-C: the loop has its own handlers, but an ordinary kill before it must clean up too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def add_ebpf(command: argparse.ArgumentParser) -> None:
    """Add `--ebpf`, which stands for the setting when it is given."""
    text = "how the probes come into the kernel (default: the setting collect.ebpf)"
    command.add_argument("--ebpf", type=_ebpf, metavar="auto|core|bcc|off", help=text)


def add_limit(command: argparse.ArgumentParser) -> None:
    """Add `--for`."""
    command.add_argument("--for", dest="limit_s", type=_seconds, metavar="SECONDS", help="end after this time")


def _ebpf(text: str) -> "Ebpf":
    from asa.config import Ebpf

    try:
        return Ebpf(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(Ebpf)}") from None


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.0 < value < _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text} is not a time in seconds above 0")
    return value


class Printer:
    """Lines for people when something changes, or JSON for programs on every tick.

    A lasting one goes on where standard output cannot be written (journald was stopped, the terminal is gone), and says
    so once on standard error; another raises OSError.
    """

    def __init__(self, *, as_json: bool, lasting: bool = False) -> None:
        self._json = as_json
        self._lasting = lasting
        self._last: tuple[object, ...] = ()

    def say(self, line: str) -> None:
        """One line of news."""
        if self._json:
            self._print(_encoded({"say": line}))
        else:
            self._print(f"{time.strftime('%H:%M:%S')}  {line}")

    def decision(self, decision: "Decision") -> None:
        """One tick's decision."""
        if self._json:
            self._print(_encoded({"decision": decision}))
            return
        now = (decision.workload, decision.wanted, decision.current, decision.reason)
        if now != self._last and decision.workload is not None:
            self._last = now
            confidence = f"{decision.vote.confidence:4.0%}"
            self._print(f"{time.strftime('%H:%M:%S')}  {decision.workload:<10} {confidence}  {decision.sentence}")

    def _print(self, line: str | bytes) -> None:
        try:
            if isinstance(line, bytes):
                sys.stdout.buffer.write(line + b"\n")
                sys.stdout.buffer.flush()
            else:
                print(line, flush=True)
        except OSError as error:
            if not self._lasting:
                raise
            _to_nowhere(error)


def _encoded(body: object) -> bytes:
    from asa import wire

    return wire.json_bytes(body)


def _to_nowhere(error: OSError) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)  # or what is still buffered would fail again, at the latest at exit
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    text = f"asa: standard output cannot be written: {error.strerror}; going on without it\n"
    with suppress(OSError):
        os.write(2, text.encode())  # unbuffered, for the same reason
