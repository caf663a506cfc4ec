# SPDX-License-Identifier: GPL-2.0-only
"""A report on a fault as one text for strangers: only what is listed here is in it, and words of others go through
a `Mask`. Pure.

It holds no sample, no title, no window and no process. What tells an application's or a group's name is left out.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from asa.core.regime import in_words
from asa.report import words
from asa.report.figures import Event, Report
from asa.report.markup import plain
from asa.status import Status
from asa.verdict import Finding, Verdict

MOST_EVENTS = 30
PRIVATE = frozenset({"hints", "limits"})
"""Findings of `asa doctor` that name applications or control groups."""

_SHORTEST_INSIDE = 4  # a shorter name is taken out where it stands alone
# Folders that are the same on all machines; of any other the whole is taken out, up to what ends a path in a sentence
# of ours: a folder's name may have spaces.
_COMMON = "usr|etc|sys(?!/fs/cgroup)|proc|run/asa|run/systemd|var/lib/asa|boot|dev|lib|lib64|bin|sbin|nix/store"
_PATH = re.compile(rf"(?<![\w.~<>/])/(?!(?:{_COMMON})\b)\w[^:;,()'\"\n]*")
_TASK = re.compile(r"[^()\[\]:;,'\"\n]{1,15}\[\d+\]")  # comm[pid], as the kernel's watchdog names a task
_PATTERNS = (
    (_PATH, "<path>"),
    (_TASK, "<task>"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "<address>"),
    (re.compile(r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,}\b"), "<address>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "<address>"),
    (re.compile(r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b"), "<number>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<number>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Takes out of words what tells who or where: `names` (text -> what stands for it), folders, tasks, addresses.

    `places`: paths of ASA's own, which are told by what they are for.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """In one line, and without them."""
        text = plain(text)
        for path in sorted(self.places, key=len, reverse=True):
            text = text.replace(path, self.places[path])
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        for name in sorted(filter(None, self.names), key=len, reverse=True):
            sought = re.escape(name)
            if len(name) < _SHORTEST_INSIDE:
                sought = rf"(?<![A-Za-z0-9]){sought}(?![A-Za-z0-9])"
            text = re.sub(sought, self.names[name], text, flags=re.IGNORECASE)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the text is made of. None: not there, or not to be read; `lacking` says why."""

    machine: Mapping[str, str]  # figure -> value: distribution, kernel, CPU, desktop
    verdict: Verdict
    findings: Sequence[Finding]
    settings: Mapping[str, str]  # those that differ from the defaults
    agent: Status | None = None
    journal: Report | None = None  # of the newest session
    proof: Sequence[str] = ()  # lines of the redacted proof
    lacking: Sequence[str] = ()


def text(parts: Parts, mask: Mask, now_ns: int) -> str:
    """The whole report, ready to be attached. `now_ns`: CLOCK_REALTIME, from which times are told."""
    lines = ["ASA, report for a bug. Names of users and hosts, paths, tasks and addresses are taken out."]
    for title, body in (
        ("machine", _pairs(parts.machine, mask)),
        ("asa doctor", _doctor(parts, mask)),
        ("settings that are not the defaults", _pairs(parts.settings, mask)),
        ("agent", _agent(parts.agent, mask)),
        ("journal, newest session", _journal(parts.journal, mask, now_ns)),
        ("asa proof", (mask(line) for line in parts.proof)),
        ("not to be had", (mask(line) for line in parts.lacking)),
    ):
        lines += ["", f"== {title}", *(list(body) or ["nothing"])]
    return "\n".join(lines) + "\n"


def _pairs(pairs: Mapping[str, str], mask: Mask) -> Iterator[str]:
    for name, value in pairs.items():
        yield f"{name}: {mask(value)}"


def _doctor(parts: Parts, mask: Mask) -> Iterator[str]:
    yield mask(parts.verdict.sentence)
    for one in parts.findings:
        told = "left out" if one.subject in PRIVATE else mask(one.text)
        yield f"{one.level} {mask(one.subject)}: {told}"


def _agent(found: Status | None, mask: Mask) -> Iterator[str]:
    if found is None:
        yield "none is running"
        return
    yield mask(f"version {found.asa_version}, {found.mode}{f': {found.mode_reason}' if found.mode_reason else ''}")
    use = found.regime or found.workload or "not recognised"
    yield mask(f"use: {in_words(use)}, {found.confidence:.0%}")
    yield mask(f"in force: {found.scheduler or 'no sched_ext'}; wanted: {found.wanted or 'none'}; {found.sentence}")
    yield f"{found.switches} switches, {found.failures} failed; way: {found.way or 'none'} {mask(found.way_reason)}"
    yield f"set aside: {mask(', '.join(found.set_aside)) or 'none'}"
    yield f"{found.overruns} of {found.ticks} ticks late, {found.worst_late_ms:.0f} ms at most"
    yield f"memory: {'unknown' if found.resident_bytes is None else f'{found.resident_bytes / 1e6:.0f} MB'}"
    for source, reason in sorted(found.missing_sources.items()):
        yield f"without {mask(source)}: {mask(reason)}"
    for source, how in sorted(found.slow_sources.items()):
        yield f"slow: {mask(source)}, {mask(how)}"


def _journal(found: Report | None, mask: Mask, now_ns: int) -> Iterator[str]:
    if found is None or not found.session_count:
        return
    yield f"{words.duration(found.seconds)} watched, {found.ticks} ticks, by version {mask(found.asa_version)}"
    yield f"outcomes: {_counts(found.outcomes)}; taken back by the guard: {found.verdict_count}"
    yield mask(f"schedulers: {', '.join(f'{name} {words.duration(s)}' for name, s in found.schedulers.items())}")
    if found.agent is not None and found.agent.cpu_pct is not None:
        yield f"cost: {found.agent.cpu_pct:.2f} % of a core"
    for event in found.events[-MOST_EVENTS:]:
        yield _event(event, mask, now_ns)


def _event(event: Event, mask: Mask, now_ns: int) -> str:
    ago = words.duration(max(0.0, (now_ns - event.at_ns) / 1e9))
    told = [event.why, event.detail, event.ended, "the guard ordered it" if event.taken_back else ""]
    took = f"{event.elapsed_ms:.0f} ms"
    return mask(f"{ago} ago: {event.outcome}, {event.old} -> {event.new} ({event.way}, {took})") + "".join(
        f"; {mask(one)}" for one in told if one
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def names(host: str, users: Collection[str], schedulers: Collection[str]) -> dict[str, str]:
    """What a mask takes out: the host's name, in its parts too, users' names, and schedulers of one's own."""
    found = {name: "<user>" for name in users if len(name) > 1}
    found |= {name: "<host>" for name in (host, host.partition(".")[0]) if name}
    return found | {name: f"<scheduler {number}>" for number, name in enumerate(sorted(schedulers), 1)}
