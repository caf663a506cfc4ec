# SPDX-License-Identifier: GPL-2.0-only
"""Our D-Bus messages against dbus-fast's, a second implementation; and against bytes that are none."""

import contextlib
import struct
from io import BytesIO

import pytest
from dbus_fast import Message, Variant
from dbus_fast._private.unmarshaller import Unmarshaller
from hypothesis import given
from hypothesis import strategies as st
from private_bus import STATE

from collectors.gnome import wire

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


def marshalled(message):
    message.serial = 9
    return bytes(message._marshall(False))


def plain(value):
    """Variants and structs of either side as tuples and lists of the same form."""
    if isinstance(value, Variant | wire.Variant):
        return (value.signature, plain(value.value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@given(st.dictionaries(TEXT, VARIANTS, max_size=8), TEXT)
def test_what_dbus_fast_writes_is_read(state, text):
    data = marshalled(Message.new_signal("/a/b", "org.asa.I", "M", "a{sv}s", [state, text]))
    message = wire.decode(data)
    assert (message.kind, message.serial, message.interface, message.member) == (wire.Kind.SIGNAL, 9, "org.asa.I", "M")
    assert plain(message.body()) == plain([state, text])


def test_headers_of_answers_and_errors():
    asked = Message("a.b", "/", "a.b", "M", serial=77)
    asked.sender = ":1.5"
    answer = wire.decode(marshalled(Message.new_method_return(asked, "b", [True])))
    assert (answer.kind, answer.reply_serial, answer.body()) == (wire.Kind.ANSWER, 77, [True])
    error = wire.decode(marshalled(Message.new_error(asked, "org.asa.No", "why")))
    assert (error.kind, error.error_name, error.reply_serial) == (wire.Kind.ERROR, "org.asa.No", 77)


@given(st.lists(TEXT, max_size=3))
def test_what_we_write_is_read_by_dbus_fast(texts):
    data = wire.encode_call(5, "org.gnome.Shell", "/org/gnome/Shell", "org.asa.I", "Member", *texts)
    assert wire.size_of(data) == len(data)
    call = Unmarshaller(BytesIO(data)).unmarshall()
    assert (call.destination, call.path, call.interface, call.member) == (
        "org.gnome.Shell",
        "/org/gnome/Shell",
        "org.asa.I",
        "Member",
    )
    assert (call.serial, call.signature, call.body) == (5, "s" * len(texts), texts)
    assert call.flags.name == "NO_AUTOSTART"


def read_all(data):
    """Everything of a message, or ValueError."""
    return wire.decode(data).body()


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=12), st.integers(0, 40))
def test_any_damage_is_a_value_error_or_none(at, new, cut):
    good = marshalled(Message.new_signal("/a", "a.b", "C", "a{sv}", [STATE]))
    at %= len(good)
    data = (good[:at] + new + good[at + len(new) :])[: len(good) - cut]
    with contextlib.suppress(ValueError):
        read_all(data)


@given(st.binary(max_size=200))
def test_any_bytes(data):
    with pytest.raises(ValueError, match="message"):
        read_all(data)


# dbus-fast 5.2 dies of a signal on the first; found by damaging bytes at random
@pytest.mark.parametrize(
    ("before", "length"),
    [(b"pid\0", 22), (b"app\0", 1 << 31), (b"x\0", 2), (b"/a\0", 0xFFFFFFFF), (b"a.b\0", 0)],
)
def test_lengths_that_are_wrong(before, length):
    state = {"pid": Variant("u", 1), "app": Variant("s", "x")}
    good = marshalled(Message.new_signal("/a", "a.b", "C", "a{sv}", [state]))
    at = good.index(before) - 4
    with pytest.raises(ValueError, match=r"message|text|array|type"):
        read_all(good[:at] + struct.pack("<I", length) + good[at + 4 :])


@pytest.mark.parametrize(
    "signature", ["a", "(", "()", "{sv}", "a{vs}", "a{s}", "a{svv}", "z", "a" * 50, "(" * 50, "s)"]
)
def test_types_that_are_none(signature):
    good = wire.decode(marshalled(Message.new_signal("/a", "a.b", "C", "s", ["x"])))
    bad = wire.Message(**{**{name: getattr(good, name) for name in good.__slots__}, "signature": signature})
    with pytest.raises(ValueError, match=r"type|text"):
        bad.body()


def test_variants_inside_variants_end_somewhere():
    deep = Variant("s", "x")
    for _ in range(20):
        deep = Variant("v", deep)
    with pytest.raises(ValueError, match="too deep"):
        read_all(marshalled(Message.new_signal("/a", "a.b", "C", "v", [deep])))


def test_an_array_of_too_many():
    with pytest.raises(ValueError, match="over 1024 values"):
        read_all(marshalled(Message.new_signal("/a", "a.b", "C", "ay", [bytes(1025)])))
