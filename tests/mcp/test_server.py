# SPDX-License-Identifier: GPL-2.0-only
"""The server by the SDK's own client, in both eras, over stdio, in memory and over HTTP."""

import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from made_up_status import status
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_agent import StandIn

from asa import paths, requests
from asa import status as statuses
from asa.cli.main import main
from asa.mcp import asked, server
from asa.mcp.changes import Changes
from asa.mcp.machine import Machine
from asa.mcp.tools import CHANGING, JOB, TOOLS, WORKING
from asa.mcp.working import Works
from asa.status import StatusFile

ROOT = Path(__file__).resolve().parents[2]
ERAS = ("2026-07-28", "legacy")
READ = ("status", "workload", "explain", "policies", "compare", "history", "replay")
COMMAND = ["-P", "-c", "from asa.cli.main import main; main()", "mcp"]


@pytest.fixture(autouse=True)
def of_nobody(monkeypatch, tmp_path):
    """A machine whose agent has not run yet."""
    places = paths.Places(run=tmp_path / "run", cache=tmp_path, state=tmp_path, config=tmp_path / "none.yaml")
    monkeypatch.setattr(paths, "default", lambda: places)
    monkeypatch.setattr(requests, "_LIMIT_S", 60.0)  # beside guests the agent's loop may stand still for seconds
    read = statuses.read
    monkeypatch.setattr(statuses, "read", lambda folder: None if folder == paths.Places().run else read(folder))


@contextmanager
def agent(folder, **changes):
    """A running agent's status."""
    file = StatusFile(folder / "run")
    file.write(status(**changes))
    try:
        yield
    finally:
        file.close()


@cache
def made():
    return server.make(Machine())


def talk(what, era="2026-07-28", where=None):
    """What `what(client)` comes to."""

    async def talking():
        async with Client(made() if where is None else where, mode=era) as client:
            return await what(client)

    return asyncio.run(talking())


def said(result):
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


@pytest.mark.parametrize("era", ERAS)
def test_both_eras_see_the_same_tools(era):
    found = talk(lambda client: client.list_tools(), era).tools
    assert tuple(tool.name for tool in found) == READ
    assert all(tool.output_schema["type"] == "object" and tool.description for tool in found)
    assert all(tool.annotations.read_only_hint and not tool.annotations.open_world_hint for tool in found)


def objects(schema):
    """Every schema in it."""
    yield schema
    for value in schema.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from objects(one)


def test_every_argument_is_closed_and_bounded():
    seen = 0
    for tool in talk(lambda client: client.list_tools(), where=changing()).tools:
        for part in objects(tool.input_schema):
            seen += 1
            kind = part.get("type")
            assert kind != "number", tool.name  # NaN is one
            assert kind != "object" or part["additionalProperties"] is False, tool.name
            assert kind != "integer" or {"minimum", "maximum"} <= set(part), tool.name
            assert kind != "string" or {"maxLength", "pattern", "enum"} & set(part), tool.name
            assert not set(part) & {"path", "argv", "command", "source"}, tool.name
    assert seen > 50


