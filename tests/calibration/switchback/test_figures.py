# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons within a run come out as they were planted; noise alone is told as noise; carry-over is found."""

import math
import statistics

import msgspec
import pytest
from scipy import stats
from switchback_runs import SLOW_MS, run, samples

from asa.core.decision import EEVDF
from calibration.switchback.carry import carry_over
from calibration.switchback.figures import (
    POWER,
    SCORE,
    block_figure,
    change_pct,
    changes,
    own_score,
    paired_blocks,
    repeats_for,
)
from calibration.switchback.probes import MAIN, MAIN_PROBE, PROBES, quantile
from scenarios.catalogue import BACKGROUND, INTERACTIVE
from scenarios.energy import Energy


def by_probe(found, scheduler="scx_a"):
    return {one.probe: one for one in found if one.scheduler == scheduler}


def test_a_scheduler_that_halves_the_waits_is_better_by_that_and_the_kernels_own_is_not():
    found = changes(run(times={"scx_a": 0.5}))
    key = by_probe(found)["office.key_ms_p95"]
    assert key.pct == pytest.approx(100.0 * 2 * (0.5 - 1.0) / 1.5, abs=4.0)
    assert key.low <= -66.7 <= key.high
    assert (key.verdict, key.rounds, key.unit) == ("better", 6, "ms")
    assert key.own == pytest.approx(2.0 * key.value, rel=0.05)
    rate = by_probe(found)["archive.compress_mb_per_s"]
    assert (rate.verdict, rate.pct) == ("better", pytest.approx(change_pct(4.0, 8.0)))
    score = by_probe(found)[SCORE]
    assert score.verdict == "better"
    assert 0.0 < score.own < score.value < 1.0
    itself = by_probe(found, EEVDF)["office.key_ms_p95"]
    assert itself.against_itself
    assert itself.verdict == ""
    assert abs(itself.pct) < 5.0


def test_a_load_that_grows_evenly_is_no_schedulers_fault():
    """The first and the last block of a round together are the middle of it."""
    grown = run(("scx_a",), rounds=5, drift=0.2, noise=0.001)
    key = by_probe(changes(grown))["office.key_ms_p50"]
    assert abs(key.pct) < 0.5
    first_alone = change_pct(SLOW_MS, SLOW_MS * 1.2)
    assert first_alone > 15.0


def test_a_round_that_lacks_a_side_is_out_and_the_others_count():
    whole = run()
    broken = [
        msgspec.structs.replace(one, trouble="was ended by signal 9") if (one.round, one.copy) == (2, 2) else one
        for one in whole.blocks
    ]
    pairs = paired_blocks(msgspec.structs.replace(whole, blocks=tuple(broken)))
    assert {key: len(sides) for key, sides in pairs.items()} == {("scx_a", 1): 5, (EEVDF, 3): 5}


def test_two_rounds_give_a_change_and_no_interval():
    key = by_probe(changes(run(rounds=2)))["office.key_ms_p50"]
    assert (key.low, key.high, key.scatter_pct, key.verdict) == (None, None, None, "")
    assert changes(run(blocks=())) == []


def test_of_a_mean_the_intervals_are_students():
    made = run(("scx_a",), rounds=5, noise=0.02)
    watts = {one.round: 10.0 + (one.round * one.round) % 3 for one in made.blocks if one.scheduler == "scx_a"}
    blocks = [
        msgspec.structs.replace(one, energy=Energy(busy_s=[], joules=1.0, watts=watts[one.round]))
        if one.scheduler == "scx_a"
        else one
        for one in made.blocks
    ]
    power = by_probe(changes(msgspec.structs.replace(made, blocks=tuple(blocks))))[POWER]
    # nearly so: a change is no linear figure of the mean
    single = [change_pct(10.0, one) for one in watts.values()]
    low, high = stats.t.interval(0.95, 4, loc=statistics.fmean(single), scale=stats.sem(single))
    assert (power.low, power.high) == (pytest.approx(low, abs=0.3), pytest.approx(high, abs=0.3))
    assert (power.own, power.unit) == (10.0, "W")


def test_a_change_is_as_large_whichever_is_called_the_first():
    assert change_pct(1.0, 2.0) == -change_pct(2.0, 1.0)
    assert change_pct(0.0, 0.0) == 0.0
    assert change_pct(0.0, 3.0) == 200.0


