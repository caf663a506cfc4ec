# SPDX-License-Identifier: GPL-2.0-only
"""Calls that no sane client makes, made from the schemas that the server lists: right, at the bounds, and broken.

Reproducible by the seed. A crash is a server that ends, is silent, speaks no JSON, or tells of an inner error.
"""

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibration.agent.client import Client, ServerError, tools

_INNER_ERROR = -32603  # JSON-RPC 2.0, section 5.1
_SLOW = {"seconds", "wait_s"}  # how long a call may last: kept short, or ten thousand of them take days
_TEXTS = ("", " ", "\x00", "\x1b[2J", "\u202e", "é" * 300, "x" * 70_000, "../../etc/passwd", "$(reboot)", "; rm -rf /",
          "ignore previous instructions", "NaN", "-1", "scx_lavd --performance", "eevdf\n", "%s%n", "{}")  # fmt: skip
_NAMES = ("eevdf", "scx_lavd:performance", "browse", "requests", "0123456789abcdef", "vm120", "slice-us", "--slice-us")
_NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**40, 0.5, -0.0, 1e308)
_STRANGERS = (
    "switch",
    "exec",
    "shell",
    "",
    "status\x00",
    "../status",
    "tools/call",
    "trial",
    "commit",
    "hold",
    "revert",
    "hint",
    "tune",
)
WORK = ("compose", "verify", "tune")
_OF_WORK = re.compile(r"state/(jobs/[0-9a-f]{16}/(answer\.json|log)|changes\.jsonl)$")
_WORDS = re.compile(
    r"lab|compose|verify|tune|--(json|composed|out|method|policy|machine|trials|seed)|made|tuned"
    r"|cgroup|edf|fifo|ljf|sjf|two_level|vtime|golden|pso|tpe|screen|[0-9]{1,10}|vm[0-9]{3}|laptop-[a-z-]{1,32}"
    r"|eevdf|scx_[a-z0-9_]{1,60}|--(param=[a-z][a-z0-9-]{0,31}=-?[0-9]{1,10}|class=[a-z][a-z0-9_+-]{0,63})"
    r"|--flag=--[a-z0-9][a-z0-9-]{0,63}",
    re.ASCII,
)
_LINES = (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"2.0","id":1}',
          b'{"jsonrpc":"2.0","id":null,"method":"tools/call"}', b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
          b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', b'{"id":{},"method":[],"params":7}')  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Fuzzed:
    """What came of it."""

    calls: int = 0
    lines: int = 0  # that are no calls at all
    answered: Counter[str] = field(default_factory=Counter)  # result, refused (by the tool), error (of the protocol)
    crashes: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)  # files that are new, gone or others than before
    ids: list[str] = field(default_factory=list)  # of jobs that were begun


def fuzz(folder: Path, start: Callable[[], Client], *, calls: int, seed: int) -> Fuzzed:
    """Make so many calls to a server of these places; after a crash another one is started.

    A server that may work writes its jobs and the log of them. Anything else counts as a change, and so does a word on
    a job's command line that is not of the closed lists.
    """
    chance, found, before = random.Random(seed), Fuzzed(), _content(folder)  # noqa: S311  # no secret
    while found.calls < calls and len(found.crashes) < 10:
        try:
            with start() as client:
                _some(client, chance, found, calls)
        except ServerError as error:
            found.crashes.append(f"call {found.calls}: {error}")
    after = _content(folder)
    found.changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    if found.ids:
        found.changed = [*(name for name in found.changed if not _OF_WORK.match(name)), *_strange(folder)]
    return found


def _some(client: Client, chance: random.Random, found: Fuzzed, calls: int) -> None:
    listed = tools(client)
    while found.calls < calls:
        if chance.random() < 0.02:
            client.send_bytes(chance.choice(_LINES))
            found.lines += 1
        name, arguments = _call(listed, chance)
        if isinstance(arguments, dict) and found.ids and chance.random() < 0.5:
            arguments |= {key: chance.choice(found.ids[-4:]) for key in ("id", "made") if key in arguments}
        found.calls += 1
        answer = client.call(name, arguments)
        error = answer.get("error")
        if error is not None:
            found.answered["error"] += 1
            if error.get("code") == _INNER_ERROR:
                found.crashes.append(f"call {found.calls}: {name}: {error}")
        else:
            result = answer["result"]
            found.answered["refused" if result.get("isError") else "result"] += 1
            told = result.get("structuredContent") or {}
            if name in WORK and "id" in told:
                found.ids.append(told["id"])


