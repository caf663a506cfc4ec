# SPDX-License-Identifier: GPL-2.0-only
"""Who sits at the machine: by a real logind in a box, and by a stand-in for what a real one does not show on demand.

The stand-in on a private bus has several seats, sessions from afar, faults, and orders of signals.
"""

import contextlib
import os
import queue
import select
import threading
import time

import pytest
from helper_bus import PrivateBus, turn
from waiting import LIMIT_S

from asa.bus import Bus, CallError, Method, Object, Property
from asa.helper.seats import Seats
from scenarios.lab.box import root as box_root
from scenarios.lab.box.machine import Box

LOGIN = "org.freedesktop.login1"
PATH = "/org/freedesktop/login1"
ANNE, BERT = 1001, 1002
ERROR = "org.freedesktop.DBus.Error"


@pytest.fixture
def private():
    bus = PrivateBus()
    yield bus
    bus.end()


@pytest.fixture
def bus(private):
    return private.connect()


class Logind:
    """The part of org.freedesktop.login1 that is looked at. It answers in a thread, as `seats` and `sessions` say.

    `seats`: name -> session in front, "" without; `sessions`: name -> (uid, remote). `fault` answers in place of it.
    """

    def __init__(self, address, seats, sessions):
        self.seats, self.sessions = dict(seats), dict(sessions)
        self.fault = None
        self.asked = []
        self.bus = Bus.open(address, limit_s=30)
        self._orders = queue.SimpleQueue()
        self._wake, self._woken = os.pipe()[::-1]
        list_seats = Method(gives="a(so)", run=self._list)
        manager = {"ListSeats": list_seats}
        self.bus.serve(Object(path=PATH, interface=f"{LOGIN}.Manager", methods=manager, properties={}, signals={}))
        for name in (*seats, "seat9"):
            front = {"ActiveSession": Property(signature="(so)", read=lambda name=name: self._front(name))}
            self._serve(f"seat/{name}", "Seat", front)
        for name in sessions:
            self._serve(f"session/{name}", "Session", {
                "User": Property(signature="(uo)", read=lambda name=name: (self.sessions[name][0], f"{PATH}/user/x")),
                "Remote": Property(signature="b", read=lambda name=name: self.sessions[name][1]),
                "LockedHint": Property(signature="b", read=lambda: True),
            })  # fmt: skip
        self.bus.own(LOGIN)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _serve(self, place, kind, properties):
        path = f"{PATH}/{place}"
        self.bus.serve(Object(path=path, interface=f"{LOGIN}.{kind}", methods={}, properties=properties, signals={}))

    def _list(self, request):
        self.asked.append("ListSeats")
        if self.fault is None:
            request.answer([(name, f"{PATH}/seat/{name}") for name in self.seats])
        elif self.fault is not Ellipsis:  # that one never answers
            request.fail(*self.fault)

    def _front(self, seat):
        session = self.seats.get(seat, "")
        return (session, f"{PATH}/session/{session}" if session else "/")

    def _work(self):
        while True:
            due_s = self.bus.due_in_s()
            select.select([self.bus, self._woken], [], [], due_s)
            while not self._orders.empty():
                os.read(self._woken, 1)
                order = self._orders.get()
                if order is None:
                    self.bus.close()
                    return
                order()
            self.bus.advance()

    def do(self, order):
        """In its thread."""
        self._orders.put(order)
        os.write(self._wake, b"x")

    def switch(self, seat, session):
        """Another session comes to the front of a seat, as logind tells of it."""

        def switched():
            self.seats[seat] = session
            self.tell(seat)

        self.do(switched)

    def tell(self, seat):
        changed = (f"{LOGIN}.Seat", {"ActiveSession": ("(so)", self._front(seat))}, [])
        self.bus.emit(
            f"{PATH}/seat/{seat}", "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", changed
        )

    def manager_tells(self, member, name):
        self.do(lambda: self.bus.emit(PATH, f"{LOGIN}.Manager", member, "so", (name, f"{PATH}/any/{name}")))

    def end(self):
        if self._thread.is_alive():
            self.do(lambda: None)
            self._orders.put(None)
            os.write(self._wake, b"x")
            self._thread.join(30)
            os.close(self._wake)
            os.close(self._woken)


@pytest.fixture
def logind(private):
    started = []

    def start(seats, sessions=None):
        everybody = {"a1": (ANNE, False), "b1": (BERT, False), "a2": (ANNE, True)}
        started.append(Logind(private.address, seats, everybody if sessions is None else sessions))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def watch(bus):
    """Seats, and the list of what they were each time that they said they had changed."""

    def watching():
        seen = []
        seats = Seats(bus, lambda: seen.append(seats.active()))
        return seats, seen

    return watching


