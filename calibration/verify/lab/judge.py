# SPDX-License-Identifier: GPL-2.0-only
"""What the probes' numbers mean: findings of the load and of the behaviour stage. Pure.

A guest plays each probe under the kernel's own scheduler first. Where that does not give the known answer, the
instrument is at fault, and nothing is found out about the scheduler.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from asa.core.errors import LabError
from calibration.verify.report import Finding
from calibration.verify.rules.findings import doubt, fault, note

LEAST_P10 = 0.6
LONGEST_WAIT_S = 2.0
"""The age limit that a composed scheduler may have (1 s), and slices; the kernel's watchdog is at 30 s."""

LEAST_OF_EEVDF = 0.5
"""Of what the kernel's own scheduler gets done in the same guest, in work, forks and rounds of pairs."""

_LEAST_NICE, _LEAST_NICE_SHARE, _LEAST_GROUP = 0.8, 0.002, 0.7
_LEAST_RATE = 0.1  # of EEVDF's rounds and forks: others may well serve those later
_LEAST_MOVES = 20.0
_LEAST_BESIDE_FIFO_S = 0.05
_MOST_GROWTH_BYTES = 4 << 20
_MOST_FALLBACKS_PER_S = 1.0
_FALLBACKS = ("SCX_EV_SELECT_CPU_FALLBACK", "SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE", "SCX_EV_INSERT_NOT_OWNED")


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """What a guest tells: numbers of one probe. `gone`: why the scheduler was no longer in force after it, or ""."""

    probe: str
    own: bool = False  # under the kernel's own scheduler
    values: dict[str, float | None] = {}
    gone: str = ""
    note: str = ""


def load(told: Sequence[Probed], kernel: str, cpus: int) -> Iterator[Finding]:
    """Of one guest that loads, waits and ends. Raises LabError for one that did not come to its end."""
    where = f"kernel {kernel}, {cpus} CPUs"
    by_name = {one.probe: one for one in told}
    for name in ("load", "end"):
        one = by_name.get(name)
        if one is None:
            raise LabError(f"the guest with {where} ended before the scheduler's {name}")
        if one.gone:
            yield fault(f"{name}-{kernel}", f"{where}: {one.gone}")
            return
    took = by_name["load"].values.get("seconds") or 0.0
    yield note("loads", f"{where}: in force after {took:.1f} s, and ends in order")


def behaviour(told: Sequence[Probed], names: Sequence[str]) -> Iterator[Finding]:
    """Of a guest that played `names`. What was found before an error counts.

    Raises LabError where it did not come to its end, or where EEVDF is not as it should be.
    """
    own = {one.probe: one for one in told if one.own}
    for one in own.values():
        if wrong := [*_of(one, None)]:
            raise LabError(f"{one.probe} under the kernel's own scheduler: {wrong[0].text}; the instrument is at fault")
    seen, faults = set(), 0
    for one in told:
        if one.own:
            continue
        seen.add(one.probe)
        if one.gone:
            faults += 1
            yield fault(one.probe, f"it was taken out: {one.gone}")
            continue
        for found in _of(one, own.get(one.probe)):
            faults += 1
            yield found
        if one.note:
            yield note(one.probe, one.note)
    yield from _paired(own, {one.probe: one for one in told if not one.own})
    missing = [name for name in names if name not in seen]
    if missing and not faults:
        raise LabError(f"the guest ended before the probe {missing[0]}")
    if missing:
        yield note("not-played", f"after these faults the rest was not played: {', '.join(missing)}")


