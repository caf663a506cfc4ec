# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab finetune`, `asa model` and the features of `asa explain`, from toy recordings to a model in use."""

import dataclasses
import fcntl
import json
import math
from math import log

import msgspec
import numpy as np
import pytest
from recorded_uses import LOADS, header, samples

from asa import paths, wire
from asa.cli import explain, explain_features, model
from asa.cli.grammar import Parser
from asa.cli.journal import JOURNAL
from asa.cli.lab import finetune
from asa.core.decision import Decision, Reason, Vote, Workload
from asa.core.errors import AsaError, InputError, ModelError
from asa.journal import Journal
from models import artefact, features, versions
from models.artefact import FORMAT, Header
from models.own import ticks
from models.runtime import Ensemble
from models.train import dataset, ensemble, held_out
from models.train.dataset import Recording
from models.train.export import to_artefact

SMALL = ensemble.Recipe(rounds=8, forest_trees=12)


def write(path, label, seed, **how):
    with Journal.open(path.with_suffix(".sqlite")) as book:
        book.begin(header(label, seed))
        for sample in samples([(label, 14)], seed, **how):
            book.add(sample)
        book.pack(path)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A package's folder: recordings, and a model trained on them."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "recordings").mkdir()
    recordings = []
    for label in LOADS:
        for seed in range(3):
            write(folder / f"recordings/{label}-{seed}.journal.xz", label, seed)
            of_file = tuple(samples([(label, 14)], seed))
            recordings.append(
                Recording(
                    source="",
                    label=label,
                    place="lab, 2 cpus",
                    seed=seed,
                    started_ns=seed,
                    parameters="",
                    samples=of_file,
                )
            )
    data = dataset.assemble(recordings)
    rows = held_out.rows_of(data, np.ones(len(data.y), dtype=bool))
    fitted = ensemble.fit(rows, ensemble.spaces(rows, SMALL, 1), SMALL, 1)
    head = Header(
        format=FORMAT,
        schema=features.SCHEMA,
        features=features.NAMES,
        classes=data.classes,
        weights=fitted.weights,
        trained="2026-01-01T00:00:00+00:00",
        seed=1,
        dataset_sha256=data.sha256,
        versions={"asa": "0"},
    )
    path = folder / "artefacts/base.npz"
    artefact.save(to_artefact(fitted, head), path)
    return path


@pytest.fixture
def places(shipped, tmp_path, monkeypatch):
    here = paths.Places(run=tmp_path / "run", state=tmp_path / "state", config=tmp_path / "asa.yaml")
    here.state.mkdir()
    monkeypatch.setattr(paths, "default", lambda: here)
    monkeypatch.setattr(paths, "Places", lambda: here)
    monkeypatch.setattr(paths, "base_model", lambda: shipped)
    monkeypatch.setattr(ensemble, "Recipe", lambda: SMALL)
    return here


def asa(command, *words):
    top = Parser(prog="asa")
    command.register(top.add_subparsers(dest="command"))
    arguments = top.parse_args(list(words))
    return arguments.run(arguments)


@pytest.fixture
def own(tmp_path):
    """Two sessions a label of a machine whose kernel takes three times as much."""
    found = []
    for label in LOADS:
        for seed in (20, 21):
            found.append(tmp_path / f"own-{label}-{seed}.journal.xz")
            write(found[-1], label, seed, shift=3.0)
    return [str(path) for path in found]


