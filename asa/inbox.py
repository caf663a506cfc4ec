# SPDX-License-Identifier: GPL-2.0-only
"""Signals as bytes on a descriptor, for a loop's single wait (signal.set_wakeup_fd)."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals(*wanted: signal.Signals) -> Iterator[int]:
    """A descriptor with a byte for each of the wanted signals that came; handlers are given back at the end."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = {sign: signal.signal(sign, lambda *_: None) for sign in wanted}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for sign, handler in before.items():
            signal.signal(sign, handler)
        os.close(reader)
        os.close(writer)
