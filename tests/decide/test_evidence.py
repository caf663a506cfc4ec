# SPDX-License-Identifier: GPL-2.0-only
"""Evidence of a tick, and how far it can move a model: no further than its weight."""

import itertools
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.evidence import MOST_WEIGHT, Evidence
from asa.core.kinds import BACKGROUND, INTERACTIVE, Kind
from asa.core.sample import DesktopEntry, GroupUsage, HintState, PackageUse, RawSample
from asa.decide import evidence, hints
from asa.decide.disturbed import SOON_MS
from asa.decide.evidence import HOLD_NS, at_work, pooled

S = 1_000_000_000
APP = "user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome"
TABLE = hints.load(Path("/nowhere/asa.yaml"), 1.0)
LABELS = tuple(Workload(name) for name in ("idle", "web", "game", "archive", "web+archive", "game+archive", "cpu"))


def state(front="", playing=None, **known):
    entries = {name: known.pop(name) for name in list(known) if isinstance(known[name], tuple)}
    told = {"game_clients": None, "idle_inhibited": None, "sound_played": None, "sound_recorded": None} | known
    return HintState(
        front=front, entries=tuple(DesktopEntry(*one) for one in sorted(entries.items())), playing=playing, **told
    )


def sample(second, hints=None, **used_s):
    """Groups by the name of their entry, with the CPU time that they used so far."""
    groups = tuple((f"{APP}-{name}-1.scope", round(used * 1e6)) for name, used in used_s.items())
    return RawSample(monotonic_ns=second * S, wall_ns=0, hints=hints, groups=GroupUsage(cpu_us=groups))


def of_tick(before, now, table):
    return evidence.of_tick(before, now, table, at_work((), now))


def found(hints_state, **used_s):
    """Evidence of one second in which groups used so much CPU time."""
    before = sample(1, None, **dict.fromkeys(used_s, 5.0))
    return of_tick(before, sample(2, hints_state, **{name: 5.0 + used for name, used in used_s.items()}), TABLE)


def judged(*values, known=True):
    total = math.fsum(values)
    probabilities = Probabilities(classes=LABELS[: len(values)], values=tuple(value / total for value in values))
    return Judgement(probabilities=probabilities, score=None, known=known)


def test_without_a_desktop_there_is_none():
    assert of_tick(sample(1), sample(2), TABLE) is None
    assert of_tick(None, sample(2, state()), TABLE) == Evidence()


def test_the_window_in_front_speaks_for_the_interactive_half():
    seen = found(state("one", one=("Network", "WebBrowser", "X-Odd")))
    assert seen.interactive == {Kind.BROWSE: 1.0, Kind.WATCH: 0.7, Kind.CALL: 0.7}
    assert seen.background == {}
    assert seen.because == ("one is in front (browse 1.00, watch 0.70, call 0.70)",)


def test_how_the_one_in_front_is_known_is_said():
    seen = found(replace(state("one", one=("Game",)), front_by_groups=True))
    assert seen.because == ("one is in front, by its control group (play 1.00)",)


def test_sound_within_an_instruments_time_and_a_held_profile_speak():
    seen = found(state(sound_played=True, sound_latency_ms=SOON_MS))
    assert seen.interactive[Kind.SOUND] == TABLE.signals[hints.Signal.SOON][Kind.SOUND] == 0.8
    assert Kind.SOUND in found(state(sound_played=True, sound_latency_ms=2 * SOON_MS)).interactive  # as any sound
    assert found(state(sound_played=True, sound_latency_ms=2 * SOON_MS)).interactive[Kind.SOUND] < 0.8
    assert found(state(sound_played=False, sound_latency_ms=SOON_MS)) == found(state())
    assert found(state(power_held=True)).interactive == {Kind.PLAY: 0.5}


def test_an_entry_without_categories_or_none_speaks_for_nothing():
    for one in (state("one"), state("one", one=()), state("one", one=("Utility",)), state()):
        seen = found(one, one=3.0)
        assert (seen.interactive, seen.background) == ({}, {})


