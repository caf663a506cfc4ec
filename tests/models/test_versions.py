# SPDX-License-Identifier: GPL-2.0-only
"""Models of this machine: kept by hash, chosen as a whole, never used when damaged."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from asa import paths
from asa.core.errors import ModelError
from asa.model import Model
from models import artefact, versions
from models.versions import Facts


@pytest.fixture
def where(tmp_path, model_file, monkeypatch):
    monkeypatch.setattr(paths, "base_model", lambda: model_file)
    return tmp_path / "state/models"


def facts(made="2026-01-02T00:00:00+00:00", **figures):
    return Facts(sha256="", kind="tuned", made=made, asa_version="1", figures=figures)


def other(model, seed):
    return replace(model, header=msgspec.structs.replace(model.header, seed=seed))


def test_without_anything_the_packages_model_is_in_use(where, model_file):
    assert versions.in_use(where) == model_file
    (only,) = versions.versions(where)
    assert (only.name, only.in_use, only.wrong, only.facts.kind) == ("base", True, "", "base")
    assert not where.exists()  # looking makes nothing


def test_a_kept_model_is_chosen_and_base_goes_back(where, model, model_file):
    kept = versions.add(where, other(model, 7), facts(accuracy_pct=99.0))
    assert versions.in_use(where) == model_file  # keeping is not choosing
    versions.use(where, versions.find(where, kept.name))
    assert versions.in_use(where) == kept.path
    assert artefact.load(kept.path).header.seed == 7
    listed = versions.versions(where)
    assert [one.in_use for one in listed] == [False, True]
    assert listed[1].facts.figures == {"accuracy_pct": 99.0}
    assert listed[1].facts.classes == model.header.classes
    assert sorted(path.name for path in where.iterdir()) == sorted(
        ["chosen.json", kept.path.name, kept.path.with_suffix(".json").name]
    )
    versions.use(where, versions.find(where, "base"))
    assert versions.in_use(where) == model_file


def test_models_are_listed_by_age_and_found_by_four_digits(where, model):
    late = versions.add(where, other(model, 1), facts("2026-03-01T00:00:00+00:00"))
    early = versions.add(where, other(model, 2), facts("2026-02-01T00:00:00+00:00"))
    assert [one.facts.sha256 for one in versions.versions(where)[1:]] == [early.facts.sha256, late.facts.sha256]
    assert versions.find(where, late.facts.sha256[:4]).path == late.path
    for word in (late.facts.sha256[:3], "", "ffffffffffff0"):
        with pytest.raises(ModelError, match="no such model; there are base, "):
            versions.find(where, word)


def test_what_was_left_of_an_interrupted_keeping_is_no_version(where, model):
    kept = versions.add(where, other(model, 1), facts())
    (where / ".new-7.npz").write_bytes(b"half of")
    assert [one.path for one in versions.versions(where)[1:]] == [kept.path]


def test_a_model_without_end_is_refused_before_it_is_hashed():
    with pytest.raises(ModelError, match="no file of at most"):
        Model.load(Path("/dev/zero"))


def test_settings_that_name_what_has_no_end_do_not_stop_the_list(where):
    (only,) = versions.versions(where, "/dev/zero")
    assert not only.in_use
    assert versions.by_hash(where, only.facts.sha256, "/dev/zero") == only.path


def test_a_damaged_model_is_named_and_refused(where, model):
    kept = versions.add(where, other(model, 3), facts())
    versions.use(where, kept)
    body = bytearray(kept.path.read_bytes())
    body[len(body) // 2] ^= 1
    kept.path.write_bytes(body)
    listed = versions.find(where, kept.name)
    assert "do not hash to its name" in listed.wrong
    with pytest.raises(ModelError, match=f"{kept.name} cannot be used"):
        versions.use(where, listed)
    with pytest.raises(ModelError, match="cannot be compared"):
        versions.diff(versions.find(where, "base"), listed)
    with pytest.raises(ModelError, match=r"the model in use is damaged.*asa model use base"):
        versions.in_use(where)
    kept.path.unlink()
    assert "gone" in versions.versions(where)[1].wrong
    with pytest.raises(ModelError, match="damaged: it cannot be read"):
        versions.in_use(where)


def test_what_hashes_right_and_is_no_model_is_refused_too(where, model):
    import hashlib

    kept = versions.add(where, model, facts())
    body = kept.path.read_bytes()[:-40]
    sha256 = hashlib.sha256(body).hexdigest()
    (where / f"{sha256}.npz").write_bytes(body)
    told = msgspec.structs.replace(kept.facts, sha256=sha256)
    (where / f"{sha256}.json").write_bytes(msgspec.json.encode(told))
    with pytest.raises(ModelError, match="not a sound model artefact"):
        versions.use(where, versions.find(where, sha256))
    assert not (where / "chosen.json").exists()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"sha256": "../../etc/passwd"}', b'{"sha256": 1}', b"\xff\xfe", b'{"sha256": ""}']
)
def test_a_damaged_choice_is_one_error_and_base_the_way_out(where, model, body, model_file):
    versions.add(where, model, facts())
    (where / "chosen.json").write_bytes(body)
    for look in (versions.in_use, versions.versions):
        with pytest.raises(ModelError, match="asa model use base"):
            look(where)
    versions.use(where, versions.find(where, "base"))
    assert versions.in_use(where) == model_file


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"sha256": "ab", "kind": "", "made": "", "asa_version": ""}'])
def test_lost_or_foreign_facts_do_not_hide_the_others(where, model, body):
    good = versions.add(where, other(model, 1), facts())
    bad = versions.add(where, other(model, 2), facts())
    beside = bad.path.with_suffix(".json")
    beside.unlink() if body is None else beside.write_bytes(body)
    listed = {one.path: one.wrong for one in versions.versions(where)}
    assert listed[good.path] == ""
    assert str(beside) in listed[bad.path]


def test_an_interrupted_choice_leaves_the_old_one(where, model, monkeypatch):
    one, two = versions.add(where, other(model, 1), facts()), versions.add(where, other(model, 2), facts())
    versions.use(where, one)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match="No space left"):
        versions.use(where, two)
    assert versions.in_use(where) == one.path
    with pytest.raises(ModelError, match="No space left"):
        versions.add(where, other(model, 3), facts())
    assert len(versions.versions(where)) == 3
    assert not [path for path in where.iterdir() if path.name.startswith(".")]


LOOKS = """
import os, sys
from pathlib import Path
from asa.core.errors import ModelError
from models import versions
where = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)  # root may look everywhere
for look in (versions.in_use, versions.versions, lambda where: versions.find(where, "base")):
    try:
        look(where)
    except ModelError as error:
        print(error)
