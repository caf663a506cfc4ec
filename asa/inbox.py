# SPDX-License-Identifier: GPL-2.0-only
"""Signals as bytes on a descriptor, for a loop's single wait (signal.set_wakeup_fd)."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

# as of signal.signal, which has no public name for it
_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


class _Early:
    """Handles a signal by remembering that it came."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, *_: object) -> None:
        self.came = True

    def take(self) -> bool:
        """Did it come since the last time this was asked?"""
        came, self.came = self.came, False
        return came


@contextmanager
def remembered(*wanted: signal.Signals) -> Iterator[None]:
    """Within this the wanted signals do not end the process: `signals`, once it is entered, has those that came.

    By a handler, for a program that is started here would inherit that a signal is ignored (execve(2)).
    """
    before = {sign: signal.signal(sign, _Early()) for sign in wanted}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


@contextmanager
def signals(*wanted: signal.Signals) -> Iterator[int]:
    """A descriptor with a byte for each of the wanted signals that came; handlers are given back at the end."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before: dict[signal.Signals, _Handler] = {}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # first: what comes between the two is not lost
    try:
        for sign in wanted:
            before[sign] = signal.signal(sign, lambda *_: None)
        early = [sign for sign, handler in before.items() if isinstance(handler, _Early) and handler.take()]
        os.write(writer, bytes(early))
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for sign, handler in before.items():
            signal.signal(sign, handler)
        os.close(reader)
        os.close(writer)
