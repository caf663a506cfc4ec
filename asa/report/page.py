# SPDX-License-Identifier: GPL-2.0-only
"""The report as one HTML page that needs nothing else: no scripts, no fonts, no pictures from elsewhere.

Cells carry the unrounded value in `data-value`. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from asa.core.decision import EEVDF
from asa.decide.guard import SETTLE_S
from asa.report import pictures, style, words
from asa.report.figures import (
    NO_SCHED_EXT,
    NOT_JUDGED,
    NOT_RECOGNISED,
    Event,
    Felt,
    Latencies,
    Quantiles,
    Report,
    Session,
)
from asa.report.latency import WINDOW_S
from asa.report.markup import Markup, element, joined
from asa.report.proof import part
from asa.report.tables import cell, changes, moved, section, table, time_cell, value, words_cell

_FAILURES = frozenset({"refused", "failed", "lost"})
_CLOSEST_PCT = 3.0  # between two numbers below a timeline
_OPEN = 2  # timelines that are open when the page comes up

_NOTES = """
The time between two ticks counts for the class and the scheduler of the earlier one; gaps of more than 10 s and
suspends count for nothing.

Before and after: up to {window_s:g} s on each side, without the {settle_s:g} s after the switch. A switch mostly
follows a change of what the machine does, so its two sides are seldom the same work; the guard compares like with like.

