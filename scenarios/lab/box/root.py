# SPDX-License-Identifier: GPL-2.0-only
"""What a box boots: the files that differ from the host's own root, as one archive, and the script that unpacks it.

Everything that the host's systemd would start is masked, but for the few services that a desktop's trust rests on.
Reads the host's unit folders; writes nothing.
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

READY = "run/asa-box-ready"
"""This file appears, below the box's root, when all services are up."""

USERS = {"ada": 1001, "ben": 1002, "eve": 1003}
"""Ordinary users of each box, and their ids."""

_TARGET = "asa-box.target"
_UNITS = Path("etc/systemd/system")
_USER_UNITS = Path("etc/systemd/user")
_WANTED = ("dbus.service", "polkit.service", "systemd-logind.service", "systemd-user-sessions.service")
KEPT = frozenset(
    {
        *_WANTED,
        "dbus.socket",
        "systemd-journald.service",
        "systemd-journald.socket",
        "systemd-journald-dev-log.socket",
        "systemd-tmpfiles-setup.service",
    }
)
"""Units of the host that a box starts too."""
_ALSO_MASKED = (  # pulled in by others than folders of wishes
    "modprobe@drm.service",
    "systemd-udevd.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udev-trigger.service",
    "systemd-remount-fs.service",
    "tmp.mount",
    "systemd-journald-audit.socket",
    "systemd-tmpfiles-clean.timer",
)
_FILES = {
    f"{_UNITS}/{_TARGET}": f"""\
[Unit]
Requires=basic.target {" ".join(_WANTED)} asa-box-ready.service
After=basic.target {" ".join(_WANTED)}
AllowIsolate=yes
""",
    f"{_UNITS}/asa-box-ready.service": f"""\
[Unit]
After={" ".join(_WANTED)}
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/touch /{READY}
""",
    # the box takes no news from the host's kernel log, and keeps its own journal in memory
    "etc/systemd/journald.conf": "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nRateLimitBurst=0\n",
    "etc/pam.d/asa-box": "account required pam_permit.so\nsession required pam_systemd.so\n",
    "etc/fstab": "",
    "etc/hostname": "asa-box\n",
    "etc/hosts": "127.0.0.1 localhost asa-box\n",
    "etc/machine-id": "a5a" + "0" * 29 + "\n",
}
# `/` alone is the lower layer, not what is mounted below it: /proc, /sys, /dev, /run and /tmp are the box's own.
INIT = """\
set -e
base=/mnt root=/mnt/root
mount --make-rprivate /
mount -t tmpfs -o mode=755 asa-box $base
mkdir $base/upper $base/work $root
mount -t overlay -o lowerdir=/,upperdir=$base/upper,workdir=$base/work asa-box $root
tar -x -C $root
exec </dev/null
mount -t proc -o nosuid,nodev,noexec proc $root/proc
mount -t sysfs -o nosuid,nodev,noexec sysfs $root/sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 $root/sys/fs/cgroup
for folder in bpf:bpf kernel/debug:debugfs kernel/tracing:tracefs; do
    at=/sys/${folder%:*}
    [ -d $at ] && mount -t ${folder#*:} none $root$at || true
done
mountpoint -q /boot && mount --bind -o ro /boot $root/boot  # the kernel's options: schedulers read them
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs $root/run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs $root/tmp
mount -t tmpfs -o mode=755,nosuid tmpfs $root/dev
for node in null zero full random urandom tty kmsg; do
    : > $root/dev/$node
    mount --bind /dev/$node $root/dev/$node
done
mkdir $root/dev/pts $root/dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts $root/dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs $root/dev/shm
ln -s pts/ptmx $root/dev/ptmx
ln -s /proc/self/fd $root/dev/fd
ln -s /proc/self/fd/0 $root/dev/stdin
ln -s /proc/self/fd/1 $root/dev/stdout
ln -s /proc/self/fd/2 $root/dev/stderr
if [ ! -e "$root$1" ]; then  # the running ASA, where it lies on what the box does not take
    mkdir -p "$root$1"
    mount --bind -o ro "$1" "$root$1"
fi
hostname asa-box
cd $root
pivot_root . mnt
umount -l /mnt
exec env -i container=asa-box PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \\
    chroot . /lib/systemd/systemd --unit=asa-box.target --log-target=journal --show-status=no
"""


def archive(root: Path = Path("/")) -> bytes:
    """The files of a box, as a tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in {**_FILES, **_accounts(root)}.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o640 if name == "etc/shadow" else 0o644
            data = text.encode()
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        for name in sorted({*_masks(root)}):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, "/dev/null"
            tar.addfile(entry)
        for user, number in USERS.items():
            entry = tarfile.TarInfo(f"home/{user}")
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o700, number, number
            tar.addfile(entry)
    return packed.getvalue()


def _masks(root: Path) -> Iterator[str]:
    # the folders of wishes of the host's own target are left alone: that target is not what is booted
    for kind, kept in ((_UNITS, KEPT), (_USER_UNITS, frozenset({"dbus.socket"}))):
        for base in (Path("etc/systemd"), Path("usr/lib/systemd")):
            for wish in (root / base / kind.name).glob("*.wants/*"):
                if wish.name not in kept and wish.suffix != ".target":
                    yield str(kind / wish.name)
    yield from (str(_UNITS / name) for name in _ALSO_MASKED)


def _accounts(root: Path) -> dict[str, str]:
    # the host's own users of these names and numbers make room
    files = {}
    for name, line in (
        ("etc/passwd", "{user}:x:{number}:{number}:{user}:/home/{user}:/bin/sh"),
        ("etc/group", "{user}:x:{number}:"),
        ("etc/shadow", "{user}:*:19000:0:99999:7:::"),
    ):
        numbers = {str(number) for number in USERS.values()}
        lines = [
            line
            for line in (root / name).read_text(encoding="utf-8").splitlines()
            if line.split(":")[0] not in USERS and (name == "etc/shadow" or line.split(":")[2] not in numbers)
        ]
        lines += [line.format(user=user, number=number) for user, number in USERS.items()]
        files[name] = "\n".join(lines) + "\n"
    return files
