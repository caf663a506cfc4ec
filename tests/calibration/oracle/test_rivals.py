# SPDX-License-Identifier: GPL-2.0-only
"""Who chooses is judged by whom he would have in force: small matrices whose answers are known."""

from dataclasses import replace

import pytest
from matrix_rounds import one, rounds

from calibration.oracle import choices, page, rivals
from calibration.oracle.enough import enough

LEADS = {
    "web+archive": {"scx_a": 10.0, "scx_lavd": -20.0},
    "web+disk": {"scx_a": -10.0, "scx_lavd": -20.0},
    "game+archive": {"scx_a": 0.0, "scx_lavd": 20.0},
    "game+disk": {"scx_a": 0.0, "scx_lavd": -20.0},
}


def matrix(busy=("archive",), **more):
    rows = rounds(LEADS, noise=0.001, itself=True, **more)
    return [replace(row, own_busiest_pct=99.0 if row.label.endswith(busy) else 40.0) for row in rows]


def line(rows, who):
    (found,) = [rivals.line(one, enough(rows).cell) for one in rivals.choosers(rows) if one.who == who]
    return found


def test_a_rule_takes_what_its_scheduler_took_and_nothing_where_it_leaves_the_kernels_own():
    found = line(matrix(), rivals.LOADER_RULE)
    assert found.gain.value == pytest.approx((-22.2 + 18.2) / 4, abs=0.2)  # 2 (b - a) / (a + b)
    assert (found.cells, found.lacking, found.rounds) == (4, 0, 16)
    assert found.behind_pct == 25.0
    assert (found.worse, found.better) == (1, 1)
    assert found.least[0] == ("vm120", "web+archive")


def test_profiles_are_of_games_alone():
    found = line(matrix(), rivals.PROFILES)
    assert found.gain.value == pytest.approx((18.2 - 22.2) / 4, abs=0.2)
    assert found.least[0] == ("vm120", "game+disk")


def test_a_die_takes_the_mean_of_all_and_the_kernels_own():
    found = line(matrix(), "a die")
    assert found.gain.value == pytest.approx((9.5 - 22.2 - 10.5 - 22.2 + 18.2 - 22.2) / 12, abs=0.2)
    assert (found.worse, found.better) == (None, None)


def test_a_table_stands_above_each_scheduler_and_noise_is_noise():
    rows = matrix()
    table, single = line(rows, "a table by class and machine"), line(rows, "always scx_a")
    assert table.gain.value == pytest.approx((9.5 + 18.2) / 4, abs=0.2)
    assert single.gain.value == pytest.approx((9.5 - 10.5) / 4, abs=0.2)
    assert (table.behind_pct, single.behind_pct) == (0.0, 25.0)
    itself = line(rows, "EEVDF against itself (noise)")
    assert (itself.worse, itself.better, itself.behind_pct) == (0, 0, 0.0)
    assert choices.judged(*[choices.gains(rows)] * 2, choices.Rule.ORACLE) == pytest.approx(
        {cell: sum(each) / len(each) for cell, each in taken(rows).items()}, abs=0.1
    )


def taken(rows):
    gains = choices.gains(rows)
    return rivals.taken(gains, choices.chosen(gains, choices.Rule.ORACLE))


def test_where_whom_it_chooses_was_not_played_a_rule_says_nothing():
    rows = [row for row in matrix() if (row.label, row.scheduler) != ("web+archive", "scx_lavd")]
    found = line(rows, rivals.LOADER_RULE)
    assert (found.cells, found.lacking) == (3, 1)
    unknown = [replace(row, own_busiest_pct=None) for row in rows]
    assert not [one for one in rivals.choosers(unknown) if one.who == rivals.LOADER_RULE]


def test_an_agent_that_was_played_is_judged_by_its_rounds_and_chosen_by_nobody():
    played = [one("vm120", "web+disk", 1, "agent", number, 0.7, "agent") for number in (1, 2, 3)]
    rows = [*matrix(), *played]
    assert choices.gains(rows) == choices.gains(matrix())
    found = line(rows, "agent")
    assert (found.cells, found.rounds, found.behind_pct, found.worse) == (1, 3, 100.0, 1)
    first = rivals.losses(rivals.choosers(rows), enough(rows).cell)[0]
    assert (first.who, first.cell, first.sure) == ("agent", ("vm120", "web+disk"), True)


def test_the_page_has_losses_before_gains():
    made = page.Made(command="made up", version="0", when_s=0.0, played=[], pictures=[])
    text = page.document(matrix(), made)
    assert text.index("## Where choosing loses") < text.index("## The answer") < text.index("## Who chooses best")
    assert "| always scx_lavd | 75 | 4 | 3 | web+" in text
    assert "| vm120 | web+archive | 0.600 | 4 of 3 | scx_a | +" in text


def test_with_fewer_rounds_than_three_per_cent_need_the_page_judges_nothing():
    loud = [replace(row, score=row.score + 0.05 * (-1) ** row.round) if row.against_itself else row for row in matrix()]
    made = page.Made(command="made up", version="0", when_s=0.0, played=[], pictures=[])
    text = page.document(loud, made)
    assert "Not judged: 16 rounds are kept, and a difference of 3 % needs 63: " in text
    assert "| always scx_lavd | 75 | 0 | 0 | web+" in text
    assert "| vm120 | web+archive | 0.600 | 4 of 6" in text
    assert not [one for one in rivals.losses(rivals.choosers(loud), enough(loud).cell) if one.sure]