"""


def test_a_folder_that_may_not_be_looked_into_is_one_error(where):
    where.mkdir(parents=True)
    where.parent.chmod(0)
    done = subprocess.run([sys.executable, "-c", LOOKS, where], capture_output=True, text=True, check=False)
    where.parent.chmod(0o700)
    assert done.stderr == ""
    told = f"{where}/chosen.json: cannot be read: Permission denied; check who owns its folders"
    assert done.stdout.splitlines() == [told] * 3


def test_a_folder_that_cannot_be_made_is_one_error(where, model):
    where.parent.mkdir()
    where.write_text("a file")
    with pytest.raises(ModelError, match="a model cannot be kept here: "):
        versions.add(where, model, facts())


def test_two_models_differ_by_figures_classes_and_features(where, model):
    one = versions.add(where, other(model, 1), facts(accuracy_pct=90.0, ece=0.1))
    two = versions.add(where, other(model, 2), facts(accuracy_pct=95.0, reaction_s=2.0))
    changed = msgspec.structs.replace(two.facts, classes=("cpu", "chess"), features=two.facts.features[1:], schema=99)
    two.path.with_suffix(".json").write_bytes(msgspec.json.encode(changed))
    found = versions.diff(one, versions.find(where, two.name))
    assert found.figures == (("accuracy_pct", 90.0, 95.0), ("ece", 0.1, None), ("reaction_s", None, 2.0))
    assert found.classes_new == ("chess",)
    assert set(found.classes_gone) == set(model.header.classes) - {"cpu"}
    assert found.features_gone == one.facts.features[:1]
    assert found.features_new == ()
    assert found.schemas == (model.header.schema, 99)