Latencies come from histograms with four steps an octave: two values within a fifth of each other may be the same.
"""


def page(found: Report) -> str:
    """The whole document."""
    names = style.colours(found.workloads, found.schedulers, {NOT_RECOGNISED, NOT_JUDGED, NO_SCHED_EXT}, str(EEVDF))
    title = "ASA report"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        element("title", f"{title}: {found.journal}"),
        element("style", Markup(style.sheet())),
    )
    body = element(
        "body",
        element("h1", title),
        _top(found),
        Markup() if found.proof is None else part(found.proof),
        _timelines(found, names),
        _times(found, names),
        _pairs(found),
        changes(found),
        _costs(found),
        _verdicts(found),
        _trials(found),
        _failures(found),
        _notes(),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _top(found: Report) -> Markup:
    sessions = found.sessions
    span = ""
    if sessions:
        hosts = dict.fromkeys(f"{one.host}, {one.cpus} CPUs, Linux {one.kernel}" for one in sessions)
        ended_ns = max(one.ended_ns for one in sessions)
        span = f"{words.moment(sessions[0].started_ns)} to {words.moment(ended_ns)} ({words.zone()}); "
        span += "; ".join(list(hosts)[:4])
    failures = sum(count for outcome, count in found.outcomes.items() if outcome in _FAILURES)
    cpu_pct = None if found.agent is None else found.agent.cpu_pct
    tiles = (
        ("watched", words.duration(found.seconds), found.seconds),
        ("sessions", f"{found.session_count:,}", found.session_count),
        ("ticks", f"{found.ticks:,}", found.ticks),
        ("switches", f"{found.outcomes.get('confirmed', 0):,}", found.outcomes.get("confirmed", 0)),
        ("taken back by the guard", f"{found.verdict_count:,}", found.verdict_count),
        ("failures", f"{failures:,}", failures),
        ("the agent's CPU, of one core", "not recorded" if cpu_pct is None else f"{cpu_pct:.2f} %", cpu_pct),
    )
    shown = [
        element("div", element("b", text, **value(number)), element("small", name), class_="tile")
        for name, text, number in tiles
    ]
    lines = (
        element("p", found.journal, " · ", span, class_="soft"),
        element("div", *shown, class_="tiles", id="summary"),
    )
    return joined(*lines)


def _timelines(found: Report, colours: Mapping[str, str]) -> Markup:
    parts = []
    shown = [one for one in reversed(found.sessions) if one.timeline is not None and one.timeline.bins]
    for number, session in enumerate(shown):
        events = [event for event in found.events if event.session == session.number]
        opened = {"open": "open"} if number < _OPEN else {}
        summary = element(
            "summary",
            words.moment(session.started_ns),
            " ",
            element("small", f"session {session.number}, {session.mode or 'agent'}, {words.duration(session.seconds)}"),
        )
        parts.append(element("details", summary, _timeline(session, events, colours), **opened))
    if found.session_count > len(shown):
        parts.append(element("p", f"{found.session_count - len(shown)} more sessions count, undrawn.", class_="soft"))
    return section("timeline", "Timeline", *parts)


def _timeline(session: Session, events: Sequence[Event], colours: Mapping[str, str]) -> Markup:
    timeline = session.timeline
    if timeline is None:
        return Markup()
    length_s = timeline.bin_s * len(timeline.bins)
    told = [(event, f"{number}. {_story(event)}") for number, event in enumerate(events, 1)]
    parts = [
        element("div", "class of use", class_="label"),
        pictures.shares(timeline, lambda bin_: bin_.workloads, colours, f"classes of session {session.number}"),
        element("div", "scheduler in force", class_="label"),
        pictures.shares(timeline, lambda bin_: bin_.schedulers, colours, f"schedulers of session {session.number}"),
    ]
    if told:
        parts += [pictures.marks(told, length_s, "switches"), _numbers(events, length_s)]
    drawn = pictures.curves(timeline, "latencies through the session")
    if drawn is not None:
        curves, low, high = drawn
        span = f"latencies, {words.latency(low)} to {words.latency(high)}, one line for each tenfold"
        parts += [element("div", span, class_="label"), curves]
    third_ns = int(length_s * 1e9 / 3)
    times = [element("span", words.clock(session.started_ns + third_ns * place)) for place in range(4)]
    parts.append(element("div", *times, class_="axis"))
    if drawn is not None:
        keys = {name: f"var(--l{number})" for number, name in enumerate(pictures.CURVES)}
        parts.append(_legend((name, name, colour) for name, colour in keys.items()))
    for times_s in (session.workloads, session.schedulers):
        shown = ((f"{name} {words.duration(time_s)}", name, colours[name]) for name, time_s in times_s.items())
        parts.append(_legend(shown))
    if told:
        rows = [
            (cell(number), time_cell(words.clock(event.at_ns)), *_story_cells(event))
            for number, event in enumerate(events, 1)
        ]
        listed = table(("#", "when", "what", "why"), rows, "Switches and what became of schedulers")
        parts.append(element("div", listed, class_="long"))
    return element("div", *parts)


def _numbers(events: Sequence[Event], length_s: float) -> Markup:
    places = [pictures.place(event, length_s) for event in events]
    roomy = all(after - before >= _CLOSEST_PCT for before, after in pairwise(places))
    if not roomy:
        return Markup()
    shown = [element("span", number, style=f"left:{at:.2f}%") for number, at in enumerate(places, 1)]
    return element("div", *shown, class_="numbers", aria_hidden="true")


def _legend(items: Iterable[tuple[str, str, str]]) -> Markup:
    shown = [element("span", element("i", style=f"background:{colour}"), text) for text, _, colour in items]
    return element("div", *shown, class_="legend")


def _story(event: Event) -> str:
    return f"{moved(event)}: {event.outcome}. {event.why}"


def _story_cells(event: Event) -> tuple[Markup, Markup]:
    tone = "bad" if event.outcome in _FAILURES else ""
    what = joined(f"{moved(event)} ", element("span", event.outcome, class_=tone))
    if event.taken_back:
        what = joined(what, ", ", element("span", "taken back by the guard", class_="bad"))
    why = [line for line in (event.why, event.detail if event.outcome != "confirmed" else "", event.ended) if line]
    return cell(what), words_cell(". ".join(why))


def _times(found: Report, colours: Mapping[str, str]) -> Markup:
    parts = []
    for name, times_s in (("class", found.workloads), ("scheduler", found.schedulers)):
        rows = [
            element(
                "div",
                element("span", key),
                pictures.bar(time_s / found.seconds if found.seconds else 0.0, colours[key]),
                element("span", f"{words.duration(time_s)} · {words.percent(time_s / found.seconds)}", **value(time_s)),
                class_="row",
            )
            for key, time_s in times_s.items()
        ]
        parts += [element("h3", f"By {name}"), element("div", *rows, id=f"by-{name}")]
    regimes = "What the machine did while its use was unknown, by time"
    for head, times_s, note in (
        ("reason", found.reasons, "What the agent's decisions said, by time"),
        ("regime", found.regimes, regimes),
    ):
        lines = [(cell(name), cell(words.duration(time_s), time_s)) for name, time_s in times_s.items()]
        if lines:
            parts.append(table((head, "time"), lines, note, id_=f"{head}s"))
    return section("times", "Time per class and scheduler", *parts)


def _pairs(found: Report) -> Markup:
    rows = [
        (cell(pair.workload), cell(pair.scheduler), *_latency_cells(pair.latencies))
        for pair in found.pairs
        if pair.latencies.seconds
    ]
    head = ("class", "scheduler", "time", "wakeup p99", "run queue p99", "timer late p99", "CPU pressure")
    note = "All waits of a class under a scheduler together. The same class may be busier at one time than at another."
    latencies = table(head, rows, note, id_="latencies")
    return section("pairs", "Latencies by class and scheduler", latencies, *_felt(found))


def _felt(found: Report) -> tuple[Markup, ...]:
    rows = [
        (cell(pair.workload), cell(pair.scheduler), *_felt_cells(pair.felt))
        for pair in found.pairs
        if pair.felt != Felt(pieces_per_s=pair.felt.pieces_per_s)
    ]
    if not rows:
        return ()
    names = ("pictures", "missed", "interval", "sound underruns", "input to picture", "pieces of work a second")
    note = (
        "While something was drawn and played. A piece of work is a task that ended, or a completed request of a disk."
    )
    title = element("h3", "What was seen, heard and got done")
    return title, table(("class", "scheduler", *names), rows, note, id_="felt")


def _felt_cells(felt: Felt) -> tuple[Markup, ...]:
    return (
        _count_cell(felt.frames),
        cell(words.percent(felt.frames_missed_share), felt.frames_missed_share),
        cell(words.milliseconds(felt.frame_interval_mean_ms), felt.frame_interval_mean_ms),
        _count_cell(felt.sound_underruns),
        cell(words.milliseconds(felt.input_to_flip_mean_ms), felt.input_to_flip_mean_ms),
        _count_cell(felt.pieces_per_s),
    )


def _count_cell(count: float | None) -> Markup:
    return cell(words.UNKNOWN if count is None else f"{count:,.0f}", count)


def _latency_cells(found: Latencies) -> tuple[Markup, ...]:
    return (
        cell(words.duration(found.seconds), found.seconds),
        cell(words.latency(found.wakeup_p99_us), found.wakeup_p99_us),
        cell(words.latency(found.run_queue_p99_us), found.run_queue_p99_us),
        cell(words.latency(found.timer_late_p99_us), found.timer_late_p99_us),
        cell(words.percent(found.cpu_pressure_share), found.cpu_pressure_share),
    )


def _costs(found: Report) -> Markup:
    parts = []
    rows = [
        (
            cell(costs.scheduler),
            cell(costs.way),
            cell(f"{costs.elapsed_ms.count:,}", costs.elapsed_ms.count),
            *(_quantile_cell(values) for values in (costs.elapsed_ms, costs.gap_ms, costs.load_cpu_ms)),
        )
        for costs in found.switch_costs
    ]
    head = ("to", "way", "switches", "took", "neither in force", "CPU of loading")
    parts.append(element("h3", "Of confirmed switches"))
    parts.append(table(head, rows, "Median, 95th percentile, largest.", id_="switch-costs"))
    parts.append(element("h3", "Of the agent"))
    agent = found.agent
    if agent is None:
        text = "What the agent itself cost was not written down in these sessions."
        return section("costs", "Costs", *parts, element("p", text, class_="soft"))
    parts_rows = [(cell(name), _quantile_cell(values, 1e-3)) for name, values in agent.parts_us.items()]
    cpu = "its CPU time is not known yet" if agent.cpu_pct is None else f"{agent.cpu_pct:.2f} % of one core"
    memory = "" if agent.resident_mb is None else f", {agent.resident_mb:.1f} MB resident at most"
    parts.append(element("p", f"The agent: {cpu}{memory}; {words.counted(agent.ticks, 'tick')} written down."))
    parts.append(table(("part of a tick", "time that passed"), parts_rows, "", id_="agent-costs"))
    return section("costs", "Costs", *parts)


def _quantile_cell(found: Quantiles | None, to_ms: float = 1.0) -> Markup:
    if found is None:
        return cell("-")
    text = " / ".join(words.milliseconds(one * to_ms) for one in (found.p50, found.p95, found.max))
    return cell(text, found.p50 * to_ms)


def _verdicts(found: Report) -> Markup:
    rows = [
        (
            time_cell(words.moment(one.at_ns, seconds=True)),
            cell(one.workload),
            cell(one.back_to),
            words_cell(one.sentence),
        )
        for one in reversed(found.verdicts)
    ]
    head = ("when", "class", "back to", "why")
    note = _note("verdict", len(rows), found.verdict_count)
    return section("verdicts", "Taken back by the guard", table(head, rows, note, id_="guard"))


def _trials(found: Report) -> Markup:
    rows = [
        (time_cell(words.moment(one.at_ns, seconds=True)), cell(one.workload), words_cell(one.sentence))
        for one in reversed(found.trials)
    ]
    note = _note("trial", len(rows), found.trial_count)
    return section("trials", "Trials that ended", table(("when", "class", "what it came to"), rows, note, id_="tried"))


def _failures(found: Report) -> Markup:
    failed = [event for event in reversed(found.events) if event.outcome in _FAILURES]
    rows = [
        (
            time_cell(words.moment(event.at_ns, seconds=True)),
            cell(event.new),
            cell(event.outcome),
            words_cell(". ".join(line for line in (event.detail, event.ended) if line)),
        )
        for event in failed
    ]
    total = sum(count for outcome, count in found.outcomes.items() if outcome in _FAILURES)
    head = ("when", "scheduler", "outcome", "what was said")
    return section("failures", "Failures", table(head, rows, _note("failure", len(rows), total), id_="failed"))


def _note(name: str, shown: int, total: int) -> str:
    return f"{words.counted(total, name)}; the newest {shown} are listed" if shown < total else ""


def _notes() -> Markup:
    text = _NOTES.format(window_s=WINDOW_S, settle_s=SETTLE_S)
    lines = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return section("notes", "How to read this", *(element("p", line, class_="soft") for line in lines))
