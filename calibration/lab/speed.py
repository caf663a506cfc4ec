# SPDX-License-Identifier: GPL-2.0-only
"""What a guest of the lab costs: to boot, to play a trial, and guest seconds for each CPU second of the host.

`boots`, `pace` and `spent` start guests. `demos` plays `asa lab demo` until so many runs are kept, `evictions` counts
in those which schedulers the kernel's watchdog took out. Prints nothing.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa import procstat, wire
from asa.core.errors import AsaError, LabError
from scenarios import runner_folder
from scenarios.guests import booter
from scenarios.lab import guest
from scenarios.lab.emulator import Clock
from scenarios.lab.machines import Machine
from scenarios.runner import Orders
from scenarios.runner_guests import runner_command
from scenarios.runner_plan import Trial

_IDLE_S, _BUSY_S = 60.0, 5.0  # guest seconds: idle ones cost the host next to nothing
_BOOT_LIMIT_S, _STEP_LIMIT_S = 60.0, 900.0
_DEMO_LIMIT_S = 2_400.0
_FIRST_SEED = 201  # held out: no recording that the model learns from has one of these
_TRIAL_LIMIT_S = 1_800.0
_LOOK_S = 0.02
# One hog a CPU, pinned: a step is its name, its hogs and its seconds. The host stamps what is printed.
_SCRIPT = """\
mark() { read -r now _ < /proc/uptime; echo "$1 $2 $now"; }
while [ $# -gt 0 ]; do
    hogs=
    cpu=0
    while [ $cpu -lt "$2" ]; do
        taskset -c $cpu sh -c 'while :; do :; done' &
        hogs="$hogs $!"
        cpu=$((cpu + 1))
    done
    sleep 1
    mark begin "$1"
    sleep "$3"
    mark end "$1"
    [ -z "$hogs" ] || kill $hogs
    shift 3
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How time goes in a guest under one load."""

    cpus: int
    busy: int  # CPUs with a hog
    guest_s: float
    host_s: float  # of CPU time: one thread serves all CPUs, and what else the host does must not count

    @property
    def guest_s_per_host_s(self) -> float:
        """More than 1 where the guest is faster than the host's clock."""
        return self.guest_s / self.host_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Evictions:
    """Of the kept runs of the demonstration."""

    runs: int  # that tell
    untold: tuple[str, ...]  # files of runs that do not: of before it was kept, or the kernel's log was not read
    schedulers: tuple[str, ...]  # each as often as it was evicted
    good: int  # runs that ended with 0


class _Demo(msgspec.Struct, frozen=True):
    # what is wanted of a run.json
    stalled: tuple[str, ...] | None = None
    good: bool = False


def boots(lab: guest.Lab, *, out: Path, cpus: int, clock: Clock, count: int = 5) -> tuple[float, ...]:
    """Host seconds from QEMU's start to the first command, of each of so many guests in turn. Raises LabError."""

    def boot() -> float:
        command = ["true"]
        result = guest.run(command, lab=lab, out=out, on_output=_drop, cpus=cpus, clock=clock, limit_s=_BOOT_LIMIT_S)
        return result.boot_s

    return tuple(boot() for _ in range(count))


def pace(
    lab: guest.Lab, *, out: Path, cpus: int, clock: Clock, idle_s: float = _IDLE_S, busy_s: float = _BUSY_S
) -> tuple[Pace, Pace, Pace]:
    """One guest with none, half and all of its CPUs busy, for so many guest seconds each. Raises LabError."""
    busy = (0, cpus // 2, cpus)
    steps = [word for hogs in busy for word in (str(hogs), str(hogs), f"{busy_s if hogs else idle_s:g}")]
    stamps: list[tuple[float, str]] = []
    errors: list[str] = []
    result = guest.run(
        ["sh", "-c", _SCRIPT, "pace", *steps],
        lab=lab,
        out=out,
        on_output=lambda line: stamps.append((_children_s(), line)),
        on_error=errors.append,
        cpus=cpus,
        clock=clock,
        limit_s=_STEP_LIMIT_S,
    )
    if result.exit_code:
        said = errors[-1] if errors else "no word on stderr"
        raise LabError(f"the guest's part ended with code {result.exit_code}: {said!r}; see {result.console}")
    return read_paces(stamps, cpus, busy)


def read_paces(stamps: Sequence[tuple[float, str]], cpus: int, busy: tuple[int, int, int]) -> tuple[Pace, Pace, Pace]:
    """From the guest's lines (`begin HOGS UPTIME`, `end HOGS UPTIME`) and QEMU's CPU time at each. Raises LabError."""
    times: dict[tuple[str, str], tuple[float, float]] = {}
    for host_s, line in stamps:
        match line.split():
            case ["begin" | "end" as word, hogs, uptime_s]:
                times[word, hogs] = host_s, float(uptime_s)
            case _:
                raise LabError(f"the guest's part printed {line!r}; expected begin or end, a number and the uptime")

    def one(hogs: int) -> Pace:
        try:
            (began_s, began_guest_s), (ended_s, ended_guest_s) = times["begin", str(hogs)], times["end", str(hogs)]
        except KeyError as error:
            raise LabError(f"the guest's part printed no {error.args[0]}; its lines: {times}") from None
        return Pace(cpus=cpus, busy=hogs, guest_s=ended_guest_s - began_guest_s, host_s=ended_s - began_s)

    idle, half, whole = busy
    return one(idle), one(half), one(whole)


def spent(
    lab: guest.Lab, machine: Machine, trial: Trial, *, out: Path, seconds: float, warm_up_s: float
) -> dict[str, float]:
    """Host seconds of each step of one trial in a guest of its own, in turn. Raises LabError.

    Steps: boot, start (of Python), scheduler, applications, warm-up, window, end (programs end, the result is kept).
    """
    orders = out / "orders"
    out.mkdir(parents=True, exist_ok=True)
    runner_folder.write(orders, Orders(trials=(trial,), seconds=seconds, warm_up_s=warm_up_s, out=str(out)))
    began_s = time.monotonic()
    started = booter(lab, machine)(runner_command(orders), out, _TRIAL_LIMIT_S)
    stamps: list[tuple[float, str]] = []
    words: list[str] = []
    try:
        result = None
        while result is None:
            result = started.poll()
            normal, errors = started.output()
            stamps += [(time.monotonic(), line) for line in normal]
            words += errors
            if result is None:
                time.sleep(_LOOK_S)
    finally:
        started.stop()
    if result.exit_code:
        said = words[-1] if words else "no word on stderr"
        raise LabError(f"the guest's part ended with code {result.exit_code}: {said!r}; see {result.console}")
    return read_steps(stamps, began_s, began_s + result.boot_s)


def read_steps(stamps: Sequence[tuple[float, str]], began_s: float, booted_s: float) -> dict[str, float]:
    """Host seconds by step, from the runner's lines and the host's time of each."""
    found = {"boot": booted_s - began_s}
    last_s = booted_s
    for host_s, line in stamps:
        match line.split():
            case ["begin", _]:
                step = "start"
            case ["step", name]:
                step = name
            case ["end", _]:
                step = "end"
            case _:
                continue  # a program's own word
        found[step] = found.get(step, 0.0) + host_s - last_s
        last_s = host_s
    return found


def demos(folder: Path, count: int, tell: Callable[[str], None]) -> None:
    """Play the demonstration in the lab, with seeds held out, until `folder` has so many records, `run-SEED.json`.

    What is there is kept. Raises AsaError for one that left no record.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        seed = _FIRST_SEED + number
        record = folder / f"run-{seed}.json"
        if record.exists():
            continue
        tell(f"demonstration {number + 1} of {count}")
        command = [sys.executable, "-P", "-m", "asa.cli", "lab", "demo", "--lab", "--seed", str(seed)]
        command += ["--out", str(record)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DEMO_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise AsaError(f"asa lab demo did not end within {_DEMO_LIMIT_S:.0f} s; look at the lab") from error
        if not record.exists():
            said = (done.stderr or done.stdout).strip()[-300:]
            raise AsaError(f"asa lab demo ended with {done.returncode} and left no {record}: {said!r}")


def evictions(records: Sequence[Path]) -> Evictions:
    """What the kernel's watchdog took out in runs of the demonstration. Raises AsaError for a damaged record."""
    told: list[tuple[str, ...]] = []
    good = 0
    untold: list[str] = []
    for path in records:
        try:
            demo = wire.from_json(path.read_text(encoding="utf-8"), _Demo)
        except OSError as error:
            raise AsaError(f"{path}: {error.strerror}; name kept records of `asa lab demo`") from error
        except msgspec.DecodeError as error:
            raise AsaError(f"{path}: {error}; it is no record of `asa lab demo`, remove it") from error
        if demo.stalled is None:
            untold.append(path.name)
        else:
            told.append(demo.stalled)
            good += demo.good
    return Evictions(
        runs=len(told), untold=tuple(untold), schedulers=tuple(name for one in told for name in one), good=good
    )


def _children_s() -> float:
    # CPU time of this process's children that live: of QEMU
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text(encoding="ascii").split():
            with suppress(OSError):  # it has ended
                found = procstat.fields(Path(f"/proc/{pid}/stat").read_bytes(), procstat.SYSTEM + 1)
                ticks += int(found[procstat.USER]) + int(found[procstat.SYSTEM])
    return ticks / os.sysconf("SC_CLK_TCK")


def _drop(_line: str) -> None:
    pass
