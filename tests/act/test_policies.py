# SPDX-License-Identifier: GPL-2.0-only
"""Policies: the shipped ones, one's own over them, and each way in which a file can be wrong."""

import pytest

from asa import paths
from asa.act import manifest, policies
from asa.act.manifest import Crate
from asa.act.portfolio import Portfolio
from asa.core.decision import SchedulerName
from asa.core.errors import InputError, SchedulerError

FILE = "scx_lavd-short.yaml"
TEXT = """\
id: scx_lavd:short
version: 1.1.4
purpose: short slices
flags: {--slice-max-us: 1000, --no-futex-boost: true}
provenance: {kind: own}
"""
TUNED = """{kind: tuned, method: golden, machine: m, workload: web, effect_pct: 2, interval_pct: [1, 3],
 date: '2026-11-28', seeds: [7, 8], trials: 9}"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Where the administrator's own policies are, in folders of root's."""
    folder = tmp_path / "etc/policies"
    folder.mkdir(parents=True)
    for one in (folder, folder.parent):
        one.chmod(0o755)
    monkeypatch.setattr(paths, "own_manifest", lambda: tmp_path / "etc/manifest.yaml")
    return folder


def put(folder, text, name=FILE):
    (folder / name).write_text(text)
    (folder / name).chmod(0o644)


def loaded(tmp_path):
    return Portfolio.load(paths.manifest(), tmp_path / "scx", "")


def test_the_shipped_ones_are_made_with_the_versions_of_the_manifest():
    entries = {one.name: one for one in manifest.read(paths.manifest()).schedulers}
    found = policies.read(paths.manifest().with_name("policies"), entries.values())
    assert {"scx_lavd:powersave", "scx_simple:fifo"} <= set(found)
    for name, policy in found.items():
        source = entries[name.bare].source
        if isinstance(source, Crate):
            assert policy.version == source.version, name


def test_a_shipped_policy_is_what_its_mode_was(tmp_path):
    portfolio = loaded(tmp_path)
    for name, words in {
        "scx_lavd": (),
        "scx_lavd:powersave": ("--powersave",),
        "scx_p2dq:powersave": ("--sched-mode=efficiency",),
        "scx_simple:fifo": ("-f",),
    }.items():
        assert portfolio.arguments(SchedulerName(name)) == words


def test_an_unknown_mode_and_a_barred_one_are_refused(tmp_path):
    portfolio = loaded(tmp_path)
    with pytest.raises(SchedulerError, match="scx_lavd: has no mode 'fast', only default, autopilot"):
        portfolio.arguments(SchedulerName("scx_lavd:fast"))
    portfolio.never = frozenset({"scx_lavd"})
    with pytest.raises(SchedulerError, match=r"switch\.never"):
        portfolio.arguments(SchedulerName("scx_lavd:powersave"))


@pytest.mark.root
def test_ones_own_are_beside_the_shipped_ones_and_over_them(own, tmp_path):
    put(own, TEXT)
    put(own, TEXT.replace("lavd:short", "lavd:powersave"), "scx_lavd-powersave.yaml")
    put(own, TEXT.replace("lavd:short", "lavd"), "scx_lavd.yaml")
    found = loaded(tmp_path)
    words = ("--slice-max-us=1000", "--no-futex-boost")
    assert found.modes()["scx_lavd"] == ("default", "autopilot", "performance", "powersave", "short")
    for name in ("scx_lavd", "scx_lavd:powersave", "scx_lavd:short"):
        assert found.arguments(SchedulerName(name)) == words
    assert found.arguments(SchedulerName("scx_lavd:performance")) == ("--performance",)


@pytest.mark.root
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("1000", "100000", r"flags.--slice-max-us: 100000 .* a whole number of us, 500 to 20000"),
        ("--no-futex-boost: true", "--no-futex-boost: false", "flags.--no-futex-boost: False .* true, or leave"),
        ("--no-futex-boost", "--profile", "flags.--profile: True .* one of its knobs in the manifest: --slice-max-us"),
        ("--no-futex-boost", "; reboot", "flags"),
        ("scx_lavd:short", "scx_lavd:long", "id: 'scx_lavd:long' .* belongs into scx_lavd-long.yaml"),
        ("scx_lavd:short", "scx_lavd:default", "id: 'scx_lavd:default' .* scx_lavd, which is its default mode"),
        ("scx_lavd:short", "scx_cake:short", "id: 'scx_cake:short' .* one of scx_bpfland, "),
        ("scx_lavd:short", "eevdf", "id: 'eevdf' .* one of scx_bpfland, "),
        ("scx_lavd:short", "../lavd", "id"),
        ("purpose:", "porpoise:", "porpoise"),
        ("kind: own", "kind: rumour", "provenance.kind: 'rumour' .* author, own, tuned"),
        ("{kind: own}", TUNED.replace("[1, 3]", "[3, 4]"), r"provenance.interval_pct: \[3.0, 4.0\] .* effect_pct, 2"),
        ("{kind: own}", TUNED.replace("2026-11-28", "yesterday"), "provenance.date: 'yesterday'"),
    ],
)
def test_what_is_wrong_is_one_clear_line(own, tmp_path, old, new, told):
    assert TEXT.count(old) == 1
    put(own, TEXT.replace(old, new))
    with pytest.raises(InputError, match=told) as caught:
        loaded(tmp_path)
    assert str(caught.value).startswith(str(own / FILE))
    assert "\n" not in str(caught.value)


@pytest.mark.root
def test_a_tuned_one_tells_where_it_is_from(own, tmp_path):
    put(own, TEXT.replace("{kind: own}", TUNED))
    found = loaded(tmp_path).policies[SchedulerName("scx_lavd:short")].provenance
    assert isinstance(found, policies.Tuned)
    assert (found.interval_pct, found.seeds, found.date) == ((1.0, 3.0), (7, 8), "2026-11-28")


@pytest.mark.root
def test_only_root_may_have_written_them(own, tmp_path):
    put(own, TEXT)
    for place, mode in ((own / FILE, 0o664), (own, 0o777)):
        kept = place.stat().st_mode
        place.chmod(mode)
        with pytest.raises(InputError, match=rf"{place}.*root's alone to write"):
            loaded(tmp_path)
        place.chmod(kept)
    (own / FILE).rename(tmp_path / FILE)
    (own / FILE).symlink_to(tmp_path / FILE)
    with pytest.raises(InputError, match="no symlink"):
        loaded(tmp_path)


@pytest.mark.root
def test_an_entry_of_ones_own_must_keep_the_knobs_that_policies_set(own, tmp_path):
    entry = "{name: scx_lavd, source: {kind: host, reason: r}, purpose: p, ops: lavd, help: null, paper: false}"
    put(own.parent, f"schedulers: [{entry}]", "manifest.yaml")
    with pytest.raises(InputError, match=r"scx_lavd-autopilot.yaml: flags.--autopilot: True .* it has none"):
        loaded(tmp_path)


def test_no_folder_is_no_policy(tmp_path):
    assert policies.read(tmp_path / "policies", ()) == {}
