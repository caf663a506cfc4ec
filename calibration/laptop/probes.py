# SPDX-License-Identifier: GPL-2.0-only
"""What a read of the probes takes by each way from a root process to another: a descriptor, mapped memory, the bus.

Loads the programs, and serves them on a bus of its own to itself: `python -m calibration.laptop.probes ADDRESS` is the
other end. Needs root and dbus-daemon.
"""

import os
import select
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from asa import wire
from asa.bus import Bus, Method, Object, Request
from asa.config import Ebpf
from asa.core.errors import AsaError
from asa.core.sample import ProbeCounters
from asa.helper.probes import Probes
from collectors.ebpf.collector import EbpfCollector
from collectors.ebpf.remote import RemoteProbes

_NAME, _PATH = "org.asa.Bench1", "/org/asa/Bench1"
_COMMAND = (sys.executable, "-P", "-m", "calibration.laptop.probes")
_LIMIT_S = 60.0
_WARM = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Microseconds of each read, by way."""

    descriptor: tuple[float, ...]
    mapped: tuple[float, ...]
    bus: tuple[float, ...]
    bus_bytes: int  # of a sample in a message


def measure(reads: int) -> Reads:
    """So many reads by each way, taking turns, of probes that are loaded twice. Raises AsaError."""
    proc, sys_ = Path("/proc"), Path("/sys")
    mapped = EbpfCollector(proc, sys_, Ebpf.AUTO)
    probes = Probes(proc, sys_, Ebpf.AUTO)
    with _served() as bus:
        try:
            mapped.open()
            handover = probes.open()
            remote = RemoteProbes(lambda: (os.dup(handover.map_fd), handover.facts))
            remote.open()
            sizes: list[int] = []

            def asked() -> None:
                (text,) = bus.ask(_NAME, _PATH, _NAME, "Read", limit_s=_LIMIT_S)
                sizes.append(len(text))
                wire.from_json(text, ProbeCounters)

            ways: tuple[Callable[[], object], ...] = (remote.read, mapped.read, asked)
            took: list[list[float]] = [[] for _ in ways]
            for number in range(_WARM + reads):
                for way, times in zip(ways, took, strict=True):
                    start_ns = time.perf_counter_ns()
                    way()
                    if number >= _WARM:
                        times.append((time.perf_counter_ns() - start_ns) / 1e3)
            remote.close()
        finally:
            probes.close()
            mapped.close()
    one, two, three = map(tuple, took)
    return Reads(descriptor=one, mapped=two, bus=three, bus_bytes=max(sizes))


def told(times: tuple[float, ...]) -> str:
    """The spread, in words."""
    return f"{min(times):.0f} to {max(times):.0f} in {len(times)}, middle {statistics.median(times):.1f}"


@contextmanager
def _served() -> Iterator[Bus]:
    """A bus on which the other process answers."""
    program = shutil.which("dbus-daemon")
    if program is None:
        raise AsaError("dbus-daemon is missing: run asa lab setup --tests")
    words = ("setpriv", "--pdeathsig", "KILL")
    started: list[subprocess.Popen[str]] = []
    try:
        command = (*words, program, "--session", "--nofork", "--nopidfile", "--nosyslog", "--print-address")
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        address = _line(started[-1])
        started.append(subprocess.Popen((*words, *_COMMAND, address), stdout=subprocess.PIPE, text=True))
        _line(started[-1])
        bus = Bus.open(address, limit_s=_LIMIT_S)
        try:
            yield bus
        finally:
            bus.close()
    finally:
        for process in reversed(started):  # the bus last, or the other would have something to say
            process.kill()
            process.communicate()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None  # noqa: S101  # a pipe, see above
    line = process.stdout.readline().strip() if select.select([process.stdout], [], [], _LIMIT_S)[0] else ""
    if not line:
        raise AsaError(f"{process.args!r} did not come up")
    return line


def _serve(address: str) -> None:
    collector = EbpfCollector(Path("/proc"), Path("/sys"), Ebpf.AUTO)
    collector.open()
    bus = Bus.open(address, limit_s=_LIMIT_S)

    def read(request: Request) -> None:
        request.answer(wire.json_text(collector.read()["probes"]))

    method = Method(takes="", gives="s", run=read, arguments=("sample",))
    bus.serve(Object(path=_PATH, interface=_NAME, methods={"Read": method}, properties={}, signals={}))
    bus.own(_NAME)
    print("ready", flush=True)
    while True:
        select.select([bus], [], [], bus.due_in_s())
        bus.advance()


if __name__ == "__main__":
    _serve(sys.argv[1])
