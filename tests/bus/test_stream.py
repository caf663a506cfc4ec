# SPDX-License-Identifier: GPL-2.0-only
"""A connection that waits for nobody, with messages of dbus-fast (a second implementation) and bytes that are none."""

import contextlib
import socket
import struct

import pytest
from dbus_fast import Message, Variant
from hypothesis import given, settings
from hypothesis import strategies as st
from jeepney import DBusAddress, HeaderFields, new_method_call
from private_bus import STATE

from asa.bus import BusError, Stream

OK = b"OK 9fd91e2d1c3d7605cf4992ef6b00a957\r\n"
LONGEST_BYTES = 1 << 14
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
VARIANTS = st.one_of(
    st.builds(Variant, st.just("s"), TEXT),
    st.builds(Variant, st.just("b"), st.booleans()),
    st.builds(Variant, st.just("y"), st.integers(0, 255)),
    st.builds(Variant, st.just("n"), st.integers(-(1 << 15), (1 << 15) - 1)),
    st.builds(Variant, st.just("u"), st.integers(0, (1 << 32) - 1)),
    st.builds(Variant, st.just("x"), st.integers(-(1 << 63), (1 << 63) - 1)),
    st.builds(Variant, st.just("t"), st.integers(0, (1 << 64) - 1)),
    st.builds(Variant, st.just("d"), st.floats(allow_nan=False)),
    st.builds(Variant, st.just("as"), st.lists(TEXT, max_size=4)),
    st.builds(Variant, st.just("a{st}"), st.dictionaries(TEXT, st.integers(0, 9), max_size=4)),
    st.builds(Variant, st.just("(sa(yt))"), st.tuples(TEXT, st.lists(st.tuples(st.just(1), st.just(2)), max_size=3))),
)


@contextlib.contextmanager
def connected(uid=1000):
    ours, theirs = socket.socketpair()
    made = Stream.over(ours, uid, LONGEST_BYTES)
    theirs.settimeout(20)
    try:
        yield made, theirs
    finally:
        made.close()
        theirs.close()


def signal(signature="a{sv}", body=STATE, serial=7):
    message = Message.new_signal("/a", "a.b", "C", signature, [body])
    message.serial = serial
    return bytes(message._marshall(False))


def received(data):
    """The bodies of what came; every arrival is taken apart."""
    with connected() as (made, bus):
        bus.sendall(OK + data)
        return [arrival.body() for arrival in made.receive()]


def plain(value):
    """Variants and structs of either side as tuples and lists of the same form."""
    if isinstance(value, Variant):
        return [value.signature, plain(value.value)]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def test_the_handshake_goes_out_with_the_first_call():
    with connected() as (made, bus):
        made.send(new_method_call(DBusAddress("/a", "a.b", "a.b"), "Hello"))
        sent = bus.recv(4096)
        while b"Hello" not in sent:
            sent += bus.recv(4096)
        assert sent.startswith(b"\0AUTH EXTERNAL 31303030\r\nBEGIN\r\nl\1")
        assert not made.waits_to_send


def test_messages_come_in_any_pieces():
    stream = OK + signal(serial=7) + signal(serial=8)
    got = []
    with connected() as (made, bus):
        for at in range(0, len(stream), 11):
            bus.send(stream[at : at + 11])
            got += made.receive()
    assert [arrival.header.serial for arrival in got] == [7, 8]
    assert plain(got[0].body()) == plain([STATE])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"REJECTED EXTERNAL\r\n", "refuses us: b'REJECTED"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "refuses us: b'HTTP"),
        (b"x" * 2000, "is no bus"),
        (OK + b"garbage that is long enough for a header", "no message"),
    ],
)
def test_what_is_no_bus_is_told(data, words):
    with connected() as (made, bus):
        bus.send(data)
        with pytest.raises(BusError, match=words):
            list(made.receive())


