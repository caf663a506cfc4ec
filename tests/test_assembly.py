# SPDX-License-Identifier: GPL-2.0-only
"""Which model the agent is put together with, and what becomes of it when it is read again."""

import hashlib
import os
from dataclasses import replace

import pytest

from asa import assembly, paths, requests, wire
from asa.assembly import Assembly, Model
from asa.config import CollectSettings, Ebpf, Settings
from asa.core.decision import OrderKind
from asa.core.errors import InputError, ModelError
from asa.decide.hints import Hints
from asa.lease import Lease, Note
from models import artefact, versions

FACTS = versions.Facts(sha256="", kind="tuned", made="", asa_version="")


@pytest.fixture
def places(tmp_path):
    return replace(paths.default(), state=tmp_path)


@pytest.fixture
def said():
    return []


def choose(places, body):
    """A file of the right name that is no model of this version."""
    where, sha256 = versions.folder(places), hashlib.sha256(body).hexdigest()
    where.mkdir()
    (where / f"{sha256}.npz").write_bytes(body)
    (where / "chosen.json").write_text(f'{{"sha256":"{sha256}"}}')


def test_the_packages_model_where_nothing_is_chosen(places, said):
    found = Model.first(Settings(), places, said.append)
    assert found.path == paths.base_model()
    assert found.sha256 == hashlib.sha256(paths.base_model().read_bytes()).hexdigest()
    assert said == []


def test_the_chosen_one_and_before_it_what_the_settings_name(places, said):
    base = artefact.load(paths.base_model())
    where = versions.folder(places)
    own = versions.add(where, replace(base, fill=base.fill + 1), FACTS)
    versions.use(where, own)
    found = Model.first(Settings(), places, said.append)
    assert (found.path, found.sha256) == (own.path, own.facts.sha256)
    found = Model.first(Settings(model=str(paths.base_model())), places, said.append)
    assert found.path == paths.base_model()


@pytest.mark.parametrize("body", [b"", b"PK\x03\x04 of another version"])
def test_a_chosen_one_that_does_not_load_keeps_no_agent_from_starting(places, said, body):
    choose(places, body)
    found = Model.first(Settings(), places, said.append)
    assert found.path == paths.base_model()
    (line,) = said
    assert "not a sound model" in line
    assert line.endswith("starting with the package's model")


def test_a_damaged_choice_neither(places, said):
    where = versions.folder(places)
    where.mkdir()
    (where / "chosen.json").write_text("{")
    assert Model.first(Settings(), places, said.append).path == paths.base_model()
    assert "asa model use base" in said[0]


def test_when_settings_are_read_again_it_is_an_error(places):
    choose(places, b"damaged")
    with pytest.raises(ModelError, match="not a sound model"):
        Model.wanted(Settings(), places)


def test_what_the_settings_name_has_no_stand_in(places, said, tmp_path):
    settings = Settings(model=str(tmp_path / "none.npz"))
    with pytest.raises(ModelError, match=r"none\.npz: cannot be read"):
        Model.first(settings, places, said.append)
    assert said == []


def test_what_the_settings_bar_is_chosen_by_nobody(tmp_path):
    places = replace(paths.default(), state=tmp_path / "state", run=tmp_path / "run")
    (tmp_path / "asa.yaml").write_text("switch: {never: [scx_flash, 'scx_lavd:powersave']}\n")
    options = {"config_path": tmp_path / "asa.yaml", "observe": True, "journal_path": None, "ebpf": Ebpf.OFF}
    found = Assembly.open(places, **options, say=lambda _: None, journal_needed=False)
    try:
        table = found.setup.table
        assert table.never == {"scx_flash", "scx_lavd:powersave"}
        assert {table.wanted(workload, ()).bare for workload in table.rankings}.isdisjoint({"scx_flash"})
        for name in ("scx_flash:performance", "scx_lavd"):  # as another program than `asa switch` may ask
            requests.send(places.run, requests.Switch(scheduler=name, until_ns=None))
        assert [order.scheduler for order in found._orders()] == ["scx_lavd"]
        (tmp_path / "asa.yaml").write_text("switch: {never: [scx_nobody]}\n")
        with pytest.raises(InputError, match=r"switch.never\[0\]: 'scx_nobody'"):
            found.reload()
        assert found.setup.table is table
    finally:
        found.close()


