# SPDX-License-Identifier: GPL-2.0-only
"""Rankings from what was played: order, pairs, intervals, gaps in the plan, and what was not played itself."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.decision import EEVDF, SchedulerName, Workload
from calibration.scenarios.scores import Played, scores
from calibration.stages import ranking
from calibration.stages.ranking import Expected, fit, rank, spread, to_classes

A, B, C = (SchedulerName(name) for name in ("scx_a", "scx_b", "scx_c"))
WORK = {"archive": "compress_mb_per_s", "video": "frames_per_s"}


def trial(scheduler, repeat, click_ms, *, interactive="web", background="archive", copy=1, run="run"):
    """One whose score is made by the reaction to a click; its load is as fast as alone."""
    samples = {}
    if interactive:
        samples[interactive] = {name: [click_ms] * 3 for name in ("click_ms", "sort_ms", "scroll_frame_ms")}
    if background:
        samples[background] = {"compress_mb_per_s": [10.0], "extract_mb_per_s": [20.0]}
    name = f"{repeat}-{interactive}-{background}-{scheduler}-{copy}"
    return Played(
        trial=name,
        run=run,
        repeat=repeat,
        interactive=interactive,
        background=background,
        scheduler=scheduler,
        copy=copy,
        samples=samples,
    )


def alone(repeat, background="archive"):
    return trial(EEVDF, repeat, 0.0, interactive="", background=background)


def cells(**rows):
    """Blocks `b1`.. as keyword arguments, each {scheduler: score}."""
    return {("web+archive", "run", int(name[1:])): dict(row) for name, row in rows.items()}


def test_the_best_comes_first_with_its_gain_over_eevdf():
    played = [alone(repeat) for repeat in (1, 2, 3)]
    for repeat in (1, 2, 3):
        for scheduler, click_ms in ((EEVDF, 30.0 + repeat), (A, 20.0 + repeat), (B, 40.0 + repeat)):
            played.append(trial(scheduler, repeat, click_ms))
    found = rank(played)[Workload("web+archive")]
    assert [one.name for one in found] == [A, EEVDF, B]
    own = scores(played)
    for one in found:
        expected = [own["run", f"{repeat}-web-archive-{one.name}-1"].score for repeat in (1, 2, 3)]
        assert list(one.scores) == pytest.approx(expected)
        assert one.mean == pytest.approx(statistics.fmean(expected), abs=1e-3)
        assert one.low < one.mean < one.high
        assert one.blocks == tuple(("web+archive", "run", repeat) for repeat in (1, 2, 3))
    assert found[1].gain is None
    assert found[0].gain.mean == pytest.approx(statistics.fmean(found[0].scores) - statistics.fmean(found[1].scores))
    assert found[0].gain.low > 0.0 > found[2].gain.high


def test_an_application_alone_is_ranked_by_the_pairs_that_hold_it():
    played = [alone(1), alone(1, "video")]
    for scheduler, click_ms in ((EEVDF, 40.0), (A, 20.0)):
        played.append(trial(scheduler, 1, click_ms))
        played.append(trial(scheduler, 1, click_ms, interactive="office"))
    found = rank(played)
    assert set(found) == {"web+archive", "web", "archive"}  # the toy office measures nothing that has a score
    assert found[Workload("archive")][0].of == ("web+archive",)
    assert found[Workload("web+archive")][0].of == ()
    assert [one.name for one in found[Workload("web")]] == [A, EEVDF]


def test_what_was_played_itself_is_not_taken_from_pairs():
    played = [alone(1)]
    for scheduler, pair_ms, single_ms in ((EEVDF, 40.0, 20.0), (A, 20.0, 40.0)):
        played += [trial(scheduler, 1, pair_ms), trial(scheduler, 1, single_ms, background="")]
    found = rank(played)
    assert [one.name for one in found[Workload("web+archive")]] == [A, EEVDF]
    assert [one.name for one in found[Workload("web")]] == [EEVDF, A]
    assert found[Workload("web")][0].of == ()


def test_copies_shadows_and_the_word_live():
    played = [alone(1), trial(EEVDF, 1, 30.0), trial(EEVDF, 1, 500.0, copy=2)]
    played += [trial("shadow:scx_b", 1, 10.0), trial("live:scx_a", 1, 20.0)]
    found = rank(played)[Workload("web+archive")]
    assert [(one.name, one.runs) for one in found] == [(A, 1), (EEVDF, 1)]


def test_one_scheduler_alone_is_no_ranking():
    assert rank([alone(1), trial(EEVDF, 1, 30.0)]) == {}
    assert rank([]) == {}


def test_a_hard_block_is_not_held_against_who_played_it():
    # C played the hard block alone with EEVDF; by plain means it would be last
    easy, hard = {EEVDF: 0.8, A: 0.82, B: 0.78}, {EEVDF: 0.4, C: 0.5}
    found = ranking.ranking(cells(b1=easy, b2=easy, b3=hard), noise=0.01)
    assert [one.name for one in found] == [C, A, EEVDF, B]
    assert found[0].gain.mean == pytest.approx(0.1)


def test_of_equals_eevdf_comes_first():
    found = ranking.ranking(cells(b1={A: 0.5, EEVDF: 0.5, B: 0.5}), noise=0.01)
    assert [one.name for one in found] == [EEVDF, A, B]


rows = st.lists(
    st.fixed_dictionaries({name: st.floats(0.0, 1.0, width=32) for name in (EEVDF, A, B)}), min_size=1, max_size=6
)


@given(rows, st.floats(0.002, 0.3))
def test_where_all_played_all_the_order_is_that_of_the_means(found, noise):
    blocks = {("web+archive", "run", number): row for number, row in enumerate(found)}
    ranked = ranking.ranking(blocks, noise)
    means = {name: statistics.fmean(row[name] for row in found) for name in (EEVDF, A, B)}
    for better, worse in itertools.pairwise(ranked):
        assert means[better.name] >= means[worse.name] - 1e-6
    assert statistics.fmean(one.mean for one in ranked) == pytest.approx(statistics.fmean(means.values()), abs=1e-6)


@given(rows, st.lists(st.floats(-0.5, 0.5, width=32), min_size=6, max_size=6))
def test_what_all_of_a_block_have_in_common_drops_out(found, levels):
    names = (EEVDF, A, B)
    blocks = {("web+archive", "run", number): row for number, row in enumerate(found)}
    moved = {
        block: {name: value + level for name, value in row.items()}
        for (block, row), level in zip(blocks.items(), levels, strict=False)
    }
    one, other = fit(blocks, names, 0.05), fit(moved, names, 0.05)
    assert one.gains == pytest.approx(other.gains, abs=1e-6)
    assert one.covariance == pytest.approx(other.covariance)


def test_more_blocks_make_a_difference_surer_and_outweigh_what_was_expected():
    believed = {A: Expected(gain=-0.2, error=0.05)}
    errors, gains = [], []
    for count in (1, 4, 64):
        blocks = {("web+archive", "run", number): {EEVDF: 0.5, A: 0.6} for number in range(count)}
        gain, error = fit(blocks, (EEVDF, A), 0.05, believed).difference(A, EEVDF)
        gains.append(gain)
        errors.append(error)
    assert errors == sorted(errors, reverse=True)
    assert gains == sorted(gains)
    assert gains[-1] == pytest.approx(0.1, abs=0.01)


def test_the_spread_is_that_within_blocks():
    assert spread([]) == ranking.NOISE_FIRST
    assert spread([cells(b1={EEVDF: 0.1, A: 0.2})]) == ranking.NOISE_FIRST
    same = cells(b1={EEVDF: 0.1, A: 0.2}, b2={EEVDF: 0.6, A: 0.7})
    assert spread([same]) == pytest.approx(ranking.SCORE_FLOOR, abs=1e-3)
    # differences 0.1 and 0.3: each cell is 0.05 off, two of four are free to be
    assert spread([cells(b1={EEVDF: 0.1, A: 0.2}, b2={EEVDF: 0.6, A: 0.9})]) == pytest.approx(0.1, rel=0.02)


def test_a_table_has_eevdf_in_each_class_and_says_why():
    blocks = cells(b1={EEVDF: 0.5, A: 0.9}, b2={EEVDF: 0.5, A: 0.8}, b3={EEVDF: 0.5, A: 0.95})
    played = ranking.ranking(blocks, 0.05)
    without = ranking.ranking(cells(b1={A: 0.9, SchedulerName("scx_b:powersave"): 0.8}), 0.05, of=(Workload("x"),))
    found = to_classes({Workload("web+archive"): played, Workload("web"): without}, efficient=["scx_b:powersave"])
    first, second = found["web+archive"]
    assert (first.name, second.name, first.runs) == (A, EEVDF, 3)
    assert first.low < first.score < first.high <= 1.0
    assert first.why.startswith("score 0.88")
    assert "3 runs" in first.why
    assert "against eevdf" in first.why
    assert [entry.name for entry in found["web"]] == [A, "scx_b:powersave", EEVDF]
    assert [entry.efficient for entry in found["web"]] == [False, True, False]
    assert (found["web"][1].scheduler, found["web"][1].mode) == ("scx_b", "powersave")
    assert "taken from x" in found["web"][0].why
    assert found["web"][2].score is None
