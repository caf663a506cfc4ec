# SPDX-License-Identifier: GPL-2.0-only
"""The bus against a real dbus-daemon, and against bytes that no bus would send."""

import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jeepney import HeaderFields, MessageType, new_signal
from jeepney.low_level import Header, Message
from jeepney.wrappers import DBusAddress

from asa.bus import Bus, BusError, CallError, Method, Object, Property, Rule
from asa.bus.stream import Arrival, Stream

NAME, PATH, FACE = "org.example.Thing", "/org/example/Thing", "org.example.Thing1"


@pytest.fixture
def connect(bus_address):
    opened = []

    def connecting():
        opened.append(Bus.open(bus_address))
        return opened[-1]

    yield connecting
    for bus in opened:
        bus.close()


def turn(*buses, until, limit_s=20.0):
    """Let all of them work until it is so."""
    end_s = time.monotonic() + limit_s
    while not until():
        left_s = end_s - time.monotonic()
        assert left_s > 0, "it did not come to that"
        due = [one for bus in buses if (one := bus.due_in_s()) is not None]
        select.select(buses, [], [], min([left_s, 0.5, *due]))
        for bus in buses:
            bus.advance()


def thing(**methods):
    return Object(
        path=PATH,
        interface=FACE,
        methods=methods,
        properties={"Colour": Property(signature="s", read=lambda: "blue")},
        signals={"Moved": "su"},
    )


def call(caller, server, *arguments, **more):
    answers = []
    caller.send(server.unique_name, *arguments, then=answers.append, **more)
    turn(caller, server, until=lambda: answers)
    return answers[0]


@pytest.fixture
def pair(connect):
    server, caller = connect(), connect()
    double = Method(
        takes="s", gives="s", run=lambda r: r.answer(r.body[0] * 2), arguments=("text", "twice"), doc="Twice, <so>."
    )
    fail = Method(run=lambda request: request.fail("org.example.Error.No", "not today"))
    server.serve(thing(Double=double, Fail=fail))
    return server, caller


def test_a_call_is_answered(pair):
    server, caller = pair
    assert call(caller, server, PATH, FACE, "Double", "s", ("ab",)) == ("abab",)


