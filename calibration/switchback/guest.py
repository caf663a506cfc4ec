# SPDX-License-Identifier: GPL-2.0-only
"""The part of a switchback run that is played in a guest, as root: `python -m calibration.switchback.guest ORDERS`.

Starts both applications once. Each round the applications stop while all schedulers of the round load and wait behind
the gate; then all go on, and the schedulers take turns, each for a short block. Writes run.json anew after each round.
What fails is a trouble of its block. Leaves the kernel on its own scheduler.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import asa
from asa import host, paths, wire
from asa.act.choice import Kind
from asa.act.forcing import Check, Forcing
from asa.act.priority import go_first
from asa.core.decision import EEVDF, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, SchedulerError
from asa.core.ports import Switcher
from calibration.controllers.columns import Controllers, is_controller
from calibration.switchback import design, intensity
from calibration.switchback.design import Turn
from calibration.switchback.intensity import Level
from calibration.switchback.probes import judged
from calibration.switchback.samples import Block, Orders, Run, Rung, Samples
from calibration.switchback.scene import Scene
from calibration.switchback.scored import score_all
from scenarios import catalogue, conditions, energy, runner_folder
from scenarios.application import Application, Tier
from scenarios.energy import Idling

RUN = "run.json"
_LOAD_LIMIT_S, _SWITCH_LIMIT_S = 400.0, 120.0  # scx_lavd takes an emulated guest a minute
_LOOK_S = 0.02
_SEARCH_S = 8.0  # of a rung's window
_HEAR_S = 30.0  # so long all that was measured is remembered while nothing is judged


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(line, flush=True)


@dataclass(slots=True, kw_only=True)
class Turns:
    """The schedulers of a run, loaded and brought into force in turn; `controllers` decide in turns of their own."""

    switcher: Switcher
    forcing: Forcing | None = None
    controllers: Controllers | None = None
    alive: Check | None = None  # of the controller whose turn it is
    lost: list[SwitchEvent] = field(default_factory=list)

    def check(self) -> None:
        """Serve the switcher. Raises SchedulerError once what is in force was lost, or the controller has ended."""
        if self.alive is not None:
            self.alive()
            return
        event = self.switcher.poll()
        if event is not None and event.outcome in (SwitchOutcome.LOST, SwitchOutcome.FOREIGN):
            raise SchedulerError(scheduler=event.old, reason=event.detail)

    def load(self, wanted: Sequence[SchedulerName]) -> dict[SchedulerName, str]:
        """Have these wait behind the gate; gives who does not, and why."""
        left, failed = tuple(dict.fromkeys(wanted)), {}
        end_s = time.monotonic() + _LOAD_LIMIT_S
        while True:
            self.switcher.keep_ready(left)
            event = self.switcher.poll()
            if event is not None and event.outcome is SwitchOutcome.REFUSED:
                failed[event.new] = event.detail
                left = tuple(name for name in left if name != event.new)
            ready = {one.scheduler for one in self.switcher.standbys() if one.ready}
            late = [name for name in left if name not in ready]
            if not late:
                return failed
            if time.monotonic() > end_s:
                return failed | dict.fromkeys(late, f"was not loaded within {_LOAD_LIMIT_S:g} s")
            time.sleep(_LOOK_S)

    @contextmanager
    def deciding(self, name: SchedulerName) -> Iterator[None]:
        """Inside, a controller decides what is in force; afterwards the kernel's own is. Raises AsaError."""
        if self.forcing is None or self.controllers is None:
            raise SchedulerError(scheduler=name, reason="decides, and this run has no place for it")
        self.bring(EEVDF)
        self.switcher.rest()
        try:
            with self.forcing.apart(), self.controllers.hold(name) as self.alive:
                yield
        finally:
            self.alive = None
            self.switcher = self.forcing.switcher(Kind.GATED)

    def bring(self, target: SchedulerName) -> SwitchEvent | None:
        """Switch to it; None where it is in force. Raises SchedulerError."""
        if self.switcher.current() == target:
            return None
        self.switcher.begin(target, "its turn")
        end_s = time.monotonic() + _SWITCH_LIMIT_S
        while time.monotonic() < end_s:
            event = self.switcher.poll()
            if event is None or (event.outcome is SwitchOutcome.REFUSED and event.new != target):
                look_in_s = self.switcher.look_in_s()
                time.sleep(_LOOK_S if look_in_s is None else min(look_in_s, _LOOK_S))
            elif event.outcome is SwitchOutcome.CONFIRMED:
                return event
            else:
                raise SchedulerError(scheduler=target, reason=event.detail)
        raise SchedulerError(scheduler=target, reason=f"was not in force within {_SWITCH_LIMIT_S:g} s")


def alone(scene: Scene, names: Sequence[str], orders: Orders) -> list[Samples]:
    """Each application by itself for a while, the other stopped; both stopped at the end."""
    found = []
    for name in names:
        scene.go_on(0.0)
        others = [other for other in names if other != name]
        if others:  # without a name all stop
            scene.stop(*others)
        scene.last(orders.settle_s)
        window = scene.last(orders.alone_s)
        scene.hear()
        found += scene.series(window, window[1], name)
    scene.stop()
    return found


