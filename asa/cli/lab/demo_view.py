# SPDX-License-Identifier: GPL-2.0-only
"""The demonstration's face: the timeline as it happens, the summary table, `run.json`, and the figures' JSON lines."""

import itertools
import json
import math
import statistics
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from rich.console import Console
from rich.status import Status
from rich.table import Table

from asa import wire
from asa.core.decision import Decision
from asa.core.errors import AsaError
from scenarios.demo import Event, PhaseReport

_PLAIN_WIDTH = 120  # in a file or a log
_RIGHT_SHARE = 0.8  # at least 4 of 5 classes
_COLUMNS = "{at:>6}  {phase:<10} {workload:<10} {share:>5}  {wanted:<13} {in_force:<13} {text}"


class View:
    """Follows the stage's lines; a live line at the bottom where the output is a terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = _PLAIN_WIDTH
        self._status: Status | None = None
        self._phase = ""
        self._shown: tuple[object, ...] = ()
        self._reports: list[PhaseReport] = []
        self._events: list[Event] = []
        self._heard_s: list[float] = []  # of each event, by the host's clock: a guest's may jump, or stand still
        self._began_s = time.monotonic()
        self._left = ""
        self._stalled: tuple[str, ...] | None = None
        self._headed = False

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("setting up")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def note(self, text: str) -> None:
        """A line that is not part of the timeline."""
        self._print(f"        {text}", style="dim")

    def line(self, text: str) -> None:
        """One line of the stage's output; what is not an event (a program's own word) is shown as it is."""
        try:
            event = wire.from_json(text, Event)
        except msgspec.DecodeError:
            self.note(text)
            return
        self._events.append(event)
        self._heard_s.append(time.monotonic() - self._began_s)
        if event.say is not None:
            self.note(event.say)
        if event.left is not None:
            self._left, self._stalled = event.left, event.stalled
            self.note(f"the agent has ended; sched_ext is {event.left}")
        if event.workload is not None:
            self._phase = event.workload if event.moment == "playing" else ""
            if event.moment != "ended":
                self._show(event.at_s, event.workload, None, f"phase {(event.phase or 0) + 1}: {event.moment}")
        if event.decision is not None:
            self._decision(event.at_s, event.decision)
        if event.report is not None:
            self._reports.append(event.report)
            self._show(event.at_s, event.report.workload, None, _ending(event.report))

    def summary(self, *, out: Path, facts: dict[str, object], exit_code: int, setup_s: float, run_s: float) -> int:
        """Print the table, write `out`, print the figures; returns the command's exit code."""
        right = sum(report.right for report in self._reports)
        on_wanted = sum(report.on_wanted for report in self._reports)
        times = [math.inf if report.recognise_s is None else report.recognise_s for report in self._reports]
        median_s = statistics.median(times) if times else math.inf  # never recognised is later than anything
        known = math.isfinite(median_s)
        total = len(self._reports)
        figures = [
            _figure("phases", total, "", 5, total >= 5),
            _figure("phases_recognised", right, "", round(_RIGHT_SHARE * total, 1), right >= _RIGHT_SHARE * total),
            _figure("phases_on_wanted_scheduler", on_wanted, "", total, on_wanted == total),
            _figure("recognise_median_s", round(median_s, 2) if known else None, "s", None, known),
            self._evictions(),
            *self._longest_gap(),
            _figure("setup_s", round(setup_s, 1), "s", None, True),
            _figure("run_s", round(run_s, 1), "s", 300, run_s < 300),
        ]
        self._console.print(_summary_table(self._reports))
        for figure in figures:
            print(json.dumps(figure))
        # run_s is shown, not judged: a slow host is not a wrong agent
        judged = ("phases", "phases_recognised", "phases_on_wanted_scheduler")
        good = all(figure["ok"] for figure in figures if figure["name"] in judged)
        good = good and exit_code == 0 and self._left == "disabled"
        record = {
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **facts,
            "sched_ext_left": self._left,
            "stalled": None if self._stalled is None else list(self._stalled),
            "exit_code": exit_code,
            "good": good,
            "figures": figures,
            "phases": wire.plain(self._reports),
            "timeline": [
                {**wire.plain(event), "host_s": round(heard_s, 3)}
                for event, heard_s in zip(self._events, self._heard_s, strict=True)
            ],
        }
        try:
            out.write_text(json.dumps(record, indent=1) + "\n")
        except OSError as error:
            raise AsaError(f"{out}: the record cannot be written: {error.strerror}; name another by --out") from error
        self._console.print(f"the whole record is in {out}")
        return 0 if good else 1

    def _longest_gap(self) -> list[dict[str, object]]:
        """Between two events of the stage, by its own clock, and what passed meanwhile by the host's."""
        times = zip((event.at_s for event in self._events), self._heard_s, strict=True)
        gaps = ((stage - before[0], host - before[1]) for before, (stage, host) in itertools.pairwise(times))
        stage_s, host_s = max(gaps, default=(0.0, 0.0))
        return [
            _figure("longest_gap_s", round(stage_s, 1), "s", None, True),
            _figure("longest_gap_host_s", round(host_s, 1), "s", None, True),
        ]

    def _evictions(self) -> dict[str, object]:
        evicted = None if self._stalled is None else len(self._stalled)
        return _figure("evicted_by_watchdog", evicted, "", 0, evicted == 0)

    def _decision(self, at_s: float, decision: Decision) -> None:
        share = f"{decision.vote.confidence:.0%}"
        if self._status is not None:
            self._status.update(
                f"{at_s:5.0f} s  playing {self._phase or '-'}; recognised {decision.workload or '-'} {share}; "
                f"wanted {decision.wanted or '-'}; in force {decision.current or '-'}"
            )
        now = (decision.workload, decision.wanted, decision.current, decision.switch_to)
        if now != self._shown:
            self._shown = now
            self._show(at_s, self._phase, decision, decision.sentence)

    def _show(self, at_s: float, phase: str, decision: Decision | None, text: str) -> None:
        if not self._headed:
            self._headed = True
            head = ("second", "phase", "recognised", "share", "wanted", "in force", "")
            names = ("at", "phase", "workload", "share", "wanted", "in_force", "text")
            self._print(_COLUMNS.format(**dict(zip(names, head, strict=True))), style="bold")
        row = _COLUMNS.format(
            at=f"{at_s:.1f}",
            phase=phase,
            workload=(decision.workload or "-") if decision is not None else "",
            share=f"{decision.vote.confidence:.0%}" if decision is not None else "",
            wanted=(decision.wanted or "-") if decision is not None else "",
            in_force=(decision.current or "-") if decision is not None else "",
            text=text,
        )
        self._print(row.rstrip(), style="cyan" if decision is None else "")

    def _print(self, text: str, *, style: str = "") -> None:
        self._console.print(text, style=style, markup=False, soft_wrap=True)


