# SPDX-License-Identifier: GPL-2.0-only
"""What a guest is made of: QEMU's arguments, an initramfs, and the script that runs the command inside.

virtme-ng (`virtme-run --dry-run`) plans the machine; its plan is changed in three places: the console's text goes to a
file, the guest may cache the read-only root, and it has no serial ports for the script, whose output goes to files.
Writes into the private folder only; starts nothing that stays.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from asa import paths
from asa.core.errors import LabError
from scenarios.lab.emulator import Clock, Emulator
from scenarios.lab.kernel import Kernel
from scenarios.lab.machines import Machine

CONSOLE = "console.log"
"""Name of the console's text, in the private folder while the guest runs."""

_SAFE_PATH = re.compile(r"/[A-Za-z0-9_+/.-]+")  # what virtme-ng takes for a shared folder, less the space
_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PORTS = re.compile(r"virtio-serial-pci|virtserialport,.*|(?:file|stdio),id=(?!console,).*")
# The command's exit code is the last thing that appears, whole or not at all.
_RUNNER = """\
private={private}
fail() {{ echo "$1" > $private/failed; exit 1; }}
modules={modules}
if [ ! -e "/lib/modules/$(uname -r)/modules.dep" ]; then
    # this host has no /lib/modules to link ours into, and the root is read-only
    printf '#!/bin/sh\\nexec /sbin/modprobe -d %s "$@"\\n' "$modules" > /run/modprobe
    chmod 755 /run/modprobe
    echo /run/modprobe > /proc/sys/kernel/modprobe
    export MODPROBE_OPTIONS="-d $modules"
fi
# libbpf reads the kernel's options there: without them most schedulers end with "failed to open system Kconfig"
[ -e "/boot/config-$(uname -r)" ] || mount --bind {boot} /boot || fail 'the kernel has no /boot to show its options in'
[ -d /dev/shm ] || mkdir -m 1777 /dev/shm
grep -q ' /dev/shm ' /proc/mounts || mount -t tmpfs -o mode=1777 tmpfs /dev/shm
grep -q ' /sys/fs/bpf ' /proc/mounts || mount -t bpf bpf /sys/fs/bpf
{disk}
{exports}
mkdir -p "$HOME" "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR"
cd -- {folder} || cd /
: > $private/started
(exec {command}) </dev/null >$private/stdout 2>$private/stderr
code=$?
echo $code > $private/exit.new
sync $private/exit.new
mv $private/exit.new $private/exit
"""
_DISK = """\
modprobe virtio_blk
for block in /sys/block/*; do
    [ "$(cat $block/serial 2>/dev/null)" = asa-lab ] && export ASA_LAB_DISK=/dev/${block##*/}
done
[ -b "$ASA_LAB_DISK" ] || fail 'the guest does not see its disk'
"""


def check_shared(out: Path) -> None:
    """Raise LabError when the absolute path `out` cannot be shared with a guest."""
    if not _SAFE_PATH.fullmatch(str(out)):
        raise LabError(f"{str(out)!r} cannot be shared with a guest; use a path of letters, digits and _ + / . -")


def write_runner(command: Sequence[str], private: Path, kernel: Kernel, env: Mapping[str, str], *, disk: bool) -> None:
    """Write `private/run`, which runs `command` in the guest with `env` on top of the lab's own environment.

    In the guest it makes started, stdout, stderr and last exit; or failed, with a reason. Raises LabError.
    """
    exports = _environment() | dict(env)
    strange = [name for name in exports if not _SAFE_NAME.fullmatch(name)]
    if strange:
        raise LabError(f"{strange[0]!r} cannot be a variable's name in the guest; use letters, digits and _")
    text = _RUNNER.format(
        private=private,
        modules=shlex.quote(str(kernel.root)),
        boot=shlex.quote(str(kernel.image.parent)),
        disk=_DISK if disk else "",
        exports="\n".join(f"export {name}={shlex.quote(value)}" for name, value in exports.items()),
        folder=shlex.quote(str(Path.cwd())),
        command=shlex.join(command),
    )
    (private / "run").write_text(text, encoding="utf-8", errors="surrogateescape")


def _environment() -> dict[str, str]:
    return {
        "PATH": f"{_scripts()}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": "/tmp/home",  # noqa: S108  # the guest's own /tmp; the host's home is read-only there
        "XDG_CACHE_HOME": str(paths.default().cache.parent),  # what asa has built stays visible, read-only
        "XDG_STATE_HOME": "/tmp/home/.local/state",  # noqa: S108  # as above
        "XDG_RUNTIME_DIR": "/run/user/0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",  # lines are followed live, and a file would be block-buffered
    }


