# SPDX-License-Identifier: GPL-2.0-only
"""The base of programs: what is learnt of sightings, what is told by them, and what no input may do to it."""

import random
from dataclasses import replace

import pytest

from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.errors import InputError
from asa.core.kinds import Kind
from asa.core.sample import Advice, ProgramsAtWork, ProgramUse, RawSample
from asa.decide import knowledge
from asa.decide.evidence import pooled
from asa.decide.knowledge import Knowledge, Known

CLASSES = tuple(
    map(Workload, ("browse", "browse+compress", "browse+render", "compress", "idle", "render", "web+video"))
)
S, DAY = 10**9, 86_400 * 10**9
TODAY = 20_000 * DAY
COMPRESSES = Known(day=20_000, past=(Workload("compress"), Workload("browse+compress"), Workload("compress")))


def sample(at_s, *programs, wall_ns=TODAY, cores=1.0):
    uses = tuple(one if isinstance(one, ProgramUse) else ProgramUse(one, cores) for one in programs)
    return RawSample(monotonic_ns=at_s * S, wall_ns=wall_ns, programs=ProgramsAtWork(programs=uses))


def says(name, *, known=True):
    values = tuple(float(one == name) for one in CLASSES)
    return Judgement(probabilities=Probabilities(classes=CLASSES, values=values), score=None, known=known)


def lives(state, number, name, *, at_s, seconds=5, known=True):
    """With a sighting of a program, which is over a minute after it."""
    for second in range(at_s, at_s + seconds):
        state = knowledge.take(state, sample(second, number), says(name, known=known))
    return knowledge.take(state, sample(at_s + seconds + 60), says("idle"))


def spoken(state, at_s):
    found = knowledge.evidence(state, sample(at_s))
    return {} if found is None else {**found.interactive, **found.background}


def test_a_program_is_known_after_three_sightings_and_speaks_at_once_in_the_fourth():
    state = Knowledge()
    for count in range(1, 4):
        assert spoken(knowledge.take(state, sample(1000 * count, 7), says("idle", known=False)), 1000 * count) == {}
        state = lives(state, 7, "compress", at_s=1000 * count)
        assert state.known[7].past == ("compress",) * count
    state = knowledge.take(state, sample(5000, 7), says("idle", known=False))
    assert spoken(state, 5000) == {Kind.COMPRESS: 1.0}
    assert knowledge.evidence(state, sample(5000)).interactive == {}


def test_what_the_model_does_not_know_teaches_nothing():
    state = lives(Knowledge(), 7, "compress", at_s=10, known=False)
    assert state.known == {}
    assert lives(Knowledge(), 7, "compress", at_s=10, seconds=knowledge.FEWEST_TICKS - 1).known == {}


def test_work_with_pauses_of_less_than_a_minute_is_one_sighting():
    state = Knowledge()
    for second in range(0, 600, 30):
        state = knowledge.take(state, sample(second, 7), says("compress"))
    assert state.known == {}
    state = knowledge.take(state, sample(700), says("idle"))
    assert state.known[7].past == ("compress",)


def test_a_sighting_did_what_the_model_said_most_often_as_a_label_of_kinds():
    state = Knowledge()
    for second, name in enumerate(("web+video", "browse", "web+video", "web+video")):
        state = knowledge.take(state, sample(second, 7), says(name))
    assert knowledge.ended(state, TODAY).known[7].past == ("browse+encode",)


def test_a_program_that_is_there_and_rests_is_not_at_work():
    state = Knowledge(known={7: COMPRESSES})
    assert knowledge.take(state, sample(1, 7, cores=0.01), says("idle")).now == {}
    state = knowledge.take(state, sample(1, 7), says("compress"))
    resting = state
    for second in range(2, 6):
        resting = knowledge.take(resting, sample(second, 7, cores=0.0), says("idle"))
    assert spoken(state, 1)
    assert not spoken(resting, 5)
    assert resting.present == {7}, "it has not gone"