def block(scene: Scene, turns: Turns, turn: Turn, orders: Orders, window_s: float) -> tuple[Block, tuple[int, int]]:
    """One turn, without its samples, and when its window was. Round, place and predecessor are the caller's."""
    found = Block(round=0, place=0, scheduler=turn.scheduler, copy=turn.copy, after="", window_s=window_s)
    at_ns = time.monotonic_ns()
    try:
        event = turns.bring(SchedulerName(turn.scheduler))
        scene.last(orders.settle_s)
        idling = Idling.take()
        window = scene.last(window_s)
    except SchedulerError as error:
        return msgspec.structs.replace(found, trouble=str(error)), (at_ns, at_ns)
    drawn = energy.between(idling, Idling.take(), orders.power)
    if event is not None:
        gap_ms = None if event.gap_ns is None else event.gap_ns / 1e6
        found = msgspec.structs.replace(found, switch_ms=event.elapsed_ns / 1e6, gap_ms=gap_ms, way=str(event.way))
    return msgspec.structs.replace(found, energy=drawn), window


def decided(scene: Scene, turns: Turns, turn: Turn, orders: Orders, window_s: float) -> tuple[Block, tuple[int, int]]:
    """As `block`, of a controller. It starts anew, and has `lead_s` to recognise what is played, and to switch."""
    found = Block(round=0, place=0, scheduler=turn.scheduler, copy=turn.copy, after="", window_s=window_s)
    at_ns = time.monotonic_ns()
    try:
        with turns.deciding(SchedulerName(turn.scheduler)):
            scene.hear()  # nobody listened while it started
            scene.last(orders.lead_s)
            idling = Idling.take()
            window = scene.last(window_s)
            drawn = energy.between(idling, Idling.take(), orders.power)
    except SchedulerError as error:
        return msgspec.structs.replace(found, trouble=str(error)), (at_ns, at_ns)
    told = {} if turns.controllers is None else turns.controllers.told([window])
    return msgspec.structs.replace(found, energy=drawn, told=told), window


def play_round(
    scene: Scene, turns: Turns, order: Sequence[Turn], orders: Orders, number: int, window_s: float
) -> list[Block]:
    """All turns of a round; the applications are stopped before it and after it. Raises AsaError where one ends."""
    turns.bring(EEVDF)
    loaded = [SchedulerName(turn.scheduler) for turn in order if not is_controller(turn.scheduler)]
    failed = turns.load([name for name in loaded if name != EEVDF])
    scene.go_on(orders.settle_s)
    found, windows, after = [], [], ""
    for place, turn in enumerate(order, 1):
        why = failed.get(SchedulerName(turn.scheduler))
        if why is None:
            play_turn = decided if is_controller(turn.scheduler) else block
            made, window = play_turn(scene, turns, turn, orders, window_s)
        else:
            made = Block(
                round=0, place=0, scheduler=turn.scheduler, copy=turn.copy, after="", window_s=window_s, trouble=why
            )
            window = (0, 0)
        if made.trouble:
            say(f"failed: {turn.scheduler}: {made.trouble}")
        found.append(msgspec.structs.replace(made, round=number, place=place, after=after))
        windows.append(window)
        after = EEVDF if made.trouble or is_controller(turn.scheduler) else turn.scheduler
    scene.last(orders.settle_s)  # what began in the last window ends
    until_ns = time.monotonic_ns()
    scene.stop()
    scene.hear()
    blocks = [
        made if made.trouble else msgspec.structs.replace(made, series=scene.series(window, until_ns))
        for made, window in zip(found, windows, strict=True)
    ]
    scene.forget(until_ns)
    return blocks


def rounds(scene: Scene, turns: Turns, run: Run, keep: Callable[[Run], None]) -> Run:
    """Both alone, the pilot that sizes the window, and all rounds; `keep` is called after each."""
    orders = run.orders
    say("each alone")
    run = msgspec.structs.replace(run, alone=alone(scene, run.parts, orders))
    scene.go_on(orders.settle_s)
    say("the pilot")
    window = scene.last(orders.pilot_s)
    scene.last(orders.settle_s)
    scene.stop()
    scene.hear()
    pilot = scene.series(window, time.monotonic_ns())
    known = {
        f"{one.application}.{one.metric}": design.memory_s(one.metric, one.at_s, one.values)
        for one in pilot
        if one.application == run.parts[0] and one.metric in judged(one.application)
    }
    window_s = orders.window_s or design.window_s(known)
    run = msgspec.structs.replace(run, memories_s=known, window_s=window_s)
    say(f"windows of {window_s:g} s; remembered for {_seconds(known)}")
    if orders.classic:
        plan = design.throughout(orders.schedulers[0], orders.rounds)
    else:
        plan = design.orders(orders.schedulers, orders.rounds, orders.seed)
    for number, order in enumerate(plan, 1):
        say(f"round {number} of {len(plan)}: {', '.join(turn.scheduler for turn in order)}")
        made = play_round(scene, turns, order, orders, number, window_s)
        run = msgspec.structs.replace(run, blocks=(*run.blocks, *made))
        keep(run)
    return run


