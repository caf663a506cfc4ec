# SPDX-License-Identifier: GPL-2.0-only
"""Where things are: data shipped with the package, caches, run-time state. Directories are made by who writes them."""

import os
import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

PROGRAM = Path("/usr/lib/asa")
LIBRARIES = Path("/usr/lib/asa-lab")  # what `asa lab setup` of an installed laboratory fetches
PROGRAM_LOCAL = Path("/usr/local/lib/asa")  # where /usr is read-only (`asa.install.prefix`)
"""The program of an installed ASA."""

LABORATORY = ("calibration", "scenarios", "models/train", "asa/cli/lab")
"""Folders of the package asa-lab, below that of asa; all others are the product's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """All roots that the agent uses; tests pass their own."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    run: Path = Path("/run/asa")  # state of the running agent: status, lock, undo journal; gone with a reboot
    cache: Path = Path.home() / ".cache/asa"  # schedulers, kernels, builds: can be made again
    state: Path = Path.home() / ".local/state/asa"  # journals
    config: Path = Path("/etc/asa/asa.yaml")
    shared: Path | None = None  # schedulers of an installed ASA, where they are the ones to use

    @property
    def schedulers(self) -> Path:
        """Folder of built schedulers and of `installed.json`, which records their hashes."""
        return self.shared or self.cache / "scx"


def default() -> Places:
    """Places for this user: root has the system's, others their own below XDG directories.

    Where ASA is installed, its schedulers are everybody's; root in a checkout keeps to those in its own cache.
    """
    home = Path.home()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "asa"
    state = Path(os.environ.get("XDG_STATE_HOME") or home / ".local/state") / "asa"
    shared: Path | None = installed().schedulers
    if os.geteuid() == 0:
        return Places(cache=cache, state=state, shared=shared if is_installed() else None)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "asa/asa.yaml"
    run = Path(runtime) / "asa" if runtime else state / "run"
    shared = shared if shared is not None and there(shared) else None
    return Places(run=run, cache=cache, state=state, config=config, shared=shared)


def installed() -> Places:
    """Places of an installed ASA: the root helper's, and where everybody finds the schedulers."""
    return Places(cache=Path("/var/lib/asa"), state=Path("/var/lib/asa"))


def is_installed() -> bool:
    """Whether the running program is an installed one."""
    return any(Path(__file__).is_relative_to(folder) for folder in (PROGRAM, PROGRAM_LOCAL))


def program() -> tuple[str, ...]:
    """How this program is started anew: an installed one by its launcher, which alone finds its libraries."""
    if Path(__file__).is_relative_to(PROGRAM):
        return ("/usr/bin/asa",)
    if Path(__file__).is_relative_to(PROGRAM_LOCAL):
        return ("/usr/local/bin/asa",)
    return (sys.executable, "-P", "-m", "asa.cli")  # -P: nothing is imported from the current folder


def there(path: Path) -> bool:
    """Whether there is something; True also where that cannot be looked at, so that opening it says why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def manifest() -> Path:
    """The portfolio that the package ships."""
    return _shipped("scx_bin", "manifest.yaml")


def own_manifest() -> Path:
    """The administrator's own portfolio, beside the system's settings; there need be none."""
    return Places().config.with_name("manifest.yaml")


def mapping_tables() -> Path:
    """Folder of mapping tables that the package ships."""
    return _shipped("mapping_tables", "default.yaml").parent


def base_model() -> Path:
    """The model artefact that the package ships."""
    return _shipped("models", "artefacts/base.npz")


@cache  # asked for in each tick: importlib would intern the parts of some paths, which are forgotten, each time
def _shipped(package: str, name: str) -> Path:
    return Path(str(files(package).joinpath(name)))
