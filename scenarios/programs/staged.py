# SPDX-License-Identifier: GPL-2.0-only
"""Programs that a person sits at, or listens to: they run until the session ends, and something is done to them.

    python -m scenarios.programs.staged MODULE NAME ORDERS

The driver of the interactive `scenarios.programs`. It puts up a screen, if the program needs one, or takes the desktop
that the recording has. It starts what `begin` says, and does `act` again and again: one is a pass. A program that ends
by itself ends the driver with an error.
"""

import importlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Report, Role
from scenarios.driving import Driver, fail, need_fonts
from scenarios.interactive.game_screen import ScreenError
from scenarios.programs.desk import PACKAGES, PROGRAMS, Desk, XDesk
from scenarios.programs.gnome import DESKTOP, GnomeDesk
from scenarios.programs.gnome import version as gnome_version
from scenarios.programs.looping import PASSES, Argv, Degree, drawn, version_of

_END_LIMIT_S = 2.0
_WINDOW_LIMIT_S = 90.0
_SOFTWARE = {
    "LIBGL_ALWAYS_SOFTWARE": "1",
    "SDL_VIDEODRIVER": "x11",
    "SDL_AUDIODRIVER": "dummy",
    "ALSOFT_DRIVERS": "null",
    "GDK_BACKEND": "x11",
    "QT_QPA_PLATFORM": "xcb",
    "GSETTINGS_BACKEND": "memory",
    "NO_AT_BRIDGE": "1",
}
"""No GPU, no sound card, no user's settings."""


_WORDS = "time people day thing world state group hand part place week work number night point home water room"