def test_running_groups_speak_for_the_background_half_by_what_they_use():
    entries = {"packer": ("Archiving",), "tool": ("3DGraphics", "Graphics"), "lazy": ("P2P",)}
    seen = found(state(**entries), packer=0.25, tool=7.0, lazy=0.01)
    assert seen.interactive == {}
    assert seen.background == {Kind.COMPRESS: pytest.approx(0.5), Kind.RENDER: pytest.approx(0.8)}
    assert seen.because == ("packer uses 0.2 cores (compress 0.50)", "tool uses 7.0 cores (render 0.80)")


def test_packages_of_programs_at_work_speak_for_both_halves():
    use = PackageUse(facets=("section::video", "use::compressing", "use::odd"), cores=0.25)
    seen = found(replace(state(), packages=(use, PackageUse(facets=("section::odd",), cores=2.0))))
    assert seen.interactive == {Kind.WATCH: 0.5}
    assert seen.background == {Kind.ENCODE: pytest.approx(0.25), Kind.COMPRESS: pytest.approx(0.4)}
    (words,) = seen.because
    assert words.startswith("a program of section::video, use::compressing, use::odd uses 0.2 cores (watch 0.50, ")


def test_a_program_counts_as_at_work_for_some_seconds_by_its_busiest_tick():
    def packing(second, *cores):
        uses = tuple(PackageUse(facets=("use::compressing",), cores=used) for used in cores)
        return sample(second, replace(state(), packages=uses))

    ticks = [packing(1, 0.125), packing(2, 0.25), *(packing(second) for second in range(3, 8))]
    recent, said = (), []
    for before, now in itertools.pairwise([sample(0), *ticks]):
        recent = at_work(recent, now)
        said.append(evidence.of_tick(before, now, TABLE, recent).background.get(Kind.COMPRESS, 0.0))
    assert said == pytest.approx([0.2, 0.4, 0.4, 0.4, 0.4, 0.0, 0.0])
    assert (HOLD_NS, recent) == (4 * S, ())


def test_an_application_in_front_that_works_speaks_for_both_halves():
    seen = found(state("cut", cut=("AudioVideoEditing",)), cut=2.0)
    assert (seen.interactive, seen.background) == ({Kind.SOUND: 0.5}, {Kind.ENCODE: 1.0})


def test_two_groups_of_one_application_count_together():
    before = RawSample(
        monotonic_ns=S, wall_ns=0, groups=GroupUsage(cpu_us=((f"{APP}-a-1.scope", 0), (f"{APP}-a-2.scope", 9)))
    )
    grown = GroupUsage(cpu_us=((f"{APP}-a-1.scope", 150_000), (f"{APP}-a-2.scope", 200_009)))
    now = RawSample(monotonic_ns=2 * S, wall_ns=0, hints=state(a=("P2P",)), groups=grown)
    assert of_tick(before, now, TABLE).background == {Kind.NETWORK: pytest.approx(0.7)}


def test_a_group_that_began_anew_or_came_and_a_gap_say_nothing():
    seen = state(a=("P2P",))
    assert of_tick(sample(1, a=9.0), sample(2, seen, a=2.0), TABLE).background == {}
    assert of_tick(sample(1, b=1.0), sample(2, seen, a=2.0), TABLE).background == {}
    assert of_tick(None, sample(2, seen, a=2.0), TABLE).background == {}
    assert of_tick(sample(2, a=1.0), sample(2, seen, a=2.0), TABLE).background == {}
    assert of_tick(replace(sample(1), groups=None), sample(2, seen, a=2.0), TABLE).background == {}


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        ({"game_clients": 1}, Kind.PLAY),
        ({"playing": ("",)}, Kind.WATCH),
        ({"idle_inhibited": True}, Kind.WATCH),
        ({"sound_recorded": True}, Kind.CALL),
        ({"sound_played": True}, Kind.SOUND),
    ],
)
def test_signals_speak_and_their_absence_does_not(known, kind):
    assert found(state(**known)).interactive[kind] > 0
    nothing = {name: () if name == "playing" else False for name in known}
    assert found(state(**nothing)) == Evidence()


def test_a_player_behind_speaks_as_if_it_were_in_front():
    seen = found(state("text", playing=("film",), text=("TextEditor",), film=("AudioVideo", "TV")))
    assert seen.interactive == {Kind.WRITE: 0.8, Kind.WATCH: 1.0, Kind.SOUND: 0.3}
    assert seen.because[1] == "film plays (sound 0.30, watch 1.00)"


