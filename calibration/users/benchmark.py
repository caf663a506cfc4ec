# SPDX-License-Identifier: GPL-2.0-only
"""The figures of where the users are, and how each is measured."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from asa.core.errors import AsaError
from calibration.goals import Named
from calibration.kept import Count
from calibration.users import desktops, faults, foreign, hosts, packages, roots

KEPT = Path(__file__).parents[1] / "results" / "users.json"


class UsersFigure(Named):
    """The figures, each with its goal."""

    SENTENCE = (
        "doctor_first_sentence_ok",
        "%",
        "of fabricated hosts on which `asa doctor` begins with the right sentence",
        ">=",
        100.0,
    )
    FAULTS = "faults_mended", "faults", "that others' users reported, whose tests pass", ">=", 21.0
    DESKTOPS = (
        "desktops_run",
        "desktops",
        "that were started for real and whose windows were told: GNOME, KWin, sway, X11, and Debian 13's of three",
        ">=",
        7.0,
    )
    PACKAGES = (
        "packages_built",
        "packages",
        "deb, rpm, wheel, sdist, PKGBUILD, each built and right",
        ">=",
        5.0,
    )
    INSTALLS = (
        "chroot_installs_ok",
        "roots",
        "fresh ones in which a package is installed, runs and goes: Debian 12, Debian 13, by rpm, by pacman",
        ">=",
        4.0,
    )
    LEFT = (
        "uninstall_leftover_files",
        "files",
        "and folders that removals leave in these roots",
        "<=",
        0.0,
    )
    AARCH64 = (
        "aarch64_tests_passed",
        "tests",
        "on a kernel of aarch64, the gate's and the collectors' among them (goal: all that are run)",
        ">=",
        1.0,
    )


def counts() -> Mapping[Named, Count]:
    """How each figure is measured."""
    tried = functools.cache(roots.tried)
    return {
        UsersFigure.SENTENCE: _sentences,
        UsersFigure.FAULTS: _faults,
        UsersFigure.DESKTOPS: _desktops,
        UsersFigure.PACKAGES: _packages,
        UsersFigure.INSTALLS: lambda: _installs(tried()),
        UsersFigure.LEFT: lambda: _left(tried()),
        UsersFigure.AARCH64: foreign.passed,
    }


def _sentences() -> tuple[float, str]:
    every = hosts.hosts()
    wrong = []
    for host in every:
        with TemporaryDirectory(prefix="asa-host-") as folder:
            if not hosts.is_right(host, hosts.judged(host, Path(folder))):
                wrong.append(host.name)
    words = f"; wrong on: {', '.join(wrong)}" if wrong else ""
    return 100.0 * (len(every) - len(wrong)) / len(every), f"{len(every)} hosts{words}"


def _faults() -> tuple[float, str]:
    every = faults.faults()
    left = list(faults.mended(every, faults.failed(name for fault in every for name in fault.tests)))
    open_ = [str(one.number) for one in every if one not in left]
    words = f"; not mended: {', '.join(open_)}" if open_ else ""
    return float(len(left)), f"of {len(every)}, by {sum(len(one.tests) for one in every)} tests{words}"


def _packages() -> tuple[float, str]:
    found = packages.checked(packages.ROOT / "build")
    wrong = [line for lines in found.values() for line in lines]
    words = f"; {len(wrong)} faults, first: {wrong[0]}" if wrong else ""
    return float(sum(not lines for lines in found.values())), f"{', '.join(found)}{words}"


def _installs(tried: Sequence[roots.Tried]) -> tuple[float, str]:
    words = [f"{one.root}: {one.fault}" if one.fault else one.root for one in tried]
    return float(sum(not one.fault for one in tried)), "; ".join(words)


def _left(tried: Sequence[roots.Tried]) -> tuple[float, str]:
    failed = [f"{one.root}: {one.fault}" for one in tried if one.fault]
    if failed:
        raise AsaError("; ".join(failed))  # what was not removed leaves everything
    left = [f"{one.root}: {name}" for one in tried for name in one.left]
    return float(len(left)), "; ".join(left[:5]) or f"{len(tried)} roots"


def _desktops() -> tuple[float, str]:
    ran, left = desktops.tried(desktops.desktops())
    return float(len(ran)), ", ".join(ran) + (f"; not run: {'; '.join(left)}" if left else "")
