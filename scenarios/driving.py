# SPDX-License-Identifier: GPL-2.0-only
"""The driver's side of an application: its orders, and the JSON lines that it prints. Standard library alone.

A driver runs as a process of its own, some under another Python than ours (Debian's, for its `uno`), so nothing but
the standard library is imported here. Its lines on standard output, one object each:

    {"ready": {"chromium": "142.0"}}                         once: it works now; versions of the programs
    {"at_ns": 1234567890, "metric": "click_ms", "value": 71} as often as it measures

What it prints on standard error are its last words when it ends in an error. SIGTERM asks it to end.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Self


class Driver:
    """A driver's orders, and its voice. Make one with `Driver.begin`."""

    def __init__(self, orders: Mapping[str, Any]) -> None:
        self.parameters: Mapping[str, Any] = orders["parameters"]
        self.scratch = Path(orders["scratch"])  # of this session alone, empty at the start, the working directory too
        self.cache = Path(orders["cache"])  # what `prepare` made
        self.seed = str(orders["seed"])  # text for random.Random, of this application in this session
        self.cpus = int(orders["cpus"])
        self._ending = False
        self._woken, self._waker = os.pipe()  # not an Event: a signal that comes inside its `wait` would lock it up
        self._writing = threading.Lock()

    @classmethod
    def begin(cls, *, interrupt: bool = False) -> Self:
        """Take the orders from the last argument; from now on SIGTERM sets `ending`.

        With `interrupt` it raises SystemExit in the main thread too, wherever that is: for drivers whose work cannot
        be asked to stop. Clean up with `finally`.
        """
        driver = cls(json.loads(sys.argv[-1]))

        def end(_number: int, _frame: object) -> None:
            first, driver._ending = not driver._ending, True
            if first:
                os.write(driver._waker, b".")  # stays unread, so it ends every pause from now on
                if interrupt:
                    raise SystemExit(0)

        signal.signal(signal.SIGTERM, end)
        return driver

    @property
    def ending(self) -> bool:
        """True once it was asked to end."""
        return self._ending

    def pause(self, seconds: float) -> bool:
        """Wait; False when it was asked to end meanwhile. May be called by threads."""
        return not select.select([self._woken], [], [], max(0.0, seconds))[0]

    def ready(self, versions: Mapping[str, str]) -> None:
        """Say that it works now, and what with: program -> version."""
        self._print({"ready": dict(versions)})

    def measured(self, metric: str, value: float, at_ns: int | None = None) -> None:
        """Say a sample, in the metric's unit; taken now, or at `at_ns` of CLOCK_MONOTONIC. May be called by threads."""
        at_ns = time.monotonic_ns() if at_ns is None else at_ns
        self._print({"at_ns": at_ns, "metric": metric, "value": round(value, 6)})

    def _print(self, line: Mapping[str, object]) -> None:
        data = json.dumps(line).encode() + b"\n"
        with self._writing:
            while data:  # a disk that is almost full takes only a part
                data = data[os.write(1, data) :]


def fail(words: str) -> NoReturn:
    """End in an error, with the reason in one line."""
    print(words, file=sys.stderr, flush=True)
    sys.exit(1)


def missing(words: str) -> NoReturn:
    """End because something is not installed; `words` name the package."""
    print(words, file=sys.stderr, flush=True)
    sys.exit(127)


def need_fonts() -> None:
    """End if no font is installed: browsers and offices crash then, and do not say why."""
    with suppress(FileNotFoundError):  # no fontconfig to ask
        if not subprocess.run(("fc-list",), stdout=subprocess.PIPE, check=False).stdout.strip():
            missing("no fonts are installed; run: apt-get install fonts-dejavu-core")