def test_one_that_comes_or_goes_changes_who_is_present_and_a_tick_between_two_processes_does_not():
    state = Knowledge(known={7: COMPRESSES})
    state = knowledge.take(state, sample(1, 8), says("idle"))
    assert state.present == frozenset(), "nothing is known of 8"
    for second, there in ((2, (7, 8)), (3, (8,)), (4, (7, 8))):
        state = knowledge.take(state, sample(second, *there), says("idle"))
        assert state.present == {7}
    for second in (5, 6):
        state = knowledge.take(state, sample(second, 8), says("idle"))
    assert state.present == frozenset()


def test_it_speaks_for_one_half_and_for_none_while_nobody_knows_which_is_its_own():
    def told(*past):
        return knowledge.told(Known(day=20_000, past=tuple(map(Workload, past))), TODAY)

    assert told("browse+compress", "browse+render", "browse+compress", "browse") == (Kind.BROWSE, 1.0)
    assert told("browse+compress", "browse+compress", "browse+compress") is None
    assert told("browse+compress", "browse+compress", "compress") == (Kind.COMPRESS, 1.0)
    assert told("idle", "idle", "idle") is None
    assert told("compress", "compress") is None


def test_confidence_is_agreement_with_stability():
    def sure(*past):
        found = knowledge.told(Known(day=20_000, past=tuple(map(Workload, past))), TODAY)
        return None if found is None else round(found[1], 3)

    assert sure("render", "compress", "compress", "compress", "compress", "compress") == round(5 / 6 * 0.9, 3)
    assert sure("compress", "compress", "compress", "render", "compress") == 0.6, "0.8 x (0.5 + 0.5 x 0.5)"
    assert sure("compress", "render", "compress", "render") is None


def test_it_fades_with_days_and_a_clock_that_was_set_back_makes_nothing_old():
    year = 365 * DAY
    assert knowledge.told(COMPRESSES, TODAY + 60 * DAY)[1] == pytest.approx(0.5 ** (60 / knowledge.HALF_LIFE_DAYS))
    assert knowledge.told(COMPRESSES, TODAY + year) is None
    assert knowledge.told(COMPRESSES, TODAY - 30 * year) == (Kind.COMPRESS, 1.0)
    back = lives(Knowledge(known={7: COMPRESSES}), 7, "compress", at_s=10)
    assert back.known[7].past == (*COMPRESSES.past, "compress")


def test_one_that_the_model_contradicts_more_often_than_not_is_silent_for_this_sighting():
    state = Knowledge(known={7: COMPRESSES})
    for second in range(1, 3):
        state = knowledge.take(state, sample(second, 7), says("browse+render"))
        assert spoken(state, second) == {Kind.COMPRESS: 1.0}
    state = knowledge.take(state, sample(3, 7), says("render"))
    assert spoken(state, 3) == {}
    for second in range(4, 8):
        state = knowledge.take(state, sample(second, 7), says("compress"))
    assert spoken(state, 7) == {Kind.COMPRESS: 1.0}


def test_other_halves_and_unknown_ticks_are_no_contradiction():
    state = Knowledge(known={7: COMPRESSES})
    for second in range(1, 9):
        state = knowledge.take(state, sample(second, 7), says("browse" if second % 2 else "render", known=second % 2))
    assert spoken(state, 8) == {Kind.COMPRESS: 1.0}


def test_no_call_changes_what_it_was_given():
    state = Knowledge(known={7: COMPRESSES})
    first = knowledge.take(state, sample(1, 7, 8), says("compress"))
    before = (dict(first.known), dict(first.now), first.present)
    knowledge.ended(knowledge.take(first, sample(99, 9), says("render")), TODAY)
    assert (dict(first.known), dict(first.now), first.present) == before
    assert knowledge.take(first, sample(2, 7), says("compress")).known is state.known, "nothing to write"


def test_a_hundred_thousand_short_programs_an_hour_are_bounded_and_push_out_none_that_is_better_known():
    chance = random.Random(1)  # noqa: S311
    state = Knowledge(known={7: COMPRESSES})
    for second in range(600):
        numbers = [chance.getrandbits(64) for _ in range(28)]
        state = knowledge.take(state, sample(second, *numbers), says("compress"))
        assert len(state.now) <= knowledge.MOST_AT_ONCE
    assert state.known == {7: COMPRESSES}, "none of them was there for long enough to tell anything"


