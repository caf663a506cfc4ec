# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab man`: shows a manual page, or writes all of them to a folder; they are made from the parser."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.grammar import Command
    from asa.cli.main import Commands

_DESCRIPTION = """\
Shows the manual page of a command, or of asa itself, also where the pages are not installed. Into a pipe
or a file it writes the page's source. With `--out` it writes pages to a folder instead: all of them,
or the one that is named.
"""
_MORE = """\
environment:
  SOURCE_DATE_EPOCH  The date of the pages, in seconds since 1970; without it they have none.

examples:
  asa lab man run
      Read asa-run(1).
  asa lab man --out build/man
      Write asa.1 and a page for each command, as `make man` does.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "man",
        help="show a manual page, or write them all",
        description=_DESCRIPTION,
        epilog=_MORE,
    )
    command.add_argument("page", nargs="?", metavar="PAGE", help="a command of asa (default: asa itself)")
    command.add_argument("--out", type=Path, metavar="DIR", help="write source files to this folder")
    command.add_argument("--markdown", action="store_true", help="print a table of all commands: docs/commands.md")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show or write. Raises AsaError for a command that does not exist, or a folder that cannot be written."""
    from asa.cli import grammar, manpages
    from asa.cli.main import parser
    from asa.core.errors import AsaError

    if arguments.markdown:
        print("\n".join(_table()))
        return 0
    pages = manpages.pages(grammar.read(parser()))
    name = f"asa-{arguments.page}.1" if arguments.page is not None else "asa.1"
    if name not in pages:
        known = ", ".join(page[len("asa-") : -len(".1")] for page in pages if page != "asa.1")
        raise AsaError(f"{arguments.page!r} is no command of asa; there are {known}")
    if arguments.out is not None:
        _write(arguments.out, pages if arguments.page is None else {name: pages[name]})
    elif sys.stdout.isatty() and shutil.which("man") is not None:
        return subprocess.run(["man", "--local-file", "-"], input=pages[name], text=True, check=False).returncode
    else:
        print(pages[name], end="")
    return 0


def _table() -> "Iterator[str]":
    from asa.cli import grammar, main

    top = grammar.read(main.parser())
    (lab,) = (one for one in top.children if one.path[-1] == "lab")
    yield "# Commands"
    yield ""
    yield "Written by `asa lab man --markdown > docs/commands.md`; do not edit. `asa COMMAND --help` says more."
    for title, names in main.GROUPS.items():
        yield from _group(title, names, top)
    yield from _group("called by systemd, packages, clients and administrators", main.HIDDEN, top)
    for title, names in main.LAB_GROUPS.items():
        yield from _group(f"laboratory: {title}", names, lab)


def _group(title: str, names: tuple[str, ...], parent: "Command") -> "Iterator[str]":
    known = {one.path[-1]: one for one in parent.children}
    yield from ("", f"## {title[0].upper()}{title[1:]}", "", "| command | what it does |", "|---|---|")
    for name in names:
        actions = "COMMAND" if name == "lab" else "\\|".join(one.path[-1] for one in known[name].children)
        yield f"| `{' '.join((*parent.path, name, actions)).strip()}` | {known[name].help} |"


def _write(folder: Path, pages: dict[str, str]) -> None:
    from asa.core.errors import AsaError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise AsaError(f"{folder}: cannot be written: {error.strerror}; name another folder by --out") from error
    print(f"wrote {len(pages)} page{'s' if len(pages) != 1 else ''} to {folder}")
