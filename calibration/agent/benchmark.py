# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the control plane, and how each is measured."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median

from asa import status
from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from asa.status import Status
from calibration.agent import adviser, foreign, fuzz, hint, random_model
from calibration.agent.client import LEGACY, MODERN, ROOT, Client
from calibration.agent.stand_in import SERVES
from calibration.goals import Named
from calibration.inpath import table
from calibration.kept import Count
from calibration.loop import experiments

KEPT = Path(__file__).parents[1] / "results" / "agent.json"
CALLS, SEED = 10_000, 32
_MORE_CALLS = 2_000  # each to a server that may change, of no agent, so that it has nothing to change; and to one that
# may work, with a stand-in for the laboratory
_TIMED = 500
_DEATHS = ("the server is killed in the candidate's first turn", "in its second", "the client closes its end")
_LIMIT_S = 60.0


class AgentFigure(Named):
    """The figures, each with its goal."""

    FAILED = (
        "mcp_conformance_failed_own",
        "checks",
        "of the conformance suite that fail, and no fixture is to blame",
        "<=",
        0.0,
    )
    CALLS = (
        "mcp_fuzzed_calls",
        "calls",
        "made from the server's own schemas: right, at the bounds, broken; of tools that look, change and work",
        ">=",
        10_000.0,
    )
    CRASHES = "mcp_crashes", "crashes", "of the server in these calls, inner errors among them", "<=", 0.0
    CHANGES = "mcp_changes_by_fuzz", "files", "that these calls have changed", "<=", 0.0
    CALL = "mcp_call_ms_p50", "ms", "from a call of `status` over stdio to its answer, the median", "<=", 5.0
    MEMORY = "mcp_rss_mb", "MB", "resident, of a server after every tool that looks was called", "<=", 90.0
    BACK = (
        "trial_back_s",
        "s",
        "until what served before a trial is in force again, after its server or client has gone",
        "<=",
        5.0,
    )
    ADVISER_TICK = "adviser_tick_us", "us", "that a tick pays for the adviser", "<=", 20.0
    WORST = "worst_adviser_loss_pct", "%", "that recognition loses by an adviser that answers at random", "<=", 0.5
    ORACLE = "oracle_adviser_gain_pct", "%", "that recognition gains by an adviser that knows the truth"
    GAIN = (
        "agent_gain_pct",
        "%",
        "of the experiments, the mean, by the agent's loop with a model as planner, against EEVDF",
    )
    BARE = "agent_gain_without_model_pct", "%", "the same by the loop without a language model"
    TRIALS = "agent_trials", "trials", "that the loop needs for it"
    HINT = "hint_gain_pct", "%", "more ticks recognised by a client that says with `high` what is done, as it begins"
    FALSE_HINT = "false_hint_loss_pct", "%", "fewer by the worst of 18 clients that say something else"
    OFF_PATH = (
        "adviser_requests_pct",
        "%",
        "more requests a second while the adviser asks without a pause than without it, beside the post's table",
    )
    PASSED = "random_models_asked", "models", "of random weights that llama.cpp serves and that pass", "<=", 0.0


def counts() -> Mapping[Named, Count]:
    """How each figure is measured."""
    return {
        AgentFigure.GAIN: experiments.with_model,
        AgentFigure.BARE: experiments.without_model,
        AgentFigure.TRIALS: experiments.trials,
        AgentFigure.FAILED: _conformance,
        AgentFigure.CALLS: lambda: (float(_fuzzed().calls), _of_fuzz()),
        AgentFigure.CRASHES: lambda: (float(len(_fuzzed().crashes)), "; ".join(_fuzzed().crashes[:3]) or _of_fuzz()),
        AgentFigure.CHANGES: lambda: (float(len(_fuzzed().changed)), "; ".join(_fuzzed().changed[:3]) or _of_fuzz()),
        AgentFigure.CALL: _call_ms,
        AgentFigure.MEMORY: _resident_mb,
        AgentFigure.BACK: _back_s,
        AgentFigure.ADVISER_TICK: lambda: adviser.tick_us(adviser.kept()),
        AgentFigure.WORST: lambda: adviser.worst_loss_pct(adviser.kept()),
        AgentFigure.ORACLE: lambda: adviser.oracle_gain_pct(adviser.kept()),
        AgentFigure.HINT: lambda: hint.gain_pct(adviser.kept()),
        AgentFigure.FALSE_HINT: lambda: hint.loss_pct(adviser.kept()),
        AgentFigure.OFF_PATH: lambda: table.off_path(lambda line: print(line, file=sys.stderr, flush=True)),
        AgentFigure.PASSED: random_model.passed,
    }


def _conformance() -> tuple[float, str]:
    folder = foreign.installed()
    foreign.inspected(folder, "--method", "tools/list", "--strict")
    foreign.inspected(folder, "--method", "tools/call", "--tool-name", "status")
    checks, every = foreign.conformance(folder), foreign.whole(folder)
    failed = [f"{check.id} ({check.era}): {check.words}" for check in (*checks, *every) if check.ours]
    passed = sum(check.status == "SUCCESS" for check in checks)
    words = f"{passed} checks of {sum(map(len, foreign.SCENARIOS.values()))} scenarios passed, both eras"
    if old := foreign.stale(checks):
        raise AsaError(f"expected failures that fail no more: {', '.join(old)}; take them out of EXPECTED")
    right, wrong = (sum(check.status == word for check in every) for word in ("SUCCESS", "FAILURE"))
    expected = f"all requirements of both eras, with a fixture: {right} passed, {wrong} fail as expected"
    return float(len(failed)), "; ".join((*failed[:3], words, expected, "the Inspector's --strict finds nothing"))


