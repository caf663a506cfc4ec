# SPDX-License-Identifier: GPL-2.0-only
"""The Shell extension: one core, made into the format that a version of GNOME Shell loads.

Reads the sources beside it (core.js.in, legacy.js.in, esm.js.in); makes the texts of `extension.js` and
`metadata.json`, the same ones each time. Writes nothing: that is `collectors.gnome.install`.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files

from asa.core.errors import SetupError
from collectors.titles import END_LENGTH, RULES

UUID = "asa-focus@asa"
"""Of the extension; the name of its folder."""

NAME = "org.gnome.Shell.Extensions.AsaFocus"
"""D-Bus name on the session bus, and its only interface; held while the extension is enabled."""

OBJECT_PATH = "/org/gnome/Shell/Extensions/AsaFocus"
"""D-Bus object that has the interface."""

API_VERSION = 1
"""`ApiVersion` of the interface: grows when a key of the state changes its meaning, not when one is added."""

DIGEST_KEY = "asa-digest"
"""Key of metadata.json with the digest of extension.js; the shell repeats it, and so tells which file it has loaded."""


class Format(StrEnum):
    """How GNOME Shell loads an extension."""

    LEGACY = "legacy"  # `imports`, `init()`: up to 44
    ESM = "esm"  # ECMAScript modules: from 45 on (gjs.guide, "Port Extensions to GNOME Shell 45")


# The shell refuses an extension that does not name its version; 51 is the newest that it has been seen to run in.
_VERSIONS = {Format.LEGACY: range(43, 45), Format.ESM: range(45, 52)}


def format_for(major: int) -> Format:
    """The format for GNOME Shell `major`. Raises SetupError for a version that the extension is not made for."""
    for format_, versions in _VERSIONS.items():
        if major in versions:
            return format_
    first, last = _VERSIONS[Format.LEGACY][0], _VERSIONS[Format.ESM][-1]
    raise SetupError(f"GNOME Shell {major!r}: the extension is made for {first} to {last}; ASA runs without it")


def render(format_: Format) -> dict[str, str]:
    """File name -> text of the extension in `format_`."""
    script = _source(f"{format_}.js.in").replace("@CORE@", _source("core.js.in").rstrip("\n"))
    values = {
        "NAME": NAME,
        "OBJECT_PATH": OBJECT_PATH,
        "API_VERSION": str(API_VERSION),
        "TITLE_CLASSES": "\n".join(f"    ['{name}', /{pattern}/i]," for name, pattern in RULES),
        "TITLE_LENGTH": str(END_LENGTH),
    }
    for mark, value in values.items():
        script = script.replace(f"@{mark}@", value)
    metadata = {
        "uuid": UUID,
        "name": "ASA focus",
        "description": (
            "Tells the Adaptive Scheduling Agent, on your session bus, which application has the focus, whether it "
            "is full screen, and how long ago you last touched an input device. Titles and keys stay in the shell."
        ),
        "shell-version": [str(version) for version in _VERSIONS[format_]],
        "session-modes": ["user"],  # not on the lock screen
        DIGEST_KEY: hashlib.sha256(script.encode()).hexdigest()[:16],
    }
    return {"extension.js": script, "metadata.json": json.dumps(metadata, indent=2) + "\n"}


def digest_of(made: Mapping[str, str]) -> str:
    """What metadata.json of a rendered extension has under `DIGEST_KEY`."""
    return str(json.loads(made["metadata.json"])[DIGEST_KEY])


def _source(name: str) -> str:
    return files("collectors.gnome.extension").joinpath(name).read_text(encoding="utf-8")
