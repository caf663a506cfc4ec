# SPDX-License-Identifier: GPL-2.0-only
"""Artefacts survive the disk, and every kind of damage is one line."""

import dataclasses
import io
import os
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
from models.artefact import Artefact, Header, Machine, OpenWorld, Part, Score, Trees
from models.runtime import Ensemble


def assert_refused(path: Path, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        artefact.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def replaced(model: Artefact, part: str, field: str, value) -> Artefact:
    first = 0 if f"{part}.{field}" in artefact.SHARED else len(model.heads) - 1  # of all heads, or of the last
    changed = [
        dataclasses.replace(head, **{part: dataclasses.replace(getattr(head, part), **{field: value})})
        for head in model.heads[first:]
    ]
    return dataclasses.replace(model, heads=(*model.heads[:first], *changed))


@pytest.fixture(params=["flat", "of two heads"])
def any_model(request) -> Artefact:
    return request.getfixturevalue("model" if request.param == "flat" else "factored")


@pytest.fixture
def any_file(any_model: Artefact, model: Artefact, model_file: Path, factored_file: Path) -> Path:
    return model_file if any_model is model else factored_file


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


def test_what_was_saved_is_loaded(any_model: Artefact, any_file: Path):
    loaded = artefact.load(any_file)
    assert msgspec.structs.replace(loaded.header, sha256="") == any_model.header
    assert len(loaded.heads) == len(any_model.heads) == len(loaded.header.parts)
    for head, back in zip(any_model.heads, loaded.heads, strict=True):
        for part in ("trees", "machine"):
            for field in dataclasses.fields(getattr(head, part)):
                saved, read = getattr(getattr(head, part), field.name), getattr(getattr(back, part), field.name)
                assert np.array_equal(saved, read), field.name
                assert saved.dtype == read.dtype
    assert np.array_equal(loaded.fill, any_model.fill)


def test_the_same_model_gives_the_same_bytes(any_model: Artefact, any_file: Path, tmp_path: Path):
    again = tmp_path / "again.npz"
    artefact.save(any_model, again)
    assert again.read_bytes() == any_file.read_bytes()


def test_labels_are_all_combinations_without_what_is_none():
    front = Part(name="interactive", classes=("", "web"), weights=(1.0, 0.0, 0.0))
    behind = Part(name="background", classes=("", "disk", "llm"), weights=(1.0, 0.0, 0.0))
    assert artefact.labels((front, behind)) == ("idle", "disk", "llm", "web", "web+disk", "web+llm")


def test_missing_file(tmp_path: Path):
    assert_refused(tmp_path / "none.npz", "No such file")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_truncated_file(any_file: Path, tmp_path: Path, share: float):
    content = any_file.read_bytes()
    short = tmp_path / "short.npz"
    short.write_bytes(content[: int(len(content) * share)])
    assert_refused(short, "not a sound model artefact")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_changed_byte_is_found_or_harmless(
    model: Artefact, model_file: Path, factored: Artefact, factored_file: Path, tmp_path_factory, data
):
    model, file = data.draw(st.sampled_from([(model, model_file), (factored, factored_file)]))
    content = bytearray(file.read_bytes())
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
        for head, back in zip(model.heads, loaded.heads, strict=True):
            assert np.array_equal(head.trees.threshold, back.trees.threshold)
        assert msgspec.structs.replace(loaded.header, sha256="") == model.header
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


@pytest.mark.parametrize("name", ["fill.npy", "0.trees.child.npy", "header.npy"])
def test_a_member_that_is_no_array(model_file: Path, tmp_path: Path, name: str):
    path = tmp_path / "other.npz"
    write_members(path, {**members_of(model_file), name: b"not an array"})
    assert_refused(path, "is no array")


@pytest.mark.parametrize("packing", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_only_numpys_own_packing_is_unpacked(model_file: Path, tmp_path: Path, packing: int):
    path = tmp_path / "packed.npz"
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in members_of(model_file).items():
            archive.writestr(name, content)
    content = path.read_bytes()
    for damaged in (content, content.replace(content[90:190], bytes(100), 1)):
        path.write_bytes(damaged)
        assert_refused(path, "not packed as NumPy does it")


def test_a_file_without_end_is_not_read(tmp_path: Path):
    assert_refused(Path("/dev/zero"), "no file of at most")
    os.mkfifo(tmp_path / "pipe.npz")
    assert_refused(tmp_path / "pipe.npz", "no file of at most")
    with (tmp_path / "long.npz").open("wb") as file:
        file.truncate(65 << 20)
    assert_refused(tmp_path / "long.npz", "no file of at most")


@pytest.mark.parametrize("name", ["fill.npy", "0.trees.child.npy", "header.npy"])
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
        ({"format": "asa-ensemble-1"}, "format 'asa-ensemble-1'"),
        ({"format": "asa-ensemble-4", "surprise": 1}, "format 'asa-ensemble-4'"),
        ({"format": 2}, "Expected `str`"),
        ({"open_world": {"score": "guess", "least": 0.0}}, "Invalid enum value"),
        ({"heads": [{"name": "a", "classes": ["", "b"], "weights": [1.0, 0.0, 0.0]}] * 2}, "not those of a model"),
        ({"heads": [{"name": "a", "classes": ["", "b"], "weights": [1.0, 0.0, 0.0]}] * 9}, "not those of a model"),
        ({"schema": features.SCHEMA + 1}, "schema"),
        ({"features": ["other"]}, "needs column 'other', which this version does not have; train again"),
        ({"features": ["busy_share", "new", "other"]}, "needs column 'new' and 1 more, which"),
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


def trees(model: Artefact) -> Trees:
    return model.heads[-1].trees


def machine(model: Artefact) -> Machine:
    return model.heads[-1].machine


def with_chain(model: Artefact, depth: int) -> Artefact:
    """One forest tree in which each left child splits on, `depth` times; every other node is a leaf."""
    leaf = 3 * len(features.NAMES)
    slot = np.array([0, *[0, leaf] * (depth - 1), leaf, leaf], dtype=np.uint16)
    child = np.zeros(len(slot), dtype=np.int32)
    child[slot == 0] = 2 * np.arange(depth) + 1
    old = trees(model)
    classes = len(old.base)
    chain = dataclasses.replace(
        old,
        slot=slot,
        threshold=np.zeros(len(slot), dtype=np.float32),
        child=child,
        cover=np.ones(len(slot), dtype=np.float32),
        root=np.zeros(1, dtype=np.int32),
        group=np.array([classes], dtype=np.uint8),
    )
    head = dataclasses.replace(model.heads[-1], trees=chain)
    return dataclasses.replace(model, heads=(*model.heads[:-1], head))


def without_vectors(model: Artefact) -> Artefact:
    short = replaced(model, "machine", "vectors", machine(model).vectors[:0])
    cut = [
        dataclasses.replace(
            head, machine=dataclasses.replace(head.machine, coefficients=head.machine.coefficients[:, :0])
        )
        for head in short.heads
    ]
    return dataclasses.replace(short, heads=tuple(cut))


def first_leaf(model: Artefact) -> int:
    return int(np.flatnonzero(trees(model).slot == 3 * len(features.NAMES))[0])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m: replaced(m, "trees", "child", edited(trees(m).child, 0, 0)), "before its parent"),
        (
            lambda m: replaced(m, "trees", "child", edited(trees(m).child, 0, len(trees(m).slot) - 1)),
            "out of range",
        ),
        (lambda m: replaced(m, "trees", "child", edited(trees(m).child, 0, 3)), "separate trees"),
        (lambda m: replaced(m, "trees", "child", edited(trees(m).child, 0, (1 << 31) - 1)), "out of range"),
        (lambda m: with_chain(m, 65), "more than 64 splits deep"),
        (without_vectors, "vectors is empty"),
        (
            lambda m: replaced(m, "trees", "child", edited(trees(m).child, first_leaf(m), 1 << 30)),
            "a leaf names a row",
        ),
        (
            lambda m: replaced(m, "trees", "child", edited(trees(m).child, first_leaf(m), -1)),
            "a leaf names a row",
        ),
        (lambda m: replaced(m, "trees", "slot", edited(trees(m).slot, 0, 60_000)), "not there"),
        (lambda m: replaced(m, "trees", "group", edited(trees(m).group, 0, 250)), "not there"),
        (lambda m: replaced(m, "trees", "group", np.zeros_like(trees(m).group)), "no forest"),
        (lambda m: replaced(m, "trees", "root", edited(trees(m).root, 0, 1 << 30)), "root"),
        (lambda m: replaced(m, "trees", "root", edited(trees(m).root, 0, -1)), "root"),
        (lambda m: replaced(m, "trees", "threshold", edited(trees(m).threshold, 0, np.nan)), "not finite"),
        (lambda m: replaced(m, "trees", "base", trees(m).base[:-1]), "shape"),
        (lambda m: replaced(m, "machine", "vectors", machine(m).vectors[:, :-1]), "shape"),
        (lambda m: replaced(m, "machine", "coefficients", machine(m).coefficients[:, :-1]), "shape"),
        (lambda m: replaced(m, "trees", "cover", edited(trees(m).cover, 0, -1.0)), "cover"),
        (lambda m: replaced(m, "machine", "scale", edited(machine(m).scale, 0, 0.0)), "not positive"),
        (lambda m: replaced(m, "machine", "gamma", machine(m).gamma.astype("f4")), "float32"),
        (lambda m: replaced(m, "machine", "gamma", -machine(m).gamma), "gamma is not positive"),
        (lambda m: replaced(m, "trees", "forest_leaf", edited(trees(m).forest_leaf, (0, 0), -0.5)), "no distributions"),
        (lambda m: replaced(m, "trees", "forest_leaf", edited(trees(m).forest_leaf, (0, 0), 2.0)), "no distributions"),
    ],
)
def test_arrays_that_make_no_model_are_neither_written_nor_read(
    any_model: Artefact, tmp_path: Path, monkeypatch, spoil, words
):
    spoilt, path = spoil(any_model), tmp_path / "spoilt.npz"
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


