# SPDX-License-Identifier: GPL-2.0-only
"""Builds the lab's scheduler that starves: our two files in a kernel source's tools/sched_ext, as scx_simple is built.

The source is the one that the lab's kernel was built from, and the kernel's types come from that kernel's image. Makes
`CACHE/lab/starver-…/scx_starver`, another one for other files or another kernel, and `CACHE/logs/build-starver.log`.
Nothing is installed: no portfolio has it.
"""

import fcntl
import hashlib
import shutil
from pathlib import Path

from asa import debian
from asa.core.errors import LabError
from scenarios.lab import building, scx_tree
from scenarios.lab.building import Report, Tools
from scenarios.lab.kernel import Kernel

NAME = "scx_starver"
_SOURCES = tuple(Path(__file__).with_name(f"{NAME}{end}") for end in (".bpf.c", ".c"))


def ensure(cache: Path, kernel: Kernel, report: Report) -> Path:
    """The program, built when it is not there: a minute of CPU time. Raises LabError, SetupError."""
    made = hashlib.sha256(kernel.version.encode())
    for source in _SOURCES:
        made.update(source.read_bytes())
    home = cache / f"lab/starver-{made.hexdigest()[:16]}"
    program = home / NAME
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / ".starver.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second one waits, then finds it done
        if program.exists():
            return program
        debian.install(scx_tree.PACKAGES, report=report, cache=cache)
        try:
            with building.folder_of_build(home.parent, "building-starver-", scx_tree.NEEDED_MB) as part:
                _build(part, cache, kernel, report)
                part.joinpath("made").chmod(0o755)  # a guest's root is not always the owner
                building.put(part / "made", home)
        except OSError as error:
            where = error.filename or home
            raise LabError(f"{where}: {error.strerror} while building {NAME}; mend that and run again") from error
    return program


def _build(part: Path, cache: Path, kernel: Kernel, report: Report) -> None:
    log = cache / "logs/build-starver.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    tools = Tools(what=NAME, folder=part, log=log, packages=scx_tree.PACKAGES, env={})
    scx_tree.unpack(tools, cache, kernel, report)
    report(f"{NAME} is compiled")
    made = part / "made"
    made.mkdir()
    shutil.copy2(scx_tree.compile_in(tools, NAME, _SOURCES), made)
