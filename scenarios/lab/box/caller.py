# SPDX-License-Identifier: GPL-2.0-only
"""A program with a connection of its own to the system bus of a box, which does what its standard input says.

Orders and news are lines of JSON. `{"id", "to", "path", "interface", "member", "signature", "body", "interactive"}` is
a call, `{"id", "body"}` or `{"id", "error", "message"}` its answer; a signal comes as `{"signal", "sender", "body"}`;
the first line is `{"name"}`. Built on jeepney alone, none of `asa.bus`, so that each is a check of the other. Runs in
the box (`box_asa.Caller` starts it); received descriptors stay open, and are shown as `{"descriptor": number}`.
"""

import json
import os
import select
import sys
from typing import Any

from jeepney import DBusAddress, HeaderFields, Message, MessageFlag, MessageType, new_method_call
from jeepney.bus_messages import MatchRule, message_bus
from jeepney.fds import FileDescriptor
from jeepney.io.blocking import DBusConnection, open_dbus_connection

_FOLLOWED = "org.asa.Helper1"


def main() -> None:
    """Until standard input or the bus ends."""
    with open_dbus_connection("SYSTEM", enable_fds=True) as bus:
        bus.send_and_get_reply(message_bus.AddMatch(MatchRule(type="signal", interface=_FOLLOWED)))
        _say(name=bus.unique_name)
        _serve(bus)


def _serve(bus: DBusConnection) -> None:
    ids: dict[int, int] = {}  # serial of a call -> id of its order
    unread = b""
    while True:
        ready, _, _ = select.select([bus.sock, sys.stdin.fileno()], [], [])
        if sys.stdin.fileno() in ready:
            data = os.read(sys.stdin.fileno(), 65536)
            if not data:
                return
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                _order(bus, json.loads(line), ids)
        if bus.sock in ready:
            _hear(bus, ids)


def _order(bus: DBusConnection, order: dict[str, Any], ids: dict[int, int]) -> None:
    address = DBusAddress(order["path"], order["to"], order["interface"])
    call = new_method_call(address, order["member"], order["signature"] or None, tuple(order["body"]))
    if order["interactive"]:
        call.header.flags |= MessageFlag.allow_interactive_authorization
    serial = next(bus.outgoing_serial)
    ids[serial] = order["id"]
    bus.send(call, serial=serial)


def _hear(bus: DBusConnection, ids: dict[int, int]) -> None:
    while True:  # one read of the socket may bring several messages
        try:
            message = bus.receive(timeout=0)
        except TimeoutError:
            return
        _news(message, ids)


def _news(message: Message, ids: dict[int, int]) -> None:
    fields, kind = message.header.fields, message.header.message_type
    if kind is MessageType.signal:
        sender = fields.get(HeaderFields.sender)
        _say(signal=fields.get(HeaderFields.member), sender=sender, body=_plain(message.body))
        return
    number = ids.pop(fields.get(HeaderFields.reply_serial, 0), None)
    if kind is MessageType.error:
        said = message.body[0] if message.body else ""
        _say(id=number, error=fields.get(HeaderFields.error_name), message=said)
    elif number is not None:
        _say(id=number, body=_plain(message.body))


def _plain(value: Any) -> Any:
    if isinstance(value, FileDescriptor):
        return {"descriptor": value.to_raw_fd()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value.hex() if isinstance(value, bytes) else value


def _say(**news: Any) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()
