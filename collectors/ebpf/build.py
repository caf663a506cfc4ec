# SPDX-License-Identifier: GPL-2.0-only
"""Compiles the CO-RE programs: `python -m collectors.ebpf.build [--out FILE]`.

Done at packaging time, not where the agent runs. Reads probes.bpf.c, probes.h and the layout; makes one object that
fits every kernel with BTF, on x86-64 and aarch64.
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from asa.core.errors import AsaError, SetupError
from collectors.ebpf import core, layout

_HERE = Path(__file__).parent
SOURCES: tuple[Path, ...] = tuple(_HERE / name for name in ("probes.bpf.c", "probes.h", "layout.py", "build.py"))
"""What the object is made of."""

OLDEST_CLANG = 14  # Debian 12's; older ones are not tried here
_NEWEST_CLANG = 24
PACKAGES = ("clang-19", "llvm-19", "libbpf-dev", "linux-libc-dev")
"""Debian packages that building needs."""

_INSTALL = f"apt-get install {' '.join(PACKAGES)}"
_LIMIT_S = 300


def find_clang() -> str:
    """A clang that is new enough: 19 first (the one that is tested), then any. Raises SetupError."""
    names = ["clang-19", "clang", *(f"clang-{version}" for version in range(_NEWEST_CLANG, OLDEST_CLANG - 1, -1))]
    for name in names:
        path = shutil.which(name)
        if path is not None and _version(path) >= OLDEST_CLANG:
            return path
    raise SetupError(f"no clang of version {OLDEST_CLANG} or newer found: {_INSTALL}")


def _version(clang: str) -> int:
    said = subprocess.run([clang, "--version"], capture_output=True, text=True, check=False, timeout=_LIMIT_S).stdout
    found = re.search(r"version (\d+)\.", said)
    return int(found[1]) if found else 0


def is_current(out: Path) -> bool:
    """Whether `out` is there and none of its sources is newer."""
    if not out.exists():
        return False
    made = out.stat().st_mtime_ns
    return all(source.stat().st_mtime_ns <= made for source in SOURCES)


def build(out: Path = core.OBJECT) -> bool:
    """Compile to `out` unless it is current; whether it was made. Raises SetupError."""
    if is_current(out):
        return False
    clang = find_clang()
    strip = _strip_of(clang)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".bpf-") as folder:
        made = Path(folder) / out.name
        (Path(folder) / "stats.h").write_text(layout.render(), "ascii")
        # linux/types.h includes asm/types.h, which lies in a folder of the machine's own, unknown to the bpf target
        machine = f"/usr/include/{platform.machine()}-linux-gnu"
        options = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", f"-I{folder}", "-isystem", machine]
        _run([clang, *options, "-c", str(_HERE / "probes.bpf.c"), "-o", str(made)])
        if strip is not None:
            _run([strip, "-g", str(made)])  # drops DWARF, keeps BTF: a third less to ship
        made.replace(out)  # a reader never sees half of it
    return True


def _strip_of(clang: str) -> str | None:
    """llvm-strip of the same version, None when it is not installed: the object is only larger then."""
    suffix = Path(clang).name.removeprefix("clang")
    return shutil.which(f"llvm-strip{suffix}") or shutil.which("llvm-strip")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{command[0]}: {error}; {_INSTALL}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines() or [""]
        hint = f"; {_INSTALL}" if "file not found" in done.stderr else ""
        raise SetupError(f"{command[0]} failed with {done.returncode}: {lines[0]}{hint}")


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="collectors.ebpf.build", description="compile the eBPF programs")
    parser.add_argument("--out", type=Path, default=core.OBJECT, help="where to put the object (beside its source)")
    out: Path = parser.parse_args().out
    try:
        made = build(out)
    except AsaError as error:
        print(f"asa: {error}", file=sys.stderr)
        return 1
    print(f"{out}: {'built' if made else 'is current'}, {out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
