# SPDX-License-Identifier: GPL-2.0-only
"""Figures of kinds of use count the ticks of programs that were held out, and say why where there are none."""

import dataclasses

import numpy as np
import pytest
from forty_labels import SMALL, forty

from asa import paths, wire
from asa.core.errors import AsaError
from asa.core.sample import HintState, RawSample
from calibration.kept import collect
from calibration.recognition import sources, uses
from calibration.recognition.benchmark import Bench
from calibration.recognition.evaluation import Options
from calibration.recognition.papers import PAPERS
from calibration.recognition.uses import Judged, UseFigure
from models import features
from models.artefact import Score
from models.train import hinting, programs
from models.train.dataset import Dataset, programs_of
from models.train.factored import Kind
from models.train.held_out import Kept, Outcome

KINDS = {"web": "browse", "game": "play", "disk": "disk", "llm": "infer"}
NO_HINTS = HintState(
    front="", entries=(), playing=None, game_clients=None, idle_inhibited=None, sound_played=None, sound_recorded=None
)
TINY = dataclasses.replace(SMALL, rounds=3, forest_trees=8)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return two_programs(ticks=8, fronts=("", "web", "game"), backs=("", "disk", "llm"))


def two_programs(ticks: int, fronts: tuple[str, ...], backs: tuple[str, ...]) -> Dataset:
    """Of each kind."""
    made = forty(seeds=4, ticks=ticks, fronts=fronts, backs=backs)
    sessions = []
    for number, one in enumerate(made.sessions):
        parts = [] if one.label == "idle" else one.label.split("+")
        names = {f"{part}-{number // (place + 1) % 2}": "" for place, part in enumerate(parts)}
        label = "+".join(KINDS[part] for part in parts) or "idle"
        sessions.append(dataclasses.replace(one, label=label, parameters=wire.json_text(names)))
    classes = tuple("+".join(KINDS.get(part, part) for part in name.split("+")) for name in made.classes)
    fronts, backs = (tuple(KINDS.get(name, "") for name in names) for names in (made.interactives, made.backgrounds))
    return dataclasses.replace(made, sessions=tuple(sessions), classes=classes, interactives=fronts, backgrounds=backs)


def said(data: Dataset, wrong: tuple[str, str] = ("", ""), known: bool = True) -> list[Judged]:
    """Always right, but of one label."""
    made = []
    for one in programs.splits(data, np.ones(len(data.y), dtype=bool)):
        y = data.y[one.test].copy()
        if wrong[0]:
            y[y == data.classes.index(wrong[0])] = data.classes.index(wrong[1])
        shares = np.eye(len(data.classes))[y]
        outcome = Outcome(
            kind=Kind.FLAT,
            of={Kind.FLAT: shares},
            by_member=np.stack([shares] * 3),
            hidden={"gnome": shares},
            score=Score.PROBABILITY,
            known=np.full(len(y), known),
            weights=np.ones((1, 3)),
            temperature=np.ones(1),
            validation_pct={},
        )
        made.append(Judged(away=one.away, test=one.test, outcome=outcome))
    return made


def schedulers(data: Dataset) -> np.ndarray:
    return sources.first(data.classes, {"browse": "scx_lavd", "play": "scx_lavd", "browse+disk": "scx_flash"})


def test_a_class_that_the_table_does_not_rank_is_served_by_nothing_else():
    found = sources.first(("browse", "call"), {"browse": "scx_lavd"})
    assert found.tolist() == ["scx_lavd", "eevdf"]


def test_programs_are_judged_where_packages_were_asked_for_if_they_were_anywhere(data: Dataset):
    told = RawSample(monotonic_ns=1, wall_ns=1, hints=dataclasses.replace(NO_HINTS, packages=()))
    asked = next(number for number, one in enumerate(data.sessions) if one.label == "browse+disk")
    sessions = list(data.sessions)
    sessions[asked] = dataclasses.replace(sessions[asked], samples=(told,))
    judges = uses.judges(dataclasses.replace(data, sessions=tuple(sessions)))
    played = programs_of(data.sessions[asked]).keys()
    for number, one in enumerate(data.sessions):
        expected = number == asked or played.isdisjoint(programs_of(one))
        assert judges[data.session == number].tolist() == [expected] * int((data.session == number).sum())
    assert 0 < judges.sum() < len(judges)


def bench_of(data: Dataset) -> Bench:
    options = Options(recipe=TINY, seed=1, quick=True, jobs=1, kept=Kept(None), model=paths.base_model())
    served = dataclasses.replace(data, served=tuple(sources.first(data.classes, {}).tolist()))
    return Bench(served, lambda: served, options, lambda _what, _share: None)


def test_what_is_right_and_known_costs_nothing(data: Dataset):
    judged = said(data)
    assert uses.right(data, judged) == uses.halves(data, judged, 0) == uses.halves(data, judged, 1) == 100.0
    assert uses.taken(data, judged) == (0.0, 0.0)
    assert uses.voted(data, judged, schedulers(data)) == (100.0, 0.0)


def test_a_wrong_half_counts_in_its_half_alone(data: Dataset):
    judged = said(data, ("browse+disk", "browse+infer"))
    assert uses.halves(data, judged, 0) == 100.0
    assert 0.0 < uses.halves(data, judged, 1) < 100.0
    wrong, unknown = uses.taken(data, judged)
    assert 0.0 < wrong == pytest.approx(100.0 - uses.right(data, judged))
    assert unknown == 0.0


