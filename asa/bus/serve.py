# SPDX-License-Identifier: GPL-2.0-only
"""Objects of ours on the bus: which methods and properties there are, and what is said about them.

A call reaches a method only when its body has the signature that the method takes; everything else is answered here.
Introspection, `Properties.Get` and `GetAll`, and `Peer` come by themselves (D-Bus Specification, Standard Interfaces).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Protocol

from jeepney import HeaderFields, MessageFlag, new_error, new_method_return
from jeepney.low_level import parse_signature

from asa.bus.stream import Arrival

_ERROR = "org.freedesktop.DBus.Error"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"
_PEER = "org.freedesktop.DBus.Peer"
_DOC = "org.gtk.GDBus.DocString"  # as gdbus-codegen knows it
_SHOWN = 80  # characters
_STANDARD = f"""  <interface name="{_INTROSPECTABLE}">
    <method name="Introspect"><arg direction="out" type="s"/></method>
  </interface>
  <interface name="{_PROPERTIES}">
    <method name="Get">
      <arg direction="in" type="s"/><arg direction="in" type="s"/><arg direction="out" type="v"/>
    </method>
    <method name="GetAll"><arg direction="in" type="s"/><arg direction="out" type="a{{sv}}"/></method>
  </interface>
  <interface name="{_PEER}">
    <method name="Ping"/>
    <method name="GetMachineId"><arg direction="out" type="s"/></method>
  </interface>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method: signatures of what it takes and gives, and who does it. `arguments` names both, in order.

    `doc` is for people who introspect the object.
    """

    takes: str = ""
    gives: str = ""
    run: Callable[["Request"], None]
    arguments: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One value to read; nobody sets any."""

    signature: str
    read: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """An object with one interface of its own. `signals`: name -> signature."""

    path: str
    interface: str
    methods: dict[str, Method]
    properties: dict[str, Property] = field(default_factory=dict)
    signals: dict[str, str] = field(default_factory=dict)


class _Sends(Protocol):
    def send(self, message: Any) -> int: ...


class Request:
    """A call to answer, now or later, once; what is said after that has no effect."""

    def __init__(self, arrival: Arrival, gives: str, stream: _Sends, body: tuple[Any, ...]) -> None:
        self.sender = str(arrival.field(HeaderFields.sender))
        self.member = str(arrival.field(HeaderFields.member))
        self.body = body
        self.interactive = bool(arrival.header.flags & MessageFlag.allow_interactive_authorization)
        self._call = arrival
        self._gives = gives
        self._stream = stream
        self._answered = bool(arrival.header.flags & MessageFlag.no_reply_expected)

    def answer(self, *values: Any) -> None:
        """With what the method gives."""
        if not self._answered:
            self._answered = True
            self._stream.send(new_method_return(self._call, self._gives or None, values))

    def fail(self, name: str, message: str) -> None:
        """With an error."""
        if not self._answered:
            self._answered = True
            self._stream.send(new_error(self._call, name, "s", (message,)))


