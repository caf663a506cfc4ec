# SPDX-License-Identifier: GPL-2.0-only
"""What a run of the overhead benchmark found, for people (Markdown) and programs (one JSON object a figure).

Takes a `Result`, makes text. Every number comes from there; it measures nothing.
"""

import time
from collections.abc import Iterator

from calibration import goals
from calibration.goals import Figure, Host, as_json, described, doubtful, row, rule
from calibration.overhead.agent import COMMAND, Window
from calibration.overhead.benchmark import BCC, BCC_ALL, CORE, CORE_ALL, PACED, Pair, Result
from calibration.overhead.figures import PAPER_CPU_PCT, PAPER_MB, RATE

_BUSY_PCT = 5.0  # of one core: what others may take of a host that is called idle; ten times the agent's own budget
_STEAL_PCT = 1.0  # of one core: more than this and the hypervisor's other guests show in the nanoseconds
_APART_NS = 125.0  # between rounds: half the goal, so that a median of seven tells its two sides apart
_RATE_SHARE = 0.1  # of the paced rate: what else may come, or be missing
_TITLES = {
    CORE: "CO-RE as it runs: sampled, read each second",
    BCC: "BCC as it runs",
    CORE_ALL: "CO-RE, all timed",
    BCC_ALL: "BCC, all timed",
    PACED: f"the agent's, as many timed as at {RATE:,} switches/s",
}


def warnings(result: Result) -> list[str]:
    """What makes the figures doubtful: a machine that was not idle. What spoils one figure is in its own reason."""
    found = []
    if result.idle is not None:
        if result.idle.others_pct > _BUSY_PCT:
            found.append(
                f"the host was not idle: everything else took {result.idle.others_pct:.1f} % of a core, the caches "
                "were not the agent's alone"
            )
        if result.idle.steal_pct > _STEAL_PCT:
            found.append(f"the hypervisor took {result.idle.steal_pct:.1f} % of a core away for its other guests")
    if result.loaded is not None and abs(result.loaded.switches_per_s - RATE) > _RATE_SHARE * RATE:
        rate = result.loaded.switches_per_s
        found.append(f"beside the paced load the machine made {rate:,.0f} switches/s, not {RATE:,}")
    for kind in result.costs.pairs if result.costs is not None else ():
        added = result.costs.added(kind) if result.costs is not None else None
        if added is not None and added.greatest - added.least > _APART_NS:
            apart_ns = added.greatest - added.least
            found.append(f"rounds of the ping-pong ({kind}) are {apart_ns:.0f} ns apart: the machine was not quiet")
    return found


def cells(figure: Figure) -> tuple[str, ...]:
    """A figure as name, value, goal, met, and the words beside it."""
    return goals.cells(figure, ".3f")


def document(result: Result, machine: Host, *, image: str | None) -> str:
    """The whole of docs/overhead.md. `image` is the picture's path beside it, None without one."""
    lines = [
        "# What ASA costs",
        "",
        "Written by `make bench-overhead` (`asa lab bench overhead`) itself; do not edit.",
        "",
        *_when(result, machine),
        *("", "## Figures", "", row("figure", "value", "goal", "met", ""), rule(5)),
        *(row(*cells(figure)) for figure in result.figures),
        "",
        *described(figure.name for figure in result.figures),
        *doubtful(warnings(result)),
        *_paper(result),
        *_probes(result),
        *_agent(result, image),
        *_loaded(result),
        *("", "## How", "", *_HOW),
        *("", "```", *(as_json(figure) for figure in result.figures), "```"),
    ]
    return "\n".join([*lines, ""])


_HOW = (
    f"- The agent is `{COMMAND}` as root, a real-time task as in production. Its first five ticks are left out.",
    "  CPU time is that of its process and its timer's (`clock_getcpuclockid(3)`), memory is `Rss` of `smaps_rollup`",
    "  of its process, its growth that of `Rss` and `Swap`; they are looked at every 5 s. The growth meets its goal",
    "  when it does so with two standard errors more.",
    "- A hand-over is one wakeup and one switch: two processes under SCHED_FIFO on one CPU, a byte through a pipe,",
    "  batches of 1,000, the median of 300 batches. Each measurement with probes lies between two without; given is",
    "  the median over rounds of its difference to the mean of those two, with the least and the greatest. The kinds",
    "  take turns in being the first of a round.",
    "- Probes that are read each second sample above the rate that their reader settled on, as in the agent; a",
    "  ping-pong is far above it. Those that nobody tells to sample time every event: the most that a switch can cost.",
    f"- The load of {RATE:,} switches a second is the same pair as ordinary tasks, paced every millisecond. The kernel",
    "  side is that rate times the median added cost of the agent's probes, as many events timed as its reader settles",
    "  on at that rate. The kernel's own account",
    "  (`bpf_enable_stats`, `run_time_ns` of the programs the agent holds) counts their bodies, and its own clock",
    "  calls, but not the way into a tracepoint.",
)