def lasting(scene: Scene, turns: Turns, run: Run) -> Run:
    """A controller at work while both play, for as long as is ordered. Nothing is measured but what it did.

    Raises AsaError where it ends, or an application does.
    """
    orders = run.orders
    (name,) = orders.schedulers
    say(f"round 1 of 1: {name} for {orders.lasts_s:g} s")
    with turns.deciding(SchedulerName(name)):
        start_ns = time.monotonic_ns()
        end_s = time.monotonic() + orders.lasts_s
        while (left_s := end_s - time.monotonic()) > 0.0:
            scene.hear()
            scene.forget(time.monotonic_ns())
            scene.last(min(left_s, _HEAR_S))
        window = start_ns, time.monotonic_ns()
    told = {} if turns.controllers is None else turns.controllers.told([window])
    made = Block(round=1, place=1, scheduler=name, copy=1, after="", window_s=orders.lasts_s, told=told)
    return msgspec.structs.replace(run, blocks=(made,))


def search(applications: Sequence[Application], turns: Turns, run: Run, places: paths.Places) -> Run:
    """Rungs of the ladder under the kernel's own scheduler, each with both started anew."""
    orders = run.orders

    def score_of(level: Level) -> float | None:
        with Scene(applications, seed=orders.seed, level=level, places=places, check=turns.check) as scene:
            both = alone(scene, run.parts, orders)
            scene.go_on(orders.settle_s)
            window = scene.last(_SEARCH_S)
            scene.last(orders.settle_s)
            scene.hear()
            (score,) = score_all(run.interactive, run.background, both, [scene.series(window, time.monotonic_ns())])
        say(f"rung {level[0]:g}, {level[1]:g}: {'too little' if score is None else f'{score:.3f}'}")
        return score

    played = intensity.search(score_of)
    rungs = tuple(Rung(crowd=level[0], effort=level[1], score=score) for level, score in played.items())
    return msgspec.structs.replace(run, rungs=rungs)


def play(
    orders: Orders, forcing: Forcing, places: paths.Places, known: Sequence[Application], keep: Callable[[Run], None]
) -> Run:
    """What is ordered, with `known` applications. Raises AsaError where the applications cannot play."""
    begun_s = time.monotonic()
    scenario = catalogue.labelled(orders.label)
    by_name = {one.name: one for one in known}
    applications = [by_name[name] for name in (scenario.interactive, scenario.background) if name]
    under = conditions.here()
    owners = (places.cache.stat().st_uid,)  # who built the schedulers on the host
    controllers = Controllers(places, orders.given, Path(tempfile.gettempdir()), owners)
    run = Run(
        orders=orders,
        interactive=scenario.interactive,
        background=scenario.background,
        machine=under.machine,
        cpus=host.cpus(),
        kernel=os.uname().release,
        asa_version=asa.__version__,
        under=under,
        versions={
            name: (controllers if is_controller(name) else forcing).version(SchedulerName(name))
            for name in orders.schedulers
        },
    )
    for name in dict.fromkeys(orders.schedulers):
        if not is_controller(name):
            forcing.check_usable(SchedulerName(name))
    turns = Turns(switcher=forcing.switcher(Kind.GATED), forcing=forcing, controllers=controllers)
    try:
        if orders.search:
            run = search(applications, turns, run, places)
        else:
            level = orders.crowd, orders.effort
            with Scene(applications, seed=orders.seed, level=level, places=places, check=turns.check) as scene:
                run = msgspec.structs.replace(run, parameters=scene.parameters)
                run = lasting(scene, turns, run) if orders.lasts_s else rounds(scene, turns, run, keep)
    finally:
        with suppress(AsaError):
            turns.switcher.rest()
    run = msgspec.structs.replace(run, whole=True, guest_s=round(time.monotonic() - begun_s, 3))
    keep(run)
    return run


def _seconds(known: dict[str, float | None]) -> str:
    told = (f"{name} {'unknown' if one is None else f'{one:.2f} s'}" for name, one in known.items())
    return ", ".join(told) or "nothing known"


def main(words: list[str]) -> int:
    """Exit code 1 with one line on stderr when it could not be played."""
    orders = wire.from_json(Path(words[0]).read_bytes(), Orders)
    places = paths.default()
    places.run.mkdir(parents=True, exist_ok=True)
    go_first()
    try:
        owners = [places.cache.stat().st_uid]  # who built the schedulers on the host
        with Forcing(places, owners, orders.policies) as forcing:
            known = tuple(catalogue.applications(Tier.LAB).values())
            play(orders, forcing, places, known, lambda run: runner_folder.write(Path(orders.out) / RUN, run))
    except AsaError as error:
        print(f"switchback_guest: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
