# SPDX-License-Identifier: GPL-2.0-only
"""A process with nothing but the probes open, to be measured from outside: `python -m calibration.overhead.probes`.

Run with a backend (core, bcc) and a `Way`. It opens the probes, prints one JSON line about them, and ends when its
standard input does. The functions that start and end such a process are here too; they import no collector, so the
parent stays as it is.
"""

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from asa.core.errors import AsaError
from calibration.overhead.figures import RATE

# -P: root imports nothing from the current folder
_COMMAND = (sys.executable, "-P", "-m", "calibration.overhead.probes")
_OPEN_LIMIT_S = 120.0  # BCC compiles; an emulated machine takes a minute for it
_END_LIMIT_S = 30.0
_INTERVAL_S = 1.0  # the agent's own


class Way(StrEnum):
    """What the process does with its probes, and so which events the programs time."""

    STILL = "still"  # nothing: each one
    READ = "read"  # reads them once a second, as the agent: as many as its reader settles on at the rate there is
    PACED = "paced"  # nothing, but as many as that reader settles on beside the paced load


class ProbesError(AsaError):
    """The probes did not open in the other process; the text has its own last line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """The process that holds the probes, and what it lacks: program -> reason."""

    pid: int
    lacking: dict[str, str]


@contextmanager
def opened(backend: str, way: Way) -> Iterator[Probes]:
    """A process with this backend's probes attached. Raises ProbesError with its last words when they do not open."""
    command = (*_COMMAND, backend, way)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None  # noqa: S101  # a pipe, see above
        in_time = bool(select.select([process.stdout], [], [], _OPEN_LIMIT_S)[0])
        line = process.stdout.readline() if in_time else ""
        if not line:
            raise _no_answer(process, in_time=in_time)
        yield Probes(pid=process.pid, lacking=json.loads(line)["lacking"])
    finally:
        try:
            process.communicate(timeout=_END_LIMIT_S)  # closes its input: it detaches the probes and ends
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _no_answer(process: "subprocess.Popen[str]", *, in_time: bool) -> ProbesError:
    if not in_time:
        process.kill()  # or its words would not end
    words = (process.communicate()[1].strip().splitlines() or ["no word on stderr"])[-1]
    if not in_time:
        return ProbesError(f"the process with the probes did not answer within {_OPEN_LIMIT_S:g} s: {words}")
    return ProbesError(f"{words} (the process with the probes ended with code {process.returncode})")


def _serve(backend: str, way: Way) -> None:
    from asa.config import Ebpf
    from collectors.ebpf.collector import EbpfCollector

    collector = EbpfCollector(Path("/proc"), Path("/sys"), Ebpf(backend))
    try:
        collector.open()
        if way is Way.PACED:
            collector.settle(RATE)
        print(json.dumps({"lacking": collector.lacking}), flush=True)
        while not select.select([sys.stdin], [], [], _INTERVAL_S if way is Way.READ else None)[0]:
            collector.read()
    finally:
        collector.close()


def main(words: list[str]) -> int:
    """Entry point of the process. Exit code 1 with one line on stderr when the probes do not open."""
    backend, way = words
    try:
        _serve(backend, Way(way))
    except AsaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
