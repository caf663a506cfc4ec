# SPDX-License-Identifier: GPL-2.0-only
"""Sound cards' streams in /proc/asound."""

from collectors.hints import sound

RUNNING = "state: RUNNING\nowner_pid   : 1234\ntrigger_time: 77.1\n"


def stream(proc, name, state="closed\n", card=0):
    folder = proc / f"asound/card{card}/{name}/sub0"
    folder.mkdir(parents=True)
    (folder / "status").write_text(state)
    return folder / "status"


def test_who_plays_and_who_records(tmp_path):
    assert sound.in_use(tmp_path) == (None, None)
    speaker = stream(tmp_path, "pcm0p")
    assert sound.in_use(tmp_path) == (False, None)
    stream(tmp_path, "pcm3p", card=1)
    microphone = stream(tmp_path, "pcm0c", card=1)
    speaker.write_text(RUNNING)
    assert sound.in_use(tmp_path) == (True, False)
    speaker.write_text("state: SETUP\n")
    microphone.write_text(RUNNING)
    assert sound.in_use(tmp_path) == (False, True)


def test_what_cannot_be_read_is_silent(tmp_path):
    stream(tmp_path, "pcm0p").unlink()
    (tmp_path / "asound/pcm").write_text("00-00: ALC : playback 1\n")
    (tmp_path / "asound/cards").mkdir()
    assert sound.in_use(tmp_path) == (False, None)


def test_a_wall_of_cards_is_looked_at_in_part(tmp_path, monkeypatch):
    for card in range(sound.MOST_STREAMS + 20):
        stream(tmp_path, "pcm0p", card=card)
    looked = []
    monkeypatch.setattr(sound, "_runs", looked.append)
    sound.in_use(tmp_path)
    assert len(looked) == sound.MOST_STREAMS
