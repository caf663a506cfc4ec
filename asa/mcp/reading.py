# SPDX-License-Identifier: GPL-2.0-only
"""The tools that only look. Each takes what was asked and answers a struct; what cannot be told raises AsaError."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from asa import config, wire
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Available
from asa.cli import explain_features, replay
from asa.cli.journal import JOURNAL, session_of
from asa.config import Settings
from asa.core import kinds
from asa.core.decision import EEVDF, Reason, SchedulerName, Workload
from asa.core.errors import AsaError
from asa.decide import learning, proof
from asa.decide.account import switched
from asa.journal import Journal
from asa.mcp import answers, asked, audit, features
from asa.mcp.machine import Host, Machine
from asa.paths import there
from asa.report.proof import of_host
from asa.report.reading import opened, timed
from asa.status import Switched, seen


def status(machine: Machine, _: asked.Nothing) -> answers.Status:
    """The agent's status and the kernel's."""
    found = machine.agent()
    state = sched_ext_state(machine.places.sys)
    kernel = None if state is None else answers.Kernel(state=state.state, ops=state.ops)
    if found is None:
        return answers.Status(running=False, kernel=kernel)
    return answers.Status(
        running=True,
        kernel=kernel,
        asa_version=found.asa_version,
        mode=found.mode,
        mode_reason=found.mode_reason,
        workload=found.workload,
        seen=seen(found),
        confidence=found.confidence,
        scheduler=found.scheduler,
        scheduler_since_ns=found.scheduler_since_ns,
        wanted=found.wanted,
        why=found.sentence,
        held=found.held,
        held_until_ns=found.held_until_ns,
        chosen=found.chosen,
        standbys=tuple(one.scheduler for one in found.standbys if one.ready),
        set_aside=tuple(found.set_aside),
        barred=found.barred,
        never=tuple(found.never),
        trial=found.trial,
        last_event=found.last_event,
        table=found.table,
        updated_ns=found.updated_ns,
    )


def workload(machine: Machine, ask: asked.Workload) -> answers.Workload:
    """What the machine is used for."""
    found = machine.agent()
    carried, processes = None, None
    if ask.detail == "features":
        carried = _features(machine, None if found is None else found.model)
    if ask.detail == "processes":
        used = machine.processes(ask.seconds)
        processes = tuple(answers.Process(name=name, count=count, cores=cores) for name, count, cores in used)
    return answers.Workload(
        running=found is not None,
        workload=None if found is None else found.workload,
        seen=None if found is None else seen(found),
        confidence=None if found is None else found.confidence,
        probabilities={} if found is None else _likeliest(found.probabilities),
        signals={} if found is None else found.signals,
        hints=None if found is None or found.hint is None else found.hint.words,
        features=carried,
        processes=processes,
    )


def _features(machine: Machine, model: str | None) -> dict[str, object]:
    journal = machine.places.state / JOURNAL
    if there(journal):
        configured = model if model is not None else config.load(machine.places.config).model
        return features.asked(journal, configured)
    found = explain_features.Recognition(wrong="this user's agent has no journal yet; `asa run` makes one")
    return dict(wire.plain(found))


def _likeliest(probabilities: dict[str, float]) -> dict[str, float]:
    return dict(sorted(probabilities.items(), key=lambda item: -item[1]))


def explain(machine: Machine, ask: asked.Explain) -> answers.Explain:
    """Why the scheduler in force is in force."""
    found = machine.agent()
    if found is None:
        return answers.Explain(
            running=False, scheduler=None, wanted=None, why=None, probabilities={}, ranking=(), guard=(), keeps_to=None,
            told=None, switches=(),
        )  # fmt: skip  # nothing is known of any
    return answers.Explain(
        running=True,
        scheduler=found.scheduler,
        wanted=found.wanted,
        why=found.sentence,
        probabilities=_likeliest(found.probabilities),
        ranking=found.ranking,
        guard=found.guard,
        told=found.told,
        keeps_to=found.keeps_to,
        switches=found.lately[-ask.last :],
    )


def policies(machine: Machine, ask: asked.Policies) -> answers.Policies:
    """Schedulers, with the table's figures for a class; or one of them, whole. Raises InputError for none."""
    if ask.id is not None:
        if ask != asked.Policies(id=ask.id):
            raise AsaError("policies: `id` stands alone; without it, `text`, `for_class`, `usable` and `limit` choose")
        return answers.Policies(found=1, policies=(), policy=policy(machine, ask.id))
    host = machine.host()
    figures = {} if ask.for_class is None else _figures(host, Workload(ask.for_class))
    names = sorted(host.names(), key=lambda name: figures[name].place if name in figures else len(figures) + 1)
    text = ask.text.lower()
    found = []
    for name in names:
        one, reason = host.look(name)
        fits = text in name or text in one.entry.purpose.lower()
        if fits and not (ask.usable and reason):
            version = one.version if isinstance(one, Available) else None
            found.append(
                answers.Scheduler(
                    id=name,
                    purpose=one.entry.purpose,
                    usable=not reason,
                    reason=reason,
                    version=version,
                    figures=figures.get(name),
                )
            )
    return answers.Policies(found=len(found), policies=tuple(found[: ask.limit]))


