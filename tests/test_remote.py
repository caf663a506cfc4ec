# SPDX-License-Identifier: GPL-2.0-only
"""The user daemon's two buses: a session's bus that goes is found again, and a sleep is looked after each tick."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest

from asa.remote import Remote

STATUS = SimpleNamespace()  # without a session's bus nobody looks into it


class Clock:
    """Time that a test moves."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic_ns(self):
        return int(self.now_s * 1e9)


class Told:
    """A notifier that keeps what it was told."""

    def __init__(self, bus):
        self.bus = bus

    def news(self, _last, _status):
        return


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Starts and ends a session's bus."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path}/bus")
    monkeypatch.setattr("asa.remote.Notifier", Told)
    running = []

    def start():
        command = [shutil.which("dbus-daemon"), "--session", f"--address=unix:path={tmp_path}/bus", "--print-address"]
        running.append(subprocess.Popen([*command, "--nofork"], stdout=subprocess.PIPE, text=True))
        running[-1].stdout.readline()

    def end():
        one = running.pop()
        one.kill()
        one.communicate()
        (tmp_path / "bus").unlink(missing_ok=True)

    yield SimpleNamespace(start=start, end=end)
    while running:
        end()


def test_a_sessions_bus_that_went_or_came_late_is_found_again(session):
    clock, said = Clock(), []
    remote = Remote.open(clock, said.append, observe=True)
    for _ in range(2):
        clock.now_s += 400.0
        remote.published(STATUS)
    assert remote._notifier.bus is None
    assert len(said) == 1  # once, however often it is tried
    session.start()
    remote.published(STATUS)
    assert remote._notifier.bus is None  # not each second
    clock.now_s += 400.0
    remote.published(STATUS)
    assert remote._notifier.bus is not None
    session.end()
    remote.published(STATUS)
    assert remote._notifier.bus is None
    assert len(said) == 2
    assert all(line.startswith("going on without notifications: ") for line in said)
    session.start()
    clock.now_s += 400.0
    remote.published(STATUS)
    assert remote._notifier.bus is not None
    remote.close()


def test_each_tick_looks_after_a_sleep(session):
    remote, ticks = Remote.open(Clock(), lambda _: None, observe=True), []
    remote._sleep = SimpleNamespace(tick=lambda: ticks.append(1), close=lambda: None)
    remote.published(STATUS)
    remote.published(STATUS)
    assert len(ticks) == 2
    remote.close()
