# SPDX-License-Identifier: GPL-2.0-only
"""Installation with a small cargo of our own: what is built, kept, recorded and built again."""

import hashlib
import os

import pytest
from build_desk import SCHEDULER, Watcher, desk

from asa.act import build
from asa.act.build import Status
from asa.act.portfolio import Available, Origin
from asa.core.decision import SchedulerName
from asa.core.errors import SchedulerError

__all__ = ["desk"]  # a fixture


def test_a_crate_is_built_recorded_and_kept(desk):
    desk.crate("scx_one", policies={"fast": {"--slice-us": 5, "-v": True}})
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.BUILT, outcome
    look = desk.portfolio().look("scx_one")
    assert isinstance(look, Available)
    assert (look.origin, look.version, look.path) == (Origin.BUILT, "1.2.3", desk.cache / "scx/scx_one")
    assert look.sha256 == hashlib.sha256(SCHEDULER.encode()).hexdigest()
    assert look.flags == ("-s", "--slice-us", "--virt-llc", "-v", "--verbose", "-h", "--help", "--relaxed-maps")
    assert "   Compiling scx_one@1.2.3" in desk.watcher.lines
    assert not (desk.cache / "build").exists(), "gigabytes, and nothing is left to build"
    os.close(desk.portfolio().open(SchedulerName("scx_one:fast")).fd)
    assert desk.install()["scx_one"].status is Status.KEPT
    assert desk.built() == ["scx_one@1.2.3"]


