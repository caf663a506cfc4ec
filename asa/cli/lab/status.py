# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab status`: which kernel and emulator the lab has, and whether guests run under KVM."""

import argparse
import json
from typing import TYPE_CHECKING

from asa import paths

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from scenarios.lab.kernel import Kernel

_TEXT = """\
Says which kernel and which emulator the lab has, whether guests run under KVM or emulation, and why.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    status = commands.add_parser(
        "status", help="show the kernel, the emulator and whether KVM works", description=_TEXT
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(run=_status)


def _status(arguments: argparse.Namespace) -> int:
    from scenarios.lab import emulator, kernel, kernel_build

    cache = paths.default().cache
    qemu, image = emulator.found(cache), kernel.found(cache)
    built = [one for tick_hz in kernel_build.TICKS_HZ if (one := kernel.found(cache, tick_hz))]
    facts = {
        "kernel": {"version": image.version, "path": str(image.root)} if image else None,
        "built_kernels": [_built(one) for one in built],
        "emulator": {"version": _dotted(qemu.version), "path": str(qemu.binary)} if qemu else None,
        "kvm": qemu.kvm if qemu else None,
        "kvm_reason": qemu.why if qemu else None,
    }
    if arguments.json:
        print(json.dumps(facts, indent=1))
        return 0
    missing = "missing; asa lab setup fetches it"
    print(f"kernel    {f'{image.version}  {image.root}' if image else missing}")
    for one in built:
        print(f"{one.tick_hz:4d} Hz   {one.version}  {one.root}")
    print(f"emulator  {f'QEMU {_dotted(qemu.version)}  {qemu.binary}' if qemu else missing}")
    if qemu:
        print(f"guests    {_mode(qemu.kvm)}: {qemu.why}")
    return 0


def _built(image: "Kernel") -> dict[str, object]:
    from scenarios.lab import kernel_build

    how = kernel_build.read(image.root)
    seconds = how.seconds if how else None
    return {"version": image.version, "path": str(image.root), "tick_hz": image.tick_hz, "build_s": seconds}


def _mode(kvm: bool | None) -> str:
    return {True: "KVM", False: "emulation", None: "KVM or emulation"}[kvm]


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
