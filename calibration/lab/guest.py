# SPDX-License-Identifier: GPL-2.0-only
"""The part that runs in a guest, as root: `python -m calibration.lab.guest`.

Plays what it is asked for: modes of machine.c, those of scale.c under the kernel's own scheduler, and the schedulers
one after another. Writes one JSON file; judges nothing. Leaves the kernel on its own scheduler.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from asa import host, paths, wire
from asa.act.forcing import Forcing
from asa.act.kernel import sched_ext_state
from asa.act.plain import bring_up
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError, SchedulerError
from calibration.lab.samples import Checks, Clocks, Found, Hotplug, Hurry, Late, Load, write
from calibration.scale.guest import mode_run
from calibration.scale.samples import USUAL, Mode

_LIMIT_S = 120.0  # of one mode of machine.c
_BESIDE_S = 0.2  # loops under each scheduler
T = TypeVar("T")


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(line, flush=True)


def machine(program: Path, kind: type[T], mode: str, *words: object) -> T:
    """One mode of machine.c. Raises AsaError with its last words."""
    command = [str(program), mode, *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise AsaError(f"machine {mode} was not done within {_LIMIT_S:g} s") from None
    if done.returncode != 0:
        raise AsaError(f"machine {mode} ended with code {done.returncode}: {done.stderr.strip()!r}")
    return wire.from_json(done.stdout, kind)


def checks(program: Path, sets: Sequence[str], seconds: float, sys: Path) -> Checks:
    """All modes of machine.c: its loops on each of `sets` ("0 2"), the rest with the first CPUs and the last."""
    first, *others = sorted(os.sched_getaffinity(0))
    last = others[-1]
    loops = {}
    for cpus in sets:
        say(f"loops on CPUs {cpus}")
        loops[cpus] = machine(program, dict[str, int], "hogs", seconds, *cpus.split())
    say("clocks, timers, interrupts, hotplug")
    clocksource = sys / "devices/system/clocksource/clocksource0/current_clocksource"
    return Checks(
        clocksource=clocksource.read_text(encoding="ascii").strip(),
        hogs=loops,
        clocks=machine(program, Clocks, "clocks", seconds),
        timer=machine(program, Late, "timer", seconds, last),
        timer_beside=machine(program, Late, "timer", seconds, last, first, *others[:-1]),
        ipi=machine(program, Late, "ipi", seconds / 4.0, first, *others),
        wake=machine(program, Late, "wake", seconds / 4.0, first, last),
        pause=machine(program, Late, "pause", seconds / 4.0, first),
        hotplug=machine(program, Hotplug, "hotplug", last),
        hurry=machine(program, Hurry, "hurry", seconds / 4.0, first),
    )


def loads(
    forcing: Forcing, program: Path, names: Sequence[SchedulerName], sys: Path
) -> tuple[dict[str, Load], dict[str, str]]:
    """Switch from one to the next, loops on all CPUs under each, and leave: what was seen, and what went wrong."""
    cpus = sorted(os.sched_getaffinity(0))
    found, troubles = {}, {}
    switcher = forcing.switcher()
    try:
        for name in names:
            say(f"{name} comes into force")
            begun_s = time.monotonic()
            try:
                forcing.check_usable(name)
                bring_up(switcher, name)
                attach_s = time.monotonic() - begun_s
                loops = machine(program, dict[str, int], "hogs", _BESIDE_S, *cpus)
                event = switcher.poll()
                if event is not None:
                    raise SchedulerError(scheduler=name, reason=event.detail)
            except AsaError as error:
                troubles[str(name)] = str(error)
                continue
            found[str(name)] = Load(attach_s=attach_s, hogs=loops)
    finally:
        rested = switcher.rest()
    state = sched_ext_state(sys)
    if not rested or state is None or state.state != "disabled":
        troubles[str(names[-1])] = f"does not let go of the kernel: {state}"
    return found, troubles


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr when nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m calibration.lab.guest")
    parser.add_argument("--programs", type=Path, required=True, help="folder of the compiled machine.c and scale.c")
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    parser.add_argument("--hogs", help="CPUs that are busy together, as in `0;1;0 1`: the checks are played")
    parser.add_argument("--repeat", type=int, default=0, help="how often scale.c's modes are played")
    parser.add_argument("--modes", default=",".join(USUAL), help="those modes, with commas between")
    parser.add_argument("--scheduler", help="names, with commas between: they are loaded one after another")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each mode")
    given = parser.parse_args(words)
    places = paths.default()
    try:
        places.run.mkdir(parents=True, exist_ok=True)
        for name in ("machine", "scale"):  # launched often: not from the host's files
            shutil.copy(given.programs / name, places.run / name)
        program, scale = places.run / "machine", places.run / "scale"
        found = Found(kernel=os.uname().release, cpus=host.cpus())
        if given.hogs:
            checked = checks(program, given.hogs.split(";"), given.seconds, places.sys)
            found = msgspec.structs.replace(found, checks=checked)
        readings = []
        for number in range(given.repeat):
            say(f"round {number + 1} of {given.repeat}")
            readings.append({Mode(mode): mode_run(scale, Mode(mode), given.seconds) for mode in given.modes.split(",")})
        found = msgspec.structs.replace(found, readings=tuple(readings))
        if given.scheduler:
            owner = places.cache.stat().st_uid  # who built the schedulers on the host
            with Forcing(places, owners=[owner]) as forcing:
                names = [SchedulerName(name) for name in given.scheduler.split(",")]
                loaded, troubles = loads(forcing, program, names, places.sys)
            found = msgspec.structs.replace(found, loads=loaded, troubles=troubles)
        write(found, given.json)
    except AsaError as error:
        print(f"lab_guest: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
