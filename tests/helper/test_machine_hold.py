# SPDX-License-Identifier: GPL-2.0-only
"""An administrator's hold lasts as long as was said, over restarts too, and a damaged file holds rather than not."""

import errno
import os
from unittest.mock import Mock

import pytest

from asa.core.errors import AsaError
from asa.helper.hold import MachineHold

NOON_NS = 1_792_670_400 * 10**9
MINUTE_NS = 60 * 10**9


class Wall:
    now_ns = NOON_NS

    def __call__(self):
        return self.now_ns


@pytest.fixture
def wall():
    return Wall()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "asa" / "hold.json"


def test_nothing_is_held_until_told(path, wall):
    hold = MachineHold(path, wall)
    assert (hold.active(), hold.until_ns()) == (False, None)
    hold.clear()  # which nobody has to ask about first
    assert not path.parent.exists()


def test_it_ends_by_itself_and_stays_over(path, wall):
    hold = MachineHold(path, wall)
    hold.set(600)
    wall.now_ns += 10 * MINUTE_NS - 1
    assert (hold.active(), hold.until_ns()) == (True, NOON_NS + 10 * MINUTE_NS)
    wall.now_ns += 1
    assert (hold.active(), hold.until_ns()) == (False, None)
    assert not path.exists()
    wall.now_ns -= 5 * MINUTE_NS  # the clock is set
    assert not hold.active()
    assert not MachineHold(path, wall).active()


def test_without_an_end(path, wall):
    hold = MachineHold(path, wall)
    hold.set(0)
    wall.now_ns += 10**18
    assert (hold.active(), hold.until_ns()) == (True, 0)
    hold.clear()
    assert not hold.active()
    assert not MachineHold(path, wall).active()


@pytest.mark.parametrize(("seconds", "until_ns"), [(0, 0), (60, NOON_NS + MINUTE_NS)])
def test_it_outlives_the_helper(path, wall, seconds, until_ns):
    MachineHold(path, wall).set(seconds)
    assert path.stat().st_mode & 0o777 == 0o644
    assert MachineHold(path, wall).until_ns() == until_ns


def test_one_that_ended_while_nobody_looked_is_over(path, wall):
    MachineHold(path, wall).set(60)
    wall.now_ns += MINUTE_NS
    assert not MachineHold(path, wall).active()
    assert not path.exists()


def test_the_later_word_counts(path, wall):
    hold = MachineHold(path, wall)
    for seconds in (0, 60, 2**32 - 1, 5):
        hold.set(seconds)
    assert hold.until_ns() == MachineHold(path, wall).until_ns() == NOON_NS + 5 * 10**9
    hold.set(2**32 - 1)
    assert MachineHold(path, wall).until_ns() == NOON_NS + (2**32 - 1) * 10**9


@pytest.mark.parametrize("seconds", [-1, 2**32])
def test_what_is_no_time_is_refused(path, wall, seconds):
    hold = MachineHold(path, wall)
    with pytest.raises(AsaError, match="is not accepted"):
        hold.set(seconds)
    assert not hold.active()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"until_ns": -1}', '{"until_ns": "x"}', '{"until_ns": 9223372036854775808}', "[" * 50_000]
)
def test_a_damaged_file_holds_and_is_named_once(path, wall, text):
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o644)
    said = []
    hold = MachineHold(path, wall, said.append)
    assert [hold.active() for _ in range(3)] == [True] * 3
    assert hold.until_ns() == 0
    assert len(said) == 1
    assert str(path) in said[0]
    assert len(said[0].splitlines()) == 1
    assert len(said[0]) < 400
    hold.clear()
    assert not hold.active()
    assert not MachineHold(path, wall).active()


def test_it_is_said_in_the_log(path, wall, capsys):
    path.mkdir(parents=True)
    assert MachineHold(path, wall).active()
    assert "until `sudo asa machine resume`" in capsys.readouterr().err


@pytest.mark.root
def test_a_strangers_file_holds_and_is_named(path, wall):
    MachineHold(path, wall).set(60)
    os.chown(path, 65534, 65534)
    said = []
    assert MachineHold(path, wall, said.append).until_ns() == 0
    assert "belongs to user 65534" in said[0]


def test_it_holds_though_it_cannot_be_written(path, wall, monkeypatch):
    path.parent.mkdir()
    hold = MachineHold(path, wall)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(AsaError, match="will not outlive a restart"):
        hold.set(60)
    assert hold.active()
    assert not path.exists()


def test_it_ends_though_the_file_stays(path, wall):
    hold = MachineHold(path, wall)
    hold.set(60)
    path.unlink()
    path.mkdir()
    with pytest.raises(AsaError, match="remove it by hand"):
        hold.clear()
    assert not hold.active()
    wall.now_ns += MINUTE_NS
    assert not hold.active()
