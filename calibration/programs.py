# SPDX-License-Identifier: GPL-2.0-only
"""The benchmarks' small C programs: compiled on the host when they are needed, run here or in a guest."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from asa.core.errors import AsaError

STATIC = ("-static", "-pthread", "-Wextra", "-Werror")
"""So that starting the program is not the loader's work, and so that a guest needs no library of this host."""

_COMPILERS = ("cc", "gcc", "clang", "clang-19")
_LIMIT_S = 60.0


def compiled(source: Path, folder: Path, flags: Sequence[str] = ()) -> Path:
    """The program of one C file, in `folder`, under the file's name. Raises AsaError without a C compiler."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise AsaError(f"{source.name}: no C compiler ({', '.join(_COMPILERS)}); run: apt-get install gcc libc6-dev")
    program = folder / source.stem
    command = (compiler, "-O2", "-Wall", *flags, "-o", str(program), str(source))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if done.returncode != 0:
        words = " / ".join(done.stderr.splitlines()[-3:])
        raise AsaError(f"{source}: {compiler} fails on it: {words!r}; run: apt-get install gcc libc6-dev")
    return program
