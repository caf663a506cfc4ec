# SPDX-License-Identifier: GPL-2.0-only
"""What the tracks of the audio remix play: raw mono 16-bit files of notes and beats, half a minute each."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

INSTRUMENTS = ("bass", "drums", "lead", "organ", "pluck", "voice")

_RATE_HZ = 48_000
_LENGTH_S = 30
_SEED = 20

# Instrument -> lowest note in Hz, seconds from note to note, seconds that one sounds, number of harmonics.
_KINDS = {
    "bass": (55.0, 0.5, 0.6, 6),
    "lead": (440.0, 0.25, 0.3, 12),
    "organ": (220.0, 2.0, 2.2, 9),
    "pluck": (196.0, 0.25, 0.8, 16),
    "voice": (150.0, 1.0, 1.1, 20),
}
_SCALE = (0, 2, 4, 7, 9, 12, 14)


def write_tracks(folder: Path) -> None:
    """`INSTRUMENT.raw` for each; always the same."""
    rng = np.random.default_rng(_SEED)
    for name in INSTRUMENTS:
        sound = _beats(rng) if name == "drums" else _notes(name, rng)
        loudest = float(np.abs(sound).max())
        (folder / f"{name}.raw").write_bytes((sound / loudest * 30_000).astype("<i2").tobytes())


def _notes(name: str, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    lowest_hz, step_s, sounds_s, harmonics = _KINDS[name]
    sound = np.zeros(_RATE_HZ * _LENGTH_S)
    at = np.arange(int(sounds_s * _RATE_HZ)) / _RATE_HZ
    fade = np.minimum(1.0, at / 0.01) * np.exp(-3 * at / sounds_s)
    for start_s in np.arange(0, _LENGTH_S - sounds_s, step_s):
        hertz = lowest_hz * 2 ** (int(rng.choice(_SCALE)) / 12)
        note = sum(np.sin(2 * np.pi * hertz * part * at) / part for part in range(1, harmonics + 1))
        start = int(start_s * _RATE_HZ)
        sound[start : start + len(at)] += note * fade
    return sound


def _beats(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    sound = np.zeros(_RATE_HZ * _LENGTH_S)
    at = np.arange(int(0.2 * _RATE_HZ)) / _RATE_HZ
    drum = np.sin(2 * np.pi * 60 * at * np.exp(-8 * at)) * np.exp(-15 * at)
    for beat in range(int(_LENGTH_S / 0.25) - 1):
        start = int(beat * 0.25 * _RATE_HZ)
        hat = rng.standard_normal(len(at)) * np.exp(-60 * at) * 0.4
        sound[start : start + len(at)] += (drum if beat % 2 == 0 else 0.0) + hat
    return sound