def disk(private: Path, disk_mb: int) -> list[str]:
    """An empty, sparse disk for the guest: makes `private/disk` and gives the arguments for QEMU."""
    image = private / "disk"
    with image.open("wb") as file:
        file.truncate(disk_mb << 20)
    # unsafe: a flush costs the guest the same whatever the host's disk is
    drive = f"if=none,id=asa-lab,file={image},format=raw,cache=unsafe"
    return ["-drive", drive, "-device", "virtio-blk-pci,drive=asa-lab,serial=asa-lab"]


def device(emulator: Emulator, clock: Clock) -> str:
    """QEMU's name for the CPU model that the plan takes."""
    return "host-x86_64-cpu" if _under_kvm(emulator, clock) else "max-x86_64-cpu"


def _under_kvm(emulator: Emulator, clock: Clock) -> bool:
    return bool(emulator.kvm) and clock is Clock.WALL


def _scripts() -> Path:
    # not resolved: the link in the virtual environment is what its scripts lie beside
    return Path(sys.executable).parent


def plan(
    kernel: Kernel,
    emulator: Emulator,
    private: Path,
    out: Path,
    *,
    cpus: int,
    memory_mb: int,
    clock: Clock,
    machine: Machine | None = None,
) -> list[str]:
    """QEMU's command line for a guest that runs `private/run`; makes `private/initramfs`. Raises LabError.

    Of `machine` the kernel's command line and the clock are told; its CPUs are not arranged here.
    """
    append = machine.append() if machine is not None else ()
    icount = machine.icount() if machine is not None else ""
    planner = _scripts() / "virtme-run"
    initramfs = private / "initramfs"
    command = [str(planner), "--kimg", str(kernel.image), "--mods", "auto", "--qemu-bin", str(emulator.runs(clock))]
    command += ["--force-9p", "--name", "asa-lab", "--rwdir", str(out), "--overlay-rwdir", "/tmp"]  # noqa: S108
    command += ["--cpus", str(cpus), "--memory", f"{memory_mb}M"]
    if not _under_kvm(emulator, clock):
        command.append("--disable-kvm")
    command += [word for option in append for word in ("--kopt", option)]
    if clock is not Clock.PARALLEL and not _under_kvm(emulator, clock):
        # khugepaged (nice 19) needs seconds of an emulated CPU, and a scheduler may give it milliseconds of them: who
        # waits for RCU then waits for it (docs/lab.md)
        command += ["--kopt", "transparent_hugepage=never"]
        # the boot counts ticks while it turns so many times, and panics where a busy host had no time for the timer
        command += ["--kopt", "no_timer_check"]
    if clock is Clock.PARALLEL:
        # the boot-time check would find the quantum between two CPUs, and drop the TSC
        command += ["--kopt", "tsc=reliable"]
    # panic=-1 and -no-reboot are virtme-ng's: with oops=panic every crash ends the machine at once
    command += ["--kopt", "oops=panic", "--kopt", "loglevel=5", "--script-sh", shlex.join(["sh", f"{private}/run"])]
    command += ["--dry-run", "--show-command", "--show-boot-console"]
    # a kernel that needs no modules for the boot would have no initramfs else
    command += ["--force-initramfs", "--save-initramfs", str(initramfs)]
    env = os.environ | {"TMPDIR": str(private), "PATH": f"{_scripts()}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=env, cwd="/"
        )
    except OSError as error:
        raise LabError(f"{planner}: {error.strerror}; `make setup` in asa's folder installs virtme-ng") from error
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise LabError(f"virtme-run ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]!r}")
    _cache_root(initramfs)
    seen, kept = "file,id=console,path=/proc/self/fd/2", f"file,id=console,path={private / CONSOLE}"
    planned = [kept if argument == seen else argument for argument in _without_ports(shlex.split(lines[-1]))]
    return [*planned, *emulator.options(clock, icount)]


def _without_ports(planned: Sequence[str]) -> list[str]:
    # six virtio-serial devices: a fifth of a boot, and a guest without udev does not find them
    found: list[str] = []
    for argument in planned:
        if _PORTS.fullmatch(argument):
            found.pop()  # the option that it belongs to
        else:
            found.append(argument)
    return found


def _cache_root(initramfs: Path) -> None:
    """Let the guest cache the read-only root: numpy's import falls from 8.6 to 2.1 s, the boot from 11 to 5 s.

    The kernel unpacks archives that follow each other, and the later file wins (initramfs-buffer-format.rst).
    """
    from virtme import cpiowriter, mkinitramfs  # type: ignore[import-untyped]  # an extra: lab

    init = mkinitramfs.generate_init(mkinitramfs.Config()).replace(b",access=any,", b",access=any,cache=loose,")
    with initramfs.open("ab") as file:
        file.write(b"\0" * (-file.tell() % 512))
        archive = cpiowriter.CpioWriter(file)
        archive.write_file(name=b"init", body=init, mode=0o755)
        archive.write_trailer()
