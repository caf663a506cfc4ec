# SPDX-License-Identifier: GPL-2.0-only
"""`asa uninstall`: takes an installed ASA from this machine."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.install import add_common, extension, need_root, show

if TYPE_CHECKING:
    from asa.cli.main import Commands

_TEXT = """\
Removes an installed ASA. It ends the helper, which puts the kernel back on its own scheduler, and the
daemons. It then removes all that `asa install` has made, with the schedulers and this machine's mapping
table (`asa table export` keeps it). Settings that you changed stay, unless you give --purge. Files in users'
homes stay, too. While a `sudo asa run` is running it changes nothing: end that first.
"""
_MORE = """\
exit status:
  0  nothing of it is left, or it was not installed
  1  it could not be done, or something could not be removed; standard error says what

examples:
  sudo asa uninstall --dry-run
      Every file that would go.
  sudo asa uninstall --purge
      With changed settings.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("uninstall", help="remove an installed ASA (root)", description=_TEXT, epilog=_MORE)
    command.add_argument("--purge", action="store_true", help="remove settings that were changed, too")
    command.add_argument("--user", metavar="USER", help="remove the GNOME Shell extension of this user too")
    add_common(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Uninstall. Exit code 1 when something is left. Raises AsaError."""
    import sys

    from asa import paths
    from asa.install import change, record
    from asa.install.quiet import quiet
    from asa.install.system import System

    need_root("uninstall", dry=arguments.dry_run)
    root = arguments.root
    left: list[str] = []
    with change.alone(root):
        old = record.read(root)
        if old is None:
            show(arguments, (), (), (), "")
            return 0
        steps = change.plan_removal(root, old, purge=arguments.purge)
        notes: list[str] = []
        if not arguments.dry_run:
            machine = System(root)
            notes += machine.stop_agent()
            notes += machine.stop_helper()
            notes += _put_back() if root == Path("/") else []
            try:
                with quiet(paths.Places(run=record.below(root, "/run/asa"), sys=record.below(root, "/sys"))) as said:
                    notes += said
                    if arguments.user:
                        notes += extension("remove", arguments.user)
                    notes += machine.stop_daemons()
                    notes += machine.disable()
                    left = change.take_away(root, steps, old)
            finally:
                notes += machine.reload(restart=False)
        closing = "what users have stays: journals in ~/.local/state/asa, the GNOME Shell extension"
        show(arguments, steps, (), notes, closing)
    for path in left:
        print(f"asa: left: {path}", file=sys.stderr)
    return 1 if left else 0


def _put_back() -> list[str]:
    # of `asa doctor --fix`: what was there before ASA comes back when ASA goes
    from asa import paths, takeover
    from asa.core.errors import AsaError

    try:
        return [f"{one.name} is as before" for one in takeover.back(paths.installed().state / takeover.NAME)]
    except AsaError as error:
        return [str(error)]
