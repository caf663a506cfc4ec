# SPDX-License-Identifier: GPL-2.0-only
"""Boots guests under the parallel clock for the lab's own figures, and takes back what `calibration.lab.guest` found.

Compiles machine.c and scale.c on the host. Judges nothing.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asa.core.errors import AsaError
from calibration import programs, scale
from calibration.lab import samples
from calibration.lab.samples import Found
from scenarios.lab import guest
from scenarios.lab.emulator import Clock
from scenarios.lab.machines import Machine, read

HALVES = read(Path(__file__).with_name("halves.yaml"))
"""A core of full speed and one of half, each of two threads."""

_SOURCES = (Path(__file__).with_name("machine.c"), Path(scale.__path__[0]) / "scale.c")
_COMMAND = (sys.executable, "-P", "-m", "calibration.lab.guest")  # -P: root imports nothing from the current folder


@dataclass(slots=True, kw_only=True)
class Guests:
    """Boots one after another. `out` keeps programs, consoles and what guests wrote."""

    lab: guest.Lab
    out: Path
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        """Compile. Raises AsaError."""
        self.out.mkdir(parents=True, exist_ok=True)
        for source in _SOURCES:
            programs.compiled(source, self.out, programs.STATIC)

    def play(
        self, machine: Machine, words: Sequence[str], *, quantum_ns: int | None = None, limit_s: float = 900.0
    ) -> Found:
        """A guest that is `machine`, with these words for `calibration.lab.guest`. Raises AsaError."""
        path = self.out / "found.json"
        path.unlink(missing_ok=True)
        errors: list[str] = []

        self.tell(f"{machine.name}: the guest boots")
        result = guest.run(
            (*_COMMAND, "--programs", str(self.out), "--json", str(path), *words),
            lab=self.lab,
            out=self.out,
            on_output=lambda line: self.tell(f"{machine.name}: {line}"),
            on_error=errors.append,
            machine=machine,
            clock=Clock.PARALLEL,
            limit_s=limit_s,
            qemu_options=() if quantum_ns is None else ("-icount", f"parallel={quantum_ns}"),
        )
        if result.exit_code != 0:
            last = errors[-1] if errors else "no word on stderr"
            raise AsaError(f"{machine.name}: the guest's part ended with code {result.exit_code}: {last!r}")
        return samples.read(path)


def sets(machine: Machine) -> tuple[tuple[int, ...], ...]:
    """Linux CPUs that are to be busy together: one of each core alone, each core's all, one of each core, all."""
    firsts = [core.cpus[:1] for core in machine.cores]
    threads = [core.cpus for core in machine.cores if len(core.cpus) > 1]
    every = tuple(cpu for core in machine.cores for cpu in core.cpus)
    return tuple(dict.fromkeys([*firsts, *threads, tuple(cpu for (cpu,) in firsts), every]))


def expected(machine: Machine, together: Sequence[int]) -> dict[int, float]:
    """The speed of each of these CPUs while they alone are busy, by the machine's description; 1.0 is full speed."""
    found = {}
    for core in machine.cores:
        busy = [cpu for cpu in core.cpus if cpu in together]
        share = (machine.shared_pct or 100) / 100.0 if len(busy) > 1 else 1.0
        found.update(dict.fromkeys(busy, core.kind.speed_pct / 100.0 * share))
    return found


def speed_errors(machine: Machine, loops: dict[str, dict[str, int]]) -> dict[str, float]:
    """How far each CPU's loops are from what the description says, in percent of that, by "CPU of those busy".

    Full speed is that of the first CPU alone, which has to be one of full speed. Raises AsaError.
    """
    whole = loops.get("0", {}).get("0")
    if not whole:
        raise AsaError(f"{machine.name}: no loop ran on CPU 0 alone")
    found = {}
    for words, rounds in loops.items():
        for cpu, due in expected(machine, [int(word) for word in words.split()]).items():
            found[f"{cpu} of {words}"] = 100.0 * (rounds[str(cpu)] / whole / due - 1.0)
    return found
