# SPDX-License-Identifier: GPL-2.0-only
"""The campaigns of a calibration: what is played, in a folder, so that an interrupted one goes on by the same command.

Stages 1 and 2 play a plan that stands from the start, stage 3 plays rounds: what the next one plays follows from what
all before it have shown (`calibration.stages.best_arm`), until everything is settled or the budget is spent. A round
that was begun is played as it was decided. What is made of the results is `calibration.stages.table`'s.
"""

import math
import random
import secrets
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from asa import wire
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import AsaError
from asa.decide.table import TableFile
from calibration.scenarios.scores import Played, played
from calibration.scoring.table import APPLICATIONS
from calibration.stages.best_arm import Candidates, Rule, Verdict, Wish, next_trials, verdict
from calibration.stages.columns import LIVE, SHADOW, plain
from calibration.stages.play import Player, of_one_time
from calibration.stages.ranking import Expected, Ranked, cells, fit, rank, spread
from scenarios import runner_folder
from scenarios.catalogue import SCENARIOS, Scenario
from scenarios.runner import SCHEDULER
from scenarios.runner_folder import Folder
from scenarios.runner_plan import Asked, Outcome, Plan, Result, Trial, make, session_seed

_CAMPAIGN, _ROUNDS = "campaign.json", "rounds"
_OF_OTHERS = ("plan.json", "machine.json", "trials.parquet")  # of a stage, a benchmark's run, a fleet's machine
_FIRST_TRIAL_S = 30.0  # beside what is measured, before any was played: a guess that the first trial replaces
_FIRST_TRIALS = 4  # in a round while nothing tells how long one takes
_MOST_FAILURES = 2  # of a scheduler, in a class or by itself, before it is left out
SIBLINGS = 0.05
"""How far a scheduler's gain in a class is taken to be from that in classes with one application in common.

A standard deviation of score; a first choice, measured on nothing."""
_SURE = 1e-3  # EEVDF is what gains are above: its own is 0


class Belief(msgspec.Struct, frozen=True, kw_only=True):
    """What was known of a class before: candidates in order, and of some how much they should gain over EEVDF."""

    names: tuple[str, ...]
    gains: dict[str, tuple[float, float]] = {}  # with the standard error


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """Stage 3 as it was asked for. Of the two budgets one is given.

    `before` is the table that was there when it began. The one that is there at its end may hold its own results.
    """

    version: int = 1
    run: str
    asked: Asked
    trials: int | None
    seconds: float | None  # of machine time
    live: bool  # with the agent at work
    beliefs: dict[str, Belief]  # by label
    before: TableFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What stage 3 has come to. `spent_s`: machine time, with starts and stops. `left_out`: scheduler -> why.

    `before` is the campaign's.
    """

    run: str
    results: tuple[Result, ...]
    verdicts: Mapping[Workload, Verdict]
    unplayed: tuple[Workload, ...]  # classes without a single score
    left_out: Mapping[SchedulerName, str]
    spent_s: float
    rounds: int
    before: TableFile | None


@dataclass(slots=True)
class _State:
    """Of a campaign so far."""

    planned: dict[str, Trial] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)

    @property
    def spent_s(self) -> float:
        """Of a trial whose guest was lost nobody knows: each attempt counts as the longest trial that is known."""
        longest_s = max((one.took_s for one in self.results.values()), default=0.0)
        return sum((one.took_s or longest_s) * one.attempts for one in self.results.values())

    def trials_s(self, asked: Asked, count: int) -> float:
        """What so many trials may take with all their attempts: each as the longest that was played, or less if many.

        Of many the mean counts, and two standard deviations of their sum.
        """
        took = [one.took_s * one.attempts for one in self.results.values() if one.took_s > 0.0]
        if not took:
            return count * (asked.seconds + asked.warm_up_s + _FIRST_TRIAL_S)
        swing_s = 2.0 * statistics.pstdev(took) * math.sqrt(count) + max(took) - statistics.fmean(took)
        return min(count * max(took), count * statistics.fmean(took) + swing_s)


def shadows(schedulers: Iterable[str]) -> tuple[str, ...]:
    """Stage 2's columns: no agent, the agent with nothing to load, and the agent with each scheduler as a shadow."""
    return (str(EEVDF), *(f"{SHADOW}{name}" for name in dict.fromkeys((str(EEVDF), *schedulers))))


def play_plan(path: Path, asked: Asked, scenarios: Sequence[Scenario], player: Player) -> tuple[Plan, list[Result]]:
    """Stages 1 and 2: all that is asked for. Raises AsaError; what was played is kept then."""
    if (path / _CAMPAIGN).exists():
        raise AsaError(f"{path}: holds a campaign of stage 3; name another folder by --folder")
    with Folder(path, asked, lambda name: make(asked, scenarios, name)) as folder:
        left = folder.left()
        if left:
            player.play(folder, left)
        results = list(folder.results().values())
        of_one_time(results)
        return folder.plan, results


