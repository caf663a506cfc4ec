# SPDX-License-Identifier: GPL-2.0-only
"""A real llama.cpp server with models of random weights, as the worst adviser that a user can have.

It answers in the form that is asked for, and knows nothing. The examination has to tell. Run as a program with a file,
this serves that model and prints its address; it ends with its standard input.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asa.adviser import child, record, settings
from asa.core.errors import AsaError
from asa.core.evidence import SURE
from scenarios.background.llm_model import Model, describe

MODELS = 5
_SIZES = Model(width=64, layers=2, inner=128, heads=4, vocabulary=512)  # 0.6 MB
_LETTERS = "▁" + "".join(map(chr, range(33, 127)))
"""As words of the vocabulary: without these llama.cpp refuses each schema with status 400."""


def passed() -> tuple[float, str]:
    """How many of `MODELS` models pass the examination, and what they answered. Raises AsaError."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for seed in range(MODELS):
            file = Path(folder) / f"{seed}.gguf"
            write(file, seed)
            with serving(file) as url:
                found.append(examined(url))
    scores = [score for score, _ in found]
    ways = sorted({way for _, one in found for way in one})
    best = min(sum(one) / len(one) for one in scores)
    words = f"of {MODELS}, all {len(scores[0])} answers by {', '.join(ways)}; the best mean score {best:.2f}"
    return float(sum(bool(record.passed(one, len(one))) for one in scores)), words


def examined(url: str) -> tuple[Sequence[float], Sequence[str]]:
    """A server's scores in the examination, and the ways by which it answered. Raises AsaError for no answer."""
    scores, ways = list[float](), list[str]()
    for program, kind in settings.table().first:
        question = {"url": url, "model": "", "way": ways[-1] if ways else "", "program": program, "remote": False}
        answer = child.answer(question)
        if "error" in answer:
            raise AsaError(f"{url}: {answer['error']}")
        scores.append(record.score(SURE[answer["sure"]], right=answer["kind"] == kind))
        ways.append(answer["way"])
    return scores, ways


def write(file: Path, seed: int) -> None:
    """A model of these random weights."""
    import gguf
    import numpy as np

    random, sizes = np.random.default_rng(seed), _SIZES
    writer = gguf.GGUFWriter(file, "llama")
    describe(writer, sizes, gguf.LlamaFileType.ALL_F32, _LETTERS)

    def add(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(name, (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32))

    for name in ("token_embd.weight", "output.weight"):
        add(name, sizes.vocabulary, sizes.width)
    norms = ["output_norm.weight"]
    for layer in range(sizes.layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}.weight", sizes.width, sizes.width)
        for part in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{part}.weight", sizes.inner, sizes.width)
        add(f"blk.{layer}.ffn_down.weight", sizes.width, sizes.inner)
        norms += [f"blk.{layer}.{part}_norm.weight" for part in ("attn", "ffn")]
    for name in norms:
        writer.add_tensor(name, np.ones(sizes.width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def serving(file: Path, context: int = _SIZES.context) -> Iterator[str]:
    """The address of a server of this model; `context`: in tokens. Raises AsaError."""
    # in a process of its own: nothing ends llama.cpp's threads
    words = [sys.executable, "-m", "calibration.agent.random_model", str(file), str(context)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None  # noqa: S101  # it was asked for
            address = process.stdout.readline().decode().strip()
            if not address:
                raise AsaError("llama.cpp's server did not start; `make bench-setup` has xllamacpp and gguf")
            yield f"{address}/v1"
        finally:
            process.kill()


def main(file: str, context: str) -> None:
    """Serve until standard input ends."""
    import xllamacpp

    given: Any = xllamacpp.CommonParams()
    given.model.path = file
    given.n_ctx = int(context)
    given.n_parallel = given.n_threads_http = 1
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
    given.verbosity = 1  # errors alone
    server = xllamacpp.Server(given)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