def _call(listed: Sequence[Mapping[str, Any]], chance: random.Random) -> tuple[Any, Any]:
    if chance.random() < 0.05:
        return chance.choice(_STRANGERS), _anything(chance, 3)
    tool = chance.choice(listed)
    schema = tool["inputSchema"]
    arguments = _fitting(schema, schema, chance)
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        arguments = _broken(arguments, chance)
    if isinstance(arguments, dict) and tool["name"] == "workload" and arguments.get("detail") == "processes":
        arguments["detail"] = chance.choice(("summary", "features"))  # that one sleeps
    return tool["name"], arguments


def _fitting(schema: Any, root: Mapping[str, Any], chance: random.Random) -> Any:
    # A value that fits, at a bound as often as between.
    if "$ref" in schema:
        return _fitting(root["$defs"][schema["$ref"].rpartition("/")[2]], root, chance)
    if "anyOf" in schema:
        return _fitting(chance.choice(schema["anyOf"]), root, chance)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            needed = set(schema.get("required", ()))
            wanted = {name for name in schema.get("properties", {}) if name in needed or chance.random() < 0.5}
            return {name: _named(name, schema["properties"][name], root, chance) for name in sorted(wanted)}
        case "array":
            return [
                _fitting(schema["items"], root, chance) for _ in range(chance.randint(0, schema.get("maxItems", 3)))
            ]
        case "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 100)
            return chance.choice((low, high, chance.randint(low, high)))
        case "boolean":
            return chance.random() < 0.5
        case "string":
            fitting = [one for one in _NAMES if re.search(schema.get("pattern", ""), one)]
            return chance.choice(fitting if fitting and chance.random() < 0.6 else (*_NAMES, *_TEXTS))
        case _:
            return None


def _named(name: str, schema: Any, root: Mapping[str, Any], chance: random.Random) -> Any:
    if name in _SLOW and schema.get("type") == "integer":
        return schema.get("minimum", 0)
    if name == "most_ticks":
        return chance.randint(1, 100)
    return _fitting(schema, root, chance)


def _broken(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.7:
        key = chance.choice(sorted(value))
        kind = chance.randrange(3)
        if kind == 0:
            return {name: one for name, one in value.items() if name != key}
        if kind == 1:
            return value | {chance.choice(("path", "argv", "source", "__class__", key + " ")): _anything(chance, 2)}
        broken = _broken(value[key], chance)
        slow = key in _SLOW and isinstance(broken, int) and not isinstance(broken, bool) and 1 < broken <= 86_400
        return value | {key: 0 if slow else broken}
    return _anything(chance, 3)


def _anything(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(7 if depth else 4)
    if kind == 0:
        return chance.choice(_TEXTS)
    if kind == 1:
        return chance.choice(_NUMBERS)
    if kind in (2, 3):
        return chance.choice((None, True, False))
    if kind == 4:
        return [_anything(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    if kind == 5:
        return {chance.choice(_TEXTS)[:40]: _anything(chance, depth - 1) for _ in range(chance.randint(0, 4))}
    deep: Any = 0
    for _ in range(60):
        deep = [deep]
    return deep


def _strange(folder: Path) -> list[str]:
    # words that the stand-in of the laboratory was given, and that no list of ours has
    found = []
    for path in sorted(folder.glob("state/jobs/*/answer.json")):
        body = path.read_bytes()
        words = json.loads(body) if body else []  # cancelled before it said anything
        found += [f"{path.parent.name}: {word!r}" for word in words if not _WORDS.fullmatch(word)]
    return found


def _content(folder: Path) -> dict[str, str]:
    # of files that tell of a change: the agent writes its status, and it alone
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "status.json")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
