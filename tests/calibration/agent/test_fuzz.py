# SPDX-License-Identifier: GPL-2.0-only
"""The fuzzer finds what it is there for: servers that end, that tell of inner errors, and files that change."""

import json

from calibration.agent import foreign, fuzz
from calibration.agent.benchmark import AgentFigure, counts
from calibration.agent.client import ServerError

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "seconds": {"type": "integer", "minimum": 1, "maximum": 60}},
    "required": ["id"],
    "additionalProperties": False,
}


class Server:
    """Answers by `said`; every `dies`th call ends it."""

    def __init__(self, said, dies=0):
        self.said, self.dies, self.calls = said, dies, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, method):
        return {"result": {"tools": [{"name": "policy", "inputSchema": SCHEMA}]}}

    def send_bytes(self, line):
        pass

    def call(self, tool, arguments):
        self.calls.append((tool, arguments))
        if self.dies and len(self.calls) % self.dies == 0:
            raise ServerError("it has ended")
        return self.said


def test_the_same_seed_makes_the_same_calls_and_many_kinds_of_them(tmp_path):
    made = [Server({"result": {"isError": True}}) for _ in range(2)]
    found = [fuzz.fuzz(tmp_path, lambda one=one: one, calls=500, seed=1) for one in made]
    assert made[0].calls == made[1].calls
    assert (found[0].calls, found[0].answered, found[0].crashes, found[0].changed) == (500, {"refused": 500}, [], [])
    assert found[0].lines > 0
    whole = [one for tool, one in made[0].calls if tool == "policy"]
    assert any(not isinstance(one, dict) for one in whole)
    assert any(isinstance(one, dict) and "id" not in one for one in whole)
    assert any(isinstance(one, dict) and set(one) - {"id", "seconds"} for one in whole)
    seconds = {one["seconds"] for one in whole if isinstance(one, dict) and isinstance(one.get("seconds"), int)}
    assert not {one for one in seconds if 1 < one <= 60}  # it does not wait


def test_a_server_that_ends_or_has_an_inner_error_is_a_crash(tmp_path):
    found = fuzz.fuzz(tmp_path, lambda: Server({"result": {}}, dies=30), calls=100, seed=1)
    assert found.crashes == [f"call {30 * number}: it has ended" for number in (1, 2, 3)]
    found = fuzz.fuzz(tmp_path, lambda: Server({"error": {"code": -32603}}), calls=3, seed=1)
    assert len(found.crashes) == 3
    found = fuzz.fuzz(tmp_path, lambda: Server({"error": {"code": -32602}}), calls=3, seed=1)
    assert (found.crashes, found.answered) == ([], {"error": 3})


def test_a_file_that_is_new_is_a_change_and_the_agents_status_is_none(tmp_path):
    class Writer(Server):
        def call(self, tool, arguments):
            (tmp_path / "status.json").write_text(str(len(self.calls)))
            (tmp_path / "changes.jsonl").write_text("x")
            return super().call(tool, arguments)

    assert fuzz.fuzz(tmp_path, lambda: Writer({"result": {}}), calls=2, seed=1).changed == ["changes.jsonl"]


def test_jobs_are_no_change_but_a_strange_word_on_their_command_line_is(tmp_path):
    words = [
        "lab",
        "tune",
        "--policy",
        "scx_flash",
        "--class=requests",
        "--method",
        "tpe",
        "--flag=--slice-us",
        "--json",
    ]

    class Worker(Server):
        def ask(self, method):
            return {"result": {"tools": [{"name": "tune", "inputSchema": SCHEMA}]}}

        def call(self, tool, arguments):
            super().call(tool, arguments)
            number = f"{len(self.calls):016x}"
            job = tmp_path / "state/jobs" / number
            job.mkdir(parents=True)
            (job / "answer.json").write_text(json.dumps(words) if len(self.calls) > 1 else "")
            (tmp_path / "state/changes.jsonl").write_text("x")
            return {"result": {"structuredContent": {"id": number}}}

    made = Worker(None)
    found = fuzz.fuzz(tmp_path, lambda: made, calls=40, seed=1)
    assert found.changed == []
    asked = [one["id"] for tool, one in made.calls if tool == "tune" and isinstance(one, dict) and "id" in one]
    assert any(one in found.ids for one in asked), "it asks for jobs that there are"
    words.append("../../etc/passwd")
    found = fuzz.fuzz(tmp_path / "other", lambda: Server({"result": {}}), calls=1, seed=1)
    assert found.changed == []
    assert fuzz._strange(tmp_path) == []
    (tmp_path / "state/jobs" / found_id(made) / "answer.json").write_text(json.dumps(words))
    assert fuzz._strange(tmp_path) == [f"{found_id(made)}: '../../etc/passwd'"]


def found_id(made):
    return f"{len(made.calls):016x}"


def check(name, status):
    return foreign.Check(era="2026-07-28", scenario="s", id=name, status=status, words="")


def test_only_what_no_fixture_is_to_blame_for_is_ours():
    expected = [check(name, "FAILURE") for name in foreign.EXPECTED]
    assert not any(one.ours for one in expected)
    assert check("tools-list", "FAILURE").ours
    assert not check("tools-list", "WARNING").ours
    assert foreign.stale(expected) == []
    assert foreign.stale([*expected[1:], check(next(iter(foreign.EXPECTED)), "SUCCESS")]) == [expected[0].id]


def test_each_figure_that_is_measured_is_one_of_the_list():
    assert set(counts()) == set(AgentFigure)
