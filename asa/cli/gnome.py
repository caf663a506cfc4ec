# SPDX-License-Identifier: GPL-2.0-only
"""`asa gnome install|remove|status`: the GNOME Shell extension that tells which window has the focus."""

import argparse
import os
import pwd
from collections.abc import Mapping
from typing import TYPE_CHECKING

from asa.core.errors import SetupError

if TYPE_CHECKING:
    from asa.cli.main import Commands

_ACTIONS = (
    ("install", "put the extension into your home and switch it on"),
    ("remove", "switch it off and take it away"),
    ("status", "whether it is installed, enabled and active"),
)

_TEXT = """\
Installs, removes or shows the GNOME Shell extension that tells the agent which application has the focus.
Extensions belong to one user: run this as the user of the desktop, or by sudo from there.
"""
_MORE = """\
exit status:
  0  done; for `status`: the extension is active
  1  it could not be done; for `status`: the extension is not active

files:
  ~/.local/share/gnome-shell/extensions  where the extension is put

examples:
  asa gnome install
      Put it there and switch it on.
  asa gnome status --json
      Its condition, for programs.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    parser = commands.add_parser(
        "gnome", help="install or remove the extension that reports the focused window", description=_TEXT, epilog=_MORE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, what in _ACTIONS:
        action = actions.add_parser(name, help=what)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do it, print one line. Exit code of `status`: 0 when the extension is active, else 1. Raises SetupError."""
    from asa import wire
    from collectors.gnome.install import Condition, Installation

    environment, user = person(os.environ)
    installation = Installation(environment)  # reads what the package ships, which may lie where only root reads
    if user is not None:
        become(user)
    done = ""
    if arguments.action == "install":
        status = installation.install()
    else:
        if arguments.action == "remove":
            done = "removed the extension" if installation.remove() else "there was no extension to remove"
        status = installation.status()
    if arguments.json:
        print(wire.json_text(status))
    else:
        print(done or "; ".join(part for part in (status.text, status.remedy) if part))
    return int(arguments.action == "status" and status.condition is not Condition.ACTIVE)


def person(environment: Mapping[str, str]) -> tuple[dict[str, str], pwd.struct_passwd | None]:
    """The environment of the person whose desktop it is, and under sudo that person, to `become`.

    Raises SetupError for root without sudo: extensions are per user.
    """
    if os.geteuid() != 0:
        return dict(environment), None
    name = environment.get("SUDO_USER", "")
    if name in ("", "root"):
        raise SetupError("extensions of GNOME Shell are per user, and this is root; run it as the user of the desktop")
    try:
        user = pwd.getpwnam(name)
    except KeyError as error:
        raise SetupError(f"SUDO_USER: there is no user {name!r}; run it as the user of the desktop") from error
    runtime = f"/run/user/{user.pw_uid}"  # pam_systemd(8); sudo has taken the variables away
    own = {
        "PATH": environment.get("PATH", os.defpath),
        "LANG": environment.get("LANG", "C.UTF-8"),
        "HOME": user.pw_dir,
        "USER": name,
        "LOGNAME": name,
        "XDG_RUNTIME_DIR": runtime,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
    }
    return own, user


def become(user: pwd.struct_passwd) -> None:
    """Give root up for good: from here on, this process is `user`."""
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
