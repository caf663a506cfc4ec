# SPDX-License-Identifier: GPL-2.0-only
"""Processes that hold GPUs, in a tree of /proc and /sys.

The texts have the keys that each driver prints (Documentation/gpu: drm-usage-stats, i915, xe, amdgpu), with figures to
be filled in.
"""

from dataclasses import dataclass
from pathlib import Path

STAT = (
    "{pid} (a) b) S 1 7 7 0 -1 4194560 900 50 1 0 {user} {system} 9999 9999 20 0 5 0 4242 0 1000 18446744073709551615\n"
)
HEAD = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t684\n"
I915 = """drm-driver:\ti915
drm-client-id:\t{client}
drm-pdev:\t0000:00:02.0
drm-total-system0:\t{total} KiB
drm-shared-system0:\t128 KiB
drm-active-system0:\t0
drm-resident-system0:\t{memory} KiB
drm-purgeable-system0:\t0
drm-total-stolen-system0:\t0
drm-engine-render:\t{render} ns
drm-engine-copy:\t{copy} ns
drm-engine-video:\t0 ns
drm-engine-capacity-video:\t2
drm-engine-video-enhance:\t0 ns
"""
XE = """drm-driver:\txe
drm-client-id:\t{client}
drm-pdev:\t0000:03:00.0
drm-total-system:\t0
drm-resident-system:\t0
drm-total-vram0:\t23992 KiB
drm-resident-vram0:\t{memory} KiB
drm-cycles-rcs:\t{busy}
drm-total-cycles-rcs:\t{total}
drm-cycles-vcs:\t0
drm-total-cycles-vcs:\t{total}
drm-engine-capacity-vcs:\t2
"""
AMDGPU = """drm-driver:\tamdgpu
drm-client-id:\t{client}
drm-pdev:\t0000:05:00.0
pasid:\t32771
drm-memory-vram:\t{memory} KiB
drm-memory-gtt: \t0 KiB
drm-memory-cpu: \t0 KiB
amd-requested-vram:\t99999 KiB
drm-engine-gfx:\t{render} ns
"""


@dataclass(frozen=True, slots=True)
class GpuTree:
    """Roots to give to the collector, and processes that come and go."""

    proc: Path
    sys: Path

    def start(self, pid: int, files: int = 0) -> None:
        """A process with so many descriptors of something else."""
        (self.proc / str(pid) / "fd").mkdir(parents=True)
        (self.proc / str(pid) / "fdinfo").mkdir()
        self.work(pid)
        for number in range(files):
            (self.proc / f"{pid}/fd/{number}").symlink_to(f"socket:[{pid}{number}]")
            (self.proc / f"{pid}/fdinfo/{number}").write_text(HEAD)

    def work(self, pid: int, user: int = 0, system: int = 0) -> None:
        """It has used so many ticks of CPU time, its ended children 9999 each."""
        (self.proc / f"{pid}/stat").write_text(STAT.format(pid=pid, user=user, system=system))

    def hold(self, pid: int, number: int, text: str, device: str = "/dev/dri/renderD128") -> None:
        """Let it open a GPU, or its file say something else."""
        link = self.proc / f"{pid}/fd/{number}"
        if not link.is_symlink():
            link.symlink_to(device)
        (self.proc / f"{pid}/fdinfo/{number}").write_text(HEAD + text)

    def power(self, node: str, status: str) -> None:
        """Let the device behind it be suspended, or active. The node is there from then on."""
        folder = self.sys / "class/drm" / node / "device/power"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "runtime_status").write_text(f"{status}\n")

    def drop(self, pid: int, number: int) -> None:
        """Let it close the GPU. A reader's open descriptor finds nothing more, as in the kernel."""
        (self.proc / f"{pid}/fd/{number}").unlink()
        (self.proc / f"{pid}/fdinfo/{number}").write_text("")
        (self.proc / f"{pid}/fdinfo/{number}").unlink()

    def end(self, pid: int) -> None:
        """Let it go, with all its descriptors."""
        for link in (self.proc / f"{pid}/fd").iterdir():
            self.drop(pid, int(link.name))
        (self.proc / f"{pid}/fd").rmdir()
        (self.proc / f"{pid}/fdinfo").rmdir()
        (self.proc / f"{pid}/stat").write_text("")
        (self.proc / f"{pid}/stat").unlink()
        (self.proc / str(pid)).rmdir()


def grow(root: Path) -> GpuTree:
    """A machine with one GPU and no processes."""
    tree = GpuTree(root / "proc", root / "sys")
    tree.proc.mkdir(parents=True)
    for node in ("card0", "card0-eDP-1", "renderD128", "version"):
        (tree.sys / "class/drm" / node).mkdir(parents=True)
    return tree