def test_a_wrong_kind_with_the_same_scheduler_is_no_wrong_scheduler(data: Dataset):
    assert uses.voted(data, said(data, ("play", "browse")), schedulers(data))[1] == 0.0
    right, wrong = uses.voted(data, said(data, ("play", "browse+disk")), schedulers(data))
    assert right < 100.0
    assert wrong > 0.0


def test_what_fits_no_kind_is_unknown_and_no_wrong_kind(data: Dataset):
    judged = said(data, ("browse", "play"), known=False)
    assert uses.taken(data, judged) == (0.0, 100.0)
    assert uses.voted(data, judged, schedulers(data))[1] == 0.0


def test_without_a_desktop_in_any_recording_nothing_is_said_of_it(data: Dataset):
    x = data.x.copy()
    x[:, features.columns({features.Source.DESKTOP})] = np.nan
    blind = dataclasses.replace(data, x=x)
    with pytest.raises(AsaError, match="no tick with a desktop"):
        uses.halves(blind, said(blind), 0, desktop=True)


def test_fewer_programs_are_learnt_from_and_the_same_ticks_judge(data: Dataset):
    part = programs.splits(data, np.ones(len(data.y), dtype=bool))[0]
    one = uses.fewer(data, part, 1)
    assert one is not None
    assert np.array_equal(one.test, part.test)
    assert set(map(len, programs.by_kind(data, one.learnt).values())) == {1}
    assert uses.fewer(data, part, 2) is None


def test_a_machine_is_left_out_where_others_play_its_kinds(data: Dataset):
    third = np.array([number % 3 == 0 for number in range(len(data.sessions))])[data.session]
    inside, outside = uses.machine_out(data, third)
    assert inside
    for one, other in zip(inside, outside, strict=True):
        assert one.away == other.away
        assert np.array_equal(one.test, other.test)
        assert not (one.test & ~third).any()
        assert (one.learnt & third).any()
        assert np.array_equal(other.learnt, one.learnt & ~third)
    browses = np.array(["browse" in one.label for one in data.sessions])[data.session]
    assert uses.machine_out(data, browses) == ([], [])  # nobody else browses


def test_a_load_of_one_program_does_not_end_the_curve(data: Dataset):
    one_disk = dict.fromkeys(("disk-0", "disk-1"), "disk")
    sessions = []
    for one in data.sessions:
        named = {one_disk.get(name, name): "" for name in programs_of(one)}
        sessions.append(dataclasses.replace(one, parameters=wire.json_text(named)))
    single = dataclasses.replace(data, sessions=tuple(sessions))
    everything = np.ones(len(data.y), dtype=bool)
    part = dataclasses.replace(programs.splits(single, everything)[0], learnt=everything)
    assert len(programs.by_kind(single, everything)["disk"]) == 1
    found = uses.fewer(single, part, 2)
    assert found is not None
    assert programs.by_kind(single, found.learnt)["disk"] == ("disk",)


def test_what_can_be_measured_is_and_the_rest_has_a_reason(data: Dataset):
    bench = bench_of(data)
    counts = bench.counts()
    assert {*counts, *PAPERS} == set(UseFigure)
    asked = (UseFigure.WRONG, UseFigure.UNKNOWN, UseFigure.CURVE_1, UseFigure.CURVE_5, UseFigure.NO_LABEL)
    kept = collect({name: counts[name] for name in (*asked, UseFigure.MACHINE, UseFigure.TAUGHT)})
    assert kept.reasons[UseFigure.TAUGHT].startswith("no held-out program has 120 ticks alone")
    assert {name for name, value in kept.values.items() if value is None} == {
        UseFigure.TAUGHT,
        UseFigure.CURVE_5,
        UseFigure.NO_LABEL,
        UseFigure.MACHINE,
    }
    assert (kept.values[UseFigure.CURVE_1] or 0.0) > 60.0
    assert "8 programs held out, in 2 trainings" in kept.details[UseFigure.WRONG]
    assert kept.reasons[UseFigure.NO_LABEL] == "no recording of a situation of no kind"
    assert "some kind has fewer than 5 programs" in kept.reasons[UseFigure.CURVE_5]
    assert kept.reasons[UseFigure.MACHINE].startswith("all recordings are of")


def test_hints_that_are_right_gain_and_those_of_other_sessions_do_the_harm(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
):
    noisy = dataclasses.replace(data, x=(data.x + np.random.default_rng(3).normal(size=data.x.shape) * 2).astype("f4"))
    bench = bench_of(noisy)
    counts = bench.counts()
    with pytest.raises(AsaError, match="no recording has what desktop or distribution know"):
        counts[UseFigure.HINT]()

    def told(data: Dataset, _hints: object) -> hinting.Told:
        speaks = np.eye(len(data.classes))[data.y]
        return hinting.Told(speaks=speaks, agrees=speaks > 0)

    monkeypatch.setattr(hinting, "told", told)
    counts = bench_of(noisy).counts()
    gain, words = counts[UseFigure.HINT]()
    assert gain > 0.0
    assert words.startswith("weight ")
    assert counts[UseFigure.HARM]()[0] > 0.0


def test_two_taught_minutes_of_a_program_are_judged_on_its_other_ticks():
    data = two_programs(ticks=130, fronts=("", "web"), backs=("", "disk"))
    bench = bench_of(data)
    value, words = bench.counts()[UseFigure.TAUGHT]()
    assert words == "4 programs"
    assert value > 90.0
