# SPDX-License-Identifier: GPL-2.0-only
"""The laptop benchmark: what daemon and helper cost on an installed machine, and whether they keep their promises.

Reads of the probes are timed on this machine; install, random calls, killed clients and memory in a guest of the lab.
Each part that fails leaves its figures unknown, with the reason. Judges nothing: `calibration.laptop.figures`.
"""

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asa.core.errors import AsaError
from calibration.goals import Figure, Named
from calibration.laptop import guest as laptop_guest
from calibration.laptop import probes as laptop_probes
from calibration.laptop.figures import LaptopFigure
from calibration.laptop.guest import Found, Fuzzed
from scenarios.lab import guest
from scenarios.lab.box import installed as box_asa
from scenarios.lab.box.machine import Box
from scenarios.lab.emulator import Clock

Tell = Callable[[str, float], None]
"""Takes what is being done now, and the share of the whole that is done, 0.0 to 1.0."""

# -P: root imports nothing from the current folder
_COMMAND = (sys.executable, "-P", "-m", "calibration.laptop.guest")
_MEMORY_MB = 3072
_LIMIT_S = 1500.0  # of the guest, beside the calls
_LIMIT_PER_CALL_S = 0.1
_GUESTS_SHARE = 10  # one call of so many: 40 ms each there, under 1 ms here
_IN_GUEST = frozenset({LaptopFigure.RELEASE, LaptopFigure.FUZZED, LaptopFigure.DAEMON_RSS, LaptopFigure.HELPER_RSS})
_READS = frozenset({LaptopFigure.READ, LaptopFigure.READ_MAPPED, LaptopFigure.READ_BUS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure, and how much of it."""

    calls: int = 10_000
    rounds: int = 3  # clients that are killed
    reads: int = 2000
    only: frozenset[LaptopFigure] = frozenset(LaptopFigure)


@dataclass(slots=True, kw_only=True)
class Result:
    """What was measured."""

    began_s: float  # seconds since the epoch
    figures: list[Figure] = field(default_factory=list)
    emulator: str = ""
    took_s: float = 0.0


def measure(options: Options, cache: Path, out: Path, tell: Tell) -> Result:
    """All figures that are asked for. `out` is shared with the guest."""
    began_s = time.monotonic()
    result = Result(began_s=time.time())
    found: dict[Named, Figure] = {}

    def part(names: frozenset[LaptopFigure], made: Callable[[], list[Figure]]) -> None:
        wanted = names & options.only
        if not wanted:
            return
        try:
            figures = made()
        except AsaError as error:
            figures = [Figure(name=name, value=None, reason=str(error)) for name in wanted]
        found.update({figure.name: figure for figure in figures if figure.name in wanted})

    tell("the probes are read", 0.0)
    part(_READS, lambda: _reads(options.reads))
    tell("the unit is judged", 0.05)
    part(frozenset({LaptopFigure.SCORE}), _score)
    tell("ASA is installed and removed in a box", 0.06)
    part(frozenset({LaptopFigure.LEFT}), _left)

    def lab() -> list[Figure]:
        here = _fuzzed_here(options.calls - options.calls // _GUESTS_SHARE, tell)
        return of_guest(_in_guest(options, cache, out, tell, result), here)

    part(_IN_GUEST, lab)
    result.figures = [found[name] for name in LaptopFigure if name in found]
    result.took_s = time.monotonic() - began_s
    return result


def _reads(reads: int) -> list[Figure]:
    made = laptop_probes.measure(reads)
    sample = f"; {made.bus_bytes} bytes a sample"
    return [
        Figure(name=name, value=statistics.median(times), detail=laptop_probes.told(times) + more)
        for name, times, more in (
            (LaptopFigure.READ, made.descriptor, ""),
            (LaptopFigure.READ_MAPPED, made.mapped, ""),
            (LaptopFigure.READ_BUS, made.bus, sample),
        )
    ]


def _score() -> list[Figure]:
    from calibration.laptop.installation import helper_security_score

    return [Figure(name=LaptopFigure.SCORE, value=helper_security_score())]


def _left() -> list[Figure]:
    from calibration.laptop.installation import uninstall_leftover_files

    return [Figure(name=LaptopFigure.LEFT, value=float(uninstall_leftover_files()))]


def _fuzzed_here(calls: int, tell: Tell) -> Fuzzed:
    with Box.start() as box:
        return laptop_guest.Machine(box, None, lambda line: tell(f"a box: {line}", 0.08)).fuzz(calls)


def _in_guest(options: Options, cache: Path, out: Path, tell: Tell, result: Result) -> Found:
    lab = guest.ready(cache, lambda line: tell(line, 0.1))
    way = "KVM" if lab.emulator.kvm else "emulation"
    result.emulator = f"QEMU {'.'.join(map(str, lab.emulator.version))}, {way}"
    out.mkdir(parents=True, exist_ok=True)
    path = out / "laptop.json"
    path.unlink(missing_ok=True)
    words: list[str] = []
    tell("ASA is installed for the guest", 0.12)
    told = ("--json", str(path), "--installed", str(box_asa.stage(cache)))
    amounts = ("--calls", str(options.calls // _GUESTS_SHARE), "--rounds", str(options.rounds))
    tell("the guest boots", 0.15)
    ended = guest.run(
        (*_COMMAND, *told, *amounts),
        lab=lab,
        out=out,
        on_output=lambda line: tell(f"guest: {line}", 0.2),
        on_error=words.append,
        memory_mb=_MEMORY_MB,
        clock=Clock.WALL,  # a wait in seconds is what is promised
        limit_s=_LIMIT_S + _LIMIT_PER_CALL_S * options.calls,
    )
    if ended.exit_code != 0:
        raise AsaError(f"the guest's part ended with code {ended.exit_code}: {_last(words)!r}; see {ended.console}")
    return laptop_guest.read(path)


def of_guest(found: Found, here: Fuzzed) -> list[Figure]:
    """The figures of what a guest recorded, and of the calls in a box `here`."""
    both = (found.fuzzed, here)
    heard = sum((Counter(one.heard) for one in both), Counter[str]())
    answers = ", ".join(f"{name.rpartition('.')[2]} {count}" for name, count in heard.most_common(6))
    crashes, switches = sum(one.crashes for one in both), sum(one.switches for one in both)
    detail = f"crashes={crashes}, switches={switches}; {found.fuzzed.calls} with sched_ext; {answers}"
    calls = float(found.fuzzed.calls + here.calls)
    figures = [Figure(name=LaptopFigure.FUZZED, value=calls, detail=detail, spoiled=bool(crashes or switches))]
    released = ", ".join(f"{one:.3f}" for one in found.released_s)
    return [
        *figures,
        Figure(name=LaptopFigure.RELEASE, value=max(found.released_s), detail=f"{released}; guest's wall clock"),
        Figure(name=LaptopFigure.DAEMON_RSS, value=found.daemon_rss_bytes / 1e6),
        Figure(name=LaptopFigure.HELPER_RSS, value=found.helper_rss_bytes / 1e6),
    ]


def _last(words: Sequence[str]) -> str:
    return words[-1] if words else "no word on stderr"