def test_an_error_comes_with_name_and_message(pair):
    server, caller = pair
    answer = call(caller, server, PATH, FACE, "Fail")
    assert isinstance(answer, CallError)
    assert (answer.name, answer.message) == ("org.example.Error.No", "not today")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((PATH, FACE, "Double", "u", (7,)), "InvalidArgs"),
        ((PATH, FACE, "Double"), "InvalidArgs"),
        ((PATH, FACE, "Nothing"), "UnknownMethod"),
        ((PATH, "org.example.Other", "Double", "s", ("a",)), "UnknownMethod"),
        (("/org/other", FACE, "Double", "s", ("a",)), "UnknownObject"),
        ((PATH, FACE, "Double", "s", ("x" * 70_000,)), "LimitsExceeded"),
        ((PATH, "org.freedesktop.DBus.Properties", "Get", "ss", (FACE, "Size")), "UnknownProperty"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_next_call_goes_through(pair, arguments, name):
    server, caller = pair
    answer = call(caller, server, *arguments)
    assert isinstance(answer, CallError)
    assert answer.name == f"org.freedesktop.DBus.Error.{name}"
    assert call(caller, server, PATH, FACE, "Double", "s", ("ok",)) == ("okok",)


def test_properties_introspection_and_ping(pair):
    server, caller = pair
    properties = "org.freedesktop.DBus.Properties"
    assert call(caller, server, PATH, properties, "Get", "ss", (FACE, "Colour")) == (("s", "blue"),)
    assert call(caller, server, PATH, properties, "GetAll", "s", (FACE,)) == ({"Colour": ("s", "blue")},)
    assert call(caller, server, PATH, "org.freedesktop.DBus.Peer", "Ping") == ()
    (text,) = call(caller, server, PATH, "org.freedesktop.DBus.Introspectable", "Introspect")
    assert '<arg name="twice" direction="out" type="s"/>' in text
    assert '<annotation name="org.gtk.GDBus.DocString" value="Twice, &lt;so&gt;."/>' in text
    assert '<signal name="Moved"><arg type="s"/><arg type="u"/></signal>' in text
    (text,) = call(caller, server, "/org", "org.freedesktop.DBus.Introspectable", "Introspect")
    assert '<node name="example"/>' in text


def test_a_real_client_understands_our_introspection(pair, bus_address):
    server, _ = pair
    command = ["gdbus", "introspect", "--address", bus_address, "--dest", server.unique_name, "--object-path", PATH]
    if shutil.which("gdbus") is None:
        pytest.skip("needs gdbus (libglib2.0-bin); `asa lab setup --tests` installs it with gnome-shell")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        turn(server, until=lambda: client.poll() is not None)
        text = client.stdout.read()
    assert client.returncode == 0
    assert "Double(in  s text," in text
    assert "readonly s Colour = 'blue'" in text


def test_a_call_that_nobody_answers_times_out(connect):
    server, caller = connect(), connect()
    server.serve(thing(Wait=Method(run=lambda request: None)))
    answer = call(caller, server, PATH, FACE, "Wait", limit_s=0.05)
    assert answer.name == "org.freedesktop.DBus.Error.NoReply"
    with pytest.raises(CallError, match="NoReply"):
        caller.ask(server.unique_name, PATH, FACE, "Wait", limit_s=0.05)


def test_an_answer_after_it_was_forgotten_does_no_harm(connect):
    server, caller = connect(), connect()
    requests, answers = [], []
    server.serve(thing(Wait=Method(run=requests.append)))
    serial = caller.send(server.unique_name, PATH, FACE, "Wait", then=answers.append)
    turn(caller, server, until=lambda: requests)
    caller.forget(serial)
    requests[0].answer()
    requests[0].fail("org.example.Error.No", "twice")  # the first word counts
    assert call(caller, server, PATH, "org.freedesktop.DBus.Peer", "Ping") == ()
    assert answers == []


def test_signals_come_from_whom_they_were_asked_of(connect):
    owner, liar, listener = connect(), connect(), connect()
    heard, owners = [], []
    owner.own(NAME)
    listener.watch(Rule(sender=NAME, interface=FACE, member="Moved"), heard.append)
    listener.watch_name(NAME, owners.append)
    turn(listener, until=lambda: owners)
    assert owners == [owner.unique_name]
    liar.emit(PATH, FACE, "Moved", "su", ("lie", 1), to=listener.unique_name)
    liar.emit(PATH, FACE, "Moved", "su", ("lie", 2))
    liar.ask("org.freedesktop.DBus", "/", "org.freedesktop.DBus.Peer", "Ping")
    owner.emit(PATH, FACE, "Moved", "su", ("true", 3))
    turn(listener, until=lambda: heard)
    assert [(one.body, one.sender) for one in heard] == [(("true", 3), owner.unique_name)]
    owner.close()
    turn(listener, until=lambda: len(owners) == 2)
    assert owners[1] == ""


def test_a_name_has_one_owner(connect):
    connect().own(NAME)
    with pytest.raises(BusError, match="another one is running"):
        connect().own(NAME)


def test_descriptors_are_passed(connect, tmp_path):
    server, caller = connect(), connect()
    path = tmp_path / "file"
    path.write_text("what is in it")
    descriptor = os.open(path, os.O_RDONLY)
    server.serve(thing(Open=Method(gives="h", run=lambda request: request.answer(descriptor))))
    (got,) = call(caller, server, PATH, FACE, "Open")
    os.close(descriptor)
    with got.to_file("r") as file:
        assert file.read() == "what is in it"


def test_descriptors_that_nobody_asked_for_are_closed(pair, tmp_path):
    server, caller = pair
    reader, writer = os.pipe()
    answer = call(caller, server, PATH, FACE, "Double", "h", (writer,))
    assert isinstance(answer, CallError)
    os.close(writer)
    assert os.read(reader, 1) == b""  # nobody else holds it: else this would wait for ever
    os.close(reader)


def test_what_comes_while_an_answer_is_waited_for_is_not_lost(connect):
    server, caller = connect(), connect()
    seen = []
    caller.serve(thing(Note=Method(takes="u", run=lambda request: seen.append(request.body[0]))))
    for number in range(20):
        server.send(caller.unique_name, PATH, FACE, "Note", "u", (number,))
    caller.ask("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId")
    turn(caller, until=lambda: len(seen) == 20)
    assert seen == list(range(20))


def test_the_end_of_the_bus_ends_calls_under_way(connect):
    server, caller = connect(), connect()
    answers = []
    server.serve(thing(Wait=Method(run=lambda request: None)))
    caller.send(server.unique_name, PATH, FACE, "Wait", then=answers.append)
    caller._stream._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(BusError, match="gone"):
        turn(caller, until=lambda: False)
    assert [answer.name for answer in answers] == ["org.freedesktop.DBus.Error.Disconnected"]


def test_no_bus_is_one_clear_line(tmp_path):
    with pytest.raises(BusError, match=r"the bus at 'unix:path=.*' cannot be reached: No such file or directory"):
        Bus.open(f"unix:path={tmp_path}/none")
    with pytest.raises(BusError, match="cannot be reached"):
        Bus.open("nonsense")


# --- bytes that no bus would send: a server of our own at the other end ---


@pytest.fixture
def raw():
    """A Stream and the other end of its socket."""
    ours, theirs = socket.socketpair()
    made = Stream(ours)
    yield made, theirs
    made.close()
    theirs.close()


def signal(body="hello", signature="s"):
    message = new_signal(DBusAddress(PATH, interface=FACE), "Moved", signature, (body,))
    return message.serialise(serial=1)


def test_messages_come_whole_however_they_are_cut(raw):
    made, theirs = raw
    data = signal("first") + signal("x" * 100_000) + signal("last")
    seen = []

    def sending():
        for at in range(0, len(data), 997):
            theirs.sendall(data[at : at + 997])

    thread = threading.Thread(target=sending)
    thread.start()
    while len(seen) < 3:
        assert select.select([made], [], [], 20)[0]
        seen.extend(made.receive())
    thread.join()
    assert [one.body() if one.data else None for one in seen] == [("first",), None, ("last",)]


@given(st.binary(min_size=16, max_size=400))
def test_garbage_ends_the_connection_or_waits_for_more(data):
    made, theirs = garbage()
    try:
        theirs.sendall(data)
        with contextlib.suppress(BusError):
            assert all(len(arrival.data) <= len(data) for arrival in made.receive())
    finally:
        made.close()
        theirs.close()


@given(st.binary(max_size=200), st.sampled_from(["s", "as", "a{sv}", "(su)", "h", "v", "ay", "g", "o", "d"]))
def test_bodies_that_lie_are_a_value_error(body, signature):
    header = Header(
        stream_little(),
        MessageType.signal,
        0,
        1,
        len(body),
        1,
        {
            HeaderFields.path: PATH,
            HeaderFields.interface: FACE,
            HeaderFields.member: "M",
            HeaderFields.signature: signature,
        },
    )
    head = header.serialise(serial=1)
    made, theirs = garbage()
    try:
        theirs.sendall(head + b"\0" * (-len(head) % 8) + body)
        for arrival in made.receive():
            with contextlib.suppress(ValueError):
                assert isinstance(arrival.body(), tuple)
    finally:
        made.close()
        theirs.close()


def test_an_empty_struct_is_refused():
    header = Message.from_buffer(signal()).header
    header.fields[HeaderFields.signature] = "a()"  # it takes no room, so that an array of them would never end
    arrival = Arrival(header=header, data=b"\x08\0\0\0\0\0\0\0", body_at=0, descriptors=())
    with pytest.raises(ValueError, match="is not a signature"):
        arrival.body()


def stream_little():
    return Message.from_buffer(signal()).header.endianness


def garbage():
    ours, theirs = socket.socketpair()
    made = Stream(ours)
    return made, theirs


def test_nobody_ends_a_connection_by_a_header_beyond_all_limits(pair):
    """The bus takes any length of path; a helper that ended at it would be ended by everybody."""
    server, caller = pair
    caller.send(server.unique_name, "/a" * 60_000, FACE, "Double", "s", ("x" * 70_000,))
    caller.send(server.unique_name, "/a" * 20_000, FACE, "Double", "s", ("x" * 70_000,))
    assert call(caller, server, PATH, FACE, "Double", "s", ("ab",)) == ("abab",)


def test_answers_are_short_whatever_was_asked(pair):
    server, caller = pair
    got = [
        call(caller, server, "/a" * 9_000, FACE, "Double", "s", ("ab",)),
        call(caller, server, PATH, "org.freedesktop.DBus.Properties", "Get", "ss", ("x" * 30_000, "y" * 30_000)),
    ]
    assert [type(one) for one in got] == [CallError, CallError]
    assert max(len(one.message) for one in got) < 300


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def with_field(code, value, kind="s"):
    """A signal with one more header field, as dbus-broker passes it on."""
    more = struct.pack("<BB", code, len(kind)) + kind.encode() + b"\0" + value
    data = bytearray(signal("odd"))
    (fields,) = struct.unpack_from("<I", data, 12)
    at = 16 + fields + -fields % 8
    data[at:at] = more + b"\0" * (-len(more) % 8)
    struct.pack_into("<I", data, 12, at - 16 + len(more))
    return bytes(data)


def test_header_fields_that_nobody_knows_are_ignored(raw):
    made, theirs = raw
    theirs.sendall(with_field(42, struct.pack("<I", 2) + b"hi\0") + signal("next"))
    assert [one.body() for one in made.receive()] == [("odd",), ("next",)]


def test_a_header_that_cannot_be_read_is_passed_over(raw, tmp_path):
    made, theirs = raw
    before = open_descriptors()
    with (tmp_path / "file").open("w") as file:
        socket.send_fds(theirs, [with_field(42, struct.pack("<I", 7), kind="h")], [file.fileno()])
        theirs.sendall(signal("next"))
        assert [one.body() for one in made.receive()] == [("next",)]
    assert open_descriptors() == before


def test_as_many_descriptors_as_a_bus_may_pass_do_no_harm(raw, tmp_path):
    made, theirs = raw
    before = open_descriptors()
    with (tmp_path / "file").open("w") as file:
        for _ in range(8):  # more than a process may have open, were they kept
            socket.send_fds(theirs, [with_field(9, struct.pack("<I", 253), kind="u")], [file.fileno()] * 253)
            for arrival in made.receive():
                assert len(arrival.descriptors) == 253
                arrival.drop()
    assert open_descriptors() == before


def test_a_length_that_is_no_message_is_told(raw):
    made, theirs = raw
    theirs.sendall(b"l\x04\0\x01" + struct.pack("<III", 0, 1, 0xFFFFFFF0) + b"\0" * 5000)
    with pytest.raises(BusError, match="no message"):
        list(made.receive())
