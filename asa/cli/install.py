# SPDX-License-Identifier: GPL-2.0-only
"""`asa install`: puts the running ASA on this machine for good."""

import argparse
import errno
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.install.change import Step
    from asa.install.payload import Item, Texts
    from asa.install.schedulers import Copy

_TEXT = """\
Installs this ASA on the machine: the program with all that it needs, systemd units of the helper and the
daemon, D-Bus and polkit files, manual pages, shell completion, and the schedulers that root has built. From
then on each user's desktop starts the daemon (graphical-session.target). sway, Hyprland and i3 do not reach
that target: put the line `exec systemctl --user start asa.service` into their settings. A machine without a
desktop takes `--system`.

You can repeat it. What is there already stays, what an older version had goes. Settings that you changed
stay. If a step fails, everything that was made is taken back.
"""
_MORE = """\
exit status:
  0  it is installed
  1  it could not be done; one line on standard error says why and what to do

files:
  /usr/lib/asa            the program, and files.json, the record of what was installed
  /etc/asa/asa.yaml       settings
  /var/lib/asa            schedulers, this machine's mapping table, and what an administrator has approved or held

examples:
  sudo asa install --dry-run
      Every file, and what would happen to it.
  sudo asa install --user alice
      With the GNOME Shell extension for that user.
  sudo asa install --system
      On a server: asa-system.service runs `asa run` from the boot on.
"""


_TRIES = (
    "ASA tries schedulers against the one in force, in at most 5 % of the time and with 12 switches an hour; "
    "`policy.learn: off` in /etc/asa/asa.yaml ends that"
)
_ELSEWHERE = "/usr is read-only: programs are below /usr/local, units and bus files below /etc"


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("install", help="install ASA on this machine (root)", description=_TEXT, epilog=_MORE)
    command.add_argument(
        "--prefix",
        choices=("/usr", "/usr/local"),
        help="where programs go; units and bus files then go below /etc (default: /usr, unless that is read-only)",
    )
    command.add_argument("--user", metavar="USER", help="install the GNOME Shell extension for this user too")
    command.add_argument(
        "--system", action="store_true", help="without a desktop: one agent of root, which starts with the machine"
    )
    add_common(command)
    command.set_defaults(run=run)


def add_common(command: argparse.ArgumentParser) -> None:
    """Options that `asa uninstall` has too."""
    command.add_argument("--dry-run", action="store_true", help="say what would happen to each file, change nothing")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)  # as systemctl(1) has it


def run(arguments: argparse.Namespace) -> int:
    """Install. Exit code 0. Raises AsaError."""
    from asa.install.change import alone
    from asa.install.payload import payload

    need_root("install", dry=arguments.dry_run)
    with alone(arguments.root):
        return _install(arguments, payload(texts()))


def _install(arguments: argparse.Namespace, items: "tuple[Item, ...]") -> int:
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.core.errors import SetupError
    from asa.install import change, prefix, record, schedulers
    from asa.install.system import System

    root, dry = arguments.root, arguments.dry_run
    machine = System(root)
    machine.check()
    old = record.read(root)
    wanted = prefix.Prefix(arguments.prefix) if arguments.prefix else None
    chosen = prefix.choose(root, wanted, PurePosixPath(old.program) if old else None)
    items = prefix.below(items, chosen, root)
    steps = change.plan(root, items, old)
    changed = any(step.what not in (change.What.SAME, change.What.KEEP) for step in steps)
    notes = [_ELSEWHERE] if chosen is not prefix.Prefix.USR and wanted is None else []
    if changed and not dry:
        try:
            change.put(root, items, steps, old, chosen)
        except OSError as error:
            raise SetupError(f"{error.filename}: {error.strerror}; nothing was installed; {_remedy(error)}") from error
        notes += machine.compile(prefix.program(chosen))
    copies: tuple[Copy, ...] = ()
    if os.geteuid() == 0:
        source = Portfolio.load(paths.manifest(), paths.default().schedulers)
        with change.taken_back(root) if old is None and not dry else nullcontext():
            copies = schedulers.copy(root, source, dry=dry)
        if not source.records():
            notes.append("no schedulers are installed yet: `sudo asa schedulers install`, then `sudo asa install`")
    else:
        notes.append("schedulers are left out: only root sees root's")
    if not dry and (changed or copies):
        notes += machine.label()
    if changed and not dry:
        notes += machine.enable() if old is None and not arguments.system else []  # later that is the administrator's
        notes += machine.reload(restart=old is not None)
    if not dry and arguments.system:
        notes += machine.enable(system=True) or machine.start()
    if not dry and arguments.user:
        notes += extension("install", arguments.user)
    closing = (
        ""
        if arguments.user or arguments.system
        else "GNOME: each user runs `asa gnome install` once; then log out and in"
    )
    closing = "\n".join(text for text in (closing, _TRIES) if text)
    show(arguments, steps, copies, notes, closing)
    return 0


