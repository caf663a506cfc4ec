# SPDX-License-Identifier: GPL-2.0-only
"""How many instructions the kernel follows to accept a scheduler, by number of CPUs, against a budget. Pure.

The kernel follows each way through a program, counts the instructions that it comes by (`verified_insns` of struct
bpf_prog_info, since Linux 5.16), and refuses the program after a million. Where a loop goes over all CPUs, and its
bound is a constant that the loader sets, the count grows with them: what loads here may not load on a larger machine.
"""

from collections.abc import Iterator, Mapping, Sequence

from asa.core.errors import LabError
from calibration.verify.lab.judge import Probed
from calibration.verify.report import Finding
from calibration.verify.rules.findings import doubt, fault, note

PROBE = "instructions"
CPUS = (1, 2, 4, 9)
"""Of the guests. Nine is no power of two: masks and shifts by it are wrong there."""

KERNEL_MOST = 1_000_000
"""BPF_COMPLEXITY_LIMIT_INSNS of include/linux/bpf.h."""

MOST = KERNEL_MOST // 2
"""The budget of one program: another compiler or kernel may count twice as many."""

EXPECTED_CPUS = 64
"""By the line through the two largest guests it has to load there, too."""

Counts = Mapping[str, int]
"""Program -> instructions."""


def counts(told: Sequence[Probed], cpus: int) -> Counts:
    """What a guest told. Raises LabError where it told none."""
    found = {
        name: int(value)
        for one in told
        if one.probe == PROBE
        for name, value in one.values.items()
        if value is not None
    }
    if not found:
        raise LabError(f"the guest with {cpus} CPUs told of no program how many instructions the kernel followed")
    return found


def judge(found: Mapping[int, Counts]) -> Iterator[Finding]:
    """Of guests by their number of CPUs, one at least: a fault over the budget, a doubt where it grows too fast."""
    if not found:
        raise ValueError("no guest has counted instructions")
    largest: dict[str, tuple[int, int]] = {}  # instructions, and with how many CPUs
    for cpus, programs in sorted(found.items()):
        for name, count in programs.items():
            largest[name] = max(largest.get(name, (0, 0)), (count, cpus))
    for name, (count, cpus) in sorted(largest.items()):
        expected = _expected(
            [(number, programs[name]) for number, programs in sorted(found.items()) if name in programs]
        )
        if count > MOST:
            yield fault(
                "budget",
                f"{name}: the kernel follows {count} instructions with {cpus} CPUs, {MOST} at most; it refuses over "
                f"{KERNEL_MOST}",
            )
        elif expected > KERNEL_MOST:
            yield doubt(
                "budget",
                f"{name}: the kernel follows {count} instructions with {cpus} CPUs, and by that growth {expected} with "
                f"{EXPECTED_CPUS}; it refuses over {KERNEL_MOST}",
            )
    name, (count, _) = max(largest.items(), key=lambda one: one[1])
    each = ", ".join(f"{programs.get(name, 0)} with {cpus}" for cpus, programs in sorted(found.items()))
    yield note(
        "instructions",
        f"most are followed in {name}, by number of CPUs: {each}; {100 * count / MOST:.1f} % of the budget",
    )


def _expected(points: Sequence[tuple[int, int]]) -> int:
    """With EXPECTED_CPUS. A count that does not grow stays."""
    cpus, count = points[-1]
    if len(points) == 1:
        return count
    before, less = points[-2]
    return count + max(0, count - less) * (EXPECTED_CPUS - cpus) // (cpus - before)