def _when(result: Result, machine: Host) -> list[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    return [
        f"- when: {when}, for {result.took_s / 60.0:.1f} minutes",
        f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}",
        f"- asa {machine.version}, `{machine.command}`",
        *([f"- beside it: {_beside(result.idle)}"] if result.idle is not None else []),
    ]


def _beside(window: Window) -> str:
    least, greatest = window.load_1min
    return (
        f"load average {least:.2f} to {greatest:.2f}, everything else {window.others_pct:.2f} % of a core, "
        f"steal {window.steal_pct:.2f} %; {window.switches_per_s:,.0f} switches/s"
    )


def _paper(result: Result) -> Iterator[str]:
    if result.idle is None:
        return
    timed = BCC_ALL if result.backend == BCC else CORE_ALL  # an idle host's rate is far below that of sampling
    added = result.costs.added(timed) if result.costs is not None else None
    kernel_pct = added.median * result.idle.switches_per_s / 1e7 if added is not None else 0.0
    whole_pct = result.idle.cpu_pct + kernel_pct
    yield from ("", "## Against the paper", "")
    yield from ("Paper, 5.6, System Overhead: agent and kernel components together.", "")
    yield from (row("", "paper", "here", "ratio"), rule(4))
    kernel = f"{kernel_pct:.4f} of it in the kernel" if added is not None else "the kernel side not measured"
    ratio = f"{PAPER_CPU_PCT / whole_pct:.1f}" if whole_pct > 0.0 else ""
    yield row("CPU, % of one core", f"{PAPER_CPU_PCT}", f"{whole_pct:.4f} ({kernel})", ratio)
    resident_mb = result.idle.resident_mb
    yield row("memory, MB", f"{PAPER_MB:.0f}", f"{resident_mb:.1f}", f"{PAPER_MB / resident_mb:.1f}")
    yield from ("", "The paper averages over its test loads on its own machine; here the host is left alone.")


def _probes(result: Result) -> Iterator[str]:
    costs = result.costs
    if costs is None:
        return
    yield from ("", "## A wakeup and a switch, ns", "")
    if costs.pairs:
        kinds = [kind for kind in _TITLES if kind in costs.pairs]
        yield from (row("round", *(_TITLES[kind] for kind in kinds)), rule(len(kinds) + 1))
        rounds = max(len(costs.pairs[kind]) for kind in kinds)
        for number in range(rounds):
            yield row(number + 1, *(_pair(costs.pairs[kind][number : number + 1]) for kind in kinds))
        medians = [found.median for kind in kinds if (found := costs.added(kind)) is not None]
        yield row("median", *(f"**{median:+.0f}**" for median in medians))
        yield ""
    for kind, title in _TITLES.items():
        if kind in costs.refused:
            yield f"- {title}: not measured: {costs.refused[kind]}"
        for program, reason in costs.lacking.get(kind, {}).items() if kind in {CORE, BCC} else ():
            yield f"- {title}: without `{program}`: {reason}"


def _pair(found: list[Pair]) -> str:
    return f"{found[0].bare_ns:.0f} -> {found[0].full_ns:.0f}" if found else ""


def _agent(result: Result, image: str | None) -> Iterator[str]:
    if result.idle is None or result.status is None:
        return
    yield from ("", "## The agent, host left alone", "")
    if image is not None:
        yield from (f"![CPU time and resident memory over time]({image})", "")
    yield from (row("source", "microseconds a read (median of the last)"), rule(2))
    for source, cost_us in sorted(result.status.cost_us.items(), key=lambda item: -item[1]):
        yield row(source, f"{cost_us:.0f}")
    yield ""
    for source, way in result.status.backends.items():
        yield f"- `{source}` by {way}"
    for source, reason in result.status.missing_sources.items():
        yield f"- without `{source}`: {reason}"
    for source, text in result.status.slow_sources.items():
        yield f"- slow: `{source}` {text}"


def _loaded(result: Result) -> Iterator[str]:
    window = result.loaded
    if window is None or result.idle is None:
        return
    yield from ("", f"## The agent beside {RATE:,} switches a second", "")
    grown_pct = window.cpu_pct - result.idle.cpu_pct
    yield f"- it took {window.cpu_pct:.4f} % of a core, {grown_pct:+.4f} against the host left alone"
    yield f"- beside it: {_beside(window)}"
    if result.check is None:
        yield "- the kernel's own account of the programs: not to be had (no programs held by the agent, or no libbpf)"
        return
    check = result.check
    yield (
        f"- the kernel's own account of the programs: {check.cpu_pct:.3f} % of a core, {check.ns_per_switch:.0f} ns a "
        f"switch in {check.runs_per_s:,.0f} runs a second"
    )
