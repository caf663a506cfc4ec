# SPDX-License-Identifier: GPL-2.0-only
"""The part of a kernel's source that sched_ext schedulers in C are built in, for a kernel that the lab built itself.

The types come out of that kernel's image. Our own files go into `tools/sched_ext`, and are built as the kernel's are.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from asa.core.errors import LabError
from scenarios.lab import kernel_build
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

NEEDED_MB = 700
INSIDE = "tools/sched_ext"
_IMAGE = "vmlinux"
_PARTS = ("tools", "scripts", "kernel/bpf", "include")


def unpack(tools: Tools, cache: Path, kernel: Kernel, report: Report) -> None:
    """Fill the tools' folder. Raises LabError."""
    built = kernel_build.read(kernel.root)
    tarball = cache / "kernels/source" / (built.source if built is not None else "")
    if built is None or not tarball.is_file():
        raise LabError(f"{kernel.image}: not built here, so that its source is unknown; run `asa lab setup --guests`")
    report(f"unpacking {tarball.name}")
    one_level = ["--strip-components=1", "--wildcards", "--no-wildcards-match-slash"]
    tools.run(["tar", "--extract", "--file", str(tarball), *one_level, *(f"*/{part}" for part in _PARTS)])
    tools.run(["sh", "-c", f'exec scripts/extract-vmlinux "$1" > {_IMAGE}', "sh", str(kernel.image)])


def compile_in(tools: Tools, name: str, sources: Iterable[Path]) -> Path:
    """The program `name`, of NAME.bpf.c and NAME.c among the sources. Raises LabError."""
    folder = tools.folder / INSIDE
    for source in sources:
        shutil.copy(source, folder)  # with a new date: make builds it again
    image = tools.folder / _IMAGE
    make = ["make", f"-j{os.cpu_count() or 1}", "CLANG=clang-19", "LLVM_STRIP=llvm-strip-19", f"VMLINUX_BTF={image}"]
    tools.run([*make, f"c-sched-targets={name}", name], inside=INSIDE)
    return folder / "build/bin" / name


def object_of(tools: Tools, name: str) -> Path:
    """The BPF half of what `compile_in` made."""
    return tools.folder / INSIDE / f"build/obj/sched_ext/{name}.bpf.o"


def compile_object(tools: Tools, source: Path, made: Path) -> None:
    """A BPF half alone, with the headers of a tree in which something was compiled before. Raises LabError."""
    inside = tools.folder / INSIDE
    folders = (
        inside / "include",
        inside / "include/bpf-compat",
        inside / "build/include",
        tools.folder / "tools/include",
    )
    words = ["clang-19", "-g", "-O2", "-mcpu=v3", "-D__TARGET_ARCH_x86", "-mlittle-endian", "-w", "-target", "bpf"]
    headers = [f"-I{one}" for one in (*folders, tools.folder / "tools/include/uapi")]
    tools.run([*words, *headers, "-c", str(source), "-o", str(made)])