def _of(one: Probed, own: Probed | None) -> Iterator[Finding]:
    values, name = one.values, one.probe
    if count := values.get("missing"):
        yield fault(name, f"{count:.0f} tasks did not come back within 12 s of the end")
    for key, least, words in (
        ("p10", LEAST_P10, "p10 of CPU time is {0:.2f} of the mean, {1} at least"),
        ("share", _LEAST_NICE_SHARE, "one of nice 10 got {0:.4f} of a CPU beside one of nice 0, {1} at least"),
        ("moves", _LEAST_MOVES, "one that changes its CPU was served {0:.0f} times, {1:.0f} at least"),
        ("least_s", _LEAST_BESIDE_FIFO_S, "beside a SCHED_FIFO hog one got {0:.2f} s of CPU time, {1} at least"),
    ):
        if (value := values.get(key)) is not None and value < least:
            yield fault(name, words.format(value, least))
    ratio = values.get("ratio")
    if ratio is not None and ratio < (_LEAST_NICE if name == "nice" else _LEAST_GROUP):
        yield fault(name, f"who has more weight got {ratio:.2f} of what the other one got")
    if (longest := values.get("longest_s")) is not None and longest > LONGEST_WAIT_S:
        yield fault(name, f"a task waited {longest:.1f} s, {LONGEST_WAIT_S:.0f} at most")
    if astray := values.get("astray"):
        yield fault(name, f"{astray:.0f} times a task ran on a CPU that it may not use")
    if (grown := values.get("grown_bytes") or 0.0) > _MOST_GROWTH_BYTES:
        yield fault("grows", f"its program and maps grew by {grown / 1e6:.1f} MB")
    if (rate := values.get("fallbacks_per_s") or 0.0) > _MOST_FALLBACKS_PER_S:
        yield fault("fallbacks", f"the kernel had to choose in its place {rate:.1f} times a second")
    yield from _slower(one, own)


def _slower(one: Probed, own: Probed | None) -> Iterator[Finding]:
    if own is None:
        return
    for key, least in (("work_per_s", LEAST_OF_EEVDF), ("per_s", _LEAST_RATE)):
        mine, theirs = one.values.get(key), own.values.get(key)
        if mine is not None and theirs and mine < least * theirs:
            yield fault(one.probe, f"{mine:.0f} a second, {least:g} of EEVDF's {theirs:.0f} at least")


def _paired(own: Mapping[str, Probed], its: Mapping[str, Probed]) -> Iterator[Finding]:
    said = []
    for probe, key, words in (
        ("fair-floating", "work_per_s", "work"),
        ("starvation", "p99_s", "p99 of a wakeup"),
        ("pipe", "per_s", "rounds by pipe"),
        ("forks", "per_s", "forks"),
    ):
        if probe in own and probe in its:
            mine, theirs = its[probe].values.get(key), own[probe].values.get(key)
            if mine is not None and theirs:
                said.append(f"{words} {mine / theirs:.2f}")
    if said:
        yield note("against-eevdf", f"in the same guest, times EEVDF's: {', '.join(said)}")


def fallbacks(before: Mapping[str, int], after: Mapping[str, int], seconds: float) -> float | None:
    """How often a second the kernel chose in the scheduler's place; None where it does not count that."""
    known = [name for name in _FALLBACKS if name in after]
    return sum(max(0, after[name] - before.get(name, 0)) for name in known) / seconds if known and seconds else None


def claim(told: Sequence[Probed], figure: str) -> Iterator[Finding]:
    """What it claims to be better at than EEVDF (work, wakeup, pipe, forks): a doubt where the pair says otherwise."""
    probe, key, less = CLAIMS[figure]
    values = {one.own: one.values.get(key) for one in told if one.probe == probe}
    mine, theirs = values.get(False), values.get(True)
    if mine is None or not theirs:
        yield doubt("claim", f"{figure}: not measured")
    elif (mine > theirs) if less else (mine < theirs):
        yield doubt("claim", f"{figure}: {mine:.4g}, EEVDF {theirs:.4g}; it is not better here")
    else:
        yield note("claim", f"{figure}: {mine:.4g}, EEVDF {theirs:.4g}")


CLAIMS: Mapping[str, tuple[str, str, bool]] = {
    "work": ("fair-floating", "work_per_s", False),
    "wakeup": ("starvation", "p99_s", True),
    "pipe": ("pipe", "per_s", False),
    "forks": ("forks", "per_s", False),
}
"""What a policy may claim: the probe, its number, and whether less is better."""
