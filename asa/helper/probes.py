# SPDX-License-Identifier: GPL-2.0-only
"""The probes on behalf of a daemon without privileges: loaded here, read there.

Loads the programs once and gives out a descriptor of their counters by which nobody can write them. It settles how many
events are timed and which interrupts are networks', and reads no sample.

A descriptor that was handed out shows the counters for as long as the programs are attached, whoever holds it by then:
close the probes when the one who got it is no longer to see what the machine does.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asa.config import Ebpf
from asa.core.errors import SourceError
from asa.core.helper_api import ProbeFacts

if TYPE_CHECKING:  # a helper that nobody asks for probes loads none of their twelve modules
    from collectors.ebpf.collector import EbpfCollector
    from collectors.ebpf.reader import StatsMap

TICK_S = 1.0
"""How often `tick` has something to do."""

_REFUSAL_NS = 60_000_000_000  # what was lacking may be there by then, and not each call waits for another attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeHandover:
    """What a daemon gets. The descriptor stays with `Probes`; a message takes a copy of it."""

    map_fd: int
    facts: ProbeFacts


class Probes:
    """The programs, for as long as somebody is to read them."""

    def __init__(self, proc: Path, sys: Path, backend: Ebpf, *, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._proc, self._sys, self._backend = proc, sys, backend
        self._collector: EbpfCollector | None = None
        self._now_ns = now_ns
        self._handover: ProbeHandover | None = None
        self._refused: str | None = None
        self._refused_ns = self._due_ns = 0

    def open(self) -> ProbeHandover:
        """Load and attach, the first time. Raises SourceError, with the same reason again for a minute.

        It takes half a second, and with BCC, which compiles, up to a minute.
        """
        if self._refused is not None and self._now_ns() - self._refused_ns < _REFUSAL_NS:
            raise SourceError(source="ebpf", reason=self._refused)
        if self._handover is None:
            try:
                self._handover = self._opened()
            except SourceError as error:
                self._refused, self._refused_ns = error.reason, self._now_ns()
                self._hang_up()
                raise
            except BaseException:  # told to end meanwhile
                self._hang_up()
                raise
            self._due_ns = self._now_ns() + int(TICK_S * 1e9)
        return self._handover

    def _opened(self) -> ProbeHandover:
        from collectors.ebpf.collector import EbpfCollector
        from collectors.ebpf.sharing import read_only

        self._refused = None
        collector = self._collector = EbpfCollector(self._proc, self._sys, self._backend)
        collector.open()
        stats = collector.stats
        assert stats is not None  # noqa: S101  # or open had raised
        return ProbeHandover(map_fd=read_only(stats.stats_fd), facts=_facts(stats, collector.lacking))

    def _hang_up(self) -> None:
        if self._collector is not None:
            self._collector.close()
            self._collector = None

    def renew(self, backend: Ebpf) -> None:
        """New settings: what is loaded stays as it is until `close`; a refusal is no longer one."""
        self._backend, self._refused = backend, None

    def due_in_s(self) -> float | None:
        """When `tick` is wanted, in seconds from now; None: not at all."""
        if self._handover is None:
            return None
        return max(0.0, (self._due_ns - self._now_ns()) / 1e9)

    def tick(self) -> None:
        """Settle the sampling and, once a minute, the networks' interrupts. Does nothing before it is due."""
        now_ns = self._now_ns()
        if self._handover is None or self._collector is None or now_ns < self._due_ns:
            return
        self._due_ns = now_ns + int(TICK_S * 1e9)
        self._collector.tend()

    def close(self) -> None:
        """Detach everything: what was handed out counts no further. Closing twice is harmless; `open` may follow."""
        if self._handover is not None:
            os.close(self._handover.map_fd)
            self._handover = None
        self._refused = None
        self._hang_up()


def _facts(stats: "StatsMap", lacking: dict[str, str]) -> ProbeFacts:
    from collectors.ebpf import layout

    return ProbeFacts(
        backend=stats.backend.value,
        layout=layout.VERSION,
        cpus=stats.cpus,
        row_bytes=stats.row_bytes,
        fields=tuple(sorted(stats.fields)),
        lacking=dict(lacking),
    )