def with_parts(header: Header, **changes) -> Header:
    return msgspec.structs.replace(header, heads=(msgspec.structs.replace(header.heads[0], **changes), header.heads[1]))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda h: msgspec.structs.replace(h, weights=(1.0, 0.0, 0.0)), "weights of its own or"),
        (lambda h: msgspec.structs.replace(h, heads=h.heads[:1]), "weights of its own or"),
        (lambda h: msgspec.structs.replace(h, classes=("idle", "idle")), "different ones"),
        (lambda h: msgspec.structs.replace(h, classes=("idle", "frames")), "'frames' is no combination"),
        (lambda h: with_parts(h, weights=(0.5, 0.2, 0.2)), "not 3 shares of 1"),
        (lambda h: with_parts(h, weights=(0.5, np.nan, 0.5)), "not 3 shares of 1"),
        (lambda h: with_parts(h, classes=("web", "web")), "different ones"),
        (lambda h: msgspec.structs.replace(h, hint_weight=-0.1), "hints' weight -0.1 is not 0 to 4"),
        (lambda h: msgspec.structs.replace(h, hint_weight=np.nan), "hints' weight nan"),
        (lambda h: with_parts(h, temperature=0.0), "temperature"),
        (lambda h: with_parts(h, temperature=np.nan), "temperature"),
        (lambda h: msgspec.structs.replace(h, open_world=OpenWorld(score=Score.ENERGY, least=np.inf)), "not finite"),
    ],
)
def test_heads_that_do_not_fit_together(factored: Artefact, tmp_path: Path, spoil, words: str):
    spoilt = dataclasses.replace(factored, header=spoil(factored.header))
    with pytest.raises(ModelError, match=words):
        artefact.save(spoilt, tmp_path / "heads.npz")


