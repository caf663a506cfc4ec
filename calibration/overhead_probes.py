# SPDX-License-Identifier: GPL-2.0-only
"""A process with nothing but the probes open, to be measured from outside: `python -m calibration.overhead_probes`.

Run with a backend (core, bcc) and `read` or `still`. It opens the probes, prints one JSON line about them, reads them
once a second (or never: then nothing tells the programs to sample), and ends when its standard input does. The
functions that start and end such a process are here too; they import no collector, so the parent stays as it is.
"""

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from asa.core.errors import AsaError

# -P: root imports nothing from the current folder
_COMMAND = (sys.executable, "-P", "-m", "calibration.overhead_probes")
_OPEN_LIMIT_S = 120.0  # BCC compiles; an emulated machine takes a minute for it
_END_LIMIT_S = 30.0
_INTERVAL_S = 1.0  # the agent's own


class ProbesError(AsaError):
    """The probes did not open in the other process; the text has its own last line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """The process that holds the probes, and what it lacks: program -> reason."""

    pid: int
    lacking: dict[str, str]


@contextmanager
def opened(backend: str, *, reading: bool) -> Iterator[Probes]:
    """A process with this backend's probes attached. Raises ProbesError with its last words when they do not open."""
    command = (*_COMMAND, backend, "read" if reading else "still")
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


def _serve(backend: str, *, reading: bool) -> None:
    from asa.config import Ebpf
    from collectors.ebpf.collector import EbpfCollector

    collector = EbpfCollector(Path("/proc"), Path("/sys"), Ebpf(backend))
    try:
        collector.open()
        print(json.dumps({"lacking": collector.lacking}), flush=True)
        while not select.select([sys.stdin], [], [], _INTERVAL_S if reading else None)[0]:
            collector.read()
    finally:
        collector.close()


def main(words: list[str]) -> int:
    """Entry point of the process. Exit code 1 with one line on stderr when the probes do not open."""
    backend, way = words
    try:
        _serve(backend, reading=way == "read")
    except AsaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