def _ending(report: PhaseReport) -> str:
    verdict = "right" if report.right else "wrong"
    wanted = "as the table says" if report.on_wanted else f"but the table names {report.named_by_table}"
    after = "" if report.recognise_s is None else f" after {report.recognise_s:.1f} s"
    return f"ended: recognised as {report.recognised} ({verdict}{after}), {report.in_force} in force, {wanted}"


def _summary_table(reports: list[PhaseReport]) -> Table:
    table = Table(title="phases", show_lines=False)
    for name in (
        "phase",
        "recognised",
        "share",
        "after s",
        "table names",
        "sysfs says",
        "switch s",
        "way",
        "gap ms",
        "played s",
    ):
        table.add_column(name, justify="right" if name.endswith((" s", " ms")) or name == "share" else "left")
    for report in reports:
        table.add_row(
            report.workload,
            f"{report.recognised or '-'}{'' if report.right else '  (wrong)'}",
            f"{report.confidence:.0%}",
            _rounded(report.recognise_s),
            report.named_by_table or "-",
            f"{report.in_force or '-'}{'' if report.on_wanted else '  (not wanted)'}",
            _rounded(report.switch_s),
            report.way or "-",
            _rounded(None if report.gap_s is None else 1e3 * report.gap_s),
            _rounded(report.seconds),
        )
    return table


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _figure(name: str, value: float | None, unit: str, goal: float | None, ok: bool) -> dict[str, object]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "ok": ok}