def test_many_that_say_the_same_say_no_more_than_the_strongest():
    entries = {f"p{number}": ("Archiving",) for number in range(64)}
    assert found(state(**entries), **dict.fromkeys(entries, 0.125)).background == {Kind.COMPRESS: pytest.approx(0.25)}


def test_two_in_front_by_turns_are_followed_at_once():
    for _ in range(3):
        assert found(state("one", one=("Game",))).interactive == {Kind.PLAY: 1.0}
        assert found(state("two", two=("Office",))).interactive == {Kind.WRITE: 0.6}


def test_pooling_is_exactly_this():
    evidence = Evidence(interactive={Kind.PLAY: 0.5}, background={Kind.COMPRESS: 1.0})
    values = pooled(judged(1, 2, 3, 4, 5, 6, 7), evidence, 2.0).probabilities.values
    e = math.e
    shares = [1, 2, 3 * e, 4 * e**2, 5 * e**2, 6 * e**3, 7]
    assert values == pytest.approx([share / sum(shares) for share in shares])


@pytest.mark.parametrize(
    ("evidence", "weight"),
    [(None, 1.0), (Evidence(), 1.0), (Evidence(interactive={Kind.PLAY: 1.0}), 0.0), (Evidence(because=("a",)), 1.0)],
)
def test_without_evidence_or_weight_the_models_word_is_left_as_it_is(evidence, weight):
    word = judged(1, 2, 3)
    assert pooled(word, evidence, weight) is word


@given(
    values=st.lists(st.floats(0.0, 1.0), min_size=len(LABELS), max_size=len(LABELS)),
    front=st.dictionaries(st.sampled_from(INTERACTIVE), st.floats(0.0, 1.0)),
    back=st.dictionaries(st.sampled_from(BACKGROUND), st.floats(0.0, 1.0)),
    weight=st.floats(0.0, MOST_WEIGHT),
)
def test_no_hint_moves_a_model_by_more_than_its_weight(values, front, back, weight):
    assume(math.fsum(values) > 1e-3)
    before = judged(*values).probabilities.values
    after = pooled(judged(*values), Evidence(interactive=front, background=back), weight).probabilities.values
    assert math.fsum(after) == pytest.approx(1.0)
    bound = math.exp(2 * weight) * (1 + 1e-9)
    for one, other in zip(range(len(LABELS)), range(1, len(LABELS)), strict=False):
        assert after[one] * before[other] <= bound * before[one] * after[other] + 1e-12
    first = max(range(len(before)), key=before.__getitem__)
    if all(before[first] > bound * share for place, share in enumerate(before) if place != first):
        assert after[first] == max(after)


def test_what_a_tick_costs_is_bounded():
    """`make bench-recognition` has the figure; this is against what grows with the number of groups."""
    entries = {f"p{number}": ("Archiving", "Utility", "GTK") for number in range(64)}
    before = sample(1, None, **dict.fromkeys(entries, 1.0))
    now = sample(2, state("p1", playing=("p2",), game_clients=1, **entries), **dict.fromkeys(entries, 1.5))
    took_s = min(_timed(before, now) for _ in range(20))
    assert took_s < 0.005


def _timed(before, now):
    start_s = time.thread_time()
    pooled(judged(1, 2, 3, 4, 5, 6, 7), of_tick(before, now, TABLE), 1.0)
    return time.thread_time() - start_s


@pytest.mark.parametrize(
    ("told", "known"),
    [
        (Evidence(background={Kind.COMPRESS: 0.8}), True),
        (Evidence(background={Kind.COMPRESS: 0.6}), False),
        (Evidence(interactive={Kind.CALL: 0.9}, background={Kind.COMPRESS: 0.8}), False),
        (Evidence(interactive={Kind.CALL: 0.6}, background={Kind.COMPRESS: 0.8}), True),
        (Evidence(background={Kind.RENDER: 1.0}), False),  # of no label here: the first stays what it was
    ],
)
def test_what_fits_no_class_is_known_where_label_and_hints_are_one(told, known):
    found = pooled(judged(0.1, 0.1, 0.1, 0.7, known=False), told, 1.0)
    assert found.probabilities.classes[3] == "archive"
    assert found.known is known
    assert not pooled(judged(0.1, 0.1, 0.1, 0.7, known=False), told, 0.0).known