def test_the_oldest_and_least_confident_go():
    past, most = COMPRESSES.past, knowledge.MOST_PROGRAMS
    stay = most - knowledge.AT_A_TIME
    old = {number: Known(day=19_000, past=past) for number in range(240)}
    poor = {number: Known(day=20_000, past=past[:1]) for number in range(240, 260)}
    good = {number: Known(day=20_000, past=past) for number in range(260, most)}
    assert len(knowledge.merged({**old, **poor, **good}, {})) == most
    kept = knowledge.merged({**old, **poor, **good, 1 << 60: COMPRESSES}, {})
    assert len(kept) == stay
    assert kept.keys() >= good.keys() - set(range(most))
    assert old.keys().isdisjoint(kept)
    assert 9 <= len(poor.keys() & kept.keys()) <= 10, "of one day those with the fewest sightings"


def test_a_flood_of_programs_that_are_seen_once_pushes_out_no_well_known_one_and_new_ones_can_still_be_learnt():
    often, once = COMPRESSES.past, COMPRESSES.past[:1]
    firm = {number: Known(day=19_000, past=often) for number in range(knowledge.MOST_FIRM)}
    known = firm
    for start in range(0, 20_000, 1000):  # what is seen once, on a later day
        flood = {10_000 + number: Known(day=20_000, past=once) for number in range(start, start + 1000)}
        known = knowledge.merged({**known, **flood}, {})
        assert len(known) <= knowledge.MOST_PROGRAMS
    assert known.keys() >= firm.keys()
    assert len(known.keys() - firm.keys()) >= 750
    later = lives(Knowledge(known=known), 7_000_000, "compress", at_s=10)
    assert 7_000_000 in later.known


def test_after_a_clock_that_was_set_back_what_is_learnt_is_kept_and_the_days_to_come_are_no_newer(tmp_path):
    path, key, future = tmp_path / "programs.json", bytes(32), COMPRESSES._replace(day=40_000)
    knowledge.save(path, {7: future}, key)
    state = lives(Knowledge(known=knowledge.load(path)[0]), 7, "render", at_s=10)
    knowledge.save(path, state.known, key)
    assert knowledge.load(path)[0][7].past == (*future.past, "render")
    once = {number: Known(day=40_000, past=future.past[:1]) for number in range(10, 10 + knowledge.MOST_PROGRAMS)}
    full = lives(Knowledge(known=once), 8, "compress", at_s=10)
    full = lives(full, 8, "compress", at_s=1000)
    assert full.known[8].past == ("compress", "compress"), "today's stay beside those of the days to come"


def test_the_file_is_its_users_alone(tmp_path):
    path = tmp_path / "programs.json"
    path.write_text("{}")
    path.chmod(0o644)
    knowledge.save(path, {7: COMPRESSES}, bytes(32))
    assert path.stat().st_mode & 0o777 == 0o600, "it has the key"


def test_what_is_kept_comes_back_and_what_another_agent_wrote_meanwhile_stays(tmp_path):
    path, key = tmp_path / "deep/programs.json", bytes(range(32))
    assert knowledge.load(path) == ({}, b"")
    knowledge.save(path, {1: COMPRESSES}, key)
    later = COMPRESSES._replace(day=20_001)
    knowledge.save(path, {2**64 - 1: COMPRESSES, 1: COMPRESSES._replace(past=COMPRESSES.past[:1])}, key)
    assert knowledge.load(path) == ({1: COMPRESSES, 2**64 - 1: COMPRESSES}, key)
    knowledge.save(path, {1: later}, key)
    assert knowledge.load(path)[0][1] == later
    knowledge.save(path, {3: COMPRESSES}, bytes(32))
    assert knowledge.load(path) == ({3: COMPRESSES}, bytes(32)), "of another key: other programs' numbers"


@pytest.mark.parametrize(
    "body",
    [
        '{"version": 2}',
        '{"version": 1, "programs": {"7": "1 idle"}}',
        '{"version": 1, "programs": {"00000000000000zz": "1 idle"}}',
        '{"version": 1, "programs": {"0000000000000007": "idle 1"}}',
        '{"version": 1, "key": "short"}',
        '{"version": 1, "more": 1}',
        "{",
        "\x00\xff",
        "[]",
        " " * (1 << 20) + "{}",
    ],
)
def test_a_file_of_another_version_or_a_damaged_one_is_one_clear_line_and_is_written_anew(tmp_path, body):
    path = tmp_path / "programs.json"
    path.write_text(body)
    with pytest.raises(InputError, match=r"programs\.json"):
        knowledge.load(path)
    knowledge.save(path, {1: COMPRESSES}, bytes(32))
    assert knowledge.load(path) == ({1: COMPRESSES}, bytes(32))


