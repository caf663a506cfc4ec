# SPDX-License-Identifier: GPL-2.0-only
"""LLM Generate: llama.cpp answers one prompt after another, with a reader's pause between them.

The model is of random weights (`scenarios.background.llm_model`), made once in the cache. llama.cpp's server runs in
the driver's own process and listens on a free port of the loopback that nobody asks; nothing else is opened.
"""

import itertools
import os
import random
import sys
import threading
import time
from importlib.metadata import version
from typing import Any

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Report, Role
from scenarios.background.llm_model import MODELS, SPECIAL_TOKENS, make_all, path
from scenarios.driving import Driver, fail
from scenarios.metric import Summary, duration, speed

_WINDOW_S = 1.0
_LEAST_S = 0.3  # what is left of an answer that had a sample is one of its own from here on
_LOOK_S = 0.2
_ROUNDS = 6  # answers and pauses of their own lengths, then the same again


def draw(rng: random.Random, place: Place) -> Parameters:
    """A model, its threads, and a habit: how long prompts and answers are, how long the reader pauses.

    All prompts of a session are equally long: a slower run gets fewer of them, and the mean time to the first token
    must not depend on which. The number of threads is fixed: ggml's share the work evenly and wait for each other, so
    that a thread too many is the slowest of all.
    """
    model = rng.choice(tuple(MODELS))
    longest = 256 if model == "125m" else 96
    prompt, answer = rng.uniform(16, 2 * longest), rng.uniform(longest / 4, longest)
    return {
        "model": model,
        "threads": rng.choice((place.cpus, place.cpus, max(1, place.cpus // 2))),
        "prompt_tokens": int(prompt),
        "answer_tokens": [max(8, int(answer * rng.uniform(0.6, 1.4))) for _ in range(_ROUNDS)],
        "pauses_s": [round(rng.uniform(0.2, 2.0), 1) for _ in range(_ROUNDS)],
        "temperature": round(rng.uniform(0.3, 1.2), 1),
    }


def prepare(place: Place, report: Report) -> None:
    """The models, in some seconds; 290 MB."""
    make_all(place.cache, report)


def command(place: Place, parameters: Parameters) -> tuple[str, ...]:  # noqa: ARG001
    """The driver."""
    return (sys.executable, "-m", "scenarios.background.llm")


APPLICATION = Application(
    name="llm",
    title="LLM Generate",
    role=Role.BACKGROUND,
    kind=Kind.INFER,
    scored=(
        duration("first_token_ms", "ms", "prompt until the first token", 0.40),
        speed("tokens_per_s", "1/s", "tokens generated", 0.40, steady=True),
        duration("token_gap_ms", "ms", "between two tokens", 0.20, Summary.P99),
    ),
    packages=(),
    programs=(),
    modules=("xllamacpp", "gguf"),
    draw=draw,
    command=command,
    prepare=prepare,
    ready_limit_s=120.0,
    silence_limit_s=90.0,
)


class Answer:
    """Takes the time of an answer's tokens, and measures about once a second, to disturb them little."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._begin_ns = time.monotonic_ns()
        self._told_ns = 0  # the last token that was told of
        self._at_ns: list[int] = []  # the tokens after it
        self._has_speed = False

    def token(self) -> None:
        """One more has come."""
        now_ns = time.monotonic_ns()
        if not self._told_ns:
            self._driver.measured("first_token_ms", (now_ns - self._begin_ns) / 1e6, now_ns)
            self._told_ns = now_ns
            return
        self._at_ns.append(now_ns)
        if now_ns - self._told_ns >= _WINDOW_S * 1e9:
            self._tell(now_ns)

    def end(self) -> None:
        """The answer is whole."""
        if self._at_ns:
            self._tell(self._at_ns[-1])

    def _tell(self, now_ns: int) -> None:
        elapsed_s = (now_ns - self._told_ns) / 1e9
        if elapsed_s >= _LEAST_S or not self._has_speed:  # or a fast machine's answers would have none
            self._has_speed = True
            self._driver.measured("tokens_per_s", len(self._at_ns) / elapsed_s, now_ns)
        for before_ns, at_ns in itertools.pairwise((self._told_ns, *self._at_ns)):
            self._driver.measured("token_gap_ms", (at_ns - before_ns) / 1e6, at_ns)
        self._told_ns = now_ns
        self._at_ns.clear()


class Reader:
    """Asks llama.cpp, reads, and asks again; a thread of its own, since nothing stops llama.cpp in a long prompt."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._random = random.Random(driver.seed)  # noqa: S311

    def run(self) -> None:
        """Until the driver ends, or llama.cpp fails."""
        given = self._driver.parameters
        server = _server(self._driver)
        self._ask(server, 8, 8, None)  # the first pass fetches the weights
        self._driver.ready({"xllamacpp": version("xllamacpp")})
        habit = zip(given["answer_tokens"], given["pauses_s"], strict=True)
        for answer, pause_s in itertools.cycle(habit):
            self._ask(server, given["prompt_tokens"], answer, Answer(self._driver))
            if not self._driver.pause(pause_s):
                return

    def _ask(self, server: Any, prompt: int, tokens: int, answer: Answer | None) -> None:
        words = range(SPECIAL_TOKENS, MODELS[self._driver.parameters["model"]].vocabulary)

        def take(chunk: dict[str, Any]) -> bool:
            if "error" in chunk:
                raise RuntimeError(str(chunk))
            if answer is not None and not chunk["choices"][0]["finish_reason"]:
                answer.token()
            return self._driver.ending  # true stops it

        server.handle_completions(
            {
                "prompt": self._random.choices(words, k=prompt),
                "n_predict": tokens,
                "temperature": self._driver.parameters["temperature"],
                "stream": True,
                "cache_prompt": False,
                "ignore_eos": True,
                "logit_bias": [[token, False] for token in range(SPECIAL_TOKENS)],  # half a character is held back
            },
            take,
        )
        if answer is not None:
            answer.end()


def _server(driver: Driver) -> Any:
    import xllamacpp

    given = xllamacpp.CommonParams()
    given.model.path = str(path(driver.cache, driver.parameters["model"]))
    given.n_ctx = MODELS[driver.parameters["model"]].context
    given.n_parallel = 1
    given.n_threads_http = 1
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = driver.parameters["threads"]
    given.verbosity = 1  # errors alone
    return xllamacpp.Server(given)


def main() -> None:
    """The driver: read until SIGTERM."""
    driver = Driver.begin()
    reader = Reader(driver)
    thread = threading.Thread(target=reader.run, daemon=True)
    thread.start()
    while driver.pause(_LOOK_S):
        if not thread.is_alive():
            fail("llama.cpp has failed")  # the thread has said why
    os._exit(0)  # without a wait for the prompt that it works on


if __name__ == "__main__":
    main()