def test_a_better_model_is_kept_and_used_and_base_comes_back(places, own, shipped, capsys):
    assert asa(finetune, "finetune", "--loss", "100", "--json", *own) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["better"]
    assert "without own rows:" in printed.err
    where = versions.folder(places)
    kept = versions.find(where, told["kept"])
    assert kept.facts.figures == told["figures"]
    assert "78 rows, 78 labelled by hand, 6 units" in kept.facts.data["own"]
    assert kept.facts.parent == versions.find(where, "base").facts.sha256
    tuned = Ensemble.load(kept.path)
    unseen = list(ticks(samples([("wakeup", 14)], 77, shift=3.0)))
    right = [max(tuned.classes, key=tuned.predict(tick.frame).of) == "wakeup" for tick in unseen]
    assert np.mean(right) > 0.9
    assert versions.in_use(where) == shipped

    assert asa(model, "model", "use", told["kept"][:6]) == 0
    assert "the agent takes it when it starts" in capsys.readouterr().out
    assert versions.in_use(where) == kept.path
    assert asa(model, "model", "list") == 0
    base, listed = capsys.readouterr().out.splitlines()
    assert base.startswith("  base ")
    assert listed.startswith(f"* {told['kept']} ")
    assert "own_held_out_accuracy_pct" in listed
    assert asa(model, "model", "diff", "base", told["kept"]) == 0
    assert "features   the same" in capsys.readouterr().out
    assert asa(model, "model", "show", "--json", told["kept"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["seed"] == 1
    assert asa(model, "model", "use", "base") == 0
    assert versions.in_use(where) == shipped


def test_what_the_settings_name_is_in_use_and_judges(places, own, shipped, tmp_path, capsys):
    where, named = versions.folder(places), tmp_path / "named.npz"
    found = artefact.load(shipped)
    header = msgspec.structs.replace(found.header, seed=5)
    artefact.save(dataclasses.replace(found, header=header), named)
    places.config.write_text(f"model: {named}\n")
    warning = f"{places.config} names a model, which comes before the chosen one: {named}; take its line `model` out"
    assert asa(finetune, "finetune", "--use", "--loss", "100", *own) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("better: kept as ")
    assert told.endswith(f" and chosen; {warning}")
    kept = versions.find(where, versions.in_use(where).stem)
    assert kept.facts.parent == versions.hash_of(named)

    assert asa(model, "model", "list") == 0
    *listed, last = capsys.readouterr().out.splitlines()
    assert [line[0] for line in listed] == [" ", " "]  # it is none of these
    assert last == warning
    assert asa(model, "model", "show", kept.name) == 0
    shown = capsys.readouterr().out.splitlines()
    assert (shown[0], shown[-1]) == (f"model      {kept.name}", warning)
    assert asa(model, "model", "show", "--json", "base") == 0
    assert not json.loads(capsys.readouterr().out)["in_use"]

    named.write_bytes(shipped.read_bytes())  # a copy of one of these
    assert asa(model, "model", "list", "--json") == 0
    assert [one["in_use"] for one in json.loads(capsys.readouterr().out)] == [True, False]
    named.unlink()
    assert asa(model, "model", "list") == 0
    assert "*" not in capsys.readouterr().out
    with pytest.raises(ModelError, match=f"{named}: cannot be read"):
        asa(finetune, "finetune", *own)


def test_the_same_journals_and_seed_give_the_same_figures_and_trying_keeps_nothing(places, own, capsys):
    figures = []
    for _ in range(2):
        asa(finetune, "finetune", "--try", "--loss", "100", "--json", *reversed(own))
        figures.append(json.loads(capsys.readouterr().out)["figures"])
    assert figures[0] == figures[1]
    assert not versions.folder(places).exists()


def test_a_worse_one_is_rolled_back(places, own, capsys, monkeypatch):
    from models.train import finetune as tuning

    monkeypatch.setattr(tuning, "verdict", lambda *_: "rolled back: as this test has it")
    assert asa(finetune, "finetune", "--use", *own) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "rolled back: as this test has it"
    assert not versions.folder(places).exists()


def test_recordings_of_the_base_set_do_not_judge(places, shipped):
    leaked = [str(path) for path in sorted((shipped.parent.parent / "recordings").glob("*.xz"))]
    with pytest.raises(ModelError, match="is among your own too"):
        asa(finetune, "finetune", *leaked)


def test_a_damaged_model_is_listed_and_not_used(places, own, capsys):
    where = versions.folder(places)
    (where).mkdir()
    sha256 = "ab" * 32
    (where / f"{sha256}.npz").write_bytes(b"PK\x03\x04")
    assert asa(model, "model", "list") == 0
    assert f"  {sha256[:12]}  ?      unknown date" in capsys.readouterr().out
    assert asa(model, "model", "show", sha256) == 1
    with pytest.raises(ModelError, match=f"{sha256[:12]} cannot be used"):
        asa(model, "model", "use", sha256)


def test_faulty_settings_or_status_are_told_before_the_choice_changes(places, shipped):
    where = versions.folder(places)
    facts = versions.Facts(sha256="", kind="tuned", made="2026-01-01T00:00:00+00:00", asa_version="0")
    kept = versions.add(where, artefact.load(shipped), facts)
    places.config.write_text("modle: x\n")
    with pytest.raises(InputError, match="modle"):
        asa(model, "model", "use", kept.name)
    assert versions.in_use(where) == shipped
    places.config.unlink()
    places.run.mkdir()
    (places.run / "status.json").write_text("{")
    with (places.run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # an agent is there
        with pytest.raises(AsaError, match="not written by this version"):
            asa(model, "model", "use", kept.name)
    assert versions.in_use(where) == shipped


@pytest.fixture
def decided(places, shipped):
    """The agent's journal: 30 ticks, the last ones judged by the package's model."""
    judge, made = Ensemble.load(shipped), samples([("idle", 18), ("wakeup", 12)], 50)
    sha256 = versions.find(versions.folder(places), "base").facts.sha256
    frames = {tick.at_ns: tick.frame for tick in ticks(made)}
    path = places.state / JOURNAL
    with Journal.open(path) as book:
        book.begin(header("", None, mode="switching", model=sha256))
        for sample in made:
            frame = frames.get(sample.monotonic_ns)
            decision = Decision(
                monotonic_ns=sample.monotonic_ns,
                probabilities=None if frame is None else judge.predict(frame),
                vote=Vote(workload=Workload("idle"), confidence=0.5),
                workload=Workload("idle"),
                wanted=None,
                current=None,
                switch_to=None,
                reason=Reason.SERVED,
                sentence="",
            )
            book.add(sample, decision)
    return path, judge, frames[made[-1].monotonic_ns]


def test_explain_names_the_features_that_carried_the_last_recognition(decided, shipped, capsys):
    path, judge, frame = decided
    assert asa(explain, "explain", "--json", "--journal", str(path)) == 0
    told = json.loads(capsys.readouterr().out)["recognition"]
    assert (told["tick"], told["vote"], told["note"], told["wrong"]) == ("wakeup", "idle", "", "")
    (head,) = told["heads"]
    assert head["workload"] == "wakeup"
    assert 1 <= len(head["for"]) <= explain_features.MOST
    assert len(head["against"]) <= explain_features.MOST
    for part in head["for"]:
        place = features.NAMES.index(part["name"])
        value = float(frame.values[place])
        assert part["value"] == (None if math.isnan(value) else pytest.approx(value))
        assert part["sentence"] == features.TABLE[place].sentence
        assert part["weight"] > 0
    # the boosted trees' own odds, from their distribution
    (members,) = judge.members(frame)
    odds = log(members[0][judge.classes.index("wakeup")]) - log(members[0][judge.classes.index(head["other"])])
    total = head["before"] + head["rest"] + sum(part["weight"] for part in (*head["for"], *head["against"]))
    assert total == pytest.approx(odds, abs=1e-4)

    assert asa(explain, "explain", "--journal", str(path)) == 0
    shown = capsys.readouterr().out
    assert "looked like wakeup" in shown
    assert "the vote stands at idle" in shown
    assert f"{head['for'][0]['name']} = " in shown


def test_explain_says_when_the_model_is_gone_or_judges_otherwise(decided, places, shipped, capsys, monkeypatch):
    path, _, _ = decided
    found = explain_features.recognition(path, versions.folder(places))
    assert found.wrong == ""
    monkeypatch.setattr(paths, "base_model", lambda: places.state / "none.npz")
    gone = explain_features.recognition(path, versions.folder(places))
    assert "is not kept here any more" in gone.wrong
    assert any("is not kept" in line for line in explain_features.lines(gone))
    assert explain_features.recognition(path, versions.folder(places), str(shipped)).wrong == ""
    monkeypatch.setattr(explain_features, "_ALIKE", -1.0)
    assert "not what was decided then" in explain_features.recognition(path, places.state, str(shipped)).note


def test_explain_goes_on_without_what_is_damaged(decided, places, capsys):
    path, _, _ = decided
    where = versions.folder(places)
    where.mkdir()
    (where / "chosen.json").write_bytes(b"{")
    assert asa(explain, "explain", "--journal", str(path)) == 0
    shown = capsys.readouterr().out
    assert "asa model use base" in shown
    assert "switches   none yet" in shown
    told = explain_features.recognition(places.state / "none.sqlite", where)
    assert "there is no such journal" in told.wrong


def test_explain_of_a_journal_without_decisions(places, tmp_path):
    path = tmp_path / "empty.sqlite"
    with Journal.open(path) as book:
        book.begin(header("cpu", 1))
        book.add(samples([("cpu", 2)], 1)[0])
    assert "holds no decision yet" in explain_features.recognition(path, places.state).wrong
    assert wire.json_bytes(explain_features.recognition(path, places.state))
