# SPDX-License-Identifier: GPL-2.0-only
"""The part that runs in a guest, as root: `python -m calibration.policies.guest ORDERS OUT`.

Has subjects take turns, in a new random order each round, and runs the measures under each. Writes OUT anew after each
turn, and goes on from one that was interrupted. A turn that cannot be finished is noted with its reason, and the next
one follows. Leaves the kernel on its own scheduler.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from asa import host, wire
from asa.act.kernel import sched_ext_state
from asa.core.errors import AsaError
from calibration.policies.played import SEED, Measure, Orders, Played, Reading, Subject, read, write
from scenarios import conditions

_SYS = Path("/sys")
_ATTACH_LIMIT_S, _END_LIMIT_S = 240.0, 120.0
_MEASURE_LIMIT_S = 600.0
_CALM_S = 0.3  # after a scheduler has come into force
_LOOK_S = 0.02


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(line, flush=True)


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr when nothing could be measured."""
    orders_path, out = Path(words[0]), Path(words[1])
    try:
        orders = wire.from_json(orders_path.read_bytes(), Orders)
        play(orders, out)
    except (AsaError, OSError, msgspec.MsgspecError) as error:
        print(f"policies_guest: {error}", file=sys.stderr)
        return 1
    return 0


def play(orders: Orders, out: Path) -> None:
    """All turns that `out` does not have yet."""
    found = Played(
        kernel=os.uname().release,
        cpus=host.cpus(),
        under=conditions.here(),
        names={one.name: " ".join(one.command[1:]) for one in orders.subjects},
    )
    found = _begun(out, found)
    order = random.Random(orders.seed)  # noqa: S311
    for number in range(1, orders.rounds + 1):
        for subject in order.sample(orders.subjects, len(orders.subjects)):
            if (subject.name, number) in found.turns():
                continue
            say(f"round {number} of {orders.rounds}: {subject.name}")
            try:
                more = tuple(_turn(subject, orders, number))
                found = msgspec.structs.replace(found, readings=(*found.readings, *more))
            except AsaError as error:
                say(f"failed: {error}")
                words = f"round {number}: {subject.name}: {error}"
                found = msgspec.structs.replace(found, troubles=(*found.troubles, words))
            write(found, out)


def _begun(out: Path, fresh: Played) -> Played:
    try:
        before = read(out)
    except AsaError:
        return fresh
    bare = msgspec.structs.replace(before, readings=(), troubles=())
    return msgspec.structs.replace(fresh, readings=before.readings) if bare == fresh else fresh


def _turn(subject: Subject, orders: Orders, number: int) -> Iterator[Reading]:
    with _in_force(subject):
        time.sleep(_CALM_S)
        for measure in orders.measures:
            for play_ in range(1, measure.plays + 1):
                values = _run(measure, str(1000 * orders.seed + 10 * number + play_))
                _check(subject)
                yield Reading(subject=subject.name, round=number, label=measure.label, play=play_, values=values)


def _run(measure: Measure, seed: str) -> dict[str, int]:
    command = [seed if word == SEED else word for word in measure.command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MEASURE_LIMIT_S)
        values = {name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())}
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise AsaError(f"{measure.label}: {error}") from error
    if done.returncode:
        raise AsaError(f"{measure.label} ended with code {done.returncode}: {done.stderr.strip()!r}")
    return values


@contextmanager
def _in_force(subject: Subject) -> Iterator[None]:
    if not subject.command:
        yield
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        # a pipe that nobody reads would stop one that the kernel refuses: its log is longer than that
        process = subprocess.Popen(subject.command, stdout=subprocess.DEVNULL, stderr=said)
        with _ending(process):
            _until(
                lambda: _ops().startswith(subject.ops) or process.poll() is not None, _ATTACH_LIMIT_S, "did not attach"
            )
            if process.poll() is not None:
                said.seek(0)
                words = said.read().split("\n")[-3:]
                raise AsaError(f"ended with code {process.returncode} before it attached: {' / '.join(words)!r}")
            yield


@contextmanager
def _ending(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _until(lambda: not _ops(), _END_LIMIT_S, "does not let go of the kernel")


def _check(subject: Subject) -> None:
    ops = _ops()
    if not (ops.startswith(subject.ops) if subject.command else not ops):
        raise AsaError(f"is in force no more; {ops or 'the kernel itself'} is")


def _ops() -> str:
    state = sched_ext_state(_SYS)
    return state.ops if state is not None and state.state == "enabled" else ""


def _until(holds: Callable[[], bool], limit_s: float, trouble: str) -> None:
    end_s = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end_s:
            raise AsaError(f"{trouble} in {limit_s:g} s")
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