def play_rounds(path: Path, wanted: Campaign, player: Player, rule: Rule) -> Learnt:
    """Stage 3. `wanted.run`, `.beliefs` and `.before` are those of a new campaign; one that is there has its own.

    Raises AsaError; what was played is kept then.
    """
    campaign = _begin(path, wanted)
    state, number = _State(), 0
    while True:
        number += 1
        folder_path = path / _ROUNDS / f"{number:04}"
        plan = _planned(folder_path) or _next(campaign, state, number, player.batch, rule)
        if plan is None:
            break
        with Folder(folder_path, plan.asked, _always(plan)) as folder:
            known = folder.results()  # one that failed is not played again: what followed was decided by that
            left = [trial for trial in plan.trials if trial.id not in known]
            if left:
                player.play(folder, left)
            state.planned |= {trial.id: trial for trial in plan.trials}
            state.results |= folder.results()
    of_one_time(state.results.values())
    return _learnt(campaign, state, number - 1, rule)


def beliefs(
    campaign: Campaign, ranked: Mapping[Workload, Sequence[Ranked]], trials: Sequence[Played]
) -> dict[Workload, Candidates]:
    """What is expected in each class: by what was known before, else by classes with an application in common.

    Of whom neither says anything, the order of what was known counts.
    """
    known = cells(trials)
    noise = spread(known.values())
    found = {}
    for label, belief in campaign.beliefs.items():
        names = tuple(SchedulerName(name) for name in belief.names)
        expected = {
            SchedulerName(name): Expected(gain=gain, error=error) for name, (gain, error) in belief.gains.items()
        }
        beside = {
            block: row
            for other, blocks in known.items()
            if other != label and other in ranked and set(other.split("+")) & set(label.split("+"))
            for block, row in blocks.items()
        }
        there = {name for row in beside.values() for name in row}
        if EEVDF in there:
            gains = fit(beside, tuple(sorted(there)), noise)
            for name in there & set(names) - expected.keys() - {EEVDF}:
                gain, error = gains.difference(name, EEVDF)
                expected[name] = Expected(gain=gain, error=(error**2 + SIBLINGS**2) ** 0.5)
        if expected:
            expected[EEVDF] = Expected(gain=0.0, error=_SURE)
        found[Workload(label)] = Candidates(names=names, expected=expected)
    return found


def _begin(path: Path, wanted: Campaign) -> Campaign:
    place = path / _CAMPAIGN
    try:
        found = wire.from_json(place.read_bytes(), Campaign)
    except FileNotFoundError:
        others = [name for name in _OF_OTHERS if (path / name).exists()]
        if others:
            raise AsaError(f"{path}: holds something else ({others[0]}); name another folder by --folder") from None
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AsaError(f"{path}: {error.strerror}; name another folder by --folder") from error
        runner_folder.write(place, wanted)
        return wanted
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{place}: is no campaign: {error}; name another folder by --folder") from error
    for name in ("asked", "trials", "seconds", "live"):
        if getattr(found, name) != getattr(wanted, name):
            raise AsaError(f"{path}: holds another campaign ({name} differ); name another folder by --folder")
    return found


def whole(found: Learnt, asked: Asked) -> Plan:
    """All rounds as one plan, for tables of the results."""
    trials = sorted((one.trial for one in found.results), key=lambda trial: trial.order)
    return Plan(run=found.run, asked=asked, trials=tuple(trials))


def new_run() -> str:
    """A name for a campaign's results."""
    return secrets.token_hex(4)


def _always(plan: Plan) -> Callable[[str], Plan]:
    return lambda _name: plan


def _planned(path: Path) -> Plan | None:
    try:
        return wire.from_json((path / "plan.json").read_bytes(), Plan)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: holds no round of a campaign: {error}; name another folder by --folder") from error


def _next(campaign: Campaign, state: _State, number: int, batch: int, rule: Rule) -> Plan | None:
    """What the next round plays; None when all is settled, or nothing more can be paid."""
    trials = played(campaign.run, list(state.results.values()))
    ranked = rank(trials)
    candidates = _able(beliefs(campaign, ranked, trials), state)
    left = _payable(campaign, state)
    chosen: list[Trial] = []
    for wish in next_trials(ranked, candidates, rule.most * len(candidates), rule):
        chosen += _paid(campaign, wish, state, chosen, left - len(chosen))
        if len(chosen) >= (batch if state.results else min(batch, _FIRST_TRIALS)):
            break
    if not chosen:
        return None
    random.Random(f"{campaign.asked.seed} {number}").shuffle(chosen)  # noqa: S311
    order = len(state.planned)
    return Plan(
        run=campaign.run,
        asked=campaign.asked,
        trials=tuple(msgspec.structs.replace(one, order=order + place) for place, one in enumerate(chosen, 1)),
    )


def _payable(campaign: Campaign, state: _State) -> int:
    """How many more trials the budget gives."""
    if campaign.trials is not None:
        return campaign.trials - len(state.planned)
    assert campaign.seconds is not None  # noqa: S101  # one of the two is given
    left_s, count = campaign.seconds - state.spent_s, 0
    while state.trials_s(campaign.asked, count + 1) <= left_s:
        count += 1
    return count


