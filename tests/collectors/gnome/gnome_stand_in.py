# SPDX-License-Identifier: GPL-2.0-only
"""Programs that look like GNOME's from outside, for what a real one cannot be made to do in a test."""

import json
import os
from pathlib import Path

_GSETTINGS = """#!/usr/bin/python3
import json, os, sys
store = os.environ["STAND_IN_STORE"]
settings = json.load(open(store))
verb, *rest = sys.argv[1:]
if verb == "list-schemas":
    print("org.gnome.desktop.interface")
    if settings:
        print("org.gnome.shell")
elif rest[1] not in settings:
    sys.exit("No such key")
elif verb == "get":
    print(settings[rest[1]])
elif not os.environ.get("STAND_IN_LOSES_CHANGES"):
    json.dump(settings | {rest[1]: rest[2]}, open(store, "w"))
"""


class Gnome:
    """A home, and a PATH with `gnome-shell` of `version` and a `gsettings`; None: without the former."""

    def __init__(self, folder: Path, version: str | None = "43.9"):
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.home.mkdir(parents=True)
        self.bin.mkdir()
        self.store = folder / "settings.json"
        self.settings(**{"enabled-extensions": "@as []", "disabled-extensions": "@as []"})
        self.program("gsettings", _GSETTINGS)
        if version is not None:
            self.program("gnome-shell", f"#!/bin/sh\necho GNOME Shell {version}\n")
        self.env = {"PATH": str(self.bin), "HOME": str(self.home), "STAND_IN_STORE": str(self.store)}

    def program(self, name, text):
        """Put a program on the PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def settings(self, **keys):
        """What GSettings holds, as it prints it; nothing: it does not know the schema."""
        settings = {key: value if isinstance(value, str) else repr(value) for key, value in keys.items()}
        self.store.write_text(json.dumps({"disable-user-extensions": "false", **settings} if keys else {}))

    def setting(self, key):
        """What it holds now."""
        return json.loads(self.store.read_text())[key]

    def tree(self):
        """Every path below home."""
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*"))

    def use(self, monkeypatch):
        """Make it this process's own environment."""
        for name in ("XDG_DATA_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SUDO_USER"):
            monkeypatch.delenv(name, raising=False)
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)
        assert os.environ["HOME"] == str(self.home)