@cache
def _fuzzed() -> fuzz.Fuzzed:
    found = fuzz.Fuzzed()
    for calls, era, words in (
        (CALLS // 2, MODERN, ()),
        (CALLS - CALLS // 2, LEGACY, ()),
        (_MORE_CALLS, MODERN, ("--allow-changes",)),
        (_MORE_CALLS, MODERN, ("--allow-work",)),
    ):
        with tempfile.TemporaryDirectory(prefix="asa-fuzz-") as name:
            folder = Path(name)
            one = fuzz.fuzz(folder, _starter(folder, words, era), calls=calls, seed=SEED + found.calls)
        found.calls += one.calls
        found.lines += one.lines
        found.answered += one.answered
        found.crashes += one.crashes
        found.changed += one.changed
        found.ids += one.ids
    return found


def _starter(folder: Path, words: tuple[str, ...], era: str) -> Callable[[], Client]:
    return lambda: Client(folder, *words, era=era)


def _of_fuzz() -> str:
    found = _fuzzed()
    told = ", ".join(f"{count} {what}" for what, count in sorted(found.answered.items()))
    how = f"over stdio, both eras, seed {SEED}, {_MORE_CALLS} of them with --allow-changes, as many with --allow-work"
    more = f"{len(found.ids)} jobs begun, of a stand-in; besides {found.lines} lines that are no messages"
    return f"{found.calls} calls {how}: {told}; {more}"


def _call_ms() -> tuple[float, str]:
    found = {}
    for era in (MODERN, LEGACY):
        with tempfile.TemporaryDirectory(prefix="asa-call-") as name, Client(Path(name), era=era) as client:
            client.result("status")
            taken = []
            for _ in range(_TIMED):
                began_ns = time.perf_counter_ns()
                client.result("status")
                taken.append((time.perf_counter_ns() - began_ns) / 1e6)
            found[era] = median(taken)
    each = ", ".join(f"{value:.2f} ms in {era}" for era, value in found.items())
    return max(found.values()), f"{_TIMED} calls each: {each}"


def _resident_mb() -> tuple[float, str]:
    with tempfile.TemporaryDirectory(prefix="asa-rss-") as name, Client(Path(name)) as client:
        client.result("status")
        begun_mb = client.resident_mb()
        for tool, arguments in (
            ("status", {}),
            ("workload", {"detail": "features"}),
            ("explain", {}),
            ("policies", {"usable": False, "limit": 50}),
            ("policies", {"id": EEVDF}),
            ("compare", {"for_class": "browse", "a": EEVDF, "b": "scx_flash"}),
            ("history", {}),
            ("replay", {}),
        ):
            client.call(tool, arguments)
        return (
            client.resident_mb(),
            f"the SDK alone is 65; {begun_mb:.0f} after `status`; a child process has the features, with NumPy",
        )


def _back_s() -> tuple[float, str]:
    taken = [_death(number) for number in range(len(_DEATHS))]
    each = "; ".join(f"{what}: {seconds:.2f} s" for what, seconds in zip(_DEATHS, taken, strict=True))
    return max(taken), f"{each}. The agent's own loop, ticks of 1 s, over a scripted kernel: loading comes on top"


def _death(number: int) -> float:
    with tempfile.TemporaryDirectory(prefix="asa-trial-") as name, _agent(Path(name)) as run:
        _until(run, lambda found: found.scheduler == SERVES)
        with Client(Path(name), "--allow-changes") as client:
            intent = {"metric": "wakeup_p99_us"}
            trial = client.result("trial", policy=EEVDF, intent=intent, why="to see what a death leaves", seconds=40)
            _until(run, lambda found: found.scheduler == EEVDF)
            while number == 1 and client.result("job", id=trial["id"], wait_s=0)["trial"]["turn"] < 3:
                time.sleep(0.2)
            began_s = time.monotonic()
            if number == 2:
                client.process.communicate()  # closes its standard input
            else:
                client.process.kill()
            _until(run, lambda found: found.scheduler == SERVES and not found.held)
            return time.monotonic() - began_s


@contextmanager
def _agent(folder: Path) -> Iterator[Path]:
    words = [sys.executable, "-m", "calibration.agent.stand_in", str(folder)]
    with subprocess.Popen(words, cwd=ROOT) as agent:
        try:
            yield folder / "run"
        finally:
            agent.terminate()


def _until(run: Path, fits: Callable[[Status], bool]) -> None:
    end_s = time.monotonic() + _LIMIT_S
    while True:
        found = status.read(run)
        if found is not None and fits(found):
            return
        if time.monotonic() > end_s:
            raise AsaError(f"not within {_LIMIT_S:g} s: {found}")
        time.sleep(0.01)
