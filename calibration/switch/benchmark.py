# SPDX-License-Identifier: GPL-2.0-only
"""The switch benchmark: boots guests that switch schedulers, and takes back what they recorded.

Compiles the C programs on the host, then runs `calibration.switch.guest` under one clock after the other; guests follow
each other, because two at once would disturb each other's wall clock. Judges nothing: `calibration.switch.figures`.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asa.core.errors import AsaError
from calibration.switch import programs as switch_programs
from calibration.switch import samples as switch_samples
from calibration.switch.figures import ClockedFigure, figures
from calibration.switch.samples import ROTA, Found
from scenarios.lab import guest
from scenarios.lab.emulator import Clock
from scenarios.lab.kernel import MEASURING_HZ

Tell = Callable[[str, float], None]
"""Takes what is being done now, and the share of the whole that is done, 0.0 to 1.0."""

# -P: root imports nothing from the current folder
_COMMAND = (sys.executable, "-P", "-m", "calibration.switch.guest")
_CPUS, _MEMORY_MB = 2, 3072
_LIMIT_S = 600.0  # of one guest: to come up, to have all wait, changes from outside
_ROUND_LIMIT_S = 900.0  # some twenty loads; 140 s on an idle host
_BLOCKS = 3  # in a round
_ROUND = re.compile(r"round (\d+) of (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Under which clocks, and how many switches of each kind."""

    clocks: tuple[Clock, ...] = (Clock.PARALLEL, Clock.WALL)
    switches: int = 20


@dataclass(slots=True, kw_only=True)
class Result:
    """What was measured, by clock."""

    began_s: float  # seconds since the epoch
    switches: int
    emulator: str
    tick_hz: int | None = None  # of the guests' kernel
    found: dict[Clock, Found] = field(default_factory=dict)
    took_s: float = 0.0

    def figures(self) -> list[ClockedFigure]:
        """All figures of all clocks."""
        return [figure for clock, found in self.found.items() for figure in figures(found, clock)]


def measure(options: Options, cache: Path, out: Path, tell: Tell) -> Result:
    """Boot a guest for each clock. `out` is shared with it. Raises AsaError when one does not give its samples."""
    began_s = time.monotonic()
    tell("the lab is made ready", 0.0)
    lab = guest.ready(
        cache, lambda line: tell(line, 0.0), measuring=Clock.PARALLEL in options.clocks, tick_hz=MEASURING_HZ
    )
    way = "KVM" if lab.emulator.kvm else "emulation"
    version = ".".join(map(str, lab.emulator.version))
    result = Result(
        began_s=time.time(), switches=options.switches, emulator=f"QEMU {version}, {way}", tick_hz=lab.kernel.tick_hz
    )
    out.mkdir(parents=True, exist_ok=True)
    switch_programs.build(out)
    for number, clock in enumerate(options.clocks):
        steps = _Steps(tell, clock, number, len(options.clocks))
        result.found[clock] = _in_guest(lab, clock, options.switches, out, steps)
    result.took_s = time.monotonic() - began_s
    return result


class _Steps:
    """What a guest says, as progress."""

    def __init__(self, tell: Tell, clock: Clock, number: int, clocks: int) -> None:
        self._tell = tell
        self._clock = clock
        self._base, self._part = number / clocks, 1.0 / clocks
        self._blocks = 0

    def said(self, line: str) -> None:
        match = _ROUND.search(line)
        share = 0.0
        if match:
            share = min(0.98, (self._blocks + 1) / (_BLOCKS * int(match[2]) + 1))
            self._blocks += 1
        self._tell(f"{self._clock}: {line}", self._base + self._part * share)


def _in_guest(lab: guest.Lab, clock: Clock, switches: int, out: Path, steps: _Steps) -> Found:
    path = out / f"switches-{clock}.json"
    path.unlink(missing_ok=True)
    words: list[str] = []
    command = (*_COMMAND, "--programs", str(out), "--json", str(path), "--switches", str(switches))
    steps.said("the guest boots")
    result = guest.run(
        command,
        lab=lab,
        out=out,
        on_output=steps.said,
        on_error=words.append,
        cpus=_CPUS,
        memory_mb=_MEMORY_MB,
        clock=clock,
        limit_s=_LIMIT_S + _ROUND_LIMIT_S * -(-switches // len(ROTA)),
    )
    if result.exit_code != 0:
        raise AsaError(f"the guest's part ended with code {result.exit_code}: {_last(words)!r}; see {result.console}")
    return switch_samples.read(path)


def _last(words: Sequence[str]) -> str:
    return words[-1] if words else "no word on stderr"