@pytest.mark.parametrize("era", ERAS)
def test_status_without_an_agent_and_with_one(era, tmp_path):
    async def ask(client):
        return await client.call_tool("status", {})

    assert said(talk(ask, era)) | {"kernel": None} == {
        **dict.fromkeys(said(talk(ask, era))),
        "running": False,
        "standbys": [],
        "set_aside": [],
        "barred": [],
        "never": [],
    }
    words = "web+video: scx_flash ranks first\x1b[2J\u202e"
    with agent(tmp_path, workload="web+video", scheduler="scx_flash", sentence=words, confidence=0.75):
        found = said(talk(ask, era))
    assert (found["running"], found["scheduler"], found["confidence"]) == (True, "scx_flash", 0.75)
    assert found["why"] == "web+video: scx_flash ranks first?[2J?"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("status", {"more": 1}, "unknown field"),
        ("workload", {"seconds": 61}, "<= 60"),
        ("workload", {"seconds": 1.5}, "got `float`"),
        ("explain", {"last": True}, "got `bool`"),
        ("explain", {"last": 10**30}, "<= 50"),
        ("policies", {"text": "x" * 65}, "length <= 64"),
        ("policies", {"id": "../../etc/passwd"}, "matching regex"),
        ("policies", {"id": "scx_nobody"}, "'scx_nobody' is not accepted"),
        ("policies", {"id": "scx_lavd:fastest"}, "'scx_lavd:fastest' is not accepted"),
        ("policies", {"id": "eevdf", "text": "fair"}, "`id` stands alone"),
        ("compare", {"for_class": "web", "a": "eevdf", "b": "scx_lavd:no"}, "is not accepted"),
        ("compare", {"for_class": "web\n", "a": "eevdf", "b": "eevdf"}, "a text has a letter that ends a line"),
        ("policies", {"text": "a\x1b[2J"}, "controls a terminal"),
        ("history", {"since_s": 604_801}, "<= 604800"),
        ("history", {"kind": "guard"}, "there is no such journal"),
        ("replay", {"settings": {"table": "/etc/passwd"}}, "unknown field `table`"),
        ("replay", {"settings": {"voting": {"window_s": 0}}}, ">= 1"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_line(tool, arguments, words):
    result = talk(lambda client: client.call_tool(tool, arguments), "legacy")
    text = result.content[0].text
    assert (result.is_error, result.structured_content, text.count("\n")) == (True, None, 0)
    assert words in text


def test_a_tool_that_is_none_is_an_error_of_the_protocol():
    async def ask(client):
        with pytest.raises(MCPError, match="there is no tool 'switch'"):
            await client.call_tool("switch", {})

    talk(ask)


def test_policies_with_figures_of_a_class():
    async def ask(client):
        listed = said(await client.call_tool("policies", {"for_class": "browse", "usable": False, "limit": 50}))
        one = said(await client.call_tool("policies", {"id": "scx_lavd:performance"}))["policy"]
        none = said(await client.call_tool("policies", {"text": "no such word"}))
        return listed, one, none

    listed, one, none = talk(ask)
    ids = [policy["id"] for policy in listed["policies"]]
    assert listed["found"] == len(ids) == len(set(ids)) > 10
    assert [policy["figures"]["place"] for policy in listed["policies"] if policy["figures"]][:2] == [1, 2]
    assert all(policy["usable"] is not bool(policy["reason"]) for policy in listed["policies"])
    assert (one["id"], "performance" in one["modes"], one["flags"]) == (
        "scx_lavd:performance",
        True,
        ["--performance"],
    )
    assert none == {"found": 0, "policies": [], "policy": None}


CHANGE = ("trial", "commit", "revert", "hold", "resume", "hint", "job")
WORK = ("compose", "verify", "tune", "job")
TRY = {"policy": "scx_flash", "intent": {"metric": "wakeup_p99_us"}, "why": "."}


@cache
def changing():
    machine = Machine()
    return server.make(machine, Changes(machine))


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_that_change_are_there_when_they_are_allowed_only(era):
    found = {tool.name: tool for tool in talk(lambda client: client.list_tools(), era, changing()).tools}
    assert tuple(found) == READ + CHANGE
    assert tuple(name for name, tool in found.items() if not tool.annotations.read_only_hint) == CHANGE

    async def ask(client):
        for name in CHANGE:
            with pytest.raises(MCPError, match=f"there is no tool '{name}' here; `asa mcp --allow-changes` has it"):
                await client.call_tool(name, {})

    talk(ask, era)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("trial", TRY | {"seconds": 39}, ">= 40"),
        ("trial", TRY | {"seconds": 601}, "<= 600"),
        ("trial", TRY | {"argv": ["--slice", "1"]}, "unknown field `argv`"),
        ("trial", TRY | {"intent": {"metric": "happiness"}}, "'happiness'"),
        ("trial", TRY | {"intent": {"metric": "input_ms", "least_gain_pct": 0.5}}, "got `float`"),
        ("trial", TRY | {"intent": {"metric": "input_ms", "guard_rails": [{}] * 5}}, "length <= 4"),
        ("trial", TRY | {"why": ""}, "length >= 1"),
        ("trial", {"policy": "eevdf"}, "missing required field `intent`"),
        ("job", {"id": "../x"}, "matching regex"),
        ("commit", {"id": "f" * 16, "why": "."}, "there is no trial 'ffffffffffffffff'"),
        ("commit", {"id": "f" * 16, "why": ".", "seconds": 86_401}, "<= 86400"),
        ("revert", {"id": 7, "why": "."}, "got `int`"),
        ("hold", {"seconds": 0, "why": "."}, ">= 1"),
        ("resume", {"why": "."}, "this session has no hold"),
        ("hint", {"why": "."}, "give `interactive`, `background` or both"),
        ("hint", {"why": ".", "interactive": "compile"}, "'compile'"),
        ("hint", {"why": ".", "background": "disk", "confidence": 0.9}, "got `float`"),
        ("hint", {"why": ".", "background": "disk", "seconds": 3601}, "<= 3600"),
        ("hint", {"why": ".", "background": "disk"}, "no agent is running"),
    ],
)
def test_a_change_that_cannot_be_is_said_in_one_line(tool, arguments, words):
    result = talk(lambda client: client.call_tool(tool, arguments), where=changing())
    text = result.content[0].text
    assert (result.is_error, text.count("\n")) == (True, 0)
    assert words in text


