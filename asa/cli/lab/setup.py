# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab setup`: installs what runs, tests and recordings need on this machine; what is there already stays."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

# What only tests need, besides `deb.PACKAGES`: a GNOME Shell with windows to focus, an X server, BCC, network
# namespaces, a D-Bus of their own.
_TEST_PACKAGES = (
    "bpftool",
    "chromium",
    "dbus",
    "dbus-daemon",
    "fish",
    "gcc",
    "gir1.2-gtk-3.0",
    "gir1.2-gtk-4.0",
    "gjs",
    "gnome-shell",
    "groff-base",
    "iproute2",
    "kwin-wayland",
    "libgl1-mesa-dri",
    "libpam-systemd",
    "lintian",
    "man-db",
    "openbox",
    "polkitd",
    "procps",
    "python3-bpfcc",
    "python3-gi",
    "sway",
    "systemd",
    "tmux",
    "util-linux",
    "xauth",
    "xdotool",
    "xvfb",
    "zsh",
)

_TEXT = """\
Installs what runs, tests and recordings need on Debian 12 and 13: system packages, the compiled eBPF
programs, QEMU and a kernel for the lab, the programs of the workloads, and the schedulers. What is there
already stays as it is. The lab measures with a QEMU and a kernel of 1000 Hz, which are built here (docs/lab.md);
the kernel of 250 Hz is built by the first command that measures under it.
"""
_MORE = """\
exit status:
  0  everything is there
  1  a step failed, or a scheduler could not be built

files:
  ~/.cache/asa  what can be made again: kernels, schedulers, builds

examples:
  asa lab setup
      Everything except what only tests and the benchmark need.
  asa lab setup --bench
      The applications of the benchmark, too.
  asa lab setup --guests
      The lab alone: Debian's QEMU and kernel, those that measure, and the test of KVM.
  asa lab setup --probes
      The eBPF programs and the model's evaluator, nothing else.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "setup", help="install schedulers, the lab, and the programs of the workloads", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--tests", action="store_true", help="what the tests need too: GNOME Shell, BCC, an X server")
    command.add_argument("--bench", action="store_true", help="the programs of benchmark and kinds too (1.2 GB)")
    command.add_argument(
        "--guests",
        action="store_true",
        help="nothing but the lab: Debian's QEMU and kernel, those that measure (1000 Hz), and the test of KVM",
    )
    command.add_argument(
        "--probes",
        action="store_true",
        help="nothing but what is compiled: the eBPF programs and the model's evaluator (`make bpf`)",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Set everything up. Exit code 1 when a scheduler could not be built."""
    from asa import debian, paths
    from asa.cli import schedulers
    from asa.cli.lab import deb

    libraries()
    if arguments.probes:
        probes()
        evaluator()
        return 0
    if arguments.guests:
        from asa.cli.lab import run as lab_run

        measuring()
        lab = lab_run.prepare(paths.default().cache)
        print(f"kernel {lab.kernel.version}, QEMU {'.'.join(map(str, lab.emulator.version))}: {lab.emulator.why}")
        return 0
    if arguments.tests:
        debian.install((*_TEST_PACKAGES, *deb.PACKAGES), report=print, cache=paths.default().cache)
        schedulers.build_loader()  # first: what it compiles stays for the schedulers
    if arguments.tests or arguments.bench:
        _applications()
    failed = ensure(lab=True, workloads=True)
    measuring()  # last: it takes longest, and nothing else waits for it
    return failed


def measuring() -> None:
    """The QEMU and the kernel that the lab measures with, built with a bar where missing. Raises as their `ensure`."""
    from asa import paths
    from asa.cli.lab.bench import output
    from scenarios.lab import emulator, kernel

    cache = paths.default().cache
    there = emulator.found(cache)
    if there is None or there.measuring is None:
        with output.progress() as tell:
            emulator.ensure(cache, print, measuring=True, tell=tell)
    if kernel.found(cache, kernel.MEASURING_HZ) is None:
        with output.progress() as tell:
            kernel.ensure(cache, print, kernel.MEASURING_HZ, tell=tell)