def _figures(host: Host, name: Workload) -> dict[SchedulerName, answers.Figures]:
    """What the table in use says of a class, scheduler by scheduler, the best first."""
    source, _, ranking = host.table.source(name)
    return {
        entry.name: answers.Figures(
            place=place,
            why=entry.why,
            ground=source.ground(entry),
            score=entry.score,
            low=entry.low,
            high=entry.high,
            runs=entry.runs,
            stale=source.aged(entry),
        )
        for place, entry in enumerate(ranking, 1)
    }


def policy(machine: Machine, wanted: str) -> answers.Policy:
    """One scheduler: where it comes from, what the table says of it, and what was found here. Raises InputError."""
    host = machine.host()
    name = host.known(wanted)
    one, reason = host.look(name)
    classes = {}
    for use in host.table.listed:
        if (figures := _figures(host, use).get(name)) is not None:
            classes[str(use)] = figures
    usable = one if isinstance(one, Available) else None
    made = host.portfolio.policies.get(name)
    mine = (found for found in _found(machine) if name in (found.scheduler, found.than))
    return answers.Policy(
        id=name,
        purpose=one.entry.purpose,
        usable=not reason,
        reason=reason,
        version=None if usable is None else usable.version,
        sha256=None if usable is None else usable.sha256,
        modes=host.portfolio.modes()[name.bare],
        flags=() if made is None else made.arguments,
        writes=one.entry.writes,
        classes=classes,
        found=tuple(mine),
    )


def _found(machine: Machine) -> Iterator[answers.Found]:
    for use in of_host(machine.places).uses:
        for one in use.found:
            yield _as_found(use.use, one)


def _as_found(use: str, one: proof.Found) -> answers.Found:
    return answers.Found(
        for_class=use,
        scheduler=one.scheduler,
        than=one.than,
        by=one.by,
        verdict=one.verdict,
        of=one.of,
        effect=one.effect,
        low=one.low,
        high=one.high,
        runs=one.runs,
        aged=one.aged,
    )


def compare(machine: Machine, ask: asked.Compare) -> answers.Compare:
    """What was found on this machine of two schedulers in a class. Raises InputError for a name that is none."""
    host = machine.host()
    a, b = host.known(ask.a), host.known(ask.b)
    unknown = answers.Compare(
        for_class=ask.for_class, a=a, b=b, verdict="unknown", by=None, of=None, difference=None, low=None, high=None,
        runs=None, why="the two were not compared for this class on this machine",
    )  # fmt: skip  # each one is None
    if a == b:
        return msgspec.structs.replace(unknown, verdict="same", why="they are one scheduler in one mode")
    for found in _found(machine):
        if not kinds.same(found.for_class, ask.for_class) or {found.scheduler, found.than} != {a, b}:
            continue
        if found.aged or not found.verdict:
            unknown = msgspec.structs.replace(unknown, why=found.aged or "there are not enough pairs yet")
            continue
        return _compared(unknown, found, turned=found.scheduler != a)
    return unknown


_TURNED = {"better": "worse", "worse": "better"}


def _compared(unknown: answers.Compare, found: answers.Found, *, turned: bool) -> answers.Compare:
    verdict = "same" if found.verdict == "alike" else found.verdict
    told = f"{found.scheduler} against {found.than}: {found.verdict}, by {found.by}"
    if turned and found.of == "wait":  # a share of the other one's wait: turned round it is of another whole
        effect = low = high = None
        told += "; the share is of the wait under the second one, and not told the other way round"
    else:
        sign = -1.0 if turned else 1.0
        effect, low, high = (None if one is None else sign * one for one in (found.effect, found.low, found.high))
        low, high = (high, low) if turned else (low, high)
    return msgspec.structs.replace(
        unknown,
        verdict=_TURNED.get(verdict, verdict) if turned else verdict,
        by=found.by,
        of=found.of,
        difference=effect,
        low=low,
        high=high,
        runs=found.runs,
        why=told,
    )