def test_the_tools_that_work_are_there_when_they_are_allowed_and_all_are_17(tmp_path):
    machine = Machine()
    for changes, words in ((None, READ + WORK), (Changes(machine), (*READ, *CHANGE[:-1], *WORK))):
        made = server.make(machine, changes, Works(machine))
        found = talk(lambda client: client.list_tools(), where=made).tools
        assert tuple(tool.name for tool in found) == words
    assert len(words) == 17

    async def ask(client):
        for name in WORK[:-1]:
            with pytest.raises(MCPError, match=f"there is no tool '{name}' here; `asa mcp --allow-work` has it"):
                await client.call_tool(name, {})

    talk(ask)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_holds_is_told_by_its_own_name(era, tmp_path):
    """Through the protocol to the agent's own loop and back, by both eras."""

    def work(_):
        async def ask(client):
            held = said(await client.call_tool("hold", {"why": "I measure"}))
            changes = json.loads((await client.read_resource("asa://changes")).contents[0].text)["changes"]
            told = said(await client.call_tool("history", {"kind": "changes"}))["rows"]
            return held, changes, told, said(await client.call_tool("resume", {"why": "done"}))

        return talk(ask, era, changing())

    held, changes, told, resumed = StandIn(tmp_path).during(work)
    assert held["outcome"].startswith("held by the client mcp until")
    assert [(one["what"], one["client"], one["why"]) for one in changes] == [("hold", "mcp", "I measure")] * 2
    assert [row["what"].partition(" ")[0] for row in told] == ["hold"]
    assert (resumed["id"], resumed["outcome"]) == (held["id"], "the hold is over")


def test_over_http_changes_need_a_word_more(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["mcp", "--http", "127.0.0.1:0", "--allow-changes"])
    assert ended.value.code == 1
    assert "add --any-user" in capsys.readouterr().err


def test_addresses_and_prompts():
    async def ask(client):
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        patterns = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        read = {uri: await client.read_resource(uri) for uri in ("asa://status", "asa://table", "asa://policies/eevdf")}
        prompts = {one.name: one for one in (await client.list_prompts()).prompts}
        text = (await client.get_prompt("tune_for", {"use": "web+video"})).messages[0].content.text
        for bad in ({}, {"use": "web; rm -rf /"}, {"use": "web", "more": "1"}):
            with pytest.raises(MCPError, match="prompt tune_for"):
                await client.get_prompt("tune_for", bad)
        for bad in ("asa://policies/../x", "asa://journal/0", "file:///etc/passwd", "asa://status/x"):
            with pytest.raises(MCPError, match="there is nothing at"):
                await client.read_resource(bad)
        return listed, patterns, {uri: json.loads(one.contents[0].text) for uri, one in read.items()}, prompts, text

    listed, patterns, read, prompts, text = talk(ask)
    assert listed == [
        f"asa://{name}" for name in ("status", "machine", "table", "policies", "reports", "changes", "journal")
    ]
    assert patterns == ["asa://policies/{id}", "asa://journal/{session}"]
    assert read["asa://status"]["running"] is False
    assert "eevdf" in {one["scheduler"] for rows in read["asa://table"]["classes"].values() for one in rows}
    assert read["asa://policies/eevdf"]["id"] == "eevdf"
    assert set(prompts) == {"why_is_it_slow", "tune_for", "explain_last_switch"}
    assert "the class web+video best" in text
    assert "They are data" in text


def environment(tmp_path):
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")}
    return kept | homes | {"PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_over_stdio_as_a_client_starts_it(era, tmp_path):
    started = StdioServerParameters(command=sys.executable, args=COMMAND, env=environment(tmp_path))

    async def ask(client):
        tools = await client.list_tools()
        return [tool.name for tool in tools.tools], said(await client.call_tool("policies", {"id": "eevdf"}))["policy"]

    names, found = talk(ask, era, started)
    assert (tuple(names), found["id"], found["usable"]) == (READ, "eevdf", True)


def test_over_http_on_loopback_and_under_no_other_name(tmp_path):
    command = [sys.executable, *COMMAND, "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment(tmp_path), text=True)
    try:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/mcp", process.stderr.readline())[1])
        found = talk(lambda client: client.call_tool("status", {}), "auto", f"http://127.0.0.1:{port}/mcp")
        assert "running" in said(found)
        for headers in ({"Host": "evil.example"}, {"Host": f"127.0.0.1:{port}", "Origin": "http://evil.example"}):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/mcp", b"{}", {"Content-Type": "application/json", **headers})
            assert connection.getresponse().status in (403, 421)
            connection.close()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_the_processes_are_told_by_name_and_no_command_line(tmp_path):
    word = "a-word-of-the-command-line"
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass", word])
    try:
        found = talk(lambda client: client.call_tool("workload", {"detail": "processes"}))
    finally:
        busy.kill()
        busy.wait()
    assert word not in found.content[0].text
    assert any(one["name"].startswith("python") and one["cores"] > 0 for one in said(found)["processes"])


def test_the_sdk_is_imported_by_the_server_alone():
    code = "import sys, asa.mcp.tools, asa.mcp.resources, asa.mcp.prompts, asa.cli.mcp; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "asa.mcp.reading" in loaded
    assert not {"mcp", "pydantic", "starlette", "uvicorn"} & set(loaded)


def test_no_more_tools_than_a_small_model_can_keep_in_mind():
    assert len((*TOOLS, *CHANGING, *WORKING, JOB)) <= 17
    assert {tool.takes.__module__ for tool in (*TOOLS, *CHANGING, *WORKING, JOB)} == {asked.__name__}
