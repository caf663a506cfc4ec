# SPDX-License-Identifier: GPL-2.0-only
"""The Collector over the eBPF programs: picks a backend, reads its rows, keeps the networks' interrupts up to date."""

from pathlib import Path

from asa.config import Ebpf
from asa.core.errors import SourceError
from collectors.ebpf import hooks
from collectors.ebpf.core import open_core
from collectors.ebpf.reader import SOURCE, IrqKinds, StatsMap, StatsReader

CORE_UNUSED = "eBPF core"
"""Key in `lacking` for why BCC serves though CO-RE was tried first."""

_READS_BETWEEN_IRQS = 64  # once a minute: interfaces come seldom, and looking costs more than a read


class EbpfCollector:
    """Fills `probes`, `process_bursts` and `felt`.

    AUTO tries the CO-RE object first, then BCC; `lacking` says why the first did not serve.
    """

    name = SOURCE

    def __init__(self, proc: Path, sys: Path, backend: Ebpf) -> None:
        self.lacking: dict[str, str] = {}
        self._proc = proc
        self._sys = sys
        self._wanted = backend
        self._stats: StatsMap | None = None
        self._reader: StatsReader | None = None
        self._irqs: IrqKinds | None = None
        self._reads = 0

    @property
    def backend(self) -> Ebpf:
        """Which backend serves now; OFF: none does."""
        return self._stats.backend if self._stats is not None else Ebpf.OFF

    @property
    def stats(self) -> StatsMap | None:
        """The programs and their maps, None when not open."""
        return self._stats

    def open(self) -> None:
        """Load and attach the programs. Raises SourceError."""
        self._stats, reasons = self._load()
        self._reader = StatsReader(self._stats)
        if self._stats.irq_kinds_fd is not None:
            self._irqs = IrqKinds(self._stats.irq_kinds_fd)
            self._irqs.set_network(hooks.network_irqs(self._proc, self._sys))
        self.lacking = reasons | self._stats.lacking

    def _load(self) -> tuple[StatsMap, dict[str, str]]:
        if self._wanted is Ebpf.OFF:
            raise SourceError(source=SOURCE, reason="switched off by the settings (collect.ebpf)")
        if self._wanted is Ebpf.CORE:
            return open_core(self._proc, self._sys), {}
        if self._wanted is Ebpf.BCC:
            return self._load_bcc(), {}
        try:
            return open_core(self._proc, self._sys), {}
        except SourceError as core:
            try:
                return self._load_bcc(), {CORE_UNUSED: f"CO-RE not used: {core.reason}; BCC serves"}
            except SourceError as bcc:
                reason = core.reason if core.reason == bcc.reason else f"core: {core.reason}; bcc: {bcc.reason}"
                raise SourceError(source=SOURCE, reason=reason) from bcc

    def _load_bcc(self) -> StatsMap:
        from collectors.ebpf.bcc import open_bcc

        return open_bcc(self._proc, self._sys)

    def read(self) -> dict[str, object]:
        """Sums over all CPUs since `open`. Raises SourceError when not open."""
        if self._reader is None or self._stats is None:
            raise SourceError(source=SOURCE, reason="not opened")
        self._keep_irqs()
        self._stats.scan()
        probes, felt = self._reader.read_all()
        return {"probes": probes, "process_bursts": self._reader.processes(), "felt": felt}

    def tend(self) -> None:
        """What `read` does beside, once a second, where another process reads: sampling, the networks' interrupts, and
        the look for tasks that wait.

        Raises SourceError when not open.
        """
        if self._reader is None or self._stats is None:
            raise SourceError(source=SOURCE, reason="not opened")
        self._keep_irqs()
        self._stats.scan()
        self._reader.set_sampling()

    def settle(self, switches_per_s: float) -> None:
        """Time as many switches as at this rate. Raises SourceError when not open."""
        if self._reader is None:
            raise SourceError(source=SOURCE, reason="not opened")
        self._reader.settle(switches_per_s)

    def _keep_irqs(self) -> None:
        self._reads += 1
        if self._irqs is not None and self._reads % _READS_BETWEEN_IRQS == 0:
            self._irqs.set_network(hooks.network_irqs(self._proc, self._sys))

    def close(self) -> None:
        """Detach the programs and give everything back."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._irqs is not None:
            self._irqs.close()
            self._irqs = None
        if self._stats is not None:
            self._stats.close()
            self._stats = None
