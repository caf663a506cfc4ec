# SPDX-License-Identifier: GPL-2.0-only
"""The loop without a model: what it tries, what it takes, what it learns, and where it stops."""

import pytest
from loop_bench import PROFILE, SLICE, Arena, repository, staged

from asa.core.errors import AsaError
from calibration.loop import controller, learning, page, story
from calibration.loop.planner import Nearest
from calibration.loop.story import Candidate, Learnt


def played(tmp_path, arena=None, learnt=(), **more):
    stage = staged(tmp_path, arena, **more)
    return stage, controller.run(stage, PROFILE, Nearest(repository(learnt=learnt), 1), 1, lambda _: None)


def test_the_best_is_tuned_and_confirmed_on_seeds_that_did_not_find_it(tmp_path):
    stage, found = played(tmp_path, Arena(slope=1.0))
    assert found.chosen.scheduler == "scx_flash"
    assert found.chosen.flags[SLICE] == pytest.approx(5_000, abs=2_500)
    assert found.race.verdict == "better"
    searched = {one.seed for one in found.plays if not one.by.startswith("confirmation")}
    confirmed = {one.seed for one in found.plays if one.by.startswith("confirmation")}
    assert searched.isdisjoint(confirmed)
    assert found.over_router_pct == pytest.approx(found.gain_pct - 1.0)
    assert stage.ledger.trials == len(found.plays) <= 36
    made = learning.policy(found, "2026-11-29", 1, "1.1.4")
    assert made.id == "scx_flash:agent_requests"
    assert made.provenance.seeds == tuple(sorted(confirmed))


def test_what_is_not_surely_better_changes_nothing(tmp_path):
    _, found = played(tmp_path, Arena(means=dict.fromkeys(("scx_bpfland", "scx_flash", "scx_simple"), -1.0), slope=2.0))
    assert found.chosen is None
    assert found.gain_pct == 0.0
    assert "no: it is not surely better" in page.page(found, "today")


def test_a_stopped_loop_plays_nothing_twice(tmp_path):
    arena = Arena(slope=1.0)
    _, first = played(tmp_path, arena)
    count = len(arena.played)
    assert len(set(arena.played)) == count
    _, again = played(tmp_path, arena)
    assert len(arena.played) == count
    assert (again.chosen, again.race) == (first.chosen, first.race)


def test_the_budget_ends_a_search_and_its_confirmation_is_kept_back(tmp_path):
    stage, found = played(tmp_path, trials=7, kept_back=3)
    assert stage.ledger.trials <= 7
    assert found.chosen is not None
    assert found.race.pairs == 3
    now = iter(range(0, 100_000, 600))
    _, found = played(tmp_path / "late", minutes=15.0, clock=lambda: float(next(now)))
    assert "15 minutes are over" in found.stopped


def test_what_failed_or_was_worse_is_learnt_and_not_tried_again(tmp_path):
    arena = Arena(broken=("scx_bpfland",))
    _, found = played(tmp_path, arena)
    lines = learning.learnt(found, "2026-11-29")
    told = {str(one.candidate): one for one in lines}
    assert (told["scx_bpfland"].verdict, told["scx_bpfland"].why) == ("failed", "it stalled")
    assert told[str(found.chosen)].verdict == "better"
    path = tmp_path / "learnt.jsonl"
    story.write(path, lines)
    assert story.read(path) == lines
    arena = Arena()
    played(tmp_path / "next", arena, learnt=lines)
    names = [name for name, _ in arena.played]
    assert "scx_bpfland" not in names
    assert names[0] == str(found.chosen)  # the nearest profile's comes first


def test_a_far_profile_says_nothing(tmp_path):
    far = PROFILE.__class__(
        **{name: getattr(PROFILE, name) for name in PROFILE.__struct_fields__} | {"use": "messages"}
    )
    line = Learnt(
        day="2026-11-29",
        profile=far,
        candidate=Candidate(scheduler="scx_flash"),
        verdict="worse",
        gain_pct=-9.0,
        trials=2,
        why="",
    )
    arena = Arena()
    played(tmp_path, arena, learnt=[line])
    assert "scx_flash" in {name for name, _ in arena.played}


def test_all_that_fails_is_told(tmp_path):
    _, found = played(tmp_path, Arena(broken=("scx_bpfland", "scx_flash", "scx_simple", "scx_flash:calm")))
    assert (found.best, found.chosen, found.race) == (None, None, None)
    assert page.as_plain(found, None)["gain_pct"] == 0.0
    assert "it stalled" in page.page(found, "today")


def test_a_winner_that_fails_in_its_confirmation_is_not_taken(tmp_path):
    class Fails(Arena):
        def gain(self, candidate, seed):
            return self.__class__.__base__(broken=("scx_flash",) if seed > 1_000 else ()).gain(candidate, seed)

    _, found = played(tmp_path, Fails())
    assert found.chosen is None
    assert "failed in its confirmation: it stalled" in found.stopped


def test_other_files_are_refused(tmp_path):
    (tmp_path / "trials.jsonl").write_text("{}\n")
    with pytest.raises(AsaError, match="holds no trials of the loop"):
        played(tmp_path)
    (tmp_path / "learnt.jsonl").write_text("nonsense\n")
    with pytest.raises(AsaError, match="holds nothing that the loop learnt"):
        story.read(tmp_path / "learnt.jsonl")
