# SPDX-License-Identifier: GPL-2.0-only
"""Tests of what is pure, run as programs of aarch64: Debian 13's Python of arm64, emulated by qemu-user.

The root is made of unpacked packages; no script of theirs runs. GCC's cross compiler builds the model's evaluator.
Needs root. Nothing of sched_ext, of eBPF and of the desktop can be shown so: the kernel is this machine's.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from asa import debian, files
from asa.core.errors import SetupError
from calibration.users import roots
from calibration.users.packages import run

TESTS = (
    "tests/core",
    "tests/act/test_btf.py",
    "tests/act/test_exits.py",
    "tests/act/test_gate.py",
    "tests/act/test_manifest.py",
    "tests/collectors/ebpf/test_hooks_ebpf.py",
    "tests/collectors/procfs",
    "tests/models/test_runtime_compiled.py",
    "tests/test_host_facts.py",
    "tests/test_procstat.py",
    "tests/test_wire.py",
)
_TOOLS = ("debootstrap", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static")
_LIBRARIES = ("hypothesis", "jeepney", "msgspec", "numpy", "pytest", "yaml")
_EMULATOR = "usr/bin/qemu-aarch64-static"
_BLAS = "/usr/lib/aarch64-linux-gnu/blas:/usr/lib/aarch64-linux-gnu/lapack"  # by links of Debian's, which scripts make
_EVALUATOR = "from pathlib import Path; from models import runtime_compiled; runtime_compiled.build(Path({path!r}))"
_BY_PSUTIL = "--ignore-glob=*_host.py"  # which compare with it; Debian's package of it is not in the root
_CALL = "import os, sys, pytest; os.chdir('/src'); sys.exit(pytest.main(sys.argv[1:]))"


def passed() -> tuple[float, str]:
    """How many of `TESTS` pass, and which do not. Minutes. Raises SetupError where none can run."""
    if os.geteuid() != 0:
        raise SetupError("roots are made by root; run it with sudo")
    debian.install(_TOOLS, report=lambda line: print(line, file=sys.stderr))
    root = _root()
    source = root / "src"
    roots.copy_tests(root)
    evaluator = source / "models/members.so"
    code = _EVALUATOR.format(path=str(evaluator))
    run("building the evaluator", [sys.executable, "-P", "-c", code], more={"CC": "aarch64-linux-gnu-gcc"})
    emulated = [f"/{_EMULATOR}", "-E", f"LD_LIBRARY_PATH={_BLAS}", "-E", "HOME=/tmp", "-E", "PYTHONPATH=/src"]
    words = [*emulated, "/usr/bin/python3", "-P", "-c", _CALL, "-q", "-rfE", "-W", "ignore", "-p", "no:cacheprovider"]
    return read(roots.inside(root, [*words, _BY_PSUTIL, *TESTS]))


def read(done: subprocess.CompletedProcess[str]) -> tuple[float, str]:
    """The figure and its detail of what pytest printed. Raises SetupError where it ran no test."""
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?|skipped)", done.stdout)}
    if done.returncode not in (0, 1) or "passed" not in counts:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise SetupError(f"pytest of aarch64 ended with {done.returncode}: {' '.join(last)!r}")
    broken = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    others = ", ".join(f"{number} {what}" for what, number in counts.items() if what != "passed")
    return float(counts["passed"]), "; ".join((others or "none failed", *broken[:5]))


def _root() -> Path:
    made = roots.PLACES / "trixie-arm64"
    if made.exists():
        return made
    roots.PLACES.mkdir(parents=True, exist_ok=True)
    part = roots.PLACES / ".part-trixie-arm64"
    shutil.rmtree(part, ignore_errors=True)
    included = ",".join(("python3", *(f"python3-{name}" for name in _LIBRARIES)))
    words = ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", f"--include={included}"]
    run("debootstrap for arm64", [*words, "trixie", str(part), debian.mirror()])
    for package in sorted((part / "var/cache/apt/archives").glob("*.deb")):
        _unpack(package, part)
    if (part / "proc").is_symlink():  # debootstrap's own
        (part / "proc").unlink()
    for name in ("proc", "sys", "dev", "tmp"):
        (part / name).mkdir(exist_ok=True)
    shutil.copy(f"/{_EMULATOR}", part / _EMULATOR)
    files.move(part, made)
    return made


def _unpack(package: Path, root: Path) -> None:
    # into a root whose /bin and /lib are links, which dpkg-deb --extract would replace
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as archive:
        words = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(root)]
        done = subprocess.run(words, stdin=archive.stdout, capture_output=True, text=True, check=False)
    if done.returncode or archive.returncode:
        raise SetupError(f"{package.name} cannot be unpacked: {done.stderr.strip()[-100:]!r}")
