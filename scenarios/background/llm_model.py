# SPDX-License-Identifier: GPL-2.0-only
"""Language models of random weights, in GGUF files: the computation of a real one, and no text worth reading.

Makes each file once, from numbers that are the same everywhere; reads nothing. The architecture is that of Llama.
"""

import errno
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenarios.application import ApplicationError, Failure

_VERSION = 1  # of what is written, besides the sizes below
_BLOCK_ROWS = 256  # of random numbers; a tensor repeats them, which no arithmetic unit minds
SPECIAL_TOKENS = 3 + 256
"""The first of a vocabulary: unknown, begin, end, and one for each byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The sizes of one; its weights are Q4_0, 4.5 bits each."""

    width: int
    layers: int
    inner: int  # width of the feed-forward layers
    heads: int
    vocabulary: int = 32_000
    context: int = 2048


MODELS: Mapping[str, Model] = {
    "125m": Model(width=768, layers=12, inner=2048, heads=12),  # 76 MB
    "370m": Model(width=1024, layers=24, inner=2816, heads=16),  # 210 MB
}


def path(cache: Path, name: str) -> Path:
    """Of the model; another recipe is another file."""
    return cache / f"{name}-{zlib.crc32(f'{_VERSION} {MODELS[name]}'.encode()):08x}.gguf"


def make_all(cache: Path, report: Callable[[str], None]) -> None:
    """Those that are not there yet, each whole or not at all. Raises ApplicationError."""
    for name, model in MODELS.items():
        target = path(cache, name)
        if target.exists():
            continue
        report(f"makes the {name} model")
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as folder:
                draft = Path(folder) / target.name
                _write(draft, model)
                draft.rename(target)
        except OSError as error:
            full = error.errno == errno.ENOSPC
            reason = f"{target}: the model cannot be written: {error.strerror}"
            failure = Failure.NO_SPACE if full else Failure.UNPREPARED
            raise ApplicationError(application="llm", failure=failure, reason=reason) from error


def _write(file: Path, model: Model) -> None:
    import gguf
    import numpy as np

    kind = gguf.GGMLQuantizationType.Q4_0
    random = np.random.default_rng(_VERSION)
    blocks: dict[int, Any] = {}  # by columns

    def add(name: str, rows: int, columns: int) -> None:
        if columns not in blocks:
            numbers = random.standard_normal((_BLOCK_ROWS, columns), dtype=np.float32)
            blocks[columns] = gguf.quants.quantize(numbers * np.float32(columns**-0.5), kind)
        block = np.roll(blocks[columns], zlib.crc32(name.encode()), axis=0)
        writer.add_tensor(name, np.resize(block, (rows, block.shape[1])), raw_dtype=kind)

    def add_norm(name: str) -> None:
        writer.add_tensor(name, np.ones(model.width, np.float32))

    writer = gguf.GGUFWriter(file, "llama")
    describe(writer, model, gguf.LlamaFileType.MOSTLY_Q4_0)
    add("token_embd.weight", model.vocabulary, model.width)
    add("output.weight", model.vocabulary, model.width)
    add_norm("output_norm.weight")
    for layer in range(model.layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}.weight", model.width, model.width)
        add(f"blk.{layer}.ffn_gate.weight", model.inner, model.width)
        add(f"blk.{layer}.ffn_up.weight", model.inner, model.width)
        add(f"blk.{layer}.ffn_down.weight", model.width, model.inner)
        add_norm(f"blk.{layer}.attn_norm.weight")
        add_norm(f"blk.{layer}.ffn_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(writer: Any, model: Model, file_type: int, letters: str = "") -> None:
    """Write sizes, and a vocabulary: special tokens, these letters, and words as `w259`, `w260` and so on."""
    writer.add_name("random")
    writer.add_file_type(file_type)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.width)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.inner)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(model.width // model.heads)
    writer.add_vocab_size(model.vocabulary)
    words = range(SPECIAL_TOKENS + len(letters), model.vocabulary)
    normal = [*letters, *(f"▁w{word}" for word in words)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *normal])
    writer.add_token_scores(
        [0.0] * 3 + [-1000.0] * 256 + [-float(SPECIAL_TOKENS + place) for place in range(len(normal))]
    )
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(normal))  # unknown, control, byte, normal
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
