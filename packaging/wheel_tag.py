# SPDX-License-Identifier: GPL-2.0-only
"""Tells hatchling which machines a wheel is for, from what is compiled in it. Used by pyproject.toml.

A wheel without compiled parts is for all. One with them is for this kind of machine. It is called manylinux where
all that it needs is the C library, from the version on whose symbols it uses (PEP 600).
"""

import platform
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED, PROBES = "models/members.so", "collectors/ebpf/*.bpf.o"
_OLDEST = (2, 17)  # no tag of PEP 600 in use names an older C library
_C_LIBRARY = frozenset({"libc.so.6", "libm.so.6"})


def tag(compiled: bytes | None, machine: str) -> str:
    """Of a wheel with this shared library, None for one without. `machine` is as `uname -m` has it."""
    if compiled is None:
        return "py3-none-any"
    needed = {name.decode() for name in re.findall(rb"\0(lib[\w.+-]+\.so\.\d+)(?=\0)", compiled)}
    if not needed <= _C_LIBRARY:
        return f"py3-none-linux_{machine}"
    found = (tuple(map(int, pair)) for pair in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", compiled))
    major, minor = max([_OLDEST, *found])
    return f"py3-none-manylinux_{major}_{minor}_{machine}"


class Tagged(BuildHookInterface):
    """The hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """As hatchling calls it; an editable installation stays as it is."""
        if version == "editable":
            return
        probes = any(Path(self.root).glob(PROBES))  # they have the layout of this machine's registers
        path = Path(self.root, COMPILED)
        compiled = path.read_bytes() if path.exists() else b"" if probes else None
        build_data["pure_python"] = compiled is None
        build_data["tag"] = tag(compiled, platform.machine())