def libraries() -> None:
    """Where ASA is installed: fetch the pinned Python libraries of the laboratory, once. Raises SetupError."""
    from asa import files
    from asa.core.errors import SetupError
    from asa.paths import LIBRARIES, PROGRAM

    lock, there = PROGRAM / "calibration/requirements.lock", LIBRARIES
    if not Path(__file__).is_relative_to(PROGRAM) or there.exists():
        return
    if os.geteuid() != 0:
        raise SetupError(f"{there} can be made by root only; run `sudo asa lab setup`")
    with tempfile.TemporaryDirectory(prefix="asa-lab-") as name:
        venv, target = Path(name) / "venv", Path(f"{there}.new")
        print(f"fetching the laboratory's libraries into {there} (hash-checked)")
        pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for words in (
            [sys.executable, "-m", "venv", str(venv)],
            [*pip, "--require-hashes", "--no-deps", "--target", str(target), "-r", str(lock)],
        ):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                shutil.rmtree(target, ignore_errors=True)
                last = " ".join(done.stderr.strip().splitlines()[-1:])
                raise SetupError(f"{' '.join(words[:4])} … ended with {done.returncode}: {last!r}")
        files.move(target, there)


def ensure(*, lab: bool, workloads: bool) -> int:
    """Install what is missing, with progress; 1 when a scheduler could not be built. Raises SetupError, LabError."""
    from asa import debian, paths
    from asa.cli import schedulers
    from scenarios.lab import guest
    from scenarios.workloads import PACKAGES

    cache = paths.default().cache
    probes()
    evaluator()
    if workloads:
        debian.install(PACKAGES, report=print, cache=cache)
    if lab:
        guest.ready(cache, print)
    return schedulers.install_missing()


def _applications() -> None:
    """Install the benchmark's programs, and make what they work on. Raises SetupError, ApplicationError."""
    from asa import debian, paths
    from scenarios import catalogue
    from scenarios.application import Tier
    from scenarios.session import place_for, prepare

    cache = paths.default().cache
    for tier in Tier:
        known = {**catalogue.programs(), **catalogue.applications(tier)}.values()
        debian.install(sorted({name for one in known for name in one.packages}), report=print, cache=cache)
        for one in known:
            prepare(one, place_for(one, cache=cache, tier=tier), print)


def probes() -> None:
    """Install the library that loads the eBPF programs, and compile them where they are not up to date.

    A wheel brings them along compiled, but not the library. Raises SetupError.
    """
    from asa import debian, paths
    from collectors.ebpf import build, core

    _library()
    is_checkout = (core.OBJECT.parents[2] / "pyproject.toml").exists()
    if core.OBJECT.exists() and (not is_checkout or build.is_current(core.OBJECT)):
        return
    debian.install(build.PACKAGES, report=print, cache=paths.default().cache)
    print("compiling the eBPF programs")
    build.build()


def evaluator() -> None:
    """Compile what evaluates the model, where it is not up to date; without it NumPy does, which takes longer.

    A wheel brings it along, or does without. Raises SetupError.
    """
    from asa import debian, paths
    from asa.core.errors import ModelError
    from models import runtime_compiled

    is_checkout = (runtime_compiled.SOURCE.parents[1] / "pyproject.toml").exists()
    if not is_checkout or runtime_compiled.load() is not None:
        return
    if shutil.which("cc") is None and shutil.which("apt-get") is not None:
        debian.install(runtime_compiled.PACKAGES, report=print, cache=paths.default().cache)
    print("compiling the model's evaluator")
    try:
        runtime_compiled.build()
    except ModelError as error:
        print(f"{error}; going on without: NumPy evaluates the model")


def _library() -> None:
    # asked of the loader and not of dpkg: elsewhere than on Debian it may be there all the same
    from asa import debian, paths
    from asa.core.errors import SourceError
    from collectors.ebpf.libbpf import Library

    try:
        Library()
    except SourceError as error:
        if shutil.which("apt-get") is None:
            print(f"{error.reason}; going on without: no apt-get here")
        else:
            debian.install(("libbpf1",), report=print, cache=paths.default().cache)
