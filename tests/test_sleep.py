# SPDX-License-Identifier: GPL-2.0-only
"""Sleeping and waking, on a real dbus-daemon with a stand-in for logind: no machine is suspended here.

The stand-in hands out locks as logind does (the end of a pipe; it is given back by closing it).
"""

import os
import select
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest

from asa.bus import Bus, BusError, Method, Object, Rule
from asa.sleep import LOGIND, MANAGER, PATH, SleepWatch

LIMIT_S = 30.0
CONFIG = """<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>"""


@contextmanager
def daemon(folder):
    config, path = folder / "bus.conf", folder / "bus"
    path.unlink(missing_ok=True)
    config.write_text(CONFIG.format(path=path))
    command = [shutil.which("dbus-daemon"), f"--config-file={config}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running.stdout.readline().strip()
        finally:
            running.kill()


@pytest.fixture
def address(tmp_path):
    with daemon(tmp_path) as found:
        yield found


class Logind:
    """Only what is asked of it here: `Inhibit`, which may refuse, say nothing or give nonsense; and the signal."""

    def __init__(self, address):
        self.bus = Bus.open(address)
        self.asked = []
        self.locks = []  # our ends
        self.mood = "gives"
        self.waiting = []
        inhibit = Method(takes="ssss", gives="h", run=self._inhibit)
        self.bus.serve(Object(path=PATH, interface=MANAGER, methods={"Inhibit": inhibit}))
        self.bus.own(LOGIND)

    def _inhibit(self, request):
        self.asked.append(request.body)
        if self.mood == "refuses":
            request.fail("org.freedesktop.DBus.Error.AccessDenied", "not for you")
        elif self.mood == "waits":
            self.waiting.append(request)
        else:
            self.give(request)

    def give(self, request):
        ours, theirs = os.pipe()
        request.answer(theirs)
        self.bus.advance()
        os.close(theirs)
        self.locks.append(ours)

    def held(self):
        """How many locks somebody still has."""
        readable = select.select(self.locks, [], [], 0)[0]  # at its end: nobody has the other one any more
        return len(self.locks) - len(readable)

    def says(self, sleeping, signature="b"):
        self.bus.emit(PATH, MANAGER, "PrepareForSleep", signature, (sleeping,))

    def close(self):
        self.bus.close()
        for lock in self.locks:
            os.close(lock)


class Clock:
    """Two clocks that a test sets: awake since the start, and asleep since then."""

    def __init__(self):
        self.awake_s, self.asleep_s = 1_000.0, 50.0

    def monotonic_ns(self):
        return int(self.awake_s * 1e9)

    def suspended_ns(self):
        return None if self.asleep_s is None else int(self.asleep_s * 1e9)


class Sleeper:
    """A daemon of which only the watch is there."""

    def __init__(self, address, logind=None):
        self.bus = Bus.open(address)
        self.did, self.said, self.held = [], [], []
        self.logind = logind
        self.clock = Clock()
        self.watch = SleepWatch(self.bus, self._before, lambda: self.did.append("after"), self.clock, self.said.append)

    def later(self, seconds, slept_s=0.0):
        """Awake for so long, after so long a sleep."""
        self.clock.awake_s += seconds
        if slept_s:
            self.clock.asleep_s += slept_s
        self.watch.tick()

    def _before(self):
        self.did.append("before")
        if self.logind is not None:
            self.held.append(self.logind.held())

    def close(self):
        self.watch.close()
        self.bus.close()


@pytest.fixture
def logind(address):
    found = Logind(address)
    yield found
    found.close()


@pytest.fixture
def sleeper(address, logind):
    found = Sleeper(address, logind)
    turn(logind, found, until=lambda: found.watch.locked)
    yield found
    found.close()


def turn(*sides, until):
    end_s = time.monotonic() + LIMIT_S
    buses = [side.bus for side in sides]
    while not until():
        assert time.monotonic() < end_s, "it did not come to that"
        select.select(buses, [], [], 0.05)
        for bus in buses:
            bus.advance()


def test_the_lock_is_held_until_what_is_to_be_done_before_is_done(logind, sleeper):
    assert logind.asked == [("sleep", "ASA", "lets go of the schedulers that stand by", "delay")]
    logind.says(True)
    turn(logind, sleeper, until=lambda: sleeper.did)
    assert (sleeper.did, sleeper.held, sleeper.watch.asleep) == (["before"], [1], True)
    turn(logind, sleeper, until=lambda: logind.held() == 0)
    assert not sleeper.watch.locked


def test_a_new_lock_is_taken_after_each_sleep(logind, sleeper):
    for night in (1, 2, 3):
        logind.says(True)
        turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
        logind.says(False)
        turn(logind, sleeper, until=lambda: sleeper.watch.locked)
        assert sleeper.did == ["before", "after"] * night
        assert (logind.held(), len(logind.asked)) == (1, night + 1)
    assert sleeper.said == []


def test_words_said_twice_are_heard_once(logind, sleeper):
    for word in (False, True, True):
        logind.says(word)
    logind.says("yes", "s")
    logind.says(False)
    logind.says(False)
    turn(logind, sleeper, until=lambda: "after" in sleeper.did and sleeper.watch.locked)
    assert sleeper.did == ["before", "after"]
    assert logind.held() == 1


def test_what_fails_before_a_sleep_does_not_keep_the_machine_awake(address, logind):
    def fails():
        raise RuntimeError("it fails")

    sleeper = Sleeper(address)
    sleeper.watch.close()
    sleeper.watch = SleepWatch(sleeper.bus, fails, lambda: None, sleeper.clock)
    turn(logind, sleeper, until=lambda: sleeper.watch.locked)
    logind.says(True)
    with pytest.raises(RuntimeError, match="it fails"):
        turn(logind, sleeper, until=lambda: False)
    turn(logind, until=lambda: logind.held() == 0)
    sleeper.close()


def test_a_logind_that_refuses_is_still_heard(address, logind):
    logind.mood = "refuses"
    sleeper = Sleeper(address)
    turn(logind, sleeper, until=lambda: sleeper.said)
    for _ in range(2):
        logind.says(True)
        logind.says(False)
        turn(logind, sleeper, until=lambda: "after" in sleeper.did)
        assert sleeper.did == ["before", "after"]
        sleeper.did.clear()
    turn(logind, sleeper, until=lambda: len(logind.asked) == 3)
    assert len(sleeper.said) == 1
    assert "AccessDenied" in sleeper.said[0]
    sleeper.close()


def test_a_lock_that_comes_too_late_is_not_kept(address, logind):
    logind.mood = "waits"
    sleeper = Sleeper(address)
    turn(logind, sleeper, until=lambda: logind.waiting)
    logind.says(True)
    turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
    logind.give(logind.waiting.pop())
    turn(logind, sleeper, until=lambda: logind.held() == 0)
    assert not sleeper.watch.locked
    sleeper.close()


def test_without_logind_that_is_said_once_and_one_that_comes_is_used(address):
    sleeper = Sleeper(address)
    turn(sleeper, until=lambda: sleeper.said)
    assert sleeper.said == ["no logind on the bus: nothing is done before a suspend"]
    for _ in range(2):
        logind = Logind(address)
        turn(logind, sleeper, until=lambda: sleeper.watch.locked)
        logind.close()
        turn(sleeper, until=lambda: not sleeper.watch.locked)
    assert len(sleeper.said) == 1
    assert sleeper.did == []
    sleeper.close()


def test_a_logind_that_ends_while_the_machine_sleeps_does_not_leave_us_asleep(logind, sleeper):
    logind.says(True)
    turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
    logind.bus.close()
    turn(sleeper, until=lambda: not sleeper.watch.asleep)
    assert sleeper.did == ["before", "after"]


def test_a_sleep_whose_end_nobody_tells_ends_by_the_clocks(logind, sleeper):
    logind.says(True)
    turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
    sleeper.later(2.0)
    sleeper.later(0.5, slept_s=8 * 3600.0)  # a hibernation; no `false` follows
    assert sleeper.watch.asleep
    sleeper.later(11.0)
    assert (sleeper.watch.asleep, sleeper.did) == (False, ["before", "after"])
    turn(logind, sleeper, until=lambda: sleeper.watch.locked)  # for the next one
    logind.says(False)  # late
    logind.says(True)
    turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
    assert sleeper.did == ["before", "after", "before"]
    sleeper.later(0.1, slept_s=60.0)
    logind.says(False)
    turn(logind, sleeper, until=lambda: not sleeper.watch.asleep)
    assert sleeper.did == ["before", "after", "before", "after"]


def test_between_a_suspend_and_the_hibernation_after_it_the_machine_still_sleeps(logind, sleeper):
    logind.says(True)
    turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
    sleeper.later(1.0, slept_s=7200.0)
    sleeper.later(9.0)
    sleeper.later(0.5, slept_s=3600.0)
    sleeper.later(9.0)
    assert sleeper.watch.asleep
    sleeper.later(2.0)
    assert not sleeper.watch.asleep


def test_a_sleep_announced_right_after_one_whose_end_was_lost_lasts_until_it_is_over(logind, sleeper):
    heard = []
    sleeper.bus.watch(Rule(sender=LOGIND, path=PATH, interface=MANAGER, member="PrepareForSleep"), heard.append)
    logind.says(True)
    turn(logind, sleeper, until=lambda: len(heard) == 1)
    sleeper.later(1.0, slept_s=3600.0)  # no `false`, and the lid is shut again
    sleeper.later(8.0)
    logind.says(True)
    turn(logind, sleeper, until=lambda: len(heard) == 2)
    sleeper.later(60.0)  # hooks take as long
    assert (sleeper.watch.asleep, sleeper.did) == (True, ["before"])
    sleeper.later(1.0, slept_s=60.0)
    sleeper.later(11.0)
    assert (sleeper.watch.asleep, sleeper.did) == (False, ["before", "after"])


@pytest.mark.parametrize("tells", [True, False])
def test_a_sleep_that_never_comes_ends_too(logind, sleeper, tells):
    if not tells:
        sleeper.clock.asleep_s = None  # a system whose clocks do not say
    logind.says(True)
    turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
    sleeper.later(120.0)  # hooks may take as long
    assert sleeper.watch.asleep
    sleeper.later(120.0)
    assert (sleeper.watch.asleep, sleeper.did) == (False, ["before", "after"])


def test_a_lock_that_was_refused_is_asked_for_again(address, logind):
    logind.mood = "refuses"
    sleeper = Sleeper(address)
    turn(logind, sleeper, until=lambda: sleeper.said)
    logind.mood = "gives"
    sleeper.later(60.0)
    assert len(logind.asked) == 1
    sleeper.later(600.0)
    turn(logind, sleeper, until=lambda: sleeper.watch.locked)
    assert len(logind.asked) == 2
    sleeper.close()


def test_only_logind_is_believed(address, logind, sleeper):
    liar = Bus.open(address)
    liar.emit(PATH, MANAGER, "PrepareForSleep", "b", (True,))
    liar.emit(PATH, MANAGER, "PrepareForSleep", "b", (True,), to=sleeper.bus.unique_name)
    liar.ask("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId")  # they are out
    logind.says(False)
    sleeper.bus.ask("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId")
    sleeper.bus.advance()
    assert sleeper.did == []
    assert sleeper.watch.locked
    liar.close()


def test_after_the_bus_was_started_anew_another_watch_does_the_same(tmp_path):
    with daemon(tmp_path) as address:
        logind, sleeper = Logind(address), Sleeper(address)
        turn(logind, sleeper, until=lambda: sleeper.watch.locked)
        logind.says(True)
        turn(logind, sleeper, until=lambda: sleeper.watch.asleep)
    with pytest.raises(BusError):
        turn(sleeper, until=lambda: False)
    sleeper.close()
    assert sleeper.did == ["before", "after"]  # nobody could tell any more when it woke
    logind.close()
    with daemon(tmp_path) as address:
        logind, again = Logind(address), Sleeper(address)
        turn(logind, again, until=lambda: again.watch.locked)
        again.close()
        assert again.did == []
        turn(logind, until=lambda: logind.held() == 0)
        logind.close()