def test_without_logind_nobody_is_told_apart(watch):
    seats, seen = watch()
    assert seats.active() is None
    assert seen == []


@pytest.mark.root
def test_a_real_logind_and_its_users():
    """Log in, switch users, lock, start logind anew, log out."""
    ada, ben = box_root.USERS["ada"], box_root.USERS["ben"]
    with Box.start() as box, contextlib.closing(Bus.open(box.bus, limit_s=LIMIT_S)) as bus:
        seen = []
        seats = Seats(bus, lambda: seen.append(seats.active()))
        assert seats.active() == frozenset()

        def comes_to(*users):
            turn(bus, until=lambda: seats.active() == {*users}, what=f"{users} in front, not {seats.active()}")

        hers = box.login("ada")
        comes_to(ada)
        his = box.login("ben")
        comes_to(ben)
        box.activate(hers)
        comes_to(ada)
        del seen[:]
        box.run(["loginctl", "lock-session", hers.id], check=True)
        before = owner_of(bus)
        box.systemctl("restart", "systemd-logind.service")
        turn(bus, until=lambda: owner_of(bus) not in ("", before), what="logind, started anew")
        assert seats.active() == {ada}
        box.activate(his)
        comes_to(ben)
        assert seen == [{ben}]  # neither the lock nor the start was a change
        box.logout(his)
        turn(bus, until=lambda: ben not in seats.active(), what="the end of a session")


def owner_of(bus):
    """Unique name of logind, "" when there is none."""
    try:
        return bus.ask("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetNameOwner", "s", (LOGIN,))[0]
    except CallError:
        return ""


def test_who_is_in_front_of_the_seats(logind, watch):
    logind({"seat0": "a1", "seat1": "b1", "seat2": ""})
    seats, seen = watch()
    assert seats.active() == {ANNE, BERT}
    assert seen == []  # as it was from the start is no change


@pytest.mark.parametrize(("seats", "expected"), [({}, set()), ({"seat0": ""}, set()), ({"seat0": "a2"}, set())])
def test_nobody_is_in_front(logind, watch, seats, expected):
    logind(seats)  # a2 is from afar
    assert watch()[0].active() == expected


def test_a_user_switch_shows_with_one_signal(logind, bus, watch):
    login = logind({"seat0": "a1"})
    seats, seen = watch()
    for session, user in (("b1", {BERT}), ("", set()), ("a2", set()), ("a1", {ANNE})):
        login.switch("seat0", session)
        turn(bus, until=lambda user=user: seats.active() == user, what=f"{session!r} in front")
    assert seen == [{BERT}, set(), {ANNE}]


@pytest.mark.parametrize("member", ["SeatNew", "SeatRemoved", "SessionNew", "SessionRemoved"])
def test_seats_and_sessions_come_and_go(logind, bus, watch, member):
    login = logind({"seat0": "a1"})
    seats, seen = watch()
    login.seats["seat9"] = "b1"
    login.manager_tells(member, "seat9")
    turn(bus, until=lambda: seen, what="the new seat")
    assert seats.active() == {ANNE, BERT}
    del login.seats["seat0"]
    login.manager_tells(member, "seat0")
    turn(bus, until=lambda: len(seen) == 2, what="the end of a seat")
    assert seats.active() == {BERT}


def test_a_session_that_ends_while_it_is_asked_after(logind, watch):
    logind({"seat0": "gone", "seat1": "b1"})
    assert watch()[0].active() == {BERT}


def test_a_change_while_it_is_read_is_read_again(logind, bus, watch):
    login = logind({"seat0": "a1"})
    seats, seen = watch()
    turn(bus, until=lambda: len(login.asked) == 2, what="the second reading, of the name's owner")
    login.fault = Ellipsis  # the next reading hangs
    login.manager_tells("SeatNew", "seat0")
    turn(bus, until=lambda: len(login.asked) == 3, what="the reading")
    login.fault = None
    for _ in range(100):
        login.switch("seat0", "b1")
    bus.ask(LOGIN, PATH, f"{LOGIN}.Manager", "ListSeats")  # all signals have come
    bus.advance()
    assert len(login.asked) == 4
    assert seen == []
    seats._answered(([("seat0", f"{PATH}/seat/seat9")],))  # as it was long ago: nobody there
    turn(bus, until=lambda: seats.active() == {BERT}, what="what came after")
    assert len(login.asked) <= 6  # 100 signals, one more reading, and the last one


