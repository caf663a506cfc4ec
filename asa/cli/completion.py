# SPDX-License-Identifier: GPL-2.0-only
"""`asa completion bash|zsh|fish`: prints a script that completes commands, options, schedulers and files.

Made from the parser and the manifest; `asa.cli.shells` writes it. What it prints needs no Python when it runs.
"""

import argparse
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.cli.shells import Names

_DESCRIPTION = """\
Prints a shell script that completes commands, options, schedulers, workloads and files. The packages install
it. Elsewhere, put it into a file that the shell reads.
"""
_MORE = """\
files:
  ~/.local/share/bash-completion/completions/asa
      Where bash looks, with the package bash-completion.
  ~/.config/fish/completions/asa.fish
      Where fish looks.

examples:
  asa completion bash > ~/.local/share/bash-completion/completions/asa
      For bash, from the next session on.
  asa completion zsh > ~/.zfunc/_asa
      For zsh, with `fpath=(~/.zfunc $fpath)` before `compinit` in ~/.zshrc.
  asa completion fish > ~/.config/fish/completions/asa.fish
      For fish, at once.
"""


class Shell(StrEnum):
    """Whose script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "completion",
        help="print a script that completes this command line in a shell",
        description=_DESCRIPTION,
        epilog=_MORE,
    )
    command.add_argument(
        "shell", choices=[shell.value for shell in Shell], metavar="bash|zsh|fish", help="whose script"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(script(Shell(arguments.shell)), end="")
    return 0


def script(shell: Shell) -> str:
    """The script for `shell`. Raises InputError for a manifest that cannot be read."""
    from asa.cli import grammar, shells
    from asa.cli.main import parser

    make = {Shell.BASH: shells.bash, Shell.ZSH: shells.zsh, Shell.FISH: shells.fish}[shell]
    top = grammar.read(parser())
    return make(top, _names(tuple(child.path[-1] for child in top.children)))


def _names(commands: tuple[str, ...]) -> "Names":
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.cli.grammar import Kind
    from asa.core.decision import SchedulerName
    from asa.decide import table

    modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()
    with_modes = (SchedulerName.of(name, mode) for name, known in modes.items() for mode in known)
    return {
        Kind.NAME: tuple(modes),
        Kind.SCHEDULER: tuple(dict.fromkeys((*modes, *with_modes))),
        Kind.WORKLOAD: tuple(table.read(paths.mapping_tables() / "default.yaml").classes),
        Kind.PAGE: commands,
    }
