# SPDX-License-Identifier: GPL-2.0-only
"""/proc/meminfo and /proc/vmstat: how memory is used now, and page faults and paging since boot."""

from asa.core.errors import SourceError
from asa.core.sample import MemoryState, PagingCounters
from collectors.procfs.reader import OneFileCollector, after, bounded, counters, garbled

_MEMORY = "memory"
_MEMINFO = "meminfo"
_PAGING = "paging"
_VMSTAT = "vmstat"
_LAST_KEY = b"\npgmajfault "  # in mm/vmstat.c the other three come before it, all in the first page of output
_KEYS = (b"\npgpgin ", b"\npgpgout ", b"\npgfault ", _LAST_KEY)


class MemoryCollector(OneFileCollector):
    """Fills `memory`."""

    name = _MEMORY
    file = _MEMINFO

    def parse(self, text: bytes) -> dict[str, object]:
        """Levels in bytes. Raises SourceError."""
        return {"memory": parse_meminfo(text)}


class PagingCollector(OneFileCollector):
    """Fills `paging`."""

    name = _PAGING
    file = _VMSTAT
    enough = _LAST_KEY  # another piece would make the kernel add up all CPUs' statistics again

    def parse(self, text: bytes) -> dict[str, object]:
        """Counters since boot. Raises SourceError."""
        return {"paging": parse_vmstat(text)}


def parse_meminfo(text: bytes) -> MemoryState:
    """Text of /proc/meminfo, proc_meminfo(5). Raises SourceError when a line every kernel has is not there."""
    text = b"\n" + text
    swap = counters(_MEMORY, _MEMINFO, [_kib(text, b"\nSwapTotal:"), _kib(text, b"\nSwapFree:")])
    total, free, buffers, cached = counters(
        _MEMORY, _MEMINFO, [_kib(text, key) for key in (b"\nMemTotal:", b"\nMemFree:", b"\nBuffers:", b"\nCached:")]
    )
    if total == 0:
        raise garbled(_MEMORY, _MEMINFO, text)
    values = bounded(
        _MEMORY,
        _MEMINFO,
        total_bytes=total * 1024,
        free_bytes=free * 1024,
        buffers_bytes=buffers * 1024,
        cached_bytes=cached * 1024,
        swap_total_bytes=swap[0] * 1024,
        swap_free_bytes=swap[1] * 1024,
    )
    return MemoryState(
        **values, available_bytes=_optional(text, b"\nMemAvailable:"), dirty_bytes=_optional(text, b"\nDirty:")
    )


def _kib(text: bytes, key: bytes) -> bytes:
    value = after(_MEMORY, _MEMINFO, text, key)
    if not value.endswith(b" kB"):
        raise garbled(_MEMORY, _MEMINFO, value)
    return value[:-3].lstrip()


def _optional(text: bytes, key: bytes) -> int | None:
    try:
        (kib,) = counters(_MEMORY, _MEMINFO, [_kib(text, key)])
        return bounded(_MEMORY, _MEMINFO, value=kib * 1024)["value"]
    except SourceError:
        return None  # a level that the rest does without


def parse_vmstat(text: bytes) -> PagingCounters:
    """Text of /proc/vmstat, proc_vmstat(5). Raises SourceError; needs CONFIG_VM_EVENT_COUNTERS."""
    text = b"\n" + text
    try:
        fields = [after(_PAGING, _VMSTAT, text, key) for key in _KEYS]
    except SourceError as error:
        raise SourceError(source=_PAGING, reason=f"{error.reason}; CONFIG_VM_EVENT_COUNTERS") from error
    paged_in, paged_out, faults, major = counters(_PAGING, _VMSTAT, fields)
    return PagingCounters(faults=faults, major_faults=major, paged_in_kib=paged_in, paged_out_kib=paged_out)
