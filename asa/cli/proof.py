# SPDX-License-Identifier: GPL-2.0-only
"""`asa proof`: what was found on this machine: what is better and by how much, what is not, and what it cost."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.main import Commands
    from asa.decide.proof import Proof, Use

_TEXT = """\
Says whether other schedulers than the kernel's own are better on this machine. For each use it shows what was
tried, by how much it is better with an interval, what was not better, and what the trials cost.

It reads what trials came to and what the mapping table says was measured here. What is of another kernel, of
another file or of another machine is shown and does not count.
"""
_MORE = """\
exit status:
  0  shown
  1  what was learnt, or the table, is damaged or cannot be read

files:
  ~/.local/state/asa/learning.json  what trials came to

examples:
  asa proof
      What is known, use by use.
  sudo asa proof
      The same of root's agent.
  asa proof --redacted proof.json
      The same as a file to attach to a bug report: no paths, days in place of times, and numbers in place
      of the names of schedulers and uses of your own.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "proof",
        help="show what is better here, by how much, and what it cost",
        description=_TEXT,
        epilog=_MORE,
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--redacted", type=Path, metavar="FILE", help="write it to a new file without what is yours")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it, or write the redacted file. Raises AsaError for what is damaged, and for a file that exists."""
    from asa import paths, wire
    from asa.decide import proof
    from asa.report.markup import plain
    from asa.report.proof import of_host

    found = of_host(paths.default())
    out: Path | None = arguments.redacted
    if out is not None:
        found = proof.redacted(found, shipped())
        _write(out, found)
    if arguments.json:
        print(wire.json_text(found))
    elif out is not None:
        print(f"{out}: {found.sentence}")
    else:
        print("\n".join(plain(line) for line in lines(found)))
    return 0


def shipped() -> "dict[str, tuple[str, ...]]":
    """The schedulers that the package ships, with their modes."""
    from asa import paths
    from asa.act.portfolio import Portfolio

    return Portfolio.load(paths.manifest(), paths.default().schedulers).modes()


def _write(out: Path, found: "Proof") -> None:
    import os

    import msgspec

    from asa import files, wire
    from asa.core.errors import AsaError, InputError

    if os.path.lexists(out):
        raise InputError(path=str(out), key="", value="exists", allowed="the name of a new file")
    try:
        files.replace(out, msgspec.json.format(wire.json_bytes(found), indent=2) + b"\n")
    except OSError as error:
        raise AsaError(f"{out}: cannot be written: {error.strerror}; name another file") from error


def lines(found: "Proof") -> "Iterator[str]":
    """A proof for people."""
    from asa.report import words

    yield found.sentence
    yield f"machine    {found.machine or 'unknown'}, kernel {found.kernel}; policy.learn is {found.learn}"
    since = f"since {words.moment(found.since_ns)}, " if found.since_ns is not None else ""
    share = f" ({found.tried_s / found.watched_s:.1%})" if found.watched_s else ""
    yield f"watched    {since}{words.duration(found.watched_s)}"
    yield (
        f"cost       {words.duration(found.tried_s)} under candidates{share}, "
        f"{words.counted(found.switches, 'switch', 'switches')} for what is listed; energy is not measured"
    )
    for use in found.uses:
        yield from _use(use)


def _use(use: "Use") -> "Iterator[str]":
    from asa.decide.proof import words

    yield ""
    following = f"; {use.following} is next to be tried" if use.following else ""
    yield f"{use.use}: {use.answer}; {use.serves} serves it{following}"
    for one in use.found:
        yield f"  {words(one)}"