def _remedy(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "`sudo asa install --prefix /usr/local` does without this folder"
    return "mend that and run `asa install` again"


def texts() -> "Texts":
    """What of an installation is made from the command line and the settings."""
    from asa.cli import completion, grammar, manpages
    from asa.cli.main import parser
    from asa.install.payload import Texts

    return Texts(
        pages=manpages.pages(grammar.read(parser())),
        completions={str(shell.value): completion.script(shell) for shell in completion.Shell},
        settings=_settings(),
    )


def need_root(verb: str, *, dry: bool) -> None:
    """Raises SetupError for anybody else, but to look."""
    from asa.core.errors import SetupError

    if os.geteuid() != 0 and not dry:
        raise SetupError(f"only root can do that; run `sudo asa {verb}`, or `asa {verb} --dry-run` to look")


def extension(verb: str, user: str) -> list[str]:
    """Install or remove the GNOME Shell extension of one user; lines about what went wrong."""
    import subprocess

    from asa.install.payload import LAUNCHER

    places = (Path(LAUNCHER), Path("/usr/local/bin/asa"))
    launcher = next((one for one in places if one.exists()), places[0])
    done = subprocess.run(
        [str(launcher), "gnome", verb],
        env={"PATH": "/usr/bin:/bin", "SUDO_USER": user},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join((done.stdout + done.stderr).split())
    return [] if done.returncode == 0 else [f"the GNOME Shell extension of {user}: {said}"]


def show(
    arguments: argparse.Namespace,
    steps: "Sequence[Step]",
    copies: "Sequence[Copy]",
    notes: Sequence[str],
    closing: str,
) -> None:
    """Print what happened, or would: each file in a dry run, else how many."""
    import asa

    if arguments.json:
        from asa import wire

        body = {"version": asa.__version__, "dry_run": arguments.dry_run, "steps": steps}
        print(wire.json_text(body | {"schedulers": copies, "notes": notes}))
        return
    if arguments.dry_run:
        for step in steps:
            print(f"{step.what:<8} {step.path}")
        for copy in copies:
            print(f"{copy.what:<8} {copy.path}{f': {copy.fault}' if copy.fault else ''}")
    counted = Counter([*(str(step.what) for step in steps), *(str(copy.what) for copy in copies)])
    done = {what: count for what, count in counted.items() if what not in ("same", "keep")}
    if done:
        told = ", ".join(f"{count} {what}" for what, count in sorted(done.items()))
        print(f"{'would' if arguments.dry_run else 'done'}: {told}")
    else:
        print("nothing to do")
    for step in steps:
        if step.what == "keep":
            print(f"kept {step.path}: it was changed here")
    for copy in copies:
        if copy.fault:
            print(f"asa: {copy.name}: {copy.fault}", file=sys.stderr)
    for note in notes:
        print(f"asa: {note}", file=sys.stderr)
    if closing and done:
        print(closing)


def _settings() -> str:
    """A settings file that sets nothing and shows everything."""
    from asa import wire
    from asa.cli import config
    from asa.config import Settings

    lines = [
        "# Settings of ASA, asa-config(1). Each line that stands for itself shows a default.",
        "# `asa config check /etc/asa/asa.yaml` names all faults of this file at once.",
    ]
    section = ""
    for setting in sorted(config.settings(Settings(), {}), key=lambda one: "." in one.key):
        above, _, name = setting.key.rpartition(".")
        if above != section:
            lines += ["", f"#{above}:"]
            section = above
        indent = "  " if above else ""
        text = f"{setting.comment} ({setting.allowed})" if setting.comment else setting.allowed
        lines += [f"#{indent}# {text}", f"#{indent}{name}: {wire.json_text(setting.default)}"]
    return "\n".join(lines) + "\n"
