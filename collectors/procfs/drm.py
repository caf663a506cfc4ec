# SPDX-License-Identifier: GPL-2.0-only
"""The text of /proc/PID/fdinfo/FD of a DRM device: one client's use of a GPU.

Keys are those of Documentation/gpu/drm-usage-stats.rst; a driver prints the ones it can fill. It opens no file.
"""

from dataclasses import dataclass

from collectors.procfs.reader import bounded, counters, garbled

_SOURCE = "gpu"
_FILE = "fdinfo"
_UNITS = {b"": 1, b"KiB": 1 << 10, b"MiB": 1 << 20}
_MEMORY = (b"drm-total-", b"drm-memory-", b"drm-resident-")  # the later is the better answer for one region


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCycles:
    """An engine whose driver tells no times but ticks of the GPU's own clock (xe)."""

    busy: int  # this client's
    total: int  # that passed
    capacity: int  # how many engines it stands for


@dataclass(frozen=True, slots=True, kw_only=True)
class DrmClient:
    """One open of a GPU. Duplicated and inherited descriptors are the same client, with the same identity."""

    identity: tuple[bytes, int]  # device's PCI address or b"", client id
    engine_ns: int | None  # busy time of all engines; None when the driver tells none
    cycles: dict[bytes, EngineCycles]  # by engine, those for which it tells no time
    memory_bytes: int | None  # resident; for regions that only tell what was allocated: that


def parse_fdinfo(text: bytes) -> DrmClient | None:
    """None when there is no drm-client-id: not a DRM file, or of a driver that tells nothing. Raises SourceError."""
    keys = dict(_pairs(text))
    client = keys.get(b"drm-client-id")
    if client is None:
        return None
    times = {key[11:]: _time(value) for key, value in keys.items() if _is_time(key)}
    memory = _memory(keys)
    sums = {"engine_ns": sum(times.values()), "memory_bytes": sum(memory.values())}
    bounded(_SOURCE, _FILE, **sums)
    return DrmClient(
        identity=(keys.get(b"drm-pdev", b""), counters(_SOURCE, _FILE, [client])[0]),
        engine_ns=sums["engine_ns"] if times else None,
        cycles=_cycles(keys, times),
        memory_bytes=sums["memory_bytes"] if memory else None,
    )


def _pairs(text: bytes) -> list[tuple[bytes, bytes]]:
    pairs = []
    for line in text.split(b"\n"):
        if line.startswith(b"drm-"):
            key, colon, value = line.partition(b":")
            if not colon:
                raise garbled(_SOURCE, _FILE, line)
            pairs.append((key, value.strip()))
    return pairs


def _is_time(key: bytes) -> bool:
    return key.startswith(b"drm-engine-") and not key.startswith(b"drm-engine-capacity-")


def _time(value: bytes) -> int:
    number, _, unit = value.partition(b" ")
    if unit != b"ns":
        raise garbled(_SOURCE, _FILE, value)
    return counters(_SOURCE, _FILE, [number])[0]


def _memory(keys: dict[bytes, bytes]) -> dict[bytes, int]:
    regions = {}
    for prefix in _MEMORY:
        for key, value in keys.items():
            if key.startswith(prefix) and not key.startswith(b"drm-total-cycles-"):
                number, _, unit = value.partition(b" ")
                if unit not in _UNITS:
                    raise garbled(_SOURCE, _FILE, value)
                regions[key[len(prefix) :]] = counters(_SOURCE, _FILE, [number])[0] * _UNITS[unit]
    return regions


def _cycles(keys: dict[bytes, bytes], times: dict[bytes, int]) -> dict[bytes, EngineCycles]:
    engines = {}
    for key, total in keys.items():
        engine = key.removeprefix(b"drm-total-cycles-")
        if engine is key or engine in times:
            continue
        busy = keys.get(b"drm-cycles-" + engine)
        if busy is not None:
            capacity = keys.get(b"drm-engine-capacity-" + engine, b"1")
            numbers = counters(_SOURCE, _FILE, [busy, total, capacity])
            engines[engine] = EngineCycles(busy=numbers[0], total=numbers[1], capacity=numbers[2])
    return engines