def test_a_logind_that_starts_anew(private, logind, bus, watch):
    first = logind({"seat0": "a1"})
    seats, seen = watch()
    first.end()
    turn(bus, until=lambda: not owner_of(bus), what="the end of logind")
    bus.advance()  # and that was heard
    assert seats.active() == {ANNE}
    second = logind({"seat0": "b1"})
    turn(bus, until=lambda: seen, what="the new one")
    assert seen == [{BERT}]
    second.switch("seat0", "a1")  # its signals count, not those of the one before
    turn(bus, until=lambda: len(seen) == 2, what="a user switch")
    assert seats.active() == {ANNE}


def test_a_logind_that_comes_late(logind, bus, watch):
    seats, seen = watch()
    assert seats.active() is None
    logind({"seat0": "a1"})
    turn(bus, until=lambda: seen, what="logind")
    assert seats.active() == {ANNE}


def test_what_could_not_be_read_is_read_again_without_a_signal(logind, bus, watch, monkeypatch):
    login = logind({"seat0": "a1"})
    seats, seen = watch()
    turn(bus, until=lambda: len(login.asked) == 2 and seats._reading is None, what="the second reading")
    login.fault = (f"{ERROR}.LimitsExceeded", "too many calls")
    login.switch("seat0", "b1")
    turn(bus, until=lambda: seats.due_in_s() is not None, what="the refusal")
    login.fault = None
    assert 0.0 < seats.due_in_s() <= 30.0
    seats.tick()
    assert seen == []
    later_s = time.monotonic() + 31.0
    monkeypatch.setattr("asa.helper.seats.time.monotonic", lambda: later_s)
    seats.tick()
    monkeypatch.undo()
    turn(bus, until=lambda: seen, what="the one in front")
    assert (seats.active(), seats.due_in_s()) == ({BERT}, None)


@pytest.mark.parametrize("error", [f"{ERROR}.AccessDenied", f"{ERROR}.UnknownMethod", f"{ERROR}.LimitsExceeded"])
def test_a_logind_that_refuses_has_nobody_in_front(logind, bus, watch, error):
    login = logind({"seat0": "a1"})
    login.fault = (error, "no")
    seats, seen = watch()
    assert seats.active() == frozenset()
    login.fault = None
    login.manager_tells("SessionNew", "a1")
    turn(bus, until=lambda: seen, what="answers")
    assert seats.active() == {ANNE}


def test_what_it_said_last_stays_when_it_fails(logind, bus, watch):
    login = logind({"seat0": "a1"})
    seats, seen = watch()
    login.fault = (f"{ERROR}.Failed", "no")
    login.manager_tells("SessionNew", "b1")
    turn(bus, until=lambda: len(login.asked) >= 3, what="the reading")
    bus.ask(LOGIN, PATH, "org.freedesktop.DBus.Peer", "Ping")
    bus.advance()
    assert (seats.active(), seen) == ({ANNE}, [])
    login.fault = None
    login.switch("seat0", "b1")
    turn(bus, until=lambda: seen, what="the switch")
    assert seats.active() == {BERT}


def test_a_logind_that_hangs_is_asked_again(logind, bus, watch, monkeypatch):
    login = logind({"seat0": "a1"})
    seats, seen = watch()
    turn(bus, until=lambda: len(login.asked) == 2, what="the second reading")
    login.fault = Ellipsis
    login.manager_tells("SessionNew", "b1")
    turn(bus, until=lambda: len(login.asked) == 3, what="the reading that hangs")
    login.fault = None
    login.seats["seat0"] = "b1"  # and its signal is lost
    now = time.monotonic_ns
    with monkeypatch.context() as later:
        later.setattr("time.monotonic_ns", lambda: now() + 26 * 10**9)
        bus.advance()
    turn(bus, until=lambda: seen, what="the reading after it")
    assert seats.active() == {BERT}


@pytest.mark.root
def test_nobody_else_can_say_who_sits_there(private, logind, bus, watch):
    login = logind({"seat0": "a1"})
    watch()
    turn(bus, until=lambda: len(login.asked) == 2, what="the second reading")
    liar = private.connect()
    lie = (f"{LOGIN}.Seat", {"ActiveSession": ("(so)", ("b1", f"{PATH}/session/b1"))}, [])
    for _ in range(50):
        liar.emit(
            f"{PATH}/seat/seat0", "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", lie,
            to=bus.unique_name,
        )  # fmt: skip
    liar.ask("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId")  # they are all on their way
    bus.ask(LOGIN, PATH, "org.freedesktop.DBus.Peer", "Ping")
    bus.advance()
    bus.ask(LOGIN, PATH, "org.freedesktop.DBus.Peer", "Ping")
    assert len(login.asked) == 2  # not even looked at
