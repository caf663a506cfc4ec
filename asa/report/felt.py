# SPDX-License-Identifier: GPL-2.0-only
"""What was seen, heard and got done over stretches of time, out of the counters of two samples. Reads no file."""

from asa.core.sample import FeltCounters, RawSample
from asa.report.figures import Felt
from collectors.rates.arithmetic import growth
from collectors.rates.histogram import grown


def pieces(sample: RawSample) -> int | None:
    """Tasks that ended and requests of disks that were completed, a counter; None: nobody counts one of them."""
    ended = None if sample.probes is None else sample.probes.exits
    if ended is None or sample.disk is None:
        return None
    return ended + sample.disk.reads + sample.disk.writes


class FeltGrowth:
    """What the counters grew by over one or several stretches; what is unknown in one of them is left out of it."""

    __slots__ = ("_drawn_ns", "_frames", "_missed", "_pieces", "_pieces_ns", "_presses", "_presses_ns", "_underruns")

    def __init__(self) -> None:
        self._frames = self._missed = self._drawn_ns = self._presses = self._presses_ns = 0
        self._pieces = self._pieces_ns = 0
        self._underruns: int | None = None

    def add(self, old: FeltCounters | None, new: FeltCounters | None) -> None:
        """Take in the stretch between two samples."""
        if old is None or new is None:
            return
        gaps, missed = grown(old.flip_gaps, new.flip_gaps), growth(old.missed_frames, new.missed_frames)
        drawn_ns = growth(old.drawn_ns, new.drawn_ns)
        if gaps is not None and missed is not None and drawn_ns is not None:
            self._frames += sum(gaps)
            self._missed += missed
            self._drawn_ns += drawn_ns
        presses, waited_ns = growth(old.input_flips, new.input_flips), growth(old.input_flip_ns, new.input_flip_ns)
        if presses is not None and waited_ns is not None:
            self._presses += presses
            self._presses_ns += waited_ns
        underruns = growth(old.sound_underruns, new.sound_underruns)
        if underruns is not None:
            self._underruns = (self._underruns or 0) + underruns

    def add_pieces(self, old: int | None, new: int | None, time_ns: int) -> None:
        """Take in what came to its end in a stretch of so long."""
        done = growth(old, new)
        if done is not None:
            self._pieces += done
            self._pieces_ns += time_ns

    def felt(self) -> Felt:
        """All of it together."""
        due = self._frames + self._missed
        return Felt(
            frames=self._frames or None,
            frames_missed_share=self._missed / due if self._frames else None,
            frame_interval_mean_ms=self._drawn_ns / self._frames / 1e6 if self._frames else None,
            sound_underruns=self._underruns,
            input_to_flip_mean_ms=self._presses_ns / self._presses / 1e6 if self._presses else None,
            pieces_per_s=self._pieces * 1e9 / self._pieces_ns if self._pieces_ns else None,
        )