def history(machine: Machine, ask: asked.History) -> answers.History:
    """What happened since then. Raises JournalError where there is no journal that this user may read."""
    since_ns = time.time_ns() - ask.since_s * 10**9
    if ask.kind == "changes":
        rows = list(_changes(machine))
    else:
        rows = list(_trials(machine)) if ask.kind == "trials" else _happened(machine, ask.kind, since_ns)
    found = sorted((row for row in rows if row.at_ns >= since_ns), key=lambda row: row.at_ns)
    return answers.History(kind=ask.kind, found=len(found), rows=tuple(found[-ask.limit :]))


def _changes(machine: Machine) -> Iterator[answers.Row]:
    last = {(line.id, line.what): line for line in audit.read(machine.places.state / audit.NAME)}
    for line in last.values():
        what = f"{line.what} {line.id} by {line.client} ({line.session}): {line.old} -> {line.new}"
        yield answers.Row(at_ns=line.at_ns, what=what, outcome=line.outcome, why=line.why)


def _trials(machine: Machine) -> Iterator[answers.Row]:
    for one in learning.load(machine.places.state / learning.LEARNING).asked:
        what = f"{one.candidate} against {one.in_force} for {one.use}"
        yield answers.Row(at_ns=one.at_ns, what=what, outcome=one.verdict or "not known yet", why=one.words)


def _happened(machine: Machine, kind: str, since_ns: int) -> list[answers.Row]:
    rows: list[answers.Row] = []
    path = machine.places.state / JOURNAL
    with opened(path) as journal:
        for session in reversed(journal.sessions()):
            rows += _taken_back(journal, session.number) if kind == "guard" else _switches(journal, session.number)
            if session.header.started_ns < since_ns:
                break
    return rows


def _switches(journal: Journal, session: int) -> Iterator[answers.Row]:
    shown: Iterable[Switched] = switched(timed(journal, session))
    for one in shown:
        told = "; ".join(text for text in (one.why, one.detail, one.ended) if text)
        yield answers.Row(at_ns=one.at_ns, what=f"{one.old} -> {one.new}", outcome=one.outcome, why=told)


class _Decided(msgspec.Struct):
    """Of a decision in a journal."""

    monotonic_ns: int
    reason: str
    sentence: str
    workload: str | None = None
    current: str | None = None
    wanted: str | None = None


class _Moment(msgspec.Struct):
    """Of a sample."""

    monotonic_ns: int
    wall_ns: int


def _taken_back(journal: Journal, session: int) -> Iterator[answers.Row]:
    found = {
        one.monotonic_ns: one for one in journal.read("decision", session, _Decided) if one.reason == Reason.REVERTED
    }
    if not found:
        return
    for moment in journal.read("sample", session, _Moment):
        one = found.get(moment.monotonic_ns)
        if one is not None:
            before, back = one.current or EEVDF, one.wanted or EEVDF
            # after a check the one that goes back is in force already, and the reason names who was taken back
            what = f"{before} -> {back} for {one.workload}" if before != back else f"{back} for {one.workload}"
            yield answers.Row(at_ns=moment.wall_ns, what=what, outcome="taken back", why=one.sentence)


def replayed(machine: Machine, ask: asked.Replay) -> answers.Replayed:
    """A session of the agent's own journal, decided once more. Raises JournalError and InputError."""
    path = machine.places.state / JOURNAL
    number = session_of(path, ask.session)
    tried = None
    if ask.settings is not None:
        recorded = replay.recorded_settings(path, number) or config.load(machine.places.config)
        tried = _with(recorded, ask.settings)
    found = replay.again(path, number, tried, most=ask.most_ticks)
    whole = found.replay.ticks < ask.most_ticks or _ticks(path, number) <= ask.most_ticks
    by = found.source if tried is None else "the recorded settings, and those that were given"
    return answers.Replayed(session=number, by=by, whole=whole, replay=found.replay)


def _ticks(path: Path, number: int) -> int:
    with opened(path) as journal:
        return journal.ticks(number)


def _with(settings: Settings, tried: asked.Settings) -> Settings:
    changed = wire.plain(settings)
    for group, values in wire.plain(tried).items():
        changed[group] |= values
    try:
        return wire.shaped(changed, Settings)
    except msgspec.ValidationError as error:
        raise AsaError(f"settings: {error}; docs/settings.md has what is accepted") from error
