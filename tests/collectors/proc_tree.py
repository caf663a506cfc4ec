# SPDX-License-Identifier: GPL-2.0-only
"""Trees of /proc and /sys made of file text in `data`: a virtual machine (read from one) and a four-core laptop."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
DISKS = {"laptop": ("nvme0n1", "nvme0c0n1", "sda", "sr0"), "two_core_vm": ("vda",)}  # those with a device in sysfs
VIRTUAL = {"laptop": ("dm-0", "zram0", "loop0"), "two_core_vm": ("loop0", "zram0")}
PIDS = (1, 2, 15, 812, 4120)


@dataclass(frozen=True, slots=True)
class Tree:
    """Roots to give to collectors."""

    proc: Path
    sys: Path

    def write(self, name: str, text: bytes) -> None:
        """Replace a file's content under the reader's open descriptor."""
        (self.proc / name).write_bytes(text)

    def edit(self, name: str, old: bytes, new: bytes) -> None:
        """Replace `old`, which must be there."""
        text = (self.proc / name).read_bytes()
        assert old in text
        self.write(name, text.replace(old, new))


def grow(root: Path, machine: str) -> Tree:
    """A tree of one of the machines below `root`."""
    tree = Tree(root / "proc", root / "sys")
    shutil.copytree(DATA / machine / "proc", tree.proc)
    for disk in DISKS[machine]:
        (tree.sys / "block" / disk / "device").mkdir(parents=True)
    for disk in VIRTUAL[machine]:
        (tree.sys / "block" / disk).mkdir(parents=True)
    if machine == "laptop":
        (tree.sys / "block/nvme0c0n1/hidden").write_text("1\n")
        (tree.sys / "block/nvme0n1/hidden").write_text("0\n")
        (tree.sys / "firmware/acpi").mkdir(parents=True)
        (tree.sys / "firmware/acpi/platform_profile").write_text("balanced\n")
        (tree.sys / "class/power_supply/AC").mkdir(parents=True)
        (tree.sys / "class/power_supply/AC/type").write_text("Mains\n")
        (tree.sys / "class/power_supply/AC/online").write_text("1\n")
    start(tree, PIDS)
    return tree


def refuse(monkeypatch: pytest.MonkeyPatch, path: Path, error: int) -> None:
    """Reading `path`, which opens, fails with `error`, as some kernel files do."""
    real = os.pread
    wanted = path.stat()

    def pread(descriptor: int, count: int, offset: int) -> bytes:
        if os.path.samestat(os.fstat(descriptor), wanted):
            raise OSError(error, os.strerror(error))
        return real(descriptor, count, offset)

    monkeypatch.setattr("collectors.procfs.reader.os.pread", pread)


def start(tree: Tree, pids: Iterable[int]) -> None:
    """Let processes appear."""
    for pid in pids:
        (tree.proc / str(pid)).mkdir()


def end(tree: Tree, pids: Iterable[int]) -> None:
    """Let processes go."""
    for pid in pids:
        (tree.proc / str(pid)).rmdir()


def attach(tree: Tree, *, state: str, ops: str | None, enable_seq: int) -> Path:
    """Show a sched_ext of that state; returns its folder."""
    folder = tree.sys / "kernel/sched_ext"
    (folder / "root").mkdir(parents=True, exist_ok=True)
    (folder / "state").write_text(f"{state}\n")
    (folder / "enable_seq").write_text(f"{enable_seq}\n")
    (folder / "root/ops").unlink(missing_ok=True)
    if ops is not None:
        (folder / "root/ops").write_text(f"{ops}\n")
    return folder
