# SPDX-License-Identifier: GPL-2.0-only
"""A file of the models is the old one or the new one, whatever happens while it is written."""

import os
import stat
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from asa.core.errors import ModelError
from models import artefact


def full(*_, **__):
    raise OSError(28, "No space left on device")


def half(file, **_):
    file.write(b"PK\x03\x04 half of a model")
    full()


@pytest.mark.parametrize(("module", "name", "broken"), [(np, "savez_compressed", half), (os, "fsync", full)])
def test_a_model_is_written_over_as_a_whole_or_not_at_all(
    model, model_file, tmp_path, monkeypatch, module, name, broken
):
    path = tmp_path / "base.npz"
    path.write_bytes(model_file.read_bytes())
    path.chmod(0o604)
    other = replace(model, header=msgspec.structs.replace(model.header, seed=77))
    with monkeypatch.context() as patch:
        patch.setattr(module, name, broken)
        with pytest.raises(ModelError, match=r"base\.npz: cannot be written: No space left"):
            artefact.save(other, path)
    assert path.read_bytes() == model_file.read_bytes()
    artefact.save(other, path)
    assert artefact.load(path).header.seed == 77
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert [one.name for one in tmp_path.iterdir()] == ["base.npz"]


def test_a_file_does_not_take_the_place_of_what_is_none(model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ModelError, match="cannot be written: it is no file"):
            artefact.save(model, path)
    assert (tmp_path / "pipe").is_fifo()