def test_a_weight_of_hints_is_kept_and_none_is_0(factored: Artefact, tmp_path: Path):
    header = msgspec.structs.replace(factored.header, hint_weight=0.75)
    artefact.save(dataclasses.replace(factored, header=header), tmp_path / "hinted.npz")
    artefact.save(factored, tmp_path / "plain.npz")
    hinted, plain = (Ensemble.load(tmp_path / name) for name in ("hinted.npz", "plain.npz"))
    assert (hinted.hint_weight, plain.hint_weight) == (0.75, 0.0)
    assert b"hint_weight" not in members_of(tmp_path / "plain.npz")["header.npy"]  # as artefacts of before


def test_more_combinations_than_memory_are_not_made(factored: Artefact, tmp_path: Path):
    many = tuple(str(number) for number in range(200))
    heads = tuple(Part(name=name, classes=many, weights=(0.4, 0.3, 0.3)) for name in "abcd")
    header = msgspec.structs.replace(factored.header, heads=heads)
    with pytest.raises(ModelError, match="1600000000 combinations"):
        artefact.save(dataclasses.replace(factored, header=header), tmp_path / "heads.npz")


def test_a_tree_of_the_greatest_depth_is_sound(model: Artefact, tmp_path: Path):
    artefact.save(with_chain(model, 64), tmp_path / "deep.npz")
    assert len(trees(artefact.load(tmp_path / "deep.npz")).slot) == 129


def test_a_head_too_few(factored: Artefact, tmp_path: Path):
    with pytest.raises(ModelError, match="it has no"):
        artefact.save(dataclasses.replace(factored, heads=factored.heads[:1]), tmp_path / "heads.npz")


def test_a_place_that_cannot_be_written(model: Artefact, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="cannot be written"):
        artefact.save(model, tmp_path / "file/model.npz")