def test_a_bus_that_hangs_up_is_told_with_what_it_said_last():
    with connected() as (made, bus):
        bus.send(b"REJECTED EXTERNAL\r\n")
        bus.close()
        made.flush()  # into nothing
        with pytest.raises(BusError, match="refuses us"):
            list(made.receive())
        with pytest.raises(BusError, match="has gone"):
            list(made.receive())


def test_what_is_left_for_the_next_time_is_told():
    with connected() as (made, bus):
        bus.sendall(OK)
        assert (list(made.receive()), made.behind) == ([], False)
        bus.sendall(signal("ay", bytes(10_000)) * 4)
        list(made.receive())
        assert made.behind
        list(made.receive())
        assert not made.behind


def test_a_message_that_is_too_long_comes_without_its_body():
    with connected() as (made, bus):
        bus.sendall(OK + signal("ay", bytes(LONGEST_BYTES + 1)))
        (arrival,) = [one for _ in range(3) for one in made.receive()]
        assert (arrival.data, arrival.field(HeaderFields.member)) == (b"", "C")


def test_descriptors_that_nobody_asked_for_end_the_connection():
    with connected() as (made, bus):
        socket.send_fds(bus, [OK], [bus.fileno()])
        with pytest.raises(BusError, match="descriptors"):
            list(made.receive())


@given(st.dictionaries(TEXT, VARIANTS, max_size=8))
def test_what_dbus_fast_writes_is_read(state):
    assert plain(received(signal(body=state))) == plain([[state]])


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, 600), new=st.binary(min_size=1, max_size=12), cut=st.integers(0, 30))
def test_any_damage_to_a_message_is_a_typed_error_or_none(at, new, cut):
    good = signal()
    at %= len(good)
    with contextlib.suppress(BusError, ValueError):
        assert len(received((good[:at] + new + good[at + len(new) :])[: len(good) - cut])) <= 1


# dbus-fast 5.2 dies of a signal on the first; found by damaging bytes at random
@pytest.mark.parametrize(("before", "length"), [(b"pid\0", 22), (b"app\0", 1 << 31), (b"pid\0", 0xFFFFFFFF)])
def test_lengths_that_are_wrong(before, length):
    good = signal(body={"pid": Variant("u", 1), "app": Variant("s", "x")})
    at = good.index(before) - 4
    with pytest.raises(ValueError, match="the body is"):
        received(good[:at] + struct.pack("<I", length) + good[at + 4 :])


def of_a_variant(body):
    """A signal whose body, of signature v, is these bytes."""
    data = bytearray(signal("v", Variant("y", 1)))
    (fields,) = struct.unpack_from("<I", data, 12)
    struct.pack_into("<I", data, 4, len(body))
    return bytes(data[: 16 + fields + -fields % 8]) + body


@pytest.mark.parametrize(
    "inside", ["a()", "a(())", "a{}", "a" * 33 + "y", "(" * 33 + "y" + ")" * 33, "yy", "", "z", "(", "a{vs}"]
)
def test_a_variant_of_what_is_no_type(inside):
    # an array of what takes no room would be read for ever: whoever owns a bus can send one
    kind = bytes([len(inside)]) + inside.encode() + b"\0"
    with pytest.raises(ValueError, match="the body is"):
        received(of_a_variant(kind + b"\0" * (-len(kind) % 8) + b"\x08" * 64))


def test_variants_inside_variants_end_somewhere():
    assert received(of_a_variant(b"\1v\0" * 8 + b"\1y\0\7")) != []
    with pytest.raises(ValueError, match="the body is"):
        received(of_a_variant(b"\1v\0" * 4_000 + b"\1y\0\7"))


def test_header_fields_of_another_type_are_ignored():
    data = signal("s", "x")
    at = data.index(b"\3\1s\0")  # the member becomes an object path
    with connected() as (made, bus):
        bus.sendall(OK + data[: at + 2] + b"o" + data[at + 3 :])
        (arrival,) = made.receive()
    assert arrival.field(HeaderFields.member) == ""
