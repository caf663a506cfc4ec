# SPDX-License-Identifier: GPL-2.0-only
"""Songs that programs play. What all programs have in common: test_programs.py."""

import random

from scenarios.programs.sound import song


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
