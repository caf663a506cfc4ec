# SPDX-License-Identifier: GPL-2.0-only
"""`asa trial`: what is tried and what is next; tells the running agent to try a scheduler, or to leave it."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.main import Commands
    from asa.requests import Request
    from asa.status import Learned, Status, Tried, Trying

_YES, _NO, _STOP = "yes", "no", "stop"

_TEXT = """\
A trial asks whether a scheduler serves what is done now better than the one in force. The two take turns of
8 to 20 seconds. Without an argument this shows the trial under way, the next one, and what was found.

With the name of a scheduler the agent tries it for what is done now, as soon as nothing speaks against it. It
then does not count the time and the switches against its budget. The setting `policy.learn` says whether the
agent tries schedulers by itself.
"""
_MORE = """\
exit status:
  0  shown, or done
  1  there is no agent, or it cannot try that scheduler
  3  no agent is running, and nothing was asked of it

examples:
  asa trial
      What is tried, and what was found.
  asa trial scx_bpfland
      Try this one for what is done now.
  asa trial yes
      Try the one that the agent asks for.
  asa trial stop
      End the trial under way. The agent does not try that scheduler for this use again.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "trial", help="try schedulers by turns, and show what was found", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "what", nargs="?", metavar="SCHEDULER", help="a scheduler to try; or yes, no (to the question), stop"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait for what becomes of it, and say it. Raises AsaError."""
    from asa import paths, requests, status, wire
    from asa.report.markup import plain

    what = arguments.what
    done = True
    if what is None:
        found = status.read(paths.default().run) or status.read(paths.Places().run)
    else:
        folder, before = requests.agent()
        found = requests.ask(folder, before, _request(what, before), settled=lambda now: _settled(now, what))
        done = _settled(found, what)
    if arguments.json:
        shown = None if found is None else {"trial": found.trial, "learned": found.learned}
        print(wire.json_text({"running": found is not None, "done": done, "agent": shown}))
    elif found is None:
        print("agent      not running; `asa run` starts it")
    else:
        print("\n".join(plain(line) for line in _lines(found)))
    if found is None:
        return 3
    return 0 if done else 1


def _request(what: str, before: "Status") -> "Request":
    from asa import requests
    from asa.cli.hold import check_switching
    from asa.cli.switch import check_never, checked
    from asa.core.errors import AsaError

    check_switching(before)
    trial = before.trial
    if what in (_NO, _STOP):
        if trial is None or (what == _STOP and not trial.under_way):
            raise AsaError("no trial is under way; `asa trial` shows what is next")
        return requests.Untry()
    if what == _YES:
        if trial is None or not trial.question:
            raise AsaError("the agent asks for nothing; `asa trial` shows what is next")
        return requests.Try()
    name = checked(what, requests.agent()[0])
    check_never(name, before)
    if before.mode == "hold":
        raise AsaError(f"the agent is on hold ({before.mode_reason}); `asa resume` first")
    if name == before.scheduler and not (trial is not None and trial.under_way):
        raise AsaError(f"{name} is in force; try another one, or `asa trial eevdf`")
    if name in before.barred or name in before.set_aside:
        raise AsaError(f"{name} may not serve this use now (`asa explain` says why); `asa resume {name}` first")
    if trial is not None and trial.under_way and trial.candidate != name:
        raise AsaError(f"{trial.candidate} is tried now; `asa trial stop` ends that")
    return requests.Try(scheduler=name)


def _settled(found: "Status", what: str) -> bool:
    """Does the status show what was asked for?"""
    trial = found.trial
    if what in (_NO, _STOP):
        return trial is None or not trial.under_way
    if what == _YES:
        return trial is not None and not trial.question
    return trial is not None and trial.candidate == what


def _lines(found: "Status") -> "Iterator[str]":
    if found.trial is not None:
        yield from trial_lines(found.trial)
    elif found.learned is not None and found.learned.learn == "off":
        yield "trial      none: policy.learn is off"
    else:
        yield f"trial      none: {found.sentence}"
    if found.learned is None:
        return
    yield f"learned    {learned_line(found.learned)}"
    for number, one in enumerate(found.learned.here):
        yield f"{'found     ' if number == 0 else '          '} {found.workload}: {tried_line(one)}"


def trial_lines(trial: "Trying") -> "Iterator[str]":
    """The trial under way, or the next one, for people."""
    what = f"{trial.candidate} against {trial.in_force} for {trial.use}"
    turns = "" if trial.block_s is None else f", turns of {trial.block_s:.0f} s"
    if trial.under_way:
        yield f"trial      {what}: {trial.pairs} of {trial.most_pairs} pairs at most{turns}"
        return
    made = f", {trial.pairs} pairs are made" if trial.pairs else ""
    head = "question  " if trial.question else "next      "
    yield f"{head} {what}{turns}{made}"
    if trial.why_not:
        yield f"           {trial.why_not}"


def learned_line(found: "Learned") -> str:
    """What trials taught, and what they took."""
    parts = [f"{found.better} better, {found.worse} worse, {found.alike} alike of {found.asked} that were tried"]
    if found.watched_s:
        share = found.tried_s / found.watched_s
        parts.append(f"{found.tried_s:.0f} s of {found.watched_s / 3600:.1f} h went into trials ({share:.1%})")
    parts.append(f"{found.switches} of {found.most_switches} switches in the last hour")
    return f"policy.learn is {found.learn}; {'; '.join(parts)}"


def tried_line(one: "Tried") -> str:
    """What was found of one candidate."""
    verdict = one.verdict or "not known yet"
    if one.share is None:
        return f"{one.candidate} against {one.in_force}: {verdict}"
    ends = "" if one.low is None or one.high is None else f" ({one.low:+.0%} to {one.high:+.0%})"
    saved = f"saves {one.share:+.0%} of the wait{ends}"
    return f"{one.candidate} against {one.in_force}: {verdict}, {saved}, {one.pairs} pairs"