class Stage:
    """What `begin` and `act` of a program work with."""

    def __init__(self, driver: Driver, desk: Desk | None) -> None:
        self.driver = driver
        self.given = driver.parameters
        self.rng = drawn(driver)
        self._desk = desk
        self._running: list[_Running] = []

    @property
    def desk(self) -> Desk:
        """Of programs that have one."""
        if self._desk is None:
            raise ScreenError("this program has no screen")
        return self._desk

    def start(self, argv: Argv, env: Mapping[str, str] | None = None, *, again: bool = False) -> Path:
        """A program that has to run until the end; with `again` it is started again when it ends without an error.

        What it says goes to the file.
        """
        more = {**_SOFTWARE, **(self._desk.environment if self._desk else {}), **(env or {})}
        log = self.driver.scratch / f"program{len(self._running)}.log"
        one = _Running(argv=argv, env={**os.environ, **more}, log=log, again=again)
        one.launch()
        self._running.append(one)
        return log

    def pause(self, mean_s: float) -> None:
        """About so long, as people are not clocks."""
        self.driver.pause(self.rng.uniform(0.5, 1.5) * mean_s)

    def wait_for(self, there: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
        """Until it is there; ends the driver when a program has ended or the time is over."""
        waited_s = 0.0
        while not there() and not self.driver.ending:
            self.check()
            if waited_s > limit_s:
                said = " / ".join(one.last_words() for one in self._running)
                fail(f"{what}: not there after {limit_s:.0f} s; {said}")
            self.driver.pause(0.1)
            waited_s += 0.1

    def check(self) -> None:
        """End the driver if a program has ended."""
        for one in self._running:
            code = one.process.poll()
            if code == 0 and one.again:
                one.launch()
            elif code is not None and not self.driver.ending:
                fail(f"{Path(one.argv[0]).name} ended with code {code}: {one.last_words()}")

    def stop(self) -> None:
        """End all, the last first."""
        for one in reversed(self._running):
            one.process.terminate()
        for one in reversed(self._running):
            try:
                one.process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()


class _Running:
    def __init__(self, *, argv: Argv, env: Mapping[str, str], log: Path, again: bool) -> None:
        self.argv, self.again = argv, again
        self._env, self._log = env, log

    def launch(self) -> None:
        with self._log.open("wb") as said:
            try:
                self.process = subprocess.Popen(
                    self.argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=self._env
                )
            except OSError as error:
                fail(f"{self.argv[0]}: {error.strerror}")

    def last_words(self) -> str:
        return self._log.read_text(errors="replace").strip()[-300:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(Application):
    """An application whose driver is this module."""

    begin: Callable[[Stage], None]  # starts its programs; raises OSError
    act: Callable[[Stage], None]  # what is done in one pass; some seconds
    screen: bool
    version: Argv = ("--version",)  # arguments of the first program; none: it would not answer


def program(
    module: str,
    *,
    name: str,
    kind: Kind | None,
    packages: tuple[str, ...],
    programs: tuple[str, ...],
    draw: Callable[[random.Random, Place], Parameters],
    begin: Callable[[Stage], None],
    act: Callable[[Stage], None],
    screen: bool = True,
    version: Argv = ("--version",),
    modules: tuple[str, ...] = (),
    prepare: Callable[[Place, Report], None] = lambda _place, _report: None,
) -> Staged:
    """One of the `PROGRAMS` of `module` (its `__name__`). `draw` of those with a screen says `size`, as `1280x720`."""
    return Staged(
        name=name,
        role=Role.INTERACTIVE,
        kind=kind,
        metrics=(PASSES,),
        packages=(*packages, *(PACKAGES if screen else ())),
        programs=(*programs, *(PROGRAMS if screen else ())),
        modules=modules,
        draw=draw,
        prepare=prepare,
        command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.programs.staged", module, name),
        ready_limit_s=240.0,
        silence_limit_s=150.0,
        begin=begin,
        act=act,
        screen=screen,
        version=version,
    )


def draw_size(rng: random.Random, degree: str) -> str:
    """Of a screen; smaller ones where little is to be done."""
    small, middle, large = ("640x360", "800x600"), ("1024x768", "1280x720"), ("1440x900", "1920x1080")
    return rng.choice({Degree.LIGHT: small, Degree.HALF: small + middle, Degree.FULL: middle + large}[Degree(degree)])


def draw_person(rng: random.Random) -> dict[str, str | int | float | bool]:
    """What programs with a screen share: degree, size, and how quick a person is."""
    degree = rng.choice(tuple(Degree)).value
    slower = {"light": 3.0, "half": 1.0, "full": 0.5}[degree]
    return {
        "degree": degree,
        "size": draw_size(rng, degree),
        "maximized": rng.random() < 0.7,
        "key_s": round(rng.uniform(0.07, 0.25) * max(1.0, slower / 2), 3),  # mean, between two keys
        "think_s": round(rng.uniform(0.2, 0.9) * slower, 3),  # mean, between two other actions
    }


def find(module: str, name: str) -> Staged:
    """Of a module's `PROGRAMS`."""
    found: Staged = next(one for one in importlib.import_module(module).PROGRAMS if one.name == name)
    return found


def _play(driver: Driver, staged: Staged, stage: Stage, versions: Mapping[str, str]) -> None:
    staged.begin(stage)
    stage.check()
    if staged.screen and not stage.desk.focus(_WINDOW_LIMIT_S):
        stage.check()
        fail(f"{staged.name}: no window after {_WINDOW_LIMIT_S:.0f} s")
    driver.ready(versions)
    passes = 0
    while not driver.ending:
        staged.act(stage)
        stage.check()
        passes += 1
        driver.measured(PASSES, passes)


def main() -> None:
    """Put up what it needs, then act until asked to end."""
    driver = Driver.begin(interrupt=True)
    staged = find(*sys.argv[1:3])
    first = staged.programs[0]
    versions = {Path(first).name: version_of(first, *staged.version) if staged.version else "unknown"}
    desk: Desk | None = None
    stage: Stage | None = None
    try:
        if staged.screen:
            need_fonts()
            given, desktop = driver.parameters, os.environ.get(DESKTOP)
            make, place = (GnomeDesk, Path(desktop)) if desktop else (XDesk, driver.scratch)
            desk = make(place, size=given["size"], maximized=given["maximized"])
            versions |= {"gnome-shell": gnome_version()} if desktop else {}
        stage = Stage(driver, desk)
        _play(driver, staged, stage, versions)
    except (OSError, ScreenError) as error:
        if not driver.ending:
            fail(f"{staged.name}: {error}")
    finally:
        if stage is not None:
            stage.stop()
        if desk is not None:
            desk.stop()


def words(rng: random.Random, count: int) -> str:
    """Text of so many."""
    return " ".join(rng.choices(_WORDS.split(), k=count))


def keys(stage: Stage, names: Sequence[str], count: int) -> None:
    """Press keys drawn of these."""
    for _ in range(count):
        stage.desk.key(stage.rng.choice(names))
        stage.pause(stage.given["key_s"])


if __name__ == "__main__":
    main()
