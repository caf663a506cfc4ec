# SPDX-License-Identifier: GPL-2.0-only
"""Values as JSON and MessagePack, and back: for files, the journal, the bus and `--json`.

msgspec writes and reads plain text only. A scheduler's name is a value of its own; here it becomes its text and back.
"""

from typing import Any, TypeVar, overload

import msgspec

from asa.core.decision import SchedulerName

T = TypeVar("T")


def _written(value: object) -> str:
    if isinstance(value, SchedulerName):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} has no form in a file")


def _read(kind: type[Any], value: object) -> object:
    if kind is SchedulerName and isinstance(value, str):
        return SchedulerName(value)
    if isinstance(value, kind):
        return value  # what may be anything
    raise ValueError(f"a {kind.__name__} is text, not {type(value).__name__}")


def json_bytes(value: object) -> bytes:
    """The value as JSON, UTF-8."""
    return msgspec.json.encode(value, enc_hook=_written)


def json_text(value: object) -> str:
    """The value as JSON, for printing."""
    return json_bytes(value).decode()


@overload
def from_json(body: bytes | str, kind: type[T]) -> T: ...
@overload
def from_json(body: bytes | str, kind: Any) -> Any: ...  # a union of types
def from_json(body: bytes | str, kind: Any) -> Any:
    """A value out of JSON. Raises msgspec.DecodeError; its ValidationError where the JSON is no `kind`."""
    return msgspec.json.decode(body, type=kind, dec_hook=_read)


def packer() -> msgspec.msgpack.Encoder:
    """What writes values as MessagePack, as the journal keeps them."""
    return msgspec.msgpack.Encoder(enc_hook=_written)


def from_msgpack(body: bytes, kind: type[T]) -> T:
    """A value out of MessagePack. Raises as `from_json`."""
    return msgspec.msgpack.decode(body, type=kind, dec_hook=_read)


def plain(value: object) -> Any:
    """The value as dictionaries, lists, text and numbers."""
    return msgspec.to_builtins(value, enc_hook=_written)


def shaped(value: object, kind: type[T]) -> T:
    """A value out of dictionaries, lists, text and numbers; keys stay text. Raises msgspec.ValidationError."""
    return msgspec.convert(value, kind, strict=True, dec_hook=_read)