def test_a_client_that_has_gone_ends_its_order(tmp_path):
    """By its lease in the run folder, which the agent looks at each tick."""
    places = replace(paths.default(), state=tmp_path / "state", run=tmp_path / "run", config=tmp_path / "none.yaml")
    options = {"config_path": None, "observe": True, "journal_path": None, "ebpf": Ebpf.OFF}
    found = Assembly.open(places, **options, say=lambda _: None, journal_needed=False)
    try:
        lease = Lease(places.run, Note(lease="one", client="bot", what="it tries", pid=1, since_ns=0))
        requests.send(places.run, requests.Switch(scheduler="scx_lavd", client="bot", lease="one"))
        assert [(order.client, order.lease) for order in found._orders()] == [("bot", "one")]
        assert found._lapsed() == ()
        lease.close()
        assert [(order.kind, order.lease) for order in found._lapsed()] == [(OrderKind.LAPSE, "one")]
        assert found._lapsed() == ()
    finally:
        found.close()


def test_hints_stand_beside_the_settings_and_are_read_again_with_them(tmp_path):
    places = replace(paths.default(), state=tmp_path / "state", run=tmp_path / "run")
    own = tmp_path / "hints.yaml"
    (tmp_path / "asa.yaml").write_text("")
    own.write_text("weight: 0.5\ncategories: {Game: {watch: 1.0}}\n")
    options = {"config_path": tmp_path / "asa.yaml", "observe": True, "journal_path": tmp_path / "journal.sqlite"}
    found = Assembly.open(places, **options, ebpf=Ebpf.OFF, say=lambda _: None)
    try:
        assert (found.setup.hints.weight, found.setup.hints.categories["Game"]) == (0.5, {"watch": 1.0})
        own.write_text("weight: much\n")
        with pytest.raises(InputError, match=r"hints\.yaml: weight: 'much'"):
            found.reload()
        assert found.setup.hints.weight == 0.5
        own.unlink()
        found.reload()
        learnt = artefact.load(paths.base_model()).header.hint_weight
        assert (found.setup.hints.weight, found.setup.hints.categories["Game"]) == (learnt, {"play": 1.0})
        assert wire.from_json(found._told(1).hints, Hints) == found.setup.hints
        header = found.book.journal.sessions()[0].header
        assert wire.from_json(header.hints, Hints).weight == 0.5  # at the start
    finally:
        found.close()


@pytest.mark.parametrize(("text", "there"), [(None, False), ("use: off\n", False), ("use: table\n", True)])
def test_an_adviser_is_there_where_its_file_says_so(tmp_path, text, there):
    places = replace(paths.default(), state=tmp_path / "state", run=tmp_path / "run")
    (tmp_path / "asa.yaml").write_text("")
    if text is not None:
        (tmp_path / "adviser.yaml").write_text(text)
    options = {"config_path": tmp_path / "asa.yaml", "observe": True, "journal_path": None, "ebpf": Ebpf.OFF}
    said = []
    found = Assembly.open(places, **options, say=said.append, journal_needed=False)
    try:
        assert (found.adviser is not None) is there
        agent = found.agent(said.append, lambda _: None)
        agent._tick(found.clock.monotonic_ns())
        assert "adviser" in found.sampler.cost_us or not there
        assert said == []
    finally:
        found.close()


def test_roots_agent_asks_no_server(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "adviser.yaml").write_text("use: server\n")
    said = []
    _, found = assembly._adviser(tmp_path / "asa.yaml", tmp_path, CollectSettings(), said.append)
    assert found._settings.use == "table"
    assert said == ["adviser.yaml: root's agent asks no server; it has the table of well-known programs"]


def test_an_adviser_needs_numbers_of_programs_and_a_right_file(tmp_path):
    places = replace(paths.default(), state=tmp_path / "state", run=tmp_path / "run")
    (tmp_path / "asa.yaml").write_text("collect: {processes: false}\n")
    (tmp_path / "adviser.yaml").write_text("use: table\n")
    options = {"config_path": tmp_path / "asa.yaml", "observe": True, "journal_path": None, "ebpf": Ebpf.OFF}
    said = []
    found = Assembly.open(places, **options, say=said.append, journal_needed=False)
    found.close()
    assert (found.adviser, said) == (None, ["adviser.yaml: not used, for `collect.processes` is false"])
    (tmp_path / "adviser.yaml").write_text("use: server\nurl: http://192.0.2.1/v1\n")
    with pytest.raises(InputError, match=r"adviser\.yaml: url"):
        Assembly.open(places, **options, say=said.append, journal_needed=False)
