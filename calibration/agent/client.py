# SPDX-License-Identifier: GPL-2.0-only
"""A client of MCP over stdio without the SDK: lines of JSON-RPC to a server in places of its own, as a process.

It believes nothing of the server: what is no answer to what was asked is an error.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from asa.core.errors import AsaError

LEGACY, MODERN = "2025-11-25", "2026-07-28"
"""The two eras: with a handshake, and without."""

ROOT = Path(__file__).parents[2]
_META = "io.modelcontextprotocol/"
_NAME = {"name": "bench", "version": "1"}
_LIMIT_S = 120.0
_SERVE = """\
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])  # clients hand no PYTHONPATH on
from asa import paths
from asa.mcp import working
class StandIn(working.Works):  # a child that says its words in the laboratory's place
    def __init__(self, machine):
        super().__init__(machine, (sys.executable, "-S", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"))
working.Works = StandIn
folder = Path(sys.argv[2])
places = paths.Places(run=folder / "run", cache=folder / "cache", state=folder / "state", config=folder / "none.yaml")
paths.default = lambda: places
from asa.cli.main import main
main(["mcp", *sys.argv[3:]])
"""


class ServerError(AsaError):
    """The server has ended, is silent, or does not speak the protocol."""


def command(folder: Path, *arguments: str) -> list[str]:
    """What starts a server whose run folder, state and cache are below `folder`."""
    return [sys.executable, "-P", "-c", _SERVE, str(ROOT), str(folder), *arguments]


class Client:
    """One server and its client. Use as a context."""

    def __init__(self, folder: Path, *arguments: str, era: str = MODERN) -> None:
        self._command, self._era, self._number = command(folder, *arguments), era, 0
        self._said = b""

    def __enter__(self) -> Self:
        """Start the server, and greet it where the era has that. Raises ServerError."""
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._watch = selectors.DefaultSelector()
        self._watch.register(_pipe(self.process.stdout), selectors.EVENT_READ)
        if self._era == LEGACY:
            greeting = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _NAME}
            self.ask("initialize", greeting)
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        """End the server, whatever it does."""
        self.process.kill()
        self.process.communicate()
        self._watch.close()

    def send(self, message: Any) -> None:
        """One line. Raises ServerError when the server has gone."""
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, line: bytes) -> None:
        """One line as it is."""
        pipe = _pipe(self.process.stdin)
        try:
            pipe.write(line + b"\n")
            pipe.flush()
        except OSError as error:
            raise ServerError(f"the server has ended (exit status {self.process.poll()})") from error

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The whole response to a request; it has `result` or `error`. Raises ServerError."""
        self._number += 1
        whole = dict(params or {})
        if self._era == MODERN:
            whole["_meta"] = {
                f"{_META}protocolVersion": MODERN,
                f"{_META}clientInfo": _NAME,
                f"{_META}clientCapabilities": {},
            }
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": whole})
        end_s = time.monotonic() + _LIMIT_S
        while True:
            answer = self._next(end_s)
            if answer.get("id") == self._number and "method" not in answer:
                return answer

    def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """The response to a call of a tool."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def result(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers. Raises ServerError when it does not."""
        answer = self.call(tool, arguments)
        result = answer.get("result", {})
        if result.get("isError") or "structuredContent" not in result:
            raise ServerError(f"{tool}: {json.dumps(answer)[:500]}")
        return dict(result["structuredContent"])

    def _next(self, end_s: float) -> dict[str, Any]:
        while b"\n" not in self._said:
            left_s = end_s - time.monotonic()
            if left_s <= 0.0 or not self._watch.select(left_s):
                raise ServerError(f"the server has not answered within {_LIMIT_S:g} s")
            more = os.read(_pipe(self.process.stdout).fileno(), 1 << 16)
            if not more:
                raise ServerError(f"the server has ended (exit status {self.process.wait()})")
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        try:
            found = json.loads(line)
        except ValueError as error:
            raise ServerError(f"the server says what is no JSON: {line[:200]!r}") from error
        if not isinstance(found, dict):
            raise ServerError(f"the server says what is no message: {line[:200]!r}")
        return found

    def resident_mb(self) -> float:
        """The server's memory (VmRSS, proc_pid_status(5)), in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split(maxsplit=1)[0]) * 1024 / 1e6


def tools(client: Client) -> Sequence[dict[str, Any]]:
    """As the server lists them."""
    return list(client.ask("tools/list")["result"]["tools"])


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ServerError("the server has no pipe")
    return pipe
