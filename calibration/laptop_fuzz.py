# SPDX-License-Identifier: GPL-2.0-only
"""Calls of the helper at random: `laptop_fuzz.py CALLS SEED`; prints one JSON object of what was answered how often.

Whole and half-right calls, wrong signatures, members and interfaces, hostile strings, descriptors, interactive or not.
Names of schedulers that exist do not come up. Runs with nothing but asa.bus, as whoever it is started.
"""

import json
import os
import random
import select
import sys
from collections import Counter
from typing import Any

from asa.bus import Bus, BusError, CallError
from asa.core.helper_api import BUS_NAME, INTERFACE, PATH

_MEMBERS = (
    *("Acquire", "Release", "Switch", "KeepReady", "Probes", "Hold", "Resume", "Approve"),
    *("switch", "Acquire2", "Introspect", "Get", "GetAll", "Set", "Ping", "GetMachineId", "Event", "_"),
)
_RIGHT = {"Switch": "ss", "KeepReady": "as", "Hold": "u", "Approve": "sb", "Get": "ss", "GetAll": "s"}
_INTERFACES = (*(INTERFACE,) * 8, "org.freedesktop.DBus.Properties", "org.freedesktop.DBus.Introspectable",
               "org.freedesktop.DBus.Peer", "org.asa.Helper2")  # fmt: skip
_PATHS = (*(PATH,) * 8, "/", "/org/asa", "/org/asa/Helper1/x")
_TYPES = ("s", "u", "b", "as", "i", "t", "x", "d", "y", "v", "av", "a{sv}", "(su)", "aas", "o", "g", "ay", "h")
_LONGEST_FIRST = sorted(_TYPES, key=len, reverse=True)
_TEXTS = (
    *("", "scx_nothing", "/bin/sh", "../../bin/sh", "scx_nothing:performance", "eevdf:none", "a\nb", "\x1b[2J", "%s%n"),
    *("'; rm -rf /", "scx_\u202e", "\u00e4" * 300, "x" * 2000, "--help", "scx_nothing --slice 1", INTERFACE, "State"),
)
_LONG_TEXT = "x" * 60_000
_AT_ONCE = 8  # some are 60 KB: more would not fit into the connection
_ANSWER_LIMIT_S = 60.0


class Fuzzer:
    """One connection, and what it hears."""

    def __init__(self, bus: Bus, seed: int) -> None:
        self.heard: Counter[str] = Counter()
        self._bus = bus
        self._chance = random.Random(seed)  # noqa: S311  # the same calls in each run
        self._waiting = 0
        self._null = os.open("/dev/null", os.O_RDONLY)

    def run(self, calls: int) -> None:
        """Make so many, and wait until each is answered. Raises BusError."""
        for _ in range(calls):
            self._call()
            while self._waiting >= _AT_ONCE:
                self._hear()
        while self._waiting:
            self._hear()

    def _call(self) -> None:
        pick = self._chance.choice
        member = pick(_MEMBERS)
        signature = _RIGHT.get(member, "") if self._chance.random() < 0.5 else self._signature()
        body = tuple(self._value(one) for one in _split(signature))
        self._waiting += 1
        self._bus.send(
            BUS_NAME, pick(_PATHS), pick(_INTERFACES), member, signature, body,
            then=self._answered, limit_s=_ANSWER_LIMIT_S, interactive=self._chance.random() < 0.2,
        )  # fmt: skip

    def _answered(self, answer: tuple[Any, ...] | CallError) -> None:
        self._waiting -= 1
        if isinstance(answer, CallError):
            self.heard[answer.name] += 1
            return
        self.heard["answered"] += 1
        for value in answer:
            if hasattr(value, "to_raw_fd"):
                os.close(value.to_raw_fd())

    def _hear(self) -> None:
        select.select([self._bus], [], [], self._bus.due_in_s())
        self._bus.advance()

    def _signature(self) -> str:
        return "".join(self._chance.choices(_TYPES, k=self._chance.randrange(4)))

    def _value(self, kind: str) -> Any:
        pick, number = self._chance.choice, self._chance.randrange
        plain: dict[str, Any] = {
            "s": pick(_TEXTS) if number(200) else _LONG_TEXT,
            "g": pick(("", "s", "a{sv}")), "o": pick(("/", PATH)), "b": pick((True, False)),
            "u": pick((0, 1, 3600, (1 << 32) - 1)), "i": pick((0, -1, -(1 << 31))), "y": number(256),
            "t": pick((0, (1 << 64) - 1)), "x": -(1 << 63), "d": pick((0.0, float("nan"), float("inf"))),
            "h": self._null, "v": ("s", pick(_TEXTS)), "(su)": (pick(_TEXTS), number(9)),
        }  # fmt: skip
        if kind in plain:
            return plain[kind]
        if kind == "a{sv}":
            return {f"key{place}": ("u", place) for place in range(number(5))}
        if kind == "ay":
            return bytes(number(256) for _ in range(number(40)))
        return [self._value(kind[1:]) for _ in range(number(40))]


def _split(signature: str) -> list[str]:
    """The complete types of a signature that is made of `_TYPES`."""
    found, rest = [], signature
    while rest:
        kind = next(one for one in _LONGEST_FIRST if rest.startswith(one))
        found.append(kind)
        rest = rest.removeprefix(kind)
    return found


def main(calls: int, seed: int) -> int:
    """Entry point. Exit code 1 when the bus or the helper cannot be reached any more."""
    bus = Bus.system()
    fuzzer = Fuzzer(bus, seed)
    error = ""
    try:
        fuzzer.run(calls)
    except BusError as failure:
        error = str(failure)
    print(json.dumps({"heard": dict(fuzzer.heard), "error": error}))
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
