# SPDX-License-Identifier: GPL-2.0-only
"""Bytes that no bus of ours would send: a typed error, in bounded time and memory."""

import socket
import struct

import pytest
from dbus_fast import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from private_bus import STATE

from asa.core.errors import SourceError
from collectors.gnome import connection as connections
from collectors.gnome.connection import BusConnection, FloodError
from collectors.session import unix_addresses

OK = b"OK 9fd91e2d1c3d7605cf4992ef6b00a957\r\n"


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield BusConnection(ours, 1000), theirs
    ours.close()
    theirs.close()


def signal(serial=7, body=None):
    message = Message.new_signal("/a", "a.b", "C", "a{sv}", [STATE if body is None else body])
    message.serial = serial
    return bytes(message._marshall(False))


def test_all_of_the_handshake_goes_out_at_once(pair):
    connection, bus = pair
    connection.flush()
    sent = bus.recv(4096)
    assert sent.startswith(b"\0AUTH EXTERNAL 31303030\r\nBEGIN\r\nl\1")
    assert b"Hello" in sent


def test_messages_come_in_any_pieces(pair):
    connection, bus = pair
    stream = OK + signal(7) + signal(8)
    got = []
    for at in range(0, len(stream), 11):
        bus.send(stream[at : at + 11])
        got += connection.receive()
    assert [message.serial for message in got] == [7, 8]
    (state,) = got[0].body()
    assert {key: (kind, value) for key, (kind, value) in state.items()} == {
        key: (variant.signature, variant.value) for key, variant in STATE.items()
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"REJECTED EXTERNAL\r\n", "refuses us: b'REJECTED"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "refuses us: b'HTTP"),
        (b"x" * 2000, "is no bus"),
        (OK + b"garbage that is long enough for a header", "no message"),
    ],
)
def test_what_is_no_bus_is_told(pair, data, words):
    connection, bus = pair
    bus.send(data)
    with pytest.raises(SourceError, match=words):
        connection.receive()


def test_a_peer_that_hangs_up_is_told_with_what_it_said_last(pair):
    connection, bus = pair
    bus.send(b"REJECTED EXTERNAL\r\n")
    bus.close()
    connection.flush()  # into nothing
    with pytest.raises(SourceError, match="refuses us"):
        connection.receive()
    with pytest.raises(SourceError, match="hung up on user 1000"):
        connection.receive()


def test_no_more_than_a_turn_holds(pair):
    connection, bus = pair
    bus.send(OK + signal(body={}) * connections.MESSAGES_PER_TURN)
    assert len(connection.receive()) == connections.MESSAGES_PER_TURN
    bus.send(signal(body={}) * (connections.MESSAGES_PER_TURN + 1))
    with pytest.raises(FloodError, match="over 64 messages"):
        connection.receive()


def test_a_large_message_is_refused_by_its_header_alone(pair):
    connection, bus = pair
    bus.send(OK + struct.pack("<4sIII", b"l\4\0\1", 100_000_000, 1, 8))
    with pytest.raises(FloodError, match="a message of 100000024 bytes"):
        connection.receive()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), new=st.binary(min_size=1, max_size=12), cut=st.integers(0, 30))
def test_any_damage_to_a_message_is_a_typed_error_or_none(at, new, cut):
    ours, bus = socket.socketpair()
    ours.setblocking(False)
    good = signal()
    at %= len(good)
    bus.send(OK + (good[:at] + new + good[at + len(new) :])[: len(good) - cut])
    connection = BusConnection(ours, 0)
    try:
        messages = connection.receive()
        assert len(messages) <= 1
        for message in messages:
            message.body()
    except SourceError:
        pass
    except ValueError:  # of a body, which the reader makes a SourceError of
        assert messages
    finally:
        ours.close()
        bus.close()


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("unix:path=/run/user/1000/bus", ["/run/user/1000/bus"]),
        ("unix:path=/run/a%20b,guid=00", ["/run/a b"]),
        ("unix:abstract=/tmp/dbus-x,guid=1;unix:path=/b", ["\0/tmp/dbus-x", "/b"]),
        ("tcp:host=localhost,port=1;autolaunch:", []),
        ("", []),
        (";;unix:;=", []),
    ],
)
def test_addresses(address, names):
    assert unix_addresses(address) == names
