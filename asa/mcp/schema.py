# SPDX-License-Identifier: GPL-2.0-only
"""JSON schemas of structs, as tools publish them: the root is an object, as the protocol wants it."""

from typing import Any

import msgspec


def of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct (JSON Schema 2020-12), without what msgspec derives from docstrings of inner classes."""
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = root["$ref"].removeprefix("#/$defs/")
    found = {key: value for key, value in parts.pop(name).items() if key not in ("title", "description")}
    return {**found, "$defs": parts} if parts else found
