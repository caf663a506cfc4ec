# SPDX-License-Identifier: GPL-2.0-only
"""Programs to sound: what the seed draws, and each for some seconds."""

import random
from pathlib import Path

import pytest
from playing import works

from asa.core.kinds import Kind
from scenarios.application import Place, Role, Tier
from scenarios.programs.sound import PROGRAMS, song

BY_NAME = {one.name: one for one in PROGRAMS}
PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)


@pytest.mark.apps
@pytest.mark.parametrize("name", BY_NAME)
def test_works_and_leaves_nothing(name, tmp_path):
    works(BY_NAME[name], tmp_path, cpu_s=0.01)


@pytest.mark.parametrize("name", BY_NAME)
def test_seeds_make_sessions_of_all_degrees_that_differ(name):
    one = BY_NAME[name]
    drawn = [one.draw(random.Random(seed), PLACE) for seed in range(100)]  # noqa: S311
    assert one.kind is Kind.SOUND
    assert one.role is Role.INTERACTIVE
    assert drawn[3] == one.draw(random.Random(3), PLACE)  # noqa: S311
    assert {each["degree"] for each in drawn} == {"light", "half", "full"}
    assert len({repr(each) for each in drawn}) > 90


def test_a_song_is_a_midi_file_with_no_more_voices_than_asked_for():
    data = song(random.Random(1), notes_per_s=10, voices=3, seconds=20)  # noqa: S311
    assert data[:4] == b"MThd"
    assert data[14:18] == b"MTrk"
    assert int.from_bytes(data[18:22], "big") == len(data) - 22
    assert data.endswith(b"\xff\x2f\0")
    held = most = 0
    place = 22 + 7 + 8 * 3  # after the tempo and the instruments
    while data[place + 1] != 0xFF:
        place += 1 if data[place] < 0x80 else 2
        held += 1 if data[place] & 0xF0 == 0x90 else -1
        most = max(most, held)
        place += 3
    assert most == 3
