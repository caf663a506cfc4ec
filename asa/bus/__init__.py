# SPDX-License-Identifier: GPL-2.0-only
"""D-Bus for a loop that waits in one select: calls, signals, names, and objects of our own.

jeepney does the connecting and the marshalling (it is plain Python: a damaged message is an exception, not a crash);
what is here adds what a root service needs besides: nothing blocks, long messages are never taken apart, bodies only
when their signature is one that was asked for, and signals only from whom they were asked of.
"""

from asa.bus.link import BUS, NO_REPLY, Bus, Rule
from asa.bus.serve import Method, Object, Property, Request
from asa.bus.stream import Arrival, BusError, CallError, Incoming, Stream

__all__ = [
    "BUS",
    "NO_REPLY",
    "Arrival",
    "Bus",
    "BusError",
    "CallError",
    "Incoming",
    "Method",
    "Object",
    "Property",
    "Request",
    "Rule",
    "Stream",
]
