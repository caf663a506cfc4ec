# SPDX-License-Identifier: GPL-2.0-only
"""Builds the lab's scheduler that starves: our two files in a kernel source's tools/sched_ext, as scx_simple is built.

The source is the one that the lab's kernel was built from, and the kernel's types come from that kernel's image. Makes
`CACHE/lab/starver-…/scx_starver`, another one for other files or another kernel, and `CACHE/logs/build-starver.log`.
Nothing is installed: no portfolio has it.
"""

import fcntl
import hashlib
import os
import shutil
from pathlib import Path

from asa import debian
from asa.core.errors import LabError
from scenarios.lab import building, kernel_build
from scenarios.lab.building import Report, Tools
from scenarios.lab.kernel import Kernel

PACKAGES = (
    "build-essential",
    "clang-19",
    "libelf-dev",
    "libssl-dev",
    "llvm-19",
    "lz4",
    "pkg-config",
    "python3",
    "tar",
    "util-linux",
    "xz-utils",
    "zlib1g-dev",
)
"""As scx_simple (`asa.act.build`), and what unpacks the kernel's image."""

NAME = "scx_starver"
_SOURCES = tuple(Path(__file__).with_name(f"{NAME}{end}") for end in (".bpf.c", ".c"))
_PARTS = ("tools", "scripts", "kernel/bpf", "include")
_NEEDED_MB = 700


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
        debian.install(PACKAGES, report=report, cache=cache)
        try:
            with building.folder_of_build(home.parent, "building-starver-", _NEEDED_MB) as part:
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
    tools = Tools(what=NAME, folder=part, log=log, packages=PACKAGES, env={})
    built = kernel_build.read(kernel.root)
    tarball = cache / "kernels/source" / (built.source if built is not None else "")
    if built is None or not tarball.is_file():
        raise LabError(f"{kernel.image}: not built here, so that its source is unknown; run `asa lab setup --guests`")
    report(f"unpacking {tarball.name}")
    folders = [f"*/{one}" for one in _PARTS]
    tools.run(
        [
            "tar",
            "--extract",
            "--file",
            str(tarball),
            "--strip-components=1",
            "--wildcards",
            "--no-wildcards-match-slash",
            *folders,
        ]
    )
    report(f"{NAME} is compiled")
    image = part / "vmlinux"
    tools.run(["sh", "-c", f'exec scripts/extract-vmlinux "$1" > {image.name}', "sh", str(kernel.image)])
    folder = part / "tools/sched_ext"
    for source in _SOURCES:
        shutil.copy2(source, folder)
    make = ["make", f"-j{os.cpu_count() or 1}", "CLANG=clang-19", "LLVM_STRIP=llvm-strip-19", f"VMLINUX_BTF={image}"]
    tools.run([*make, f"c-sched-targets={NAME}", NAME], inside="tools/sched_ext")
    made = part / "made"
    made.mkdir()
    shutil.copy2(folder / "build/bin" / NAME, made)