def test_labels_of_another_asa_say_nothing_and_harm_nothing(tmp_path):
    path = tmp_path / "programs.json"
    path.write_text('{"version": 1, "programs": {"0000000000000007": "20000 dance dance+sing compress+browse"}}')
    known, _ = knowledge.load(path)
    assert knowledge.told(known[7], TODAY) is None
    state = lives(Knowledge(known=known), 7, "compress", at_s=10)
    assert state.known[7].past[-1] == "compress"


def test_the_fullest_file_can_be_read_again(tmp_path):
    path, past = tmp_path / "programs.json", (Workload("browse+compress"),) * knowledge.MOST_PAST
    known = {2**64 - 1 - number: Known(day=20_000, past=past) for number in range(knowledge.MOST_PROGRAMS)}
    knowledge.save(path, known, bytes(32))
    assert knowledge.load(path) == (known, bytes(32))


def test_a_journal_has_it_without_the_key():
    body = knowledge.as_file({7: COMPRESSES})
    assert body.key == ""
    assert knowledge.of_file(body) == {7: COMPRESSES}
    two = {7: COMPRESSES, 3: COMPRESSES}
    assert list(knowledge.of_file(knowledge.as_file(two))) == [7, 3], "the last is the newest of a day"


def advised(at_s, *told, programs=(7,)):
    return replace(sample(at_s, *programs), advice=tuple(Advice(*one) for one in told))


def speaks(state, tick):
    found = knowledge.evidence(state, tick)
    return {} if found is None else {**found.interactive, **found.background}


def test_what_is_advised_of_a_program_at_work_speaks_up_to_a_cap():
    tick = advised(10, (7, Kind.COMPRESS, 0.45), (8, Kind.WATCH, 0.4), (9, Kind.BROWSE, 1.0), programs=(7, 9))
    state = knowledge.take(Knowledge(), tick, says("idle", known=False))
    assert speaks(state, tick) == {Kind.COMPRESS: 0.45, Kind.BROWSE: knowledge.MOST_ADVISED}  # 8 does not work


def test_what_was_seen_here_goes_before_advice():
    state = Knowledge(known={7: COMPRESSES})
    tick = advised(10, (7, Kind.RENDER, 0.8))
    state = knowledge.take(state, tick, says("idle", known=False))
    assert set(speaks(state, tick)) == {Kind.COMPRESS}


def test_advice_that_the_model_contradicts_is_silent_until_the_next_sighting():
    state, heard = Knowledge(), []
    for second in range(6):
        tick = advised(second, (7, Kind.RENDER, 0.8))
        state = knowledge.take(state, tick, says("compress"))
        heard.append(speaks(state, tick))
    assert heard == [{Kind.RENDER: 0.8}] * 2 + [{}] * 4
    assert speaks(state, advised(6, (7, Kind.BROWSE, 0.8))) == {Kind.BROWSE: 0.8}  # of the other half nothing was said


def test_unproven_advice_makes_no_unknown_use_known_and_no_advice_changes_a_sure_word():
    values = (0.02, 0.01, 0.01, 0.9, 0.03, 0.02, 0.01)
    unknown = Judgement(probabilities=Probabilities(classes=CLASSES, values=values), score=None, known=False)
    for sure, known in ((0.45, False), (0.79, False), (0.85, True)):  # the last is of one that was right 33 times
        tick = advised(10, (7, Kind.COMPRESS, sure))
        state = knowledge.take(Knowledge(), tick, unknown)
        assert pooled(unknown, knowledge.evidence(state, tick), knowledge.WEIGHT).known is known
    tick = advised(10, (7, Kind.RENDER, 1.0))
    state = knowledge.take(Knowledge(), tick, unknown)
    told = pooled(unknown, knowledge.evidence(state, tick), knowledge.WEIGHT)
    assert (told.probabilities.likeliest, told.known) == ("compress", False)
