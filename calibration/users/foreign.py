# SPDX-License-Identifier: GPL-2.0-only
"""Tests run on aarch64: Debian 13's Python and a kernel of Debian's with sched_ext, in a machine that QEMU emulates.

The root is made of unpacked packages, of which no script runs, and becomes the machine's first RAM disk. GCC's cross
compiler builds the model's evaluator. Needs root. QEMU's emulation of a processor alone would not do: it has no
seccomp(2) and no bpf(2), shows no processor times, and starts no program. The desktop is not shown.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

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
_TOOLS = ("busybox-static", "debootstrap", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
_QEMU, _EMULATOR = "qemu-system-arm", "qemu-system-aarch64"
_SUITES = ("trixie-backports",)  # of the kernel; of QEMU where this machine is Debian 12, as the lab's
_KERNEL = re.compile(r"linux-image-(6\.1[89]\.\d+\+deb\d+-arm64)")
_PACKAGES = ("gcc", "libbpf1", "libc6-dev", "python3")
_LIBRARIES = ("hypothesis", "jeepney", "msgspec", "numpy", "pytest", "yaml")
_IDLE = ("usr/share/doc", "usr/share/locale", "usr/share/man", "usr/share/perl", "var/cache", "var/lib/apt")
_BLAS = "/usr/lib/aarch64-linux-gnu/blas:/usr/lib/aarch64-linux-gnu/lapack"  # by links of Debian's, which scripts make
_EVALUATOR = "from pathlib import Path; from models import runtime_compiled; runtime_compiled.build(Path({path!r}))"
_BY_PSUTIL = "--ignore-glob=*_host.py"  # which compare with it; Debian's package of it is not in the root
_OPTIONS = "-q -rfEs -W ignore -p no:cacheprovider --color=no --hypothesis-profile=emulated"
_RESULTS = ("calibration/results", "models/recordings")  # which no test here reads
_MEMORY_MB = 3072  # the RAM disk is in it twice while it is unpacked
_LIMIT_S = 3600.0
_BEGINS, _ENDS = "@@ begins", "@@ ended with "
_INIT = f"""\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 PYTHONPATH=/src LD_LIBRARY_PATH={_BLAS}
export PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /src
echo "{_BEGINS}"
python3 -P -m pytest {_OPTIONS} {_BY_PSUTIL} {{tests}} 2>&1
echo "{_ENDS}$?"
sync
echo o > /proc/sysrq-trigger
sleep 60
"""


def passed() -> tuple[float, str]:
    """How many of `TESTS` pass, and which do not. Tens of minutes. Raises SetupError where none can run."""
    if os.geteuid() != 0:
        raise SetupError("roots are made by root; run it with sudo")
    _install()
    image = _kernel()
    with TemporaryDirectory(prefix="asa-aarch64-") as name:
        disk = Path(name) / "root.cpio"
        _pack(_root(), disk)
        said = _boot(image, disk)
    return read(said)


def read(said: str) -> tuple[float, str]:
    """The figure and its detail of what the machine printed. Raises SetupError where it ran no test."""
    text, ended, code = said.partition(_BEGINS)[2].partition(_ENDS)
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?|skipped)", text)}
    if not ended or code.split()[0] not in ("0", "1") or "passed" not in counts:
        last = said.strip().splitlines()[-1:]
        raise SetupError(f"the machine of aarch64 ran no tests to their end; its last line: {' '.join(last)!r}")
    broken = [line.split()[1] for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    counts.setdefault("failed", 0)
    others = ", ".join(f"{number} {what}" for what, number in counts.items() if what != "passed")
    return float(counts["passed"]), "; ".join((others, *broken[:5]))


def _install() -> None:
    def tell(line: str) -> None:
        print(line, file=sys.stderr)

    debian.install(_TOOLS, report=tell)
    if shutil.which(_EMULATOR) is None:
        own = debian.release()
        suites = (f"{own}-backports",) if own is debian.Codename.BOOKWORM else ()
        debian.install((_QEMU,), suites=suites, report=tell)


def _kernel() -> Path:
    folder = roots.PLACES / "kernel-arm64"
    found = sorted(folder.glob("*/boot/vmlinuz-*"))
    if found:
        return found[0]
    folder.mkdir(parents=True, exist_ok=True)

    def tell(line: str) -> None:
        print(line, file=sys.stderr)

    offers = debian.versions("linux-image-6.1*-arm64", _SUITES, report=tell, architecture="arm64")
    names = [offer.package for offer in offers if _KERNEL.fullmatch(offer.package)]
    if not names:
        raise SetupError(f"{_SUITES[0]} of this machine's mirror has no linux-image-6.18 or 6.19 for arm64")
    package = next((name for name in names if "-6.18." in name), names[0])
    deb = debian.download(package, folder, suites=_SUITES, report=tell, architecture="arm64")
    debian.unpack(deb, folder / package)
    deb.unlink()
    return next((folder / package / "boot").glob("vmlinuz-*"))


def _pack(root: Path, disk: Path) -> None:
    """The root with this checkout and an /init that runs the tests, as a RAM disk."""
    source = root / "src"
    roots.copy_tests(root)
    for name in _RESULTS:
        shutil.rmtree(source / name, ignore_errors=True)
    code = _EVALUATOR.format(path=str(source / "models/members.so"))
    run("building the evaluator", [sys.executable, "-P", "-c", code], more={"CC": "aarch64-linux-gnu-gcc"})
    (root / "init").write_text(_INIT.format(tests=" ".join(TESTS)), encoding="utf-8")
    (root / "init").chmod(0o755)
    command = 'find . -xdev | busybox cpio -o -H newc > "$0"'
    run("making the RAM disk", ["sh", "-c", f"cd {root} && {command}", str(disk)])


def _boot(image: Path, disk: Path) -> str:
    words = [_EMULATOR, "-M", "virt", "-cpu", "max,pauth-impdef=on", "-smp", "2", "-m", f"{_MEMORY_MB}M"]
    words += ["-accel", "tcg,thread=multi", "-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"]
    words += [
        "-kernel",
        str(image),
        "-initrd",
        str(disk),
        "-append",
        "console=ttyAMA0 loglevel=1 panic=-1 rdinit=/init",
    ]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,  # its exit code tells nothing
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"the machine of aarch64 had not ended after {_LIMIT_S:.0f} s") from error
    return done.stdout or done.stderr


def _root() -> Path:
    made = roots.PLACES / "trixie-arm64-machine"
    if made.exists():
        return made
    roots.PLACES.mkdir(parents=True, exist_ok=True)
    part = roots.PLACES / ".part-trixie-arm64"
    shutil.rmtree(part, ignore_errors=True)
    included = ",".join((*_PACKAGES, *(f"python3-{name}" for name in _LIBRARIES)))
    words = ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", f"--include={included}"]
    run("debootstrap for arm64", [*words, "trixie", str(part), debian.mirror()])
    for package in sorted((part / "var/cache/apt/archives").glob("*.deb")):
        _unpack(package, part)
    for name in _IDLE:
        shutil.rmtree(part / name, ignore_errors=True)
    if (part / "proc").is_symlink():  # debootstrap's own
        (part / "proc").unlink()
    for name in ("proc", "sys", "dev", "tmp", "run"):
        (part / name).mkdir(exist_ok=True)
    files.move(part, made)
    return made


def _unpack(package: Path, root: Path) -> None:
    # into a root whose /bin and /lib are links, which dpkg-deb --extract would replace
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as archive:
        words = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(root)]
        done = subprocess.run(words, stdin=archive.stdout, capture_output=True, text=True, check=False)
    if done.returncode or archive.returncode:
        raise SetupError(f"{package.name} cannot be unpacked: {done.stderr.strip()[-100:]!r}")
