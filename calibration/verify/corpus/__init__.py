# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers with a planted fault each, made of one good scheduler by a table: what the verifier has to catch."""

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa import yamlfile
from asa.core.errors import AsaError

HOME = Path(__file__).parent


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of faults.yaml."""

    id: str
    rule: str | None
    change: tuple[tuple[str, str], ...] = ()
    bodies: dict[str, str] = {}
    top: str = ""


@dataclass(frozen=True, slots=True)
class Planted:
    """A source with a fault, and the rule that is to find it; None: none of today does."""

    name: str
    source: str
    rule: str | None


def good() -> str:
    """The scheduler without a fault."""
    return (HOME / "good.bpf.c").read_text("utf-8")


def planted() -> tuple[Planted, ...]:
    """All of the table. Raises AsaError where an entry does not fit good.bpf.c any more."""
    faults = yamlfile.load(HOME / "faults.yaml", tuple[Fault, ...])
    return tuple(Planted(one.id, _spoiled(good(), one), one.rule) for one in faults)


def loadable(source: str) -> str:
    """The source for a kernel's own headers, with constants that no loader has to set: bpftool can load its object."""
    names = re.findall(r"^#define (SCX_\w+) ", (HOME / "scx/common.bpf.h").read_text("utf-8"), re.MULTILINE)
    include = "#include <scx/common.bpf.h>\n"
    return source.replace(include, include + "".join(f"#undef {name}\n" for name in names), 1)


def _spoiled(source: str, fault: Fault) -> str:
    for old, new in fault.change:
        if source.count(old) != 1:
            raise AsaError(f"faults.yaml: {fault.id}: {old!r} stands {source.count(old)} times in good.bpf.c, not once")
        source = source.replace(old, new)
    for name, body in fault.bodies.items():
        found = re.search(rf"^[^\n]*\b{name}\b[^\n;]*\n\{{\n.*?^\}}$", source, re.DOTALL | re.MULTILINE)
        if found is None:
            raise AsaError(f"faults.yaml: {fault.id}: good.bpf.c has no function {name}")
        head = found[0].partition("\n")[0]
        inside = "\n".join(f"\t{line}" if line and not line.startswith("\t") else line for line in body.splitlines())
        source = source.replace(found[0], f"{head}\n{{\n{inside}\n}}")
    if fault.top:
        source = source.replace("static void count(", f"{fault.top}\nstatic void count(", 1)
    return source