class Served:
    """All objects of one connection."""

    def __init__(self, stream: _Sends) -> None:
        self._stream = stream
        self._objects: dict[str, Object] = {}

    def add(self, served: Object) -> None:
        """Serve it from now on."""
        self._objects[served.path] = served

    def take(self, call: Arrival) -> None:
        """Have a method call done, or answer it with an error."""
        call.drop()  # nobody is asked for descriptors
        refused = Request(call, "", self._stream, ())
        if not call.data:
            refused.fail(f"{_ERROR}.LimitsExceeded", "the message is too long")
            return
        path, wanted = str(call.field(HeaderFields.path)), str(call.field(HeaderFields.interface))
        served = self._objects.get(path)
        methods = self._standard(path, served)
        if served is not None:
            methods[served.interface] = served.methods
        if not methods:
            refused.fail(f"{_ERROR}.UnknownObject", f"there is nothing at {_shown(path)}")
            return
        found = [
            all_[refused.member] for name, all_ in methods.items() if wanted in ("", name) and refused.member in all_
        ]
        if not found:
            refused.fail(f"{_ERROR}.UnknownMethod", f"{path} has no method {wanted}.{refused.member}")
            return
        self._run(call, found[0], refused)

    def _run(self, call: Arrival, method: Method, refused: Request) -> None:
        if call.signature != method.takes:
            said = f"{refused.member} takes {method.takes or 'nothing'!r}, not {call.signature!r}"
            refused.fail(f"{_ERROR}.InvalidArgs", said)
            return
        try:
            body = call.body()
        except ValueError as error:
            refused.fail(f"{_ERROR}.InvalidArgs", str(error))
            return
        method.run(Request(call, method.gives, self._stream, body))

    def _standard(self, path: str, served: Object | None) -> dict[str, dict[str, Method]]:
        below = [known for known in self._objects if known.startswith(path if path.endswith("/") else f"{path}/")]
        if served is None and not below:
            return {}
        children = sorted({known[len(path.rstrip("/")) + 1 :].split("/")[0] for known in below})
        return {
            _INTROSPECTABLE: {
                "Introspect": Method(gives="s", run=lambda request: request.answer(_described(served, children)))
            },
            _PEER: {
                "Ping": Method(run=lambda request: request.answer()),
                "GetMachineId": Method(gives="s", run=_machine_id),
            },
            _PROPERTIES: {
                "Get": Method(takes="ss", gives="v", run=lambda request: _get(request, served)),
                "GetAll": Method(takes="s", gives="a{sv}", run=lambda request: _get_all(request, served)),
            },
        }


def _get(request: Request, served: Object | None) -> None:
    interface, name = request.body
    found = served.properties.get(name) if served is not None and interface in ("", served.interface) else None
    if found is None:
        request.fail(f"{_ERROR}.UnknownProperty", f"there is no property {_shown(interface)}.{_shown(name)}")
    else:
        request.answer((found.signature, found.read()))


def _get_all(request: Request, served: Object | None) -> None:
    own = served.properties if served is not None and request.body[0] in ("", served.interface) else {}
    request.answer({name: (one.signature, one.read()) for name, one in own.items()})


def _machine_id(request: Request) -> None:
    try:
        request.answer(Path("/etc/machine-id").read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError):
        request.fail(f"{_ERROR}.FileNotFound", "/etc/machine-id cannot be read")


def _described(served: Object | None, children: list[str]) -> str:
    lines = ['<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"']
    lines += ['  "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">', "<node>", _STANDARD.rstrip("\n")]
    if served is not None:
        lines.append(f"  <interface name={_quoted(served.interface)}>")
        for name, method in served.methods.items():
            lines.append(f"    <method name={_quoted(name)}>")
            if method.doc:
                lines.append(f'      <annotation name="{_DOC}" value={_quoted(method.doc)}/>')
            kinds = [("in", one) for one in _split(method.takes)] + [("out", one) for one in _split(method.gives)]
            names = method.arguments or ("",) * len(kinds)
            for (way, kind), argument in zip(kinds, names, strict=True):
                said = f" name={_quoted(argument)}" if argument else ""
                lines.append(f'      <arg{said} direction="{way}" type={_quoted(kind)}/>')
            lines.append("    </method>")
        for name, one in served.properties.items():
            lines.append(f'    <property name={_quoted(name)} type={_quoted(one.signature)} access="read"/>')
        for name, signature in served.signals.items():
            arguments = "".join(f"<arg type={_quoted(kind)}/>" for kind in _split(signature))
            lines.append(f"    <signal name={_quoted(name)}>{arguments}</signal>")
        lines.append("  </interface>")
    lines += [f"  <node name={_quoted(child)}/>" for child in children]
    return "\n".join([*lines, "</node>", ""])


def _split(signature: str) -> list[str]:
    """`sa{sv}h` -> s, a{sv}, h."""
    left, parts = list(signature), []
    while left:
        before = len(left)
        parse_signature(left)
        parts.append(signature[len(signature) - before : len(signature) - len(left)])
    return parts


def _shown(text: str) -> str:
    # answers that nobody fetches lie in the bus and count as ours: short ones, however long the question was
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'