def test_what_changed_is_built_again(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    desk.install()
    binary = desk.cache / "scx/scx_one"
    for spoil in (lambda: binary.write_text("x"), binary.unlink, lambda: binary.chmod(0o777)):
        spoil()
        assert desk.install()["scx_one"].status is Status.BUILT
    (desk.cache / "scx/installed.json").write_text("{")
    assert desk.install()["scx_one"].status is Status.BUILT
    assert any("starting a new one" in line for line in desk.watcher.lines)
    desk.entries.clear()
    desk.crate("scx_one", "1.2.4")
    assert desk.install()["scx_one"].status is Status.BUILT
    assert desk.built()[-1] == "scx_one@1.2.4"
    assert len(desk.built()) == 6


def test_one_failure_does_not_stop_the_others_and_keeps_the_tree(desk):
    desk.entry("eevdf", "{kind: kernel}", help_="null")
    desk.crate("scx_bad")
    desk.crate("scx_one")
    desk.entry("scx_rare", "{kind: host, reason: nobody has it}", help_="null")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    outcomes = desk.install()
    kinds = [outcome.status for outcome in outcomes.values()]
    assert kinds == [Status.KERNEL, Status.FAILED, Status.BUILT, Status.UNAVAILABLE]
    detail = outcomes["scx_bad"].detail
    assert "cargo ended with 101" in detail
    assert "could not find scx_bad@1.2.3" in detail
    assert "\n" not in detail
    log = desk.cache / "logs/build-scx_bad.log"
    assert str(log) in detail
    assert "error: could not find" in log.read_text()
    assert (desk.cache / "build/target/object").exists(), "the next try goes on from here"
    assert desk.watcher.begun == [("eevdf", 1, 4), ("scx_bad", 2, 4), ("scx_one", 3, 4), ("scx_rare", 4, 4)]
    desk.executable(desk.crates / "scx_bad", SCHEDULER)
    assert [outcome.status for outcome in desk.install("scx_bad").values()] == [Status.BUILT]


def test_names_are_checked_first_and_taken_in_the_manifests_order(desk):
    desk.crate("scx_one")
    desk.crate("scx_two")
    with pytest.raises(SchedulerError, match="scx_tow: not in the manifest"):
        desk.install("scx_one", "scx_tow")
    assert desk.built() == []
    desk.install("scx_two", "scx_one")
    assert desk.built() == ["scx_one@1.2.3", "scx_two@1.2.3"]


def test_the_hosts_own_comes_first_and_is_recorded(desk):
    desk.crate("scx_one", "9.9.9")
    desk.executable(desk.crates / "scx_one", SCHEDULER)
    desk.executable(desk.host / "scx_one", SCHEDULER)
    assert desk.install()["scx_one"].status is Status.FOUND
    look = desk.portfolio().look("scx_one")
    assert (look.origin, look.version, look.path) == (Origin.PATH, "1.2.3", desk.host / "scx_one")
    assert desk.install()["scx_one"].status is Status.KEPT
    desk.executable(desk.host / "scx_one", SCHEDULER + "# an upgrade\n")
    with pytest.raises(SchedulerError, match="is not the recorded file"):
        desk.portfolio().open(SchedulerName("scx_one"))
    assert desk.install()["scx_one"].status is Status.FOUND
    os.close(desk.portfolio().open(SchedulerName("scx_one")).fd)
    (desk.host / "scx_one").unlink()
    assert desk.install()["scx_one"].status is Status.BUILT
    assert desk.portfolio().look("scx_one").origin is Origin.BUILT


def test_a_host_scheduler_that_went_away_is_forgotten(desk):
    desk.entry("scx_rare", "{kind: host, reason: nobody has it}", help_="null")
    desk.executable(desk.host / "scx_rare", SCHEDULER)
    assert desk.install()["scx_rare"].status is Status.FOUND
    assert desk.portfolio().records()["scx_rare"].flags_reason == "the manifest knows no way to ask it"
    (desk.host / "scx_rare").unlink()
    assert desk.install()["scx_rare"].status is Status.UNAVAILABLE
    assert desk.portfolio().records() == {}


def test_a_build_without_its_binary_fails(desk):
    desk.crate("scx_one")
    desk.executable(desk.tools / "cargo", "#!/bin/sh\necho 'cargo 1.95.0'\n")
    outcome = desk.install()["scx_one"]
    assert outcome.status is Status.FAILED
    assert "made no" in outcome.detail


def test_an_old_cargo_gives_way_to_debians(desk):
    desk.crate("scx_one")
    desk.executable(desk.tools / "cargo", "#!/bin/sh\necho 'cargo 1.85.0'\n")
    asked = []

    def install(packages, **_):
        asked.append(tuple(packages))
        if "cargo-web" in packages:
            raise SchedulerError(scheduler="apt", reason="stop here: what is wanted is known")

    desk.monkeypatch.setattr(build.debian, "install", install)
    desk.install()
    assert asked[-1] == ("cargo-web", "rustc-web")


def test_the_loader_is_built_once_and_is_no_scheduler(desk):
    desk.crate("scx_one")
    desk.executable(desk.crates / "scx_loader", "#!/bin/sh\n")
    watcher = Watcher()
    path = build.loader(desk.portfolio(), desk.cache, watcher)
    assert (path.name, os.access(path, os.X_OK)) == ("scx_loader", True)
    assert "   Compiling scx_loader@1.1.3" in watcher.lines
    assert build.loader(desk.portfolio(), desk.cache, watcher) == path
    assert desk.built() == ["scx_loader@1.1.3"]
    assert desk.portfolio().records() == {}


def test_an_update_of_the_hosts_own_is_recorded_and_nothing_is_built(desk):
    desk.crate("scx_one")
    desk.crate("scx_two")
    desk.executable(desk.crates / "scx_two", SCHEDULER)
    desk.executable(desk.host / "scx_one", SCHEDULER)
    desk.install()
    built = desk.built()
    desk.executable(desk.host / "scx_one", SCHEDULER + "# an upgrade\n")
    desk.executable(desk.host / "scx_two", SCHEDULER)  # appears: whoever built one keeps it until `install`
    (outcome,) = build.install(desk.portfolio(), desk.cache, Watcher(), recorded=True)
    assert (outcome.name, outcome.status) == ("scx_one", Status.FOUND)
    os.close(desk.portfolio().open(SchedulerName("scx_one")).fd)
    assert desk.portfolio().look("scx_two").origin is Origin.BUILT
    (desk.host / "scx_one").unlink()
    (outcome,) = build.install(desk.portfolio(), desk.cache, Watcher(), recorded=True)
    assert outcome.status is Status.UNAVAILABLE
    assert "scx_one" not in desk.portfolio().records()
    assert build.install(desk.portfolio(), desk.cache, Watcher(), recorded=True) == ()
    assert desk.built() == built
