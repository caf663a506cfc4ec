# SPDX-License-Identifier: GPL-2.0-only
"""Signals as bytes: none that comes between the first handler and the loop is lost, or ends the process."""

import os
import signal
import subprocess
from contextlib import suppress

import pytest

from asa import inbox


def received(descriptor):
    with suppress(BlockingIOError):
        return set(os.read(descriptor, 64))
    return set()


def test_what_came_early_is_there_when_the_loop_begins():
    before = signal.getsignal(signal.SIGHUP)
    with inbox.remembered(signal.SIGHUP):
        signal.raise_signal(signal.SIGHUP)
        with inbox.signals(signal.SIGHUP, signal.SIGUSR1) as descriptor:
            assert received(descriptor) == {signal.SIGHUP}
            signal.raise_signal(signal.SIGUSR1)
            assert received(descriptor) == {signal.SIGUSR1}
        signal.raise_signal(signal.SIGHUP)  # nobody listens any more, and nothing ends
    assert signal.getsignal(signal.SIGHUP) is before


def test_what_came_early_is_told_once():
    with inbox.remembered(signal.SIGHUP):
        signal.raise_signal(signal.SIGHUP)
        with inbox.signals(signal.SIGHUP):
            pass
        with inbox.signals(signal.SIGHUP) as descriptor:
            assert received(descriptor) == set()


def test_without_a_signal_there_is_no_byte():
    with inbox.remembered(signal.SIGHUP), inbox.signals(signal.SIGHUP) as descriptor:
        assert received(descriptor) == set()


@pytest.mark.parametrize("sign", [signal.SIGHUP, signal.SIGUSR1])
def test_what_comes_while_handlers_are_installed_is_not_lost(monkeypatch, sign):
    real = signal.signal

    def install(number, handler):
        before = real(number, handler)
        if number == sign:
            signal.raise_signal(sign)
        return before

    with inbox.remembered(signal.SIGHUP), monkeypatch.context() as patched:
        patched.setattr(signal, "signal", install)
        with inbox.signals(signal.SIGHUP, signal.SIGUSR1) as descriptor:
            patched.undo()
            assert received(descriptor) == {sign}


def test_one_that_ends_the_process_still_does_while_handlers_are_installed(monkeypatch):
    real, handler = signal.signal, signal.getsignal(signal.SIGHUP)

    def install(number, handler):
        signal.raise_signal(signal.SIGINT)  # whose handler is still the interpreter's
        return real(number, handler)

    def listen():
        with inbox.signals(signal.SIGHUP, signal.SIGINT):
            pass

    monkeypatch.setattr(signal, "signal", install)
    with pytest.raises(KeyboardInterrupt):
        listen()
    monkeypatch.undo()
    assert signal.set_wakeup_fd(-1) == -1
    assert signal.getsignal(signal.SIGHUP) is handler


def test_a_program_that_is_started_does_not_ignore_it():
    with inbox.remembered(signal.SIGHUP):
        told = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    ignored = int(told.partition("\nSigIgn:")[2].split(maxsplit=1)[0], 16)
    assert not ignored >> (signal.SIGHUP - 1) & 1
