# SPDX-License-Identifier: GPL-2.0-only
"""The Collector over probes that the root helper loaded: reads their counters by a descriptor that it handed over.

Needs no privilege, loads nothing, and cannot write the map: how many events are timed and which interrupts are
networks' the helper settles. It asks nobody by itself but through the `fetch` it was given.
"""

import os
from collections.abc import Callable

from asa.config import Ebpf
from asa.core.errors import SourceError
from asa.core.helper_api import ProbeFacts
from collectors.ebpf import layout
from collectors.ebpf.processes import Slots
from collectors.ebpf.reader import SLOTTED, SOURCE, Table, rows_of, slots_of, touch_heap
from collectors.ebpf.sharing import CopiedRows

_MOST_CPUS = 1 << 16  # as in hooks.possible_cpus
_PAUSE_READS = 30  # after a fetch that failed: what failed for good would else be asked for in each tick

Fetch = Callable[[], tuple[int, ProbeFacts]]
"""Gives a descriptor, which is then the collector's, and what it is. Raises SourceError."""


class RemoteProbes:
    """Fills `probes`, `process_bursts` and `felt`.

    What is not there yet, or no longer, is fetched by a later read: `open` never fails.
    """

    name = SOURCE

    def __init__(self, fetch: Fetch) -> None:
        self.lacking: dict[str, str] = {}
        self._fetch = fetch
        self._rows: CopiedRows | None = None
        self._views: list[memoryview] = []
        self._processes: Slots | None = None
        self._table = Table(frozenset())
        self._backend = Ebpf.OFF
        self._pause = 0  # reads before the next fetch
        self._refused = ""  # why the last one failed
        self._was_lost = False
        self._anchors = touch_heap()

    @property
    def backend(self) -> Ebpf:
        """Which backend the helper loaded; OFF: nothing can be read now."""
        return self._backend

    def open(self) -> None:
        """Fetch; a helper that is not there yet is in `lacking`. Never raises."""
        try:
            self._take()
        except SourceError as error:
            self.lacking = {SOURCE: error.reason}

    def read(self) -> dict[str, object]:
        """Sums over all CPUs since the helper loaded the programs. Raises SourceError while there are none to read.

        Nothing in the first read of another map, which counts from 0 on: no rate may span two maps.
        """
        if self._rows is None:
            if self._pause:
                self._pause -= 1
                raise SourceError(source=SOURCE, reason=self._refused)
            self._take()
            if self._was_lost:
                return {}
        assert self._rows is not None  # noqa: S101  # or _take had raised
        self._rows.copy()
        sums = self._table.sums(self._views)
        return {
            "probes": self._table.counters(sums),
            "felt": self._table.felt(sums),
            "process_bursts": None if self._processes is None else self._processes.read(),
        }

    def lost(self) -> None:
        """The helper has gone, and its programs with it. The next read fetches anew."""
        self._was_lost = self._was_lost or self._rows is not None
        self.close()
        self.again()

    def again(self) -> None:
        """The helper is there (again): what was refused may be fetched by the next read."""
        self._pause = 0

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        self._views = []
        self._processes = None
        self._backend = Ebpf.OFF

    def _take(self) -> None:
        try:
            descriptor, facts = self._fetch()
            rows = _rows(descriptor, facts)
        except SourceError as error:
            self._pause, self._refused = _PAUSE_READS, error.reason
            raise
        self._rows = rows
        self._views = rows_of(rows.words, facts.cpus)
        slots = slots_of(rows.words, facts.cpus)
        self._processes = Slots(self._views, slots) if SLOTTED in facts.fields else None
        self._table = Table(frozenset(facts.fields))
        self._backend = Ebpf(facts.backend)
        self.lacking = dict(facts.lacking)


def _rows(descriptor: int, facts: ProbeFacts) -> CopiedRows:
    """The map behind a descriptor, which is closed when it does not fit. Raises SourceError."""
    reason = ""
    if facts.layout != layout.VERSION or facts.row_bytes != layout.ROW_BYTES:
        versions = f"{facts.layout:#018x}, not {layout.VERSION:#018x}"
        reason = f"the helper's probes have another layout: {versions}; both must be of one version: restart asa-helper"
    elif not 1 <= facts.cpus <= _MOST_CPUS or facts.backend not in (Ebpf.CORE, Ebpf.BCC):
        reason = f"the helper's probes: not understood: {facts.cpus!r} CPUs, backend {facts.backend!r}"
    if reason:
        os.close(descriptor)
        raise SourceError(source=SOURCE, reason=reason)
    return CopiedRows(descriptor, cpus=facts.cpus, row_bytes=facts.row_bytes)
