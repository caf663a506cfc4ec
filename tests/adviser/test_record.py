# SPDX-License-Identifier: GPL-2.0-only
"""What an adviser's word counts by how often it was right, and what is kept."""

import pytest

from asa.adviser import record
from asa.adviser.record import Record, Said
from asa.core.errors import InputError
from asa.core.kinds import Kind

RIGHT, WRONG = record.score(0.9, right=True), record.score(0.9, right=False)


def test_a_word_begins_with_half_and_grows_with_what_is_right():
    assert record.weight(()) == 0.5
    assert record.weight((RIGHT,) * 10) == pytest.approx(1 - (0.75 + 0.1) / 16 / 0.25)
    assert record.weight((RIGHT,) * 100) > 0.9


def test_who_is_no_better_than_a_coin_counts_nothing():
    assert record.weight((0.25,) * 100) < 0.05
    assert record.weight((WRONG,)) == pytest.approx(1 - (0.75 + 0.81) / 7 / 0.25)
    assert record.weight((WRONG, WRONG)) == 0.0
    assert record.weight((RIGHT, WRONG) * 50) == 0.0


def test_only_the_last_count():
    scores = ()
    for _ in range(120):
        scores = record.judged(scores, WRONG)
    for _ in range(100):
        scores = record.judged(scores, RIGHT)
    assert scores == (RIGHT,) * 100


def test_one_of_thirteen_may_be_wrong():
    assert record.passed((RIGHT,) * 12, 13) is None
    assert record.passed((RIGHT,) * 12 + (WRONG,), 13) is True
    assert record.passed((RIGHT,) * 11 + (WRONG,) * 2, 13) is False
    assert record.passed((record.score(0.5, right=True),) * 13, 13) is False  # it says that it does not know


def test_answers_are_kept_for_days_and_not_more_than_so_many():
    answers = {f"{number:016x}": Said(kind=Kind.RENDER, sure=0.9, day=number // 10) for number in range(700)}
    found = record.fresh(Record(answers=answers, examined=(0.1,), examined_day=1), 70, 60)
    assert len(found.answers) == record.MOST_ANSWERS
    assert {one.day for one in found.answers.values()} == set(range(20, 70))
    assert (found.examined, found.examined_day) == ((), 0)
    assert record.fresh(found, 10, 60).answers == {}  # the clock was set back


def test_another_server_or_model_begins_anew_and_the_table_goes_on():
    one = Record(url="http://127.0.0.1:1/v1", model="a", way="plain", server=(0.1,), table=(0.2,), examined=(0.1,))
    assert record.of_server(one, one.url, "") is one
    assert record.of_server(one, one.url, "b") == Record(url=one.url, model="b", table=(0.2,))
    assert record.of_server(one, "http://127.0.0.1:2/v1", "") == Record(url="http://127.0.0.1:2/v1", table=(0.2,))


def test_it_comes_back_from_its_file_and_a_damaged_one_is_told(tmp_path):
    path = tmp_path / "adviser.json"
    assert record.load(path) == Record()
    kept = Record(url="u", answers={"0" * 16: Said(kind=None, sure=0.5, day=3)}, server=(0.25,))
    record.save(path, kept)
    assert record.load(path) == kept
    path.write_text('{"server": [7]}')
    with pytest.raises(InputError, match="an adviser's record"):
        record.load(path)
