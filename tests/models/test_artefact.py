# SPDX-License-Identifier: GPL-2.0-only
"""Artefacts survive the disk, and every kind of damage is one line."""

import dataclasses
import io
import pickle
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.errors import ModelError
from models import artefact, features
from models.artefact import Artefact


def assert_refused(path: Path, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        artefact.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def replaced(model: Artefact, part: str, field: str, value) -> Artefact:
    changed = dataclasses.replace(getattr(model, part), **{field: value})
    return dataclasses.replace(model, **{part: changed})


def edited(array: np.ndarray, position: int, value) -> np.ndarray:
    copy = array.copy()
    copy[position] = value
    return copy


def write_members(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def with_header(source: Path, path: Path, **changes) -> None:
    members = members_of(source)
    header = msgspec.json.decode(np.load(io.BytesIO(members["header.npy"])).tobytes())
    buffer = io.BytesIO()
    np.save(buffer, np.frombuffer(msgspec.json.encode({**header, **changes}), dtype=np.uint8))
    write_members(path, {**members, "header.npy": buffer.getvalue()})


class Trap:
    """Fails the test that unpickles it."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_what_was_saved_is_loaded(model: Artefact, model_file: Path):
    loaded = artefact.load(model_file)
    assert msgspec.structs.replace(loaded.header, sha256="") == model.header
    for part in ("trees", "machine"):
        for field in dataclasses.fields(getattr(model, part)):
            saved, back = getattr(getattr(model, part), field.name), getattr(getattr(loaded, part), field.name)
            assert np.array_equal(saved, back), field.name
            assert saved.dtype == back.dtype
    assert np.array_equal(loaded.fill, model.fill)


def test_the_same_model_gives_the_same_bytes(model: Artefact, model_file: Path, tmp_path: Path):
    again = tmp_path / "again.npz"
    artefact.save(model, again)
    assert again.read_bytes() == model_file.read_bytes()


def test_missing_file(tmp_path: Path):
    assert_refused(tmp_path / "none.npz", "No such file")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_truncated_file(model_file: Path, tmp_path: Path, share: float):
    content = model_file.read_bytes()
    short = tmp_path / "short.npz"
    short.write_bytes(content[: int(len(content) * share)])
    assert_refused(short, "not a sound model artefact")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_changed_byte_is_found_or_harmless(model: Artefact, model_file: Path, tmp_path_factory, data):
    content = bytearray(model_file.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "flipped.npz"
    path.write_bytes(bytes(content))
    try:
        loaded = artefact.load(path)
    except ModelError as error:
        message = str(error)
    else:  # a field of the archive that carries nothing, a date for example
        message = ""
        assert np.array_equal(loaded.trees.threshold, model.trees.threshold)
        assert loaded.header.classes == model.header.classes
    assert "\n" not in message


def test_a_plain_pickle_is_not_executed(tmp_path: Path):
    path = tmp_path / "pickle.npz"
    path.write_bytes(pickle.dumps(Trap()))
    assert_refused(path, "not a NumPy archive")
    assert not Trap.sprung


def test_a_pickle_inside_the_archive_is_not_executed(model_file: Path, tmp_path: Path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    path = tmp_path / "inside.npz"
    write_members(path, {**members_of(model_file), "fill.npy": buffer.getvalue()})
    assert_refused(path, "Object arrays cannot be loaded")
    assert not Trap.sprung


def test_a_decompression_bomb_is_not_unpacked(model_file: Path, tmp_path: Path):
    path = tmp_path / "bomb.npz"
    write_members(path, {**members_of(model_file), "fill.npy": bytes(65 << 20)})
    assert_refused(path, "unpacks to more than")


def test_arrays_that_claim_to_be_huge(model_file: Path, tmp_path: Path):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": (1 << 60,)})
    path = tmp_path / "huge.npz"
    write_members(path, {**members_of(model_file), "fill.npy": buffer.getvalue()})
    assert_refused(path, "not a sound model artefact")


@pytest.mark.parametrize("name", ["fill.npy", "trees.child.npy", "header.npy"])
def test_an_array_is_gone_or_too_many(model_file: Path, tmp_path: Path, name: str):
    members = members_of(model_file)
    path = tmp_path / "other.npz"
    write_members(path, {**members, "extra.npy": members[name]})
    assert_refused(path, "not those of a model")
    del members[name]
    write_members(path, members)
    assert_refused(path, "not those of a model")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "asa-ensemble-0"}, "format 'asa-ensemble-0'"),
        ({"schema": features.SCHEMA + 1}, "schema"),
        ({"features": ["other"]}, "schema"),
        ({"classes": ["disk", "cpu", "idle", "wakeup"]}, "SHA-256"),
        ({"weights": [1.0, 0.0, 0.0]}, "SHA-256"),
        ({"sha256": "0" * 64}, "SHA-256"),
        ({"surprise": 1}, "unknown field"),
        ({"seed": "one"}, "Expected `int`"),
    ],
)
def test_headers_that_do_not_fit(model_file: Path, tmp_path: Path, changes, words: str):
    path = tmp_path / "header.npz"
    with_header(model_file, path, **changes)
    assert_refused(path, words)


def test_a_tampered_array_is_found_by_the_hash(model: Artefact, model_file: Path, tmp_path: Path):
    buffer = io.BytesIO()
    np.save(buffer, edited(model.fill, 0, 7.0))
    path = tmp_path / "tampered.npz"
    write_members(path, {**members_of(model_file), "fill.npy": buffer.getvalue()})
    assert_refused(path, "SHA-256")


def first_leaf(model: Artefact) -> int:
    return int(np.flatnonzero(model.trees.slot == 3 * len(features.NAMES))[0])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m: replaced(m, "trees", "child", edited(m.trees.child, 0, 0)), "before its parent"),
        (lambda m: replaced(m, "trees", "child", edited(m.trees.child, 0, len(m.trees.slot) - 1)), "out of range"),
        (lambda m: replaced(m, "trees", "child", edited(m.trees.child, 0, 3)), "separate trees"),
        (lambda m: replaced(m, "trees", "child", edited(m.trees.child, first_leaf(m), 1 << 30)), "a leaf names a row"),
        (lambda m: replaced(m, "trees", "child", edited(m.trees.child, first_leaf(m), -1)), "a leaf names a row"),
        (lambda m: replaced(m, "trees", "slot", edited(m.trees.slot, 0, 60_000)), "not there"),
        (lambda m: replaced(m, "trees", "group", edited(m.trees.group, 0, 250)), "not there"),
        (lambda m: replaced(m, "trees", "group", np.zeros_like(m.trees.group)), "no forest"),
        (lambda m: replaced(m, "trees", "root", edited(m.trees.root, 0, 1 << 30)), "root"),
        (lambda m: replaced(m, "trees", "root", edited(m.trees.root, 0, -1)), "root"),
        (lambda m: replaced(m, "trees", "threshold", edited(m.trees.threshold, 0, np.nan)), "not finite"),
        (lambda m: replaced(m, "trees", "base", m.trees.base[:-1]), "shape"),
        (lambda m: replaced(m, "machine", "vectors", m.machine.vectors[:, :-1]), "shape"),
        (lambda m: replaced(m, "machine", "coefficients", m.machine.coefficients[:, :-1]), "shape"),
        (lambda m: replaced(m, "machine", "scale", edited(m.machine.scale, 0, 0.0)), "not positive"),
        (lambda m: replaced(m, "machine", "gamma", m.machine.gamma.astype("f4")), "float32"),
    ],
)
def test_arrays_that_make_no_model_are_neither_written_nor_read(
    model: Artefact, tmp_path: Path, monkeypatch, spoil, words
):
    spoilt, path = spoil(model), tmp_path / "spoilt.npz"
    with pytest.raises(ModelError, match=words):
        artefact.save(spoilt, path)
    assert not path.exists()
    with monkeypatch.context() as patch:  # written all the same, with a hash that fits
        patch.setattr(artefact, "_check", lambda *_: None)
        artefact.save(spoilt, path)
    assert_refused(path, words)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.5, 0.6, -0.1), (0.5, 0.4, 0.0)])
def test_weights_must_be_shares(model: Artefact, tmp_path: Path, weights):
    spoilt = dataclasses.replace(model, header=msgspec.structs.replace(model.header, weights=weights))
    with pytest.raises(ModelError, match="weights"):
        artefact.save(spoilt, tmp_path / "weights.npz")


def test_a_place_that_cannot_be_written(model: Artefact, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="cannot be written"):
        artefact.save(model, tmp_path / "file/model.npz")
