# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own figures: how far its CPUs run at the same time, how alike two runs are, what building and booting cost.

`make bench-lab` measures and keeps, `make figures-lab` prints what is kept. What others measure is taken from where
they keep it: builds from their build.json, the outside from `asa lab evaluate outside`, evictions from demonstrations.
"""

import functools
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from asa import paths
from asa.core.errors import AsaError
from calibration.goals import Named
from calibration.kept import Count
from calibration.lab import speed
from calibration.lab.guests import HALVES, Guests, sets, speed_errors
from calibration.lab.samples import Found
from calibration.scale.samples import METRICS, USUAL, Metric, Mode
from scenarios.lab import guest, kernel, kernel_build, machines
from scenarios.lab.emulator import Clock
from scenarios.lab.qemu import build as qemu

KEPT = Path(__file__).parents[1] / "results" / "lab.json"
_QUANTA_NS = (10_000, 50_000)
_ROUNDS = 3
_SECONDS = 3.0  # of each mode
_DEMOS = 10
_OUTSIDE_LIMIT_S = 300.0
_ASA = (sys.executable, "-P", "-m", "asa.cli", "lab")
_METRIC = {metric.name: metric for metric in METRICS}


class LabFigure(Named):
    """The figures, each with its goal."""

    SCALING = "parallel_scaling_8", "times", "jobs that 8 CPUs end, over those that 1 ends", ">=", 7.6
    REPEAT = "parallel_repeat_pct", "%", "difference of two guests in jobs that end", "<=", 1.0
    WAKEUP = "parallel_wakeup_repeat_pct", "%", "difference of two guests in the median lateness of a wakeup", "<=", 3.0
    SPEED = "speed_error_pct", "%", "of a loop on cores of 100 and 50 %, alone and sharing one, the largest", "<=", 2.0
    QUANTUM = (
        "quantum_effect_pct",
        "%",
        "a quantum of 10 us against 50 us on bench-scale's figures, the largest",
        "<=",
        3.0,
    )
    QEMU = "qemu_build_s", "s", "building the lab's QEMU, without downloads"
    KERNEL = "kernel_build_s", "s", "building the lab's kernel, without downloads"
    BOOT = "boot_s", "s", "from starting QEMU to the command's start, the median of five"
    PACE = "guest_s_per_host_s_8_busy", "s/s", "seconds of a guest with 8 busy CPUs in a second of the host"
    OUTSIDE = "outside_tau", "tau", "agreement with published orders of three and more schedulers", ">=", 0.5
    EVICTIONS = "evictions_by_lab", "evictions", f"by the kernel's watchdog in {_DEMOS} demonstrations", "<=", 0.0


class Bench:
    """Measures each figure when it is asked for; guests that serve several are booted once."""

    def __init__(self, places: paths.Places, tell: Callable[[str], None]) -> None:
        self._places, self._tell = places, tell
        self._out = places.state / "bench-lab"

    def counts(self) -> Mapping[Named, Count]:
        """How each figure is measured."""
        return {
            LabFigure.SCALING: self._scaling,
            LabFigure.REPEAT: lambda: self._repeat("throughput"),
            LabFigure.WAKEUP: lambda: self._repeat("wakeup_p50"),
            LabFigure.SPEED: self._speed,
            LabFigure.QUANTUM: self._quantum,
            LabFigure.PACE: self._pace,
            LabFigure.BOOT: self._boot,
            LabFigure.QEMU: self._qemu,
            LabFigure.KERNEL: self._kernel,
            LabFigure.OUTSIDE: self._outside,
            LabFigure.EVICTIONS: self._evictions,
        }

    @functools.cached_property
    def _guests(self) -> Guests:
        lab = guest.ready(self._places.cache, self._tell, measuring=True, tick_hz=kernel.MEASURING_HZ)
        return Guests(lab=lab, out=self._out, tell=self._tell)

    @functools.cached_property
    def _one(self) -> Found:
        return self._guests.play(machines.alike(1), _words(Mode.THROUGHPUT))

    @functools.cached_property
    def _eight(self) -> Found:
        return self._guests.play(machines.alike(8), _words(Mode.THROUGHPUT, Mode.WAKEUP))

    @functools.cached_property
    def _again(self) -> Found:
        # the same again: none of the host's time is in it, so that both should give the same
        return self._guests.play(machines.alike(8), _words(Mode.THROUGHPUT, Mode.WAKEUP))

    def _scaling(self) -> tuple[float, str]:
        metric = _METRIC["throughput"]
        one, eight = mean(metric, self._one), mean(metric, self._eight)
        return eight / one, f"{eight:.1f} and {one:.1f} jobs/s, EEVDF"

    def _repeat(self, name: str) -> tuple[float, str]:
        metric = _METRIC[name]
        return repeated(metric, [mean(metric, played) for played in (self._eight, self._again)])

    def _speed(self) -> tuple[float, str]:
        together = ";".join(" ".join(map(str, cpus)) for cpus in sets(HALVES))
        found = self._guests.play(HALVES, ("--hogs", together, "--seconds", "1"))
        if found.checks is None:
            raise AsaError(f"{HALVES.name}: the guest played no loops; see {self._out}")
        errors = speed_errors(HALVES, found.checks.hogs)
        place = max(errors, key=lambda name: abs(errors[name]))
        return abs(errors[place]), f"CPU {place} busy: {errors[place]:+.1f} %"

    def _quantum(self) -> tuple[float, str]:
        small, large = (
            self._guests.play(machines.alike(4), _words(*USUAL), quantum_ns=quantum_ns) for quantum_ns in _QUANTA_NS
        )
        return effect({metric: (mean(metric, small), mean(metric, large)) for metric in METRICS})

    def _pace(self) -> tuple[float, str]:
        idle, half, whole = speed.pace(self._guests.lab, out=self._out, cpus=8, clock=Clock.PARALLEL)
        others = f"{idle.guest_s_per_host_s:.1f} idle, {half.guest_s_per_host_s:.2f} half busy"
        return whole.guest_s_per_host_s, others

    def _boot(self) -> tuple[float, str]:
        boots_s = speed.boots(self._guests.lab, out=self._out, cpus=2, clock=Clock.PARALLEL)
        return statistics.median(boots_s), f"{len(boots_s)} guests, {min(boots_s):.1f} to {max(boots_s):.1f} s"

    def _qemu(self) -> tuple[float, str]:
        binary = qemu.found(self._places.cache)
        if binary is None:
            raise AsaError("the lab's QEMU is not built; run `asa lab setup`")
        built = qemu.read(binary)
        return built.seconds, f"QEMU {built.version}, {built.cpus} CPUs"

    def _kernel(self) -> tuple[float, str]:
        found = kernel.found(self._places.cache, kernel.MEASURING_HZ)
        if found is None:
            raise AsaError("the lab's kernel is not built; run `asa lab setup`")
        built = kernel_build.read(found.root)
        if built is None:
            raise AsaError(f"{found.root}: no build.json says how long it took; remove it and run `asa lab setup`")
        return built.seconds, f"Linux {built.release}, {built.cpus} CPUs"

    def _outside(self) -> tuple[float, str]:
        done = _run((*_ASA, "evaluate", "outside", "--json"), _OUTSIDE_LIMIT_S)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        taus = [line for line in lines if line.get("name") == LabFigure.OUTSIDE and line.get("value") is not None]
        if not taus:
            raise AsaError(f"asa lab evaluate outside: no {LabFigure.OUTSIDE}: {_last(done.stderr)}")
        return float(taus[0]["value"]), str(taus[0].get("detail", ""))

    def _evictions(self) -> tuple[float, str]:
        folder = self._out / "demos"
        if folder.is_dir():
            shutil.rmtree(folder)  # of another state of the lab
        speed.demos(folder, _DEMOS, self._tell)
        found = speed.evictions(sorted(folder.glob("run-*.json")))
        if found.untold:
            raise AsaError(f"{', '.join(found.untold)}: the guest's kernel log was not read")
        played = f"{found.runs} demonstrations, {found.good} of which ended with 0"
        return float(len(found.schedulers)), ", ".join([played, *found.schedulers])


def mean(metric: Metric, played: Found) -> float:
    """Of all rounds. Raises AsaError where none has it."""
    readings = [reading.get(metric.mode, {}) for reading in played.readings]
    values = [value for reading in readings if (value := metric.value(reading)) is not None]
    if not values:
        raise AsaError(f"{metric.name}: not one value in {len(readings)} rounds")
    return statistics.fmean(values)


def repeated(metric: Metric, values: Sequence[float]) -> tuple[float, str]:
    """The spread of what should be alike, in percent of its middle."""
    shown = " and ".join(f"{value * metric.factor:.4g}" for value in values)
    spread = 100.0 * (max(values) - min(values)) / statistics.fmean(values)
    return spread, f"{shown} {metric.unit}"


def effect(pairs: Mapping[Metric, tuple[float, float]]) -> tuple[float, str]:
    """How far a metric's first value is from its second, in percent of that: the largest, and all in words.

    A metric that is 0 in both is left out. Raises AsaError where all are.
    """
    changes = {
        metric.name: 100.0 * (one / other - 1.0) if other else 100.0
        for metric, (one, other) in pairs.items()
        if one or other
    }
    if not changes:
        raise AsaError("no metric is above 0")
    return max(map(abs, changes.values())), ", ".join(f"{name} {change:+.1f} %" for name, change in changes.items())


def _words(*modes: Mode) -> tuple[str, ...]:
    return ("--repeat", str(_ROUNDS), "--seconds", f"{_SECONDS:g}", "--modes", ",".join(modes))


def _run(command: Sequence[str], limit_s: float) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)


def _last(text: str) -> str:
    return text.strip().rpartition("\n")[2]
