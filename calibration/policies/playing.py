# SPDX-License-Identifier: GPL-2.0-only
"""Plays what figures of composed schedulers need: makes the compositions, boots one guest, keeps what it measured.

A guest under the parallel clock with four CPUs alike. What is kept in `calibration/results/composed` is not played
again; an interrupted guest goes on with the turns that it lacks. Judges nothing.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from asa import files, paths, wire
from asa.act.portfolio import Available, Portfolio
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from calibration import programs
from calibration.composing import build, spec
from calibration.composing.spec import Between, Classes, Order, Queues, Spec
from calibration.policies.played import SEED, Measure, Orders, Played, Subject, read
from scenarios import guests
from scenarios.lab import guest, machines
from scenarios.lab.emulator import Clock
from scenarios.lab.guest import Lab

KEPT = Path(__file__).parents[1] / "results/composed"
CPUS = 4
PLAYED = "played.json"
"""What a guest has measured, in its folder."""

_BATCH = Path(__file__).with_name("batch.c")
_SCALE = Path(__file__).parents[1] / "scale/scale.c"
_LIMIT_S = 7200.0
_COMMAND = (sys.executable, "-P", "-m", "calibration.policies.guest")  # -P: root imports nothing from the folder
_OWN = Subject(name="eevdf")

ORACLE = Spec(
    id="oracle",
    purpose="whom the batch calls long comes first: it is told the name",
    classes=Classes.COMM,
    order=Order.FIFO,
    queues=Queues.CLASS,
    between=Between.PRIORITY,
    parameters={"slice-us": 2000, "age-ms": 1000},
)

Tell = Callable[[str], None]


def named(which: str) -> Spec:
    """A preset, or the oracle."""
    return ORACLE if which == ORACLE.id else spec.load(which, {})


def played(name: str, orders: Callable[["Bench"], Orders], tell: Tell) -> Played:
    """What is kept under this name, else played now: minutes. Raises AsaError."""
    kept = KEPT / f"{name}.json"
    if kept.exists():
        return read(kept)
    places = paths.default()
    lab = guests.ready(places.cache, tell, machines.alike(CPUS))
    out = places.state / "bench-policies" / name
    out.mkdir(parents=True, exist_ok=True)
    asked = orders(Bench(lab, out, places, tell))
    boot(lab, out, asked, tell)
    found = read(out / PLAYED)
    if missing := {(one.name, number) for one in asked.subjects for number in range(1, asked.rounds + 1)}.difference(
        found.turns()
    ):
        raise AsaError(f"{name}: {len(missing)} turns are missing: {'; '.join(found.troubles[-2:])}; run it again")
    KEPT.mkdir(exist_ok=True)
    files.replace(kept, (out / PLAYED).read_bytes(), mode=0o644)
    return found


class Bench:
    """Makes what a guest's orders name, in its folder."""

    def __init__(self, lab: Lab, out: Path, places: paths.Places, tell: Tell) -> None:
        self._lab = lab
        self._out = out
        self._places = places
        self._tell = tell
        self._made: dict[str, Path] = {}
        self._installed = Portfolio.load(paths.manifest(), places.schedulers)

    def own(self) -> Subject:
        """The kernel's own scheduler."""
        return _OWN

    def composed(self, which: str, *flags: str) -> Subject:
        """A preset or the oracle, with flags of its loader."""
        one = named(which)
        if which not in self._made:
            folder = self._out / "composed"
            self._made[which] = build.compose(one, folder, self._places.cache, self._lab.kernel, self._tell).program
        label = " ".join((which, *flags))
        return Subject(name=label, ops=f"compose_{one.id}", command=(str(self._made[which]), *flags))

    def known(self, scheduler: str, name: str = "", flags: Sequence[str] = ()) -> Subject:
        """A scheduler of the portfolio, with flags under another name. Raises AsaError where it is not installed."""
        found = self._installed.look(SchedulerName(scheduler))
        if not isinstance(found, Available) or found.path is None:
            raise AsaError(f"{scheduler}: {'of no file' if isinstance(found, Available) else found.reason}")
        ops = self._installed.entry(SchedulerName(scheduler)).ops or ""
        return Subject(name=name or scheduler, ops=ops, command=(str(found.path), *flags))

    def portfolio(self) -> list[Subject]:
        """All schedulers that are installed, without their modes, but for the kernel's own."""
        names = [name for name in self._installed.names() if name == name.bare and name != EEVDF]
        return [self.known(name) for name in names if isinstance(self._installed.look(name), Available)]

    def built(self, name: str, sources: Sequence[Path]) -> Path:
        """A scheduler of the laboratory's own, compiled of these."""
        return build.other(name, sources, self._out / "built", self._places.cache, self._lab.kernel, self._tell)

    def batch(self, label: str, ratio: int, unit_us: int, plays: int) -> Measure:
        """40 jobs, one of them `ratio` times as long."""
        return Measure(
            label=label, command=(str(self._program(_BATCH)), "40", f"{ratio}", f"{unit_us}", SEED), plays=plays
        )

    def scale(self, mode: str, seconds: float, plays: int = 1) -> Measure:
        """A mode of the scale benchmark."""
        return Measure(label=mode, command=(str(self._program(_SCALE)), mode, f"{seconds:g}"), plays=plays)

    def _program(self, source: Path) -> Path:
        return programs.compiled(source, self._out, programs.STATIC)


def boot(lab: Lab, out: Path, orders: Orders, tell: Tell) -> None:
    """Play the turns that `PLAYED` in `out` does not have yet, in one guest. Raises AsaError."""
    (out / "orders.json").write_bytes(wire.json_bytes(orders))
    command: Sequence[str] = (*_COMMAND, str(out / "orders.json"), str(out / PLAYED))
    machine = machines.alike(CPUS)
    env = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = guest.run(
        command,
        lab=lab,
        out=out,
        on_output=tell,
        on_error=tell,
        clock=Clock.PARALLEL,
        machine=machine,
        env=env,
        limit_s=_LIMIT_S,
    )
    if done.exit_code:
        raise AsaError(f"{out}: the guest's part ended with code {done.exit_code}; see {done.console}")