def _paid(campaign: Campaign, wish: Wish, state: _State, chosen: Sequence[Trial], left: int) -> list[Trial]:
    """A wish's trials, for fewer schedulers when there is not enough for all; none when not even for two."""
    for count in range(len(wish.names), 1, -1):
        fewer = replace(wish, names=wish.names[:count])
        found = _trials(campaign, fewer, state, chosen)
        if len(found) <= left:
            return found
    return []


def _trials(campaign: Campaign, wish: Wish, state: _State, chosen: Sequence[Trial]) -> list[Trial]:
    """A class's next block, and what its relative metrics are compared with, unless that is played already."""
    known = [*state.planned.values(), *chosen]
    prefix = LIVE if campaign.live else ""
    repeat = 1 + max((one.repeat for one in known if one.label == wish.workload and _of_block(one)), default=0)
    front, back = _parts(wish.workload)
    found = [_trial(campaign, front, back, f"{prefix}{name}", repeat) for name in wish.names]
    there = {one.id for one in (*known, *found)}
    for name in filter(None, (front, back)):
        single = _trial(campaign, *_parts(name), str(EEVDF), repeat)
        if single.id not in there and any(metric.relative for metric in APPLICATIONS[name].metrics):
            found.append(single)
    return found


def _of_block(trial: Trial) -> bool:
    """Not one that others are only compared with."""
    return bool(trial.interactive and trial.background) or trial.scheduler != EEVDF


def _parts(label: str) -> tuple[str, str]:
    return next((one.interactive, one.background) for one in SCENARIOS if one.label == label)


def _trial(campaign: Campaign, front: str, back: str, scheduler: str, repeat: int) -> Trial:
    scenario = next(one for one in SCENARIOS if (one.interactive, one.background) == (front, back))
    return Trial(
        id=f"{repeat:03}-{scenario.label}-{scheduler.replace(':', '.')}",
        order=0,  # given with the round's
        repeat=repeat,
        scenario=scenario.name,
        interactive=front,
        background=back,
        scheduler=scheduler,
        copy=1,
        seed=session_seed(campaign.asked.seed, repeat),
    )


def _failures(state: _State) -> tuple[Mapping[SchedulerName, str], Mapping[tuple[str, SchedulerName], str]]:
    """Schedulers that do not come up here, and those that fail in a class, each with the last reason."""
    by_name: Counter[SchedulerName] = Counter()
    in_class: Counter[tuple[str, SchedulerName]] = Counter()
    words: dict[SchedulerName, str] = {}
    places: dict[tuple[str, SchedulerName], str] = {}
    well = {plain(one.trial.scheduler) for one in state.results.values() if one.outcome is not Outcome.FAILED}
    for one in state.results.values():
        if one.outcome is Outcome.FAILED:
            name = plain(one.trial.scheduler)
            in_class[one.trial.label, name] += 1
            places[one.trial.label, name] = one.reason
            if one.failure == SCHEDULER and name not in well and name != EEVDF:
                by_name[name] += 1
                words[name] = one.reason
    return (
        {name: words[name] for name, count in by_name.items() if count >= _MOST_FAILURES},
        {place: places[place] for place, count in in_class.items() if count >= _MOST_FAILURES},
    )


def _able(candidates: Mapping[Workload, Candidates], state: _State) -> dict[Workload, Candidates]:
    """Without those that fail; without a class that cannot be played."""
    everywhere, in_class = _failures(state)
    blocks = {(one.label, one.repeat) for one in state.planned.values() if _of_block(one)}
    scored = {label for label, _ in _scored(state)}
    found = {}
    for label, given in candidates.items():
        if label not in scored and sum(one == label for one, _ in blocks) > _MOST_FAILURES:
            continue
        names = tuple(name for name in given.names if name not in everywhere and (label, name) not in in_class)
        if len(names) > 1 and EEVDF in names:
            found[label] = Candidates(names=names, expected=given.expected)
    return found


def _scored(state: _State) -> set[tuple[Workload, SchedulerName]]:
    found = cells(played("", list(state.results.values())))
    return {(label, name) for label, blocks in found.items() for row in blocks.values() for name in row}


def _learnt(campaign: Campaign, state: _State, rounds: int, rule: Rule) -> Learnt:
    trials = played(campaign.run, list(state.results.values()))
    ranked = rank(trials)
    own = {
        label for label, blocks in cells(trials).items() if len({name for row in blocks.values() for name in row}) > 1
    }
    believed = beliefs(campaign, ranked, trials)
    candidates = {**believed, **_able(believed, state)}
    noise = spread(cells(trials).values())
    by_label: dict[str, list[str]] = defaultdict(list)
    everywhere, in_class = _failures(state)
    for (label, name), reason in in_class.items():
        by_label[name].append(f"{label}: {reason}")
    left_out = {SchedulerName(name): "; ".join(whys) for name, whys in by_label.items()} | dict(everywhere)
    return Learnt(
        run=campaign.run,
        results=tuple(state.results.values()),
        verdicts={
            label: verdict(label, ranked[label], candidates[label], rule, noise) for label in candidates if label in own
        },
        unplayed=tuple(label for label in candidates if label not in own),
        left_out=left_out,
        spent_s=state.spent_s,
        rounds=rounds,
        before=campaign.before,
    )