def test_repeats_are_those_of_a_t_test_of_pairs_that_finds_four_of_five():
    assert repeats_for(0.0) == 3
    needed = repeats_for(6.0)
    assert needed == pytest.approx((1.96 + 0.8416) ** 2 * 4.0, abs=3.0)  # of large samples, and a little more
    for count in (needed, needed - 1):
        lambda_ = 3.0 / 6.0 * math.sqrt(count)
        found = 1.0 - stats.nct.cdf(stats.t.ppf(0.975, count - 1), count - 1, lambda_)
        assert (found > 0.79) is (count == needed) or found == pytest.approx(0.8, abs=0.015)
    assert repeats_for(1e9) is None


def test_what_is_left_of_the_scheduler_before_is_found_and_named():
    names = ("scx_a", "scx_b", "scx_c")
    left = run(names, rounds=8, after={"scx_b": 1.3})
    found = carry_over(left.blocks, block_figure(left))
    assert found.p < 0.001
    assert (found.after, found.pct) == ("scx_b", pytest.approx(28.0, abs=8.0))
    assert carry_over(run(names, rounds=1).blocks, block_figure(left)).p is None
    quiet = [carry_over(one.blocks, block_figure(one)).p for one in (run(names, rounds=6, seed=s) for s in range(20))]
    assert sum(p < 0.05 for p in quiet) <= 4
    assert carry_over((), block_figure(left)).blocks == 0


def test_the_pause_before_a_round_counts_as_what_went_before():
    slow = run(("scx_a", "scx_b"), rounds=8, after={"": 1.5})
    assert carry_over(slow.blocks, block_figure(slow)).after == "the pause"


def test_the_kernels_own_score_is_of_its_blocks():
    assert own_score(run(times={"scx_a": 3.0})) == pytest.approx(own_score(run()), abs=0.02)
    assert own_score(run(blocks=())) is None


def test_every_application_has_probes_and_each_interactive_one_a_main_figure():
    assert set(PROBES) == {*INTERACTIVE, *BACKGROUND}
    assert set(MAIN) == set(MAIN_PROBE) == set(INTERACTIVE)
    for name, probes in PROBES.items():
        assert len({one.key for one in probes}) == len(probes) > 0
        if name in MAIN_PROBE:
            assert MAIN_PROBE[name] in {one.key for one in probes}
            assert set(MAIN[name]) <= {one.metric for one in probes}


def test_probes_are_what_a_hand_makes_of_the_samples():
    probes = {one.key: one for known in PROBES.values() for one in known}
    keys = [float(value) for value in range(1, 1001)]
    assert probes["office.key_ms_p99.9"].figure(keys, {}) == pytest.approx(999.001)
    assert probes["office.key_ms_p99.9"].figure(keys[:200], {}) is None  # too few for one in a thousand
    assert probes["office.key_ms_p95"].figure(keys, {}) == pytest.approx(quantile(keys, 0.95))
    frames = [10.0] * 95 + [40.0] * 5
    given = {"frame-us": 10_000}
    assert probes["game.late_pct"].figure(frames, given) == 5.0
    assert probes["game.late_ms_p50"].figure(frames, given) == 0.0
    assert probes["game.late_ms_p99"].figure(frames, given) == 30.0
    assert probes["web.late_ms_p99"].figure(frames, given) == pytest.approx(40.0 - 1000 / 60)
    assert probes["audio.block_ms_p50"].figure([50.0] * 9, {"period-us": 12_000}) == 6.0
    assert probes["audio.underruns_per_min"].figure([0.0, 60.0], {}) == 30.0
    assert probes["video.frames_per_s"].figure([], {}) is None


def test_a_side_that_measured_too_little_has_no_score_and_the_rest_is_told():
    made = run(("scx_a",), rounds=3)
    blocks = [
        msgspec.structs.replace(one, series=[samples("compress_mb_per_s", [4.0], "archive")])
        if one.scheduler == "scx_a"
        else one
        for one in made.blocks
    ]
    found = by_probe(changes(msgspec.structs.replace(made, blocks=tuple(blocks))))
    assert SCORE not in found
    assert "office.key_ms_p50" not in found
    assert found["archive.compress_mb_per_s"].pct == 0.0
