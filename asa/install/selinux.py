# SPDX-License-Identifier: GPL-2.0-only
"""SELinux: whether it is on, and whether ASA's files have the contexts that this system's policy gives them.

Only the policy knows which context a path has, so restorecon(8) is asked: to look, and by an installation to set.
What the policy allows a program of ASA's is not asked: ASA brings no policy module.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from asa.install.payload import HELPER_UNIT, LAUNCHER, PROGRAM, SETTINGS, SYSTEM_UNIT, USER_UNIT
from asa.paths import PROGRAM_LOCAL

PLACES = (
    Path(PROGRAM),
    PROGRAM_LOCAL,
    Path(LAUNCHER),
    Path("/usr/local/bin/asa"),
    Path(SETTINGS.parent),
    Path("/var/lib/asa"),  # schedulers
    *(
        Path(f"{top}/system/{unit}")
        for top in ("/usr/lib/systemd", "/etc/systemd")
        for unit in (HELPER_UNIT, SYSTEM_UNIT)
    ),
    *(Path(f"{top}/user/{USER_UNIT}") for top in ("/usr/lib/systemd", "/etc/systemd")),
    *(Path(f"{top}/dbus-1/system.d/org.asa.Helper1.conf") for top in ("/usr/share", "/etc")),
    *(Path(f"{top}/polkit-1/actions/org.asa.helper1.policy") for top in ("/usr/share", "/etc")),
    *(Path(f"{top}/dbus-1/system-services/org.asa.Helper1.service") for top in ("/usr/share", "/usr/local/share")),
)
"""What of an installed ASA somebody runs or trusts, below either prefix."""

_RESTORE = "restorecon"
_SAYS = "Would relabel "  # selinux_restorecon(3) with SELINUX_RESTORECON_NOCHANGE and _VERBOSE
_LIMIT_S = 60.0
_WORDS = 200  # characters


def mode(sys: Path) -> str:
    """`enforcing` or `permissive`; "" where SELinux is off or its file system is not mounted. Never raises."""
    try:
        return "enforcing" if (sys / "fs/selinux/enforce").read_bytes().strip() == b"1" else "permissive"
    except OSError:
        return ""


def wrong(places: Sequence[Path]) -> tuple[str, ...]:
    """Paths, also below `places`, whose context is not the policy's. Raises OSError where nobody can tell."""
    there = _there(places)
    if not there:
        return ()
    done = _run("-R", "-n", "-v", *there)
    said = f"{done.stdout}\n{done.stderr}"
    found = [line.removeprefix(_SAYS) for line in said.splitlines() if line.startswith(_SAYS)]
    if done.returncode and not found:
        raise OSError(_last(said) or f"{_RESTORE} ended with {done.returncode}")
    return tuple(line.partition(" from ")[0] for line in found)


def restore(places: Sequence[Path]) -> list[str]:
    """Give them the contexts of the policy. Lines about what went wrong."""
    there = _there(places)
    remedy = f"`sudo restorecon -R {' '.join(there)}`"
    try:
        done = _run("-R", *there) if there else None
    except OSError as error:
        return [f"SELinux: {error}; contexts are those of the folders; install policycoreutils, then {remedy}"]
    if done is None or done.returncode == 0:
        return []
    return [f"SELinux: restorecon ended with {done.returncode}: {_last(done.stderr)!r}; {remedy}"]


def _there(places: Sequence[Path]) -> list[str]:
    return [str(path) for path in places if path.exists()]


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which(_RESTORE) or shutil.which(_RESTORE, path="/usr/sbin:/sbin")  # sbin, which users lack
    if program is None:
        raise FileNotFoundError(f"{_RESTORE} is missing")
    try:
        return subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{_RESTORE} took longer than {_LIMIT_S:.0f} s") from error


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(lines[-1].split())[-_WORDS:] if lines else ""
