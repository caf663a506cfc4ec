# SPDX-License-Identifier: GPL-2.0-only
"""Random calls of the helper, right and wrong: members, interfaces, paths, signatures, values, lengths, descriptors.

`main` runs in a box as any user: arguments are how many calls and a seed, and what it prints is what became of them, as
JSON. All calls are of the right form, or the bus itself would end the connection; a few are not, so that it does. No
scheduler of the manifest but eevdf is ever named. Built on jeepney, none of `asa.bus`.
"""

import json
import os
import random
import string
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jeepney import DBusAddress, HeaderFields, Message, MessageFlag, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from asa.core.helper_api import BUS_NAME, INTERFACE, PATH, Verb

_AT_ONCE = 32  # the bus allows 128 calls under way a connection
_LIMIT_S = 120.0
_METHODS = {
    INTERFACE: {verb.member: verb.value.takes for verb in Verb},
    "org.freedesktop.DBus.Properties": {"Get": "ss", "GetAll": "s", "Set": "ssv"},
    "org.freedesktop.DBus.Introspectable": {"Introspect": ""},
    "org.freedesktop.DBus.Peer": {"Ping": "", "GetMachineId": ""},
}
_DEAD = ("NoReply", "TimedOut", "ServiceUnknown", "NameHasNoOwner")
_BASIC = "ybnqiuxtdsogh"
_BITS = {"y": (8, False), "n": (16, True), "q": (16, False), "i": (32, True), "u": (32, False), "x": (64, True)}
_BITS["t"] = (64, False)
_TEXTS = (
    "", " ", "eevdf", "scx_", "scx_none", "scx_none:performance", "scx_rusty;reboot", "../../../../bin/sh", "/bin/sh",
    "--help", "%s%n%x", "\x01\x1b[2J", "\u202e\U0001f600", "a\nb", INTERFACE, "Holder", "State", "NaN", "{}", "null",
)  # fmt: skip


def main() -> None:
    """Make the calls."""
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)  # noqa: S311  # to be repeated, not to be secret
    null = os.open("/dev/null", os.O_RDONLY)
    outcome: Counter[str] = Counter()
    bus = open_dbus_connection("SYSTEM", enable_fds=True)
    for begin in range(0, count, _AT_ONCE):
        calls = [_call(rng, null) for _ in range(min(_AT_ONCE, count - begin))]
        if not _played(bus, calls, outcome):
            bus.close()
            bus = open_dbus_connection("SYSTEM", enable_fds=True)
        if any(outcome[f"org.freedesktop.DBus.Error.{name}"] for name in _DEAD):
            break  # the helper has ended: no need to see that again and again
    sys.stdout.write(json.dumps(outcome) + "\n")


def _played(bus: DBusConnection, calls: list[Message], outcome: Counter[str]) -> bool:
    # False: the bus ended the connection, as it does where a message is malformed
    waiting = set()
    try:
        for call in calls:
            serial = next(bus.outgoing_serial)
            bus.send(call, serial=serial)
            outcome["calls"] += 1
            waiting.add(serial)
        while waiting:
            answer = bus.receive(timeout=_LIMIT_S)
            serial = answer.header.fields.get(HeaderFields.reply_serial)
            if serial in waiting:
                waiting.discard(serial)
                outcome[_name(answer)] += 1
            for one in _descriptors(answer.body):
                one.close()
    except ConnectionError:
        outcome["connections ended by the bus"] += 1
        return False
    return True


def _name(answer: Message) -> str:
    if answer.header.message_type is MessageType.error:
        return str(answer.header.fields[HeaderFields.error_name])
    return "answered"


def _descriptors(value: Any) -> Iterator[Any]:
    if hasattr(value, "to_raw_fd"):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _descriptors(one)


def _call(rng: random.Random, null: int) -> Message:
    interface = rng.choice([INTERFACE] * 6 + list(_METHODS))
    member = rng.choice(list(_METHODS[interface]))
    signature = _METHODS[interface][member]
    if rng.random() < 0.6:
        signature = "".join(_signature(rng, 0) for _ in range(rng.randrange(5)))
    if rng.random() < 0.15:
        member = _word(rng)
    if rng.random() < 0.1:
        interface = f"{_word(rng)}.{_word(rng)}"
    path = PATH if rng.random() < 0.9 else rng.choice(["/", "/org", f"{PATH}/{_word(rng)}", f"/{_word(rng)}"])
    address = DBusAddress(path, BUS_NAME, interface if rng.random() < 0.95 else None)
    body = tuple(_value(rng, one, null) for one in _parts(signature))
    call = new_method_call(address, member, signature or None, body)
    if rng.random() < 0.3:
        call.header.flags |= MessageFlag.allow_interactive_authorization
    if rng.random() < 0.001:
        call.header.fields[HeaderFields.member] = "no member!"  # the bus ends the connection
    return call


def _signature(rng: random.Random, depth: int) -> str:
    if depth >= 3 or rng.random() < 0.6:
        return rng.choice(_BASIC)
    kind = rng.choice("va({")
    if kind == "v":
        return "v"
    if kind == "a":
        return "a" + _signature(rng, depth + 1)
    if kind == "{":
        return f"a{{{rng.choice(_BASIC)}{_signature(rng, depth + 1)}}}"
    return "(" + "".join(_signature(rng, depth + 1) for _ in range(rng.randrange(1, 4))) + ")"


def _parts(signature: str) -> Iterator[str]:
    # complete types, one after the other
    while signature:
        end = _end(signature)
        yield signature[:end]
        signature = signature[end:]


def _end(signature: str) -> int:
    if signature[0] == "a":
        return 1 + _end(signature[1:])
    depth = 0
    for at, letter in enumerate(signature, 1):
        depth += (letter in "({") - (letter in ")}")
        if depth == 0:
            return at
    raise ValueError(signature)


def _value(rng: random.Random, kind: str, null: int) -> Any:
    if kind in _BITS:
        bits, signed = _BITS[kind]
        low = -(1 << bits - 1) if signed else 0
        return rng.choice([low, 0, 1, low + (1 << bits) - 1, rng.randrange(low, low + (1 << bits))])
    match kind[0]:
        case "s":
            return _text(rng)
        case "b":
            return rng.random() < 0.5
        case "d":
            return rng.choice([0.0, -1.5, 1e308, float("inf"), float("nan")])
        case "o":
            return rng.choice(["/", PATH, f"/{_word(rng)}"])
        case "g":
            return rng.choice(["", "s", "a{sv}", "(ii)"])
        case "h":
            return null
        case "v":
            inner = _signature(rng, 2)
            return (inner, _value(rng, inner, null))
        case "(":
            return tuple(_value(rng, one, null) for one in _parts(kind[1:-1]))
    return _array(rng, kind[1:], null)


def _array(rng: random.Random, kind: str, null: int) -> Any:
    count = rng.randrange(4)
    if kind.startswith("{"):
        key, value = _parts(kind[1:-1])
        return {_value(rng, key, null): _value(rng, value, null) for _ in range(count)}
    if kind == "y":
        return rng.randbytes(count)
    if kind == "s" and rng.random() < 0.05:
        count = 300  # more than may be asked for
    return [_value(rng, kind, null) for _ in range(count)]


def _text(rng: random.Random) -> str:
    if rng.random() < 0.01:
        return "x" * rng.choice([401, 65_000, 70_000, 300_000])
    return rng.choice([*_TEXTS, _word(rng)])


def _word(rng: random.Random) -> str:
    letters = string.ascii_letters
    return rng.choice(letters) + "".join(rng.choices(letters + string.digits + "_", k=rng.randrange(20)))
