# SPDX-License-Identifier: GPL-2.0-only
"""Runs a scheduler in guests of the lab: the load stage on each kernel that is kept there, and the behaviour stage.

All guests are under the parallel clock, so that the host's load drops out. A guest that dies leaves its stage
inconclusive: LabError says so to `calibration.verify.report.stage`.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from asa import wire
from asa.core.errors import LabError
from calibration.verify.lab import budget, judge, probes
from calibration.verify.lab.guest import Orders
from calibration.verify.lab.judge import Probed
from calibration.verify.report import Finding, Level, Stage, StageReport, stage
from scenarios.guests import ready
from scenarios.lab import guest, kernel, kernel_build, machines
from scenarios.lab.emulator import Clock
from scenarios.lab.guest import Lab
from scenarios.lab.kernel import Kernel

SOAK_S = 600.0
PROBES = (*probes.EACH, "soak", "hotplug", "reload", "kill")
_ROOT = Path(__file__).parents[3]
_LIMIT_S, _PROBE_LIMIT_S = 900.0, 120.0  # of the host's time, which may be busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is run: a program with its flags, or an object alone. `claim`: a key of `judge.CLAIMS`, or ""."""

    program: tuple[str, ...]
    is_object: bool = False
    cpus: int = 4
    soak_s: float = SOAK_S
    claim: str = ""


def stages(trial: Trial, cache: Path, report: Callable[[str], None], out: Path) -> Iterator[StageReport]:
    """Load, and behaviour where it loads everywhere. `out`: a folder, which is made."""
    machine = machines.alike(trial.cpus)
    lab = ready(cache, report, machine)
    kept = kernels(cache)
    loaded = stage(Stage.LOAD, lambda: _load(trial, lab, kept, out, report))
    yield loaded
    if loaded.verdict == "pass":
        yield stage(Stage.BEHAVIOUR, lambda: _behaviour(trial, lab, out, report))


def kernels(cache: Path) -> tuple[Kernel, ...]:
    """Those that the lab keeps: Debian's, and its own of each tick rate."""
    found = (kernel.found(cache, tick_hz) for tick_hz in (None, *kernel_build.TICKS_HZ))
    return tuple(one for one in found if one is not None)


def _load(
    trial: Trial, lab: Lab, kept: Sequence[Kernel], out: Path, report: Callable[[str], None]
) -> Iterator[Finding]:
    """With each kernel, then with the lab's own by the numbers of CPUs that the budget of instructions is for."""
    loads = [(one, trial.cpus) for one in kept]
    loads += [(lab.kernel, cpus) for cpus in budget.CPUS if (lab.kernel, cpus) not in loads]
    found: dict[int, budget.Counts] = {}
    refused = False
    for number, (one, cpus) in enumerate(loads):
        if refused and number >= len(kept):
            return  # each kernel says what it refuses; more CPUs would say it again
        report(f"loading with kernel {one.version} and {cpus} CPUs")
        its = replace(trial, cpus=cpus)
        told = _play(its, (), Lab(kernel=one, emulator=lab.emulator), out, report)
        for finding in judge.load(told, one.version, cpus):
            refused = refused or finding.level is Level.FAULT
            yield finding
        if one == lab.kernel and not refused:
            found[cpus] = budget.counts(told, cpus)
    yield from budget.judge(found)


def _behaviour(trial: Trial, lab: Lab, out: Path, report: Callable[[str], None]) -> Iterator[Finding]:
    played = tuple(name for name in PROBES if name != "soak" or trial.soak_s > 0)
    report(f"{len(played)} probes with kernel {lab.kernel.version}")
    died = None
    told: list[Probed] = []
    try:
        told = _play(trial, played, lab, out, report, told)
    except LabError as error:
        died = error
    yield from judge.behaviour(told, () if died else played)
    if trial.claim:
        yield from judge.claim(told, trial.claim)
    if died:
        raise died


def _play(
    trial: Trial,
    played: tuple[str, ...],
    lab: Lab,
    out: Path,
    report: Callable[[str], None],
    told: list[Probed] | None = None,
) -> list[Probed]:
    told = [] if told is None else told
    out.mkdir(parents=True, exist_ok=True)
    orders = Orders(
        program=trial.program, is_object=trial.is_object, probes=played, cpus=trial.cpus, soak_s=trial.soak_s
    )
    (out / "orders.json").write_bytes(wire.json_bytes(orders))
    errors: list[str] = []

    def hear(line: str) -> None:
        try:
            one = wire.from_json(line, Probed)
        except msgspec.MsgspecError:
            return  # another's line, such as the scheduler's own
        told.append(one)
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in one.values.items() if value is not None)
        report(f"{'eevdf' if one.own else 'it':<5} {one.probe:<14} {one.gone or numbers or one.note}")

    result = guest.run(
        (sys.executable, "-P", "-m", "calibration.verify.lab.guest", str(out / "orders.json")),
        lab=lab,
        out=out,
        on_output=hear,
        on_error=errors.append,
        machine=machines.alike(trial.cpus),
        clock=Clock.PARALLEL,
        env={"PYTHONPATH": str(_ROOT)},  # this code, wherever the interpreter's own is
        limit_s=_LIMIT_S + _PROBE_LIMIT_S * len(played) + 20 * trial.soak_s * bool(played),
    )
    if result.exit_code:
        said = errors[-1] if errors else "no word on stderr"
        raise LabError(f"the guest's part ended with code {result.exit_code}: {said!r}; see {result.console}")
    return told
