# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab status`: which kernel and emulator the lab has, and whether guests run under KVM."""

import argparse
import json
from typing import TYPE_CHECKING

from asa import paths

if TYPE_CHECKING:
    from asa.cli.main import Commands

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
    from scenarios.lab import emulator, kernel

    cache = paths.default().cache
    qemu, image = emulator.found(cache), kernel.found(cache)
    facts = {
        "kernel": {"version": image.version, "path": str(image.root)} if image else None,
        "emulator": {"version": _dotted(qemu.version), "path": str(qemu.binary)} if qemu else None,
        "kvm": qemu.kvm if qemu else None,
        "kvm_reason": qemu.why if qemu else None,
    }
    if arguments.json:
        print(json.dumps(facts, indent=1))
        return 0
    missing = "missing; asa lab setup fetches it"
    print(f"kernel    {f'{image.version}  {image.root}' if image else missing}")
    print(f"emulator  {f'QEMU {_dotted(qemu.version)}  {qemu.binary}' if qemu else missing}")
    if qemu:
        print(f"guests    {_mode(qemu.kvm)}: {qemu.why}")
    return 0


def _mode(kvm: bool | None) -> str:
    return {True: "KVM", False: "emulation", None: "KVM or emulation"}[kvm]


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
