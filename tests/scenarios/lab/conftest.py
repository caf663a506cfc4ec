# SPDX-License-Identifier: GPL-2.0-only
"""Builds of the lab without a compiler and a mirror: a made-up source, tools and a mirror of the test's own."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from asa import debian
from asa.core.errors import SetupError
from scenarios.lab import building

FAULTS = {
    "a compiler's error": ("echo 'x.c:7: error: no such thing' >&2; exit 2", "error: no such thing"),
    "no compiler": ("echo '/bin/sh: 1: gcc: not found' >&2; exit 2", "gcc: not found"),
    "a disk full": ("echo 'fatal error: x.o: No space left on device' >&2; exit 2", "make room and run again"),
    "a killed tool": ("kill -9 $$", " ended with -9 "),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """Where a build's things are put; `tools` come before the host's."""

    cache: Path
    tools: Path
    patch: pytest.MonkeyPatch

    def put(self, name, script):
        """A tool."""
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def pack(self, tree, tarball):
        """A source that is here."""
        tarball.parent.mkdir(parents=True, exist_ok=True)
        where = ["--directory", tree.parent, tree.name]
        subprocess.run(["tar", "--create", "--xz", "--file", tarball, *where], check=True)

    def mirror(self, versions, served=None, kept=None):
        """What is listed; of that only `served` can be had, the file `kept`. Gives what is asked for."""
        asked = []

        def download(_, version, folder, **__):
            asked.append(version)
            if version != served:
                raise SetupError("404")
            folder.mkdir(parents=True, exist_ok=True)
            return kept.rename(folder / kept.name)

        self.patch.setattr(debian, "source_versions", lambda *_, **__: versions)
        self.patch.setattr(debian, "download_source", download)
        return asked


@pytest.fixture
def builds(monkeypatch, tmp_path):
    made = Builds(cache=tmp_path / "cache", tools=tmp_path / "bin", patch=monkeypatch)
    made.tools.mkdir()
    monkeypatch.setattr(building, "_PATH", f"{made.tools}:/usr/bin:/bin")
    monkeypatch.setattr(debian, "install", lambda *_, **__: None)
    monkeypatch.setattr(debian, "source_versions", lambda *_, **__: pytest.fail("the source is here"))
    return made


@pytest.fixture(params=FAULTS.values(), ids=FAULTS)
def fault(request):
    """What a tool does while compiling, and the words that tell of it."""
    return request.param
