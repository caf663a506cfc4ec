# SPDX-License-Identifier: GPL-2.0-only
"""One scheduler a guest: it has all turns, is compared with the kernel's own guest, and confirms or does not."""

import msgspec
import pytest
from switchback_runs import block, run

from asa.core.decision import EEVDF
from asa.core.errors import ModelError
from calibration.oracle import rounds
from calibration.switchback import benchmark, classic, design, play, tables
from scenarios import catalogue
from scenarios.lab import machines

WINDOWS = 6


def whole(name, key_ms, seed=1, windows=WINDOWS, mb_per_s=4.0):
    """A guest under one scheduler throughout; keys take so long, a little more each window."""
    made = run((name,), seed=seed)
    (order,) = design.throughout(name, windows)
    blocks = [block(order, at, 1, [key_ms * (1.0 + 0.01 * at)] * 40, mb_per_s, name) for at in range(windows)]
    orders = msgspec.structs.replace(made.orders, classic=True, part=f"classic-{name}", rounds=windows)
    return msgspec.structs.replace(made, orders=orders, blocks=tuple(blocks))


def test_a_scheduler_has_all_turns_of_its_guest_and_nobody_comes_between(tmp_path):
    (order,) = design.throughout("scx_a", 3)
    assert [(turn.scheduler, turn.copy) for turn in order] == [("scx_a", 1), ("scx_a", 2), ("scx_a", 3)]
    options = play.Options(
        machines=(machines.load("vm120"),),
        scenarios=catalogue.find("office+archive"),
        schedulers=(EEVDF, "scx_a"),
        rounds=WINDOWS,
        part="classic",
        classic=True,
    )
    works = play.planned(options, tmp_path)
    assert [work.id for work in works] == [
        "vm120-office+archive-1-classic-eevdf",
        "vm120-office+archive-1-classic-scx_a",
    ]
    assert [work.orders.schedulers for work in works] == [(EEVDF,), ("scx_a",)]
    assert all(work.orders.classic and work.orders.rounds == WINDOWS for work in works)


def test_the_same_difference_in_guests_of_their_own_confirms_one_in_turns():
    turns = run(times={"scx_a": 0.5})
    found = classic.beside([turns, whole(EEVDF, 60.0), whole("scx_a", 30.0, mb_per_s=8.0)])
    by_probe = {one.turns.probe: one for one in found}
    key = by_probe["office.key_ms_p95"]
    assert key.pct == pytest.approx(100.0 * 2 * (0.5 - 1.0) / 1.5, abs=1.0)
    assert 0.0 < key.half_pct < 5.0
    assert (key.within, key.same_sign) == (True, True)
    assert set(by_probe) == {"office.key_ms_p95", "score"}
    value, words = classic.confirmed([turns, whole(EEVDF, 60.0), whole("scx_a", 30.0, mb_per_s=8.0)])
    assert (value, words) == (100.0, "2 of 2 lie within both intervals; 2 of 2 that are sure have one sign")


def test_another_difference_does_not_and_is_named():
    turns = run(times={"scx_a": 0.5})
    value, words = classic.confirmed([turns, whole(EEVDF, 60.0), whole("scx_a", 90.0, mb_per_s=2.0)])
    assert value == 0.0
    assert words.startswith("0 of 2 lie within both intervals; 0 of 2 that are sure have one sign; not vm120-office+")
    assert "scx_a office.key_ms_p95 -6" in words
    assert "and +40.0 %" in words


def test_what_is_of_another_seed_or_has_too_few_windows_confirms_nothing():
    turns = run(times={"scx_a": 0.5})
    for others in (
        [whole(EEVDF, 60.0), whole("scx_a", 30.0, seed=2)],
        [whole(EEVDF, 60.0), whole("scx_a", 30.0, windows=2)],
        [whole("scx_a", 30.0)],
    ):
        with pytest.raises(ModelError, match="asa lab bench matrix --step small,classic"):
            classic.confirmed([turns, *others])


def test_a_guest_of_one_scheduler_is_in_no_other_figure(tmp_path):
    turns = [run((EEVDF, "scx_a"), rounds=5, seed=seed, times={"scx_a": 0.7}) for seed in (1, 2)]
    guests = [whole(EEVDF, 600.0), whole("scx_a", 42.0)]
    assert rounds.of_runs([*turns, *guests]) == rounds.of_runs(turns)
    names = [name for name in benchmark.EvaluationFigure if name is not benchmark.EvaluationFigure.EVIDENCE]
    told = []
    for kept in (turns, [*turns, *guests]):
        tables.write(tmp_path, kept)
        counts = benchmark.counts(tmp_path, results=tmp_path / "none")
        told.append({str(name): _said(counts[name]) for name in names})
    alone, both = told
    classic_name = str(benchmark.EvaluationFigure.CLASSIC)
    assert "no classic run" in alone.pop(classic_name)
    assert "within both intervals" in both.pop(classic_name)[1]
    assert alone == both


def _said(count):
    try:
        return count()
    except ModelError as error:
        return str(error)
