# SPDX-License-Identifier: GPL-2.0-only
"""7-Zip packs and unpacks a folder of the seed's; the folder's data."""

import random
import zlib
from dataclasses import replace
from itertools import islice

import pytest
from playing import play

from scenarios.background.archive import APPLICATION, contents, fill


def _small(rng, place):
    return {**APPLICATION.draw(rng, place), "method": "lzma2", "level": 1, "size_mb": 3.0, "extract_s": 0.1}


def _rng(seed):
    return random.Random(seed)  # noqa: S311


@pytest.mark.apps
def test_packs_and_unpacks(tmp_path):
    values = play(replace(APPLICATION, draw=_small), seed=1, seconds=1, tmp_path=tmp_path, least=2)
    assert all(value > 0 for metric in APPLICATION.metrics for value in values[metric])


@pytest.mark.parametrize(("files", "size_bytes"), [(1, 100_000), (300, 500_000)])
def test_the_folder_has_files_and_bytes_as_ordered(tmp_path, files, size_bytes):
    written = fill(tmp_path, _rng(1), content="mixed", files=files, size_bytes=size_bytes)
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.dat")]
    assert len(sizes) == files
    assert sum(sizes) == written
    assert abs(written - size_bytes) <= files


def test_kinds_of_data_pack_differently_and_come_of_the_seed():
    def packed_share(content):
        data = b"".join(islice(contents(_rng(1), content), 20))
        return len(zlib.compress(data)) / len(data)

    assert packed_share("text") < packed_share("records") < packed_share("photographs")
    one, same, other = (next(contents(_rng(seed), "text")) for seed in (1, 1, 2))
    assert one == same != other
