# SPDX-License-Identifier: GPL-2.0-only
"""The base of programs in the step and at the start: it speaks beside the model, empties the votes, and is kept."""

from dataclasses import replace

import pytest
from pipeline_machine import processors

from asa import assembly
from asa.config import PolicySettings, Voting
from asa.core.decision import Judgement, Order, OrderKind, Permit, Probabilities, SchedulerName, Workload
from asa.core.errors import AsaError
from asa.core.sample import ProgramsAtWork, ProgramUse, RawSample
from asa.decide import knowledge
from asa.decide.books import Books
from asa.decide.knowledge import Knowledge, Known
from asa.decide.table import Entry, MappingTable
from asa.pipeline import Setup, State, step
from collectors.programs import KEY_BYTES

S = 10**9
COMPRESS, RENDER = Workload("compress"), Workload("render")
ZIP, RAY = 7, 8
KNOWN = {ZIP: Known(day=0, past=(COMPRESS,) * 3), RAY: Known(day=0, past=(RENDER,) * 3)}


class Model:
    schema = 0
    classes = (COMPRESS, RENDER)
    known = True
    compress = 0.6

    def judge(self, _):
        values = (self.compress, 1 - self.compress)
        return Judgement(probabilities=Probabilities(classes=self.classes, values=values), score=None, known=self.known)


@pytest.fixture
def model():
    return Model()


def setup(model):
    rankings = {name: (Entry(scheduler=SchedulerName("eevdf"), why="."),) for name in model.classes}
    return Setup(
        classifier=model,
        table=MappingTable(path="t", machine="m", provenance="p", rankings=rankings),
        voting=Voting(),
        policy=PolicySettings(),
        name_of_ops=lambda _: None,
        permit=Permit(switch=False),
    )


def sample(second, *programs):
    ticks = (second, 0, 0, second, 0, 0, 0, 0)
    cpu = processors(ticks, runnable=0)
    uses = tuple(ProgramUse(number, 1.0) for number in programs)
    return RawSample(monotonic_ns=second * S, wall_ns=second * S, cpu=cpu, programs=ProgramsAtWork(programs=uses))


def run(model, ticks, known):
    state, found = State(books=Books(knowledge=Knowledge(known=known))), []
    for second, programs in enumerate(ticks, start=1):
        state = step(setup(model), state, sample(second, *programs))
        found.append(state)
    return found


def test_a_program_that_is_known_makes_known_what_the_model_alone_would_not(model):
    model.known = False
    assert run(model, [()] * 3, KNOWN)[-1].votes.vote.unknown
    assert run(model, [(ZIP,)] * 3, {})[-1].votes.vote.unknown
    assert [one.votes.vote.workload for one in run(model, [(), (ZIP,)], KNOWN)] == [None, COMPRESS]
    later = run(model, [(), (ZIP,), (RAY,), (RAY,)], KNOWN)
    assert later[-1].decision.workload == RENDER, "the odds change by exp(1.5)"


def test_a_model_that_is_sure_is_not_moved(model):
    model.compress = 0.9
    assert run(model, [(), (RAY,), (RAY,)], KNOWN)[-1].decision.workload == COMPRESS


def test_what_was_voted_on_before_a_known_program_came_or_went_does_not_count(model):
    ticks = [()] * 5 + [(RAY,)]
    states = run(model, ticks, KNOWN)
    assert [len(one.votes.window.entries) for one in states] == [0, 1, 2, 3, 4, 1]
    assert [len(one.votes.window.entries) for one in run(model, ticks, {})][-1] == 5
    gone = run(model, [*ticks, (RAY,), (), (), ()], KNOWN)
    assert [len(one.votes.window.entries) for one in gone][-4:] == [2, 3, 1, 2]


def test_it_learns_the_models_own_word_and_not_what_became_of_it(model):
    state = run(model, [()] + [(RAY,)] * 5, KNOWN)[-1]
    assert state.decision.workload == RENDER
    assert state.books.knowledge.now[RAY].said == {COMPRESS: 5}


def test_without_programs_the_step_is_as_it_was(model):
    plain = replace(sample(2), programs=None)
    state = step(setup(model), State(), replace(sample(1), programs=None))
    state = step(setup(model), state, plain)
    assert state.decision.workload == COMPRESS
    assert state.books.knowledge == Knowledge()


@pytest.mark.parametrize("body", ["", '{"version": 7}', '{"version": 1, "programs": {"x": []}}'])
def test_a_damaged_base_is_said_in_one_line_and_moved_away_and_the_agent_begins_anew(tmp_path, body):
    path, said = tmp_path / knowledge.NAME, []
    path.write_text(body)
    found, key = assembly._knowledge(path, said.append)
    assert found == Knowledge()
    assert len(key) == KEY_BYTES
    assert [str(path) in line and "starting without" in line for line in said] == [True]
    assert [one.name for one in tmp_path.iterdir()] == ["programs.damaged"]
    knowledge.save(path, KNOWN, key)
    assert assembly._knowledge(path, said.append) == (Knowledge(known=KNOWN), key)
    assert len(said) == 1


def test_two_agents_that_begin_have_two_keys(tmp_path):
    assert assembly._knowledge(tmp_path / "a", print)[1] != assembly._knowledge(tmp_path / "b", print)[1]


def test_a_base_that_cannot_be_written_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AsaError, match="a base of programs"):
        knowledge.save(tmp_path / "file/programs.json", KNOWN, bytes(KEY_BYTES))


@pytest.mark.parametrize("kind", [OrderKind.HOLD, OrderKind.RESUME, OrderKind.RELOAD, OrderKind.LAPSE])
def test_what_is_known_stays_when_a_person_says_something(model, kind):
    state = State(books=Books(knowledge=Knowledge(known=KNOWN)))
    state = step(setup(model), state, sample(1, ZIP), orders=(Order(kind=kind),))
    assert state.books.knowledge.known is KNOWN


def test_a_hint_makes_known_what_the_model_alone_would_not_and_outvotes_no_sure_model(model):
    hint = Order(kind=OrderKind.HINT, use="compress", sure=0.9, until_ns=100 * S, client="bot", lease="one")
    lies = replace(hint, use="render")

    def after(first, *later):
        state = State()
        for second in range(1, 7):
            state = step(setup(model), state, sample(second), orders=first if second == 2 else later)
        return state

    model.known = False
    assert after((hint,)).decision.workload == COMPRESS
    assert after((hint,), Order(kind=OrderKind.LAPSE, lease="one")).books.told is None
    assert after(()).votes.vote.unknown
    assert after((replace(hint, sure=0.7),)).votes.vote.unknown, "that is not sure enough"
    model.compress = 0.9
    assert after((lies,)).votes.vote.unknown, "the first label has to be the same"
    model.known = True
    assert after((lies,)).decision.workload == COMPRESS
