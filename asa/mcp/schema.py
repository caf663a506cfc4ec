# SPDX-License-Identifier: GPL-2.0-only
"""JSON schemas of structs, as tools publish them: the root is an object, as the protocol wants it."""

from typing import Any

import msgspec


def of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct (JSON Schema 2020-12), without what msgspec derives from docstrings of inner classes."""
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = root["$ref"].removeprefix("#/$defs/")
    found = {key: value for key, value in parts.pop(name).items() if key not in ("title", "description")}
    whole: dict[str, Any] = _portable({**found, "$defs": parts} if parts else found)
    return whole


def _portable(value: Any) -> Any:
    """Without `items: false` behind tuples, at which some clients stop; `maxItems` says the same."""
    if isinstance(value, list):
        return [_portable(one) for one in value]
    if not isinstance(value, dict):
        return value
    bounded = "maxItems" in value
    return {key: _portable(one) for key, one in value.items() if not (key == "items" and one is False and bounded)}
