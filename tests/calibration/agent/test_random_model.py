# SPDX-License-Identifier: GPL-2.0-only
"""The examination of a server, with one of ours in the place of llama.cpp's."""

import json

import pytest
from model_server import said, serving

from asa.adviser import record, settings
from asa.core.errors import AsaError
from calibration.agent import random_model

RIGHT = dict(settings.table().first)


@pytest.fixture
def server():
    with serving() as found:
        yield found


def test_who_knows_passes_and_who_always_says_the_same_does_not(server):
    server.answers = lambda way, program: (200, said(RIGHT[program], "high")) if way == "grammar" else (400, {})
    scores, ways = random_model.examined(server.url)
    assert set(ways) == {"grammar"}
    assert record.passed(scores, len(RIGHT))
    assert len(server.asked) == len(RIGHT) + 1  # a schema was tried once
    server.answers = lambda *_: (200, said("sound", "high"))
    assert record.passed(random_model.examined(server.url)[0], len(RIGHT)) is False


def test_a_server_without_answers_is_told(server):
    server.answers = lambda *_: (200, json.dumps("no").encode())
    with pytest.raises(AsaError, match="not of the form"):
        random_model.examined(server.url)
