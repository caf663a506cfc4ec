# SPDX-License-Identifier: GPL-2.0-only
"""LLM Generate: the real llama.cpp with the smaller model, and how the models are made."""

import dataclasses
import errno
import json
import random
from pathlib import Path

import gguf
import pytest
from playing import play

from scenarios.application import ApplicationError, Failure, Place, Tier
from scenarios.background import llm, llm_model
from scenarios.driving import Driver
from scenarios.session import Session

PLACE = Place(cache=Path("/nowhere"), cpus=4, tier=Tier.REAL)
TINY = llm_model.Model(width=64, layers=2, inner=96, heads=2, vocabulary=320)


@pytest.mark.apps
def test_llama_answers_with_every_metric(tmp_path):
    lengths = {"model": "125m", "prompt_tokens": 24, "answer_tokens": [24] * 6}
    application = dataclasses.replace(llm.APPLICATION, draw=lambda rng, place: {**llm.draw(rng, place), **lengths})
    values = play(application, seed=1, seconds=3, tmp_path=tmp_path)
    assert all(value > 0 for metric in values.values() for value in metric)


@pytest.mark.apps
def test_a_model_that_cannot_be_loaded_ends_the_driver(tmp_path):
    application = dataclasses.replace(llm.APPLICATION, prepare=lambda place, report: None)
    place = dataclasses.replace(PLACE, cache=tmp_path)
    with (
        pytest.raises(ApplicationError) as caught,
        Session.start(application, seed=1, place=place, folder=tmp_path) as session,
    ):
        session.await_ready()
    assert caught.value.failure is Failure.CRASHED
    assert "llama.cpp has failed" in caught.value.last_words


def test_an_answers_tokens_are_timed(capfd, tmp_path, monkeypatch):
    driver = Driver({"parameters": {}, "scratch": tmp_path, "cache": tmp_path, "seed": "llm 1", "cpus": 2})
    now_ms = [0]
    monkeypatch.setattr("time.monotonic_ns", lambda: now_ms[0] * 1_000_000)
    answer = llm.Answer(driver)
    for at_ms in (200, 500, 900, 1300, 1500, 2000):
        now_ms[0] = at_ms
        answer.token()
    answer.end()
    short = llm.Answer(driver)
    for at_ms in (2100, 2200):
        now_ms[0] = at_ms
        short.token()
    short.end()
    said = [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    def told(metric):
        return [(one["at_ns"] // 1_000_000, one["value"]) for one in said if one["metric"] == metric]

    assert told("first_token_ms") == [(200, 200.0), (2100, 100.0)]
    assert told("token_gap_ms") == [
        (500, 300.0),
        (900, 400.0),
        (1300, 400.0),
        (1500, 200.0),
        (2000, 500.0),
        (2200, 100.0),
    ]
    assert told("tokens_per_s") == [(1300, pytest.approx(3 / 1.1)), (2000, pytest.approx(2 / 0.7)), (2200, 10.0)]


def test_a_model_is_made_once_and_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(llm_model, "MODELS", {"tiny": TINY})
    llm_model.make_all(tmp_path, print)
    (file,) = tmp_path.iterdir()
    assert file == llm_model.path(tmp_path, "tiny")
    assert len(gguf.GGUFReader(file).tensors) == 3 + TINY.layers * 9
    made = file.stat()
    llm_model.make_all(tmp_path, print)
    assert file.stat() == made
    monkeypatch.setattr(llm_model, "MODELS", {"tiny": dataclasses.replace(TINY, layers=1)})
    assert llm_model.path(tmp_path, "tiny") != file


@pytest.mark.parametrize(("number", "failure"), [(errno.ENOSPC, Failure.NO_SPACE), (errno.EIO, Failure.UNPREPARED)])
def test_a_model_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, number, failure):
    def write(file, model):
        file.write_bytes(b"GGUF")
        raise OSError(number, "no")

    monkeypatch.setattr(llm_model, "_write", write)
    with pytest.raises(ApplicationError) as caught:
        llm.prepare(dataclasses.replace(PLACE, cache=tmp_path), print)
    assert caught.value.failure is failure
    assert list(tmp_path.iterdir()) == []


def test_each_seed_has_a_habit_of_its_own():
    drawn = [llm.draw(random.Random(seed), PLACE) for seed in range(200)]  # noqa: S311
    assert drawn[7] == llm.draw(random.Random(7), PLACE)  # noqa: S311
    assert len({json.dumps(one) for one in drawn}) == len(drawn)
    assert {one["model"] for one in drawn} == set(llm_model.MODELS)
    for one in drawn:
        assert 2 <= one["threads"] <= 4
        context = llm_model.MODELS[one["model"]].context
        assert one["prompt_tokens"] + max(one["answer_tokens"]) < context
