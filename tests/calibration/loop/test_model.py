# SPDX-License-Identifier: GPL-2.0-only
"""A language model in the plan's role: from lists alone, checked, budgeted, and without it the loop goes on."""

import json

import pytest
from loop_bench import PROFILE, SLICE, Arena, repository, staged
from model_server import completion, serving

from calibration.loop import controller
from calibration.loop.model import Advised, Asked, words_of
from calibration.loop.planner import Nearest


def picked(policy, flag="none", level="low"):
    return completion(json.dumps({"policy": policy, "flag": flag, "level": level}))


def played(tmp_path, answers, arena=None, **more):
    """`answers`: of each question in turn, the last one again and again."""
    with serving() as server:
        told = list(answers)
        server.answers = lambda *_: told.pop(0) if len(told) > 1 else told[0]
        stage = staged(tmp_path, arena, **more)
        known = repository()
        planner = Advised(asked=Asked(url=server.url), repository=known, without=Nearest(known, 1), seed=1)
        return stage, controller.run(stage, PROFILE, planner, 1, lambda _: None), server.asked


def test_a_model_picks_what_is_tried_and_its_flags_add_up(tmp_path):
    told = [(200, picked("scx_flash")), (200, picked("scx_flash", f"scx_flash {SLICE}", "high")), (200, picked("stop"))]
    stage, found, asked = played(tmp_path, told)
    tried = [str(one.candidate) for one in found.plays if one.by == "picked by toy-1b"]
    assert tried == ["scx_flash", f"scx_flash {SLICE}=15025"]
    assert (stage.ledger.asked, stage.ledger.rejected) == (3, 0)
    assert found.chosen.flags == {SLICE: 15025}
    assert json.loads(asked[1]["messages"][1]["content"])["trials"] == [{"tried": "scx_flash", "gain_pct": 8.01}]


@pytest.mark.parametrize(
    "content",
    [
        "rm -rf /",
        json.dumps({"policy": "scx_evil", "flag": "none", "level": "low"}),
        json.dumps({"policy": "scx_flash", "flag": "none", "level": "low", "argv": "--x"}),
        json.dumps({"policy": "scx_flash", "flag": f"scx_bpfland {SLICE}", "level": "low"}),
        json.dumps({"policy": "eevdf", "flag": "none", "level": "low"}),
        json.dumps(["scx_flash"]),
        "[" * 2_000,
    ],
)
def test_what_is_no_answer_is_rejected_and_the_loop_goes_on_without(tmp_path, content):
    stage, found, _ = played(tmp_path, [(200, completion(content))])
    assert stage.ledger.rejected == 3
    assert {one.by for one in found.plays}.isdisjoint({"picked by toy-1b"})
    assert found.chosen.scheduler == "scx_flash"


def test_a_dead_server_costs_nothing(tmp_path):
    stage, found, _ = played(tmp_path, [(503, {})])
    assert any("status 503" in note for note in found.notes)
    assert found.chosen.scheduler == "scx_flash"
    assert stage.ledger.rejected == 0


def test_tokens_are_counted_and_bound(tmp_path):
    known = {"usage": {"total_tokens": 400}}
    told = [
        (200, picked("scx_flash") | known),
        (200, picked("scx_bpfland") | known),
        (200, picked("scx_simple") | known),
    ]
    stage, found, _ = played(tmp_path, told, tokens=700)
    assert (stage.ledger.asked, stage.ledger.tokens) == (2, 800)
    assert any("700 tokens are spent" in note for note in found.notes)
    stage, _, _ = played(tmp_path / "lies", [(200, picked("stop") | {"usage": {"total_tokens": -5}})])
    assert stage.ledger.tokens > 100


def test_a_server_without_schemas_is_asked_in_plain_text(tmp_path):
    told = [(400, {}), (400, {}), (200, completion("scx_flash, none, low")), (200, completion("stop, none, low"))]
    _, found, asked = played(tmp_path, told)
    assert [("response_format" in one, "grammar" in one) for one in asked] == [
        (True, False),
        (False, True),
        (False, False),
        (False, False),
    ]
    assert str(found.chosen) == "scx_flash"


def test_the_lists_are_closed():
    words = words_of(repository(), "eevdf", tunable=True)
    assert words.policies == ("scx_bpfland", "scx_flash", "scx_simple", "scx_flash:calm", "stop")
    assert words.flags[:3] == ("none", f"scx_bpfland {SLICE}", f"scx_bpfland {SLICE}-lag")
    assert words.schema()["additionalProperties"] is False
    assert words_of(repository(), "scx_flash", tunable=False).flags == ("none",)


def test_a_candidate_is_not_tried_twice(tmp_path):
    stage, _, _ = played(tmp_path, [(200, picked("scx_flash"))], Arena())
    assert stage.ledger.rejected == 3
