# SPDX-License-Identifier: GPL-2.0-only
"""`asa config show|check` on files as a person writes them."""

import importlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest
import yaml

from asa import config, paths
from asa.assembly import Assembly
from asa.cli import config as command
from asa.cli.main import main
from asa.core.errors import InputError

WRONG = """\
voting: {windows_s: 6}
interval_s: -1
window_s: 3
switch:
  gate: onn
  gate: auto
  stop_limits: 4
zzz: 1
journal: 5
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "asa.yaml"
    monkeypatch.setattr(paths, "default", lambda: paths.Places(config=path))
    return path


def asa(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["config", *map(str, words)])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_every_fault_with_what_was_meant(place, capsys):
    place.write_text(WRONG)
    code, said, _ = asa(capsys, "check")
    assert code == 1
    assert said.replace(str(place), "F").splitlines() == [
        "F:1: voting.windows_s: there is no such setting; did you mean voting.window_s?",
        "F:2: interval_s: -1 is not accepted; allowed: a number from 0.1 to 5",
        "F:3: window_s: there is no such setting; did you mean voting.window_s?",
        "F:6: switch.gate: stands here again; allowed: each key once",
        "F:7: switch.stop_limits: there is no such setting; did you mean switch.stop_limit_s?",
        "F:8: zzz: there is no such setting; allowed: one of the keys "
        + ", ".join(field.name for field in msgspec.structs.fields(config.Settings)),
        "F:9: journal: 5 is not accepted; allowed: settings of its own: size_mb, costs_every",
        "7 faults in F",
    ]


def test_faults_for_programs(place, capsys):
    place.write_text(WRONG)
    code, said, _ = asa(capsys, "check", "--json")
    found = json.loads(said)
    assert (code, found["file"], found["exists"]) == (1, str(place), True)
    assert len(found["faults"]) == 7
    assert found["faults"][0] == {
        "key": "voting.windows_s",
        "line": 1,
        "value": "6",
        "allowed": f"one of the keys {', '.join(config.Voting.__struct_fields__)}",
        "nearest": "voting.window_s",
        "text": "voting.windows_s: there is no such setting; did you mean voting.window_s?",
    }


def test_a_right_file_and_none(place, tmp_path, capsys):
    assert asa(capsys, "check")[:2] == (0, f"{place} is not there: all settings have their defaults\n")
    place.write_text("voting: {threshold: 0.5}\ninterval_s: 2\n")
    code, said, _ = asa(capsys, "check")
    assert code == 0
    assert said.startswith(f"{place} is right; it sets 2 of ")
    code, said, _ = asa(capsys, "check", tmp_path / "none.yaml")  # one that was named must be there
    assert code == 1
    assert "No such file or directory" in said
    assert json.loads(asa(capsys, "check", "--json")[1])["faults"] == []


def test_settings_that_cannot_be_looked_at_are_not_the_defaults(tmp_path, monkeypatch, capsys):
    path = tmp_path / ("x" * 300)  # no name of a file: an error for root, too
    monkeypatch.setattr(paths, "default", lambda: paths.Places(config=path))
    with pytest.raises(InputError, match="'File name too long' is not accepted"):
        config.load(path)
    code, said, _ = asa(capsys, "check")
    assert (code, said.splitlines()[-1]) == (1, f"1 fault in {path}")
    code, _, error = asa(capsys, "show")
    assert code == 1
    assert error.startswith(f"asa: {path}: 'File name too long'")
    assert config.load(tmp_path / "none" / "asa.yaml") == config.Settings()


def test_the_files_that_it_names_are_opened(place, tmp_path, capsys):
    (tmp_path / "table.yaml").write_text("machines: 3\n")
    place.write_text(f"interval_s: 2\ntable: {tmp_path}/table.yaml\nmodel: {tmp_path}/none.npz\n")
    code, said, _ = asa(capsys, "check")
    lines = said.splitlines()
    assert code == 1
    assert lines[0].startswith(f"{place}:2: table: {tmp_path}/table.yaml: ")
    assert lines[1].startswith(f"{place}:3: model: {tmp_path}/none.npz: ")
    place.write_text(f"table: {paths.mapping_tables() / 'default.yaml'}\nmodel: {paths.base_model()}\n")
    assert asa(capsys, "check")[0] == 0


def test_the_hints_beside_it_are_checked_too(place, capsys):
    place.write_text("interval_s: 2\n")
    hints = place.with_name("hints.yaml")
    hints.write_text("categories: {Game: {play: 0.5}}\n")
    assert asa(capsys, "check")[0] == 0
    hints.write_text("categories: {Game: {play: 5}}\n")
    code, said, _ = asa(capsys, "check")
    assert code == 1
    assert said.splitlines()[0].startswith(f"{place}: {hints}: categories.Game.play: 5 ")
    code, said, _ = asa(capsys, "check", "--json")
    assert [row["value"] for row in json.loads(said)["faults"]] == ["hints.yaml"]
    hints.unlink()
    place.with_name("adviser.yaml").write_text("use: oracle\n")
    code, said, _ = asa(capsys, "check", "--json")
    assert [row["value"] for row in json.loads(said)["faults"]] == ["adviser.yaml"]


def test_a_barred_scheduler_that_there_is_not(place, capsys):
    place.write_text("interval_s: 2\nswitch:\n  never: [scx_flash, scx_lawd]\n")
    code, said, _ = asa(capsys, "check")
    assert code == 1
    assert said.startswith(f"{place}:3: switch.never[1]: 'scx_lawd' is not accepted; allowed: one of scx_")
    place.write_text("switch:\n  never: [scx_flash, scx_lavd:powersave]\n")
    assert asa(capsys, "check")[0] == 0


@pytest.mark.parametrize("way", ["settings/asa.yaml", "../b/settings/asa.yaml"])
def test_what_they_name_is_beside_the_settings_wherever_a_process_was_started(tmp_path, capsys, monkeypatch, way):
    folder = tmp_path / "b/settings"
    folder.mkdir(parents=True)
    shutil.copy(paths.mapping_tables() / "default.yaml", folder / "mine.yaml")
    (folder / "asa.yaml").write_text(f"table: mine.yaml\nmodel: {paths.base_model()}\n")
    monkeypatch.chdir(tmp_path / "b")
    assert asa(capsys, "check", way)[0] == 0
    found = config.load(Path(way))
    monkeypatch.chdir("/")
    assert found.table is not None
    assert Path(found.table).samefile(folder / "mine.yaml")
    assert found.model == str(paths.base_model())
    (folder / "asa.yaml").write_text("table: none.yaml\n")
    code, said, _ = asa(capsys, "check", folder / "asa.yaml")
    assert code == 1
    assert f"table: {folder}/none.yaml: 'No such file" in said


def test_a_table_that_ranks_not_all_classes_of_the_model(place, tmp_path, capsys):
    whole = yaml.safe_load((paths.mapping_tables() / "default.yaml").read_text())
    del whole["classes"]["cpu"]
    (tmp_path / "table.yaml").write_text(yaml.safe_dump(whole))
    place.write_text(f"table: {tmp_path}/table.yaml\n")
    code, said, _ = asa(capsys, "check")
    assert code == 1
    assert said.startswith(f"{place}:1: table: {tmp_path}/table.yaml: classes: [")
    assert said.splitlines()[0].endswith("allowed: a ranking for each class of the model; without one: cpu")
    with pytest.raises(InputError, match="without one: cpu"):  # as the agent
        Assembly.open(paths.default(), config_path=place, observe=True, journal_path=None, say=print)


def test_what_is_shown_is_a_settings_file(place, tmp_path, capsys):
    place.write_text("# mine\nvoting:\n  window_s: 4\nswitch: {trusted_owners: [1000], gate: off}\nmodel: 'a #b: c'\n")
    code, said, _ = asa(capsys, "show")
    assert code == 0
    assert f"  window_s: 4.0  # a number above 0, up to 600; {place}:3, default 6.0\n" in said
    assert f"  gate: 'off'  # auto, off; {place}:4, default auto\n" in said
    assert "  threshold: 0.3  # a number from 0 to 1; default\n" in said
    again = tmp_path / "again.yaml"
    again.write_text(said)
    assert config.load(again) == config.load(place)
    assert set(_keys(config.Settings)) == {setting.key for setting in command.settings(config.Settings(), {})}


def test_small_numbers_come_back(tmp_path, capsys):
    path = tmp_path / "small.yaml"
    path.write_text("interval_s: 0.1\nguard: {baseline_s: 0.00001}\n")  # 1e-05 would be text in YAML 1.1
    path.write_text(asa(capsys, "show", path)[1])
    assert config.load(path).guard.baseline_s == 0.00001


def test_settings_for_programs(place, capsys):
    place.write_text("voting: {threshold: 0.5}\n")
    rows = {row["key"]: row for row in json.loads(asa(capsys, "show", "--json")[1])["settings"]}
    row = rows["voting.threshold"]
    assert (row["value"], row["default"], row["source"], row["file"], row["line"]) == (0.5, 0.3, "file", str(place), 1)
    assert (rows["interval_s"]["source"], rows["interval_s"]["line"]) == ("default", None)


def test_show_of_a_wrong_file_is_one_line(place, capsys):
    place.write_text("interval_s: x\n")
    code, said, error = asa(capsys, "show")
    assert (code, said) == (1, "")
    assert error.startswith(f"asa: {place}: interval_s: 'x' is not accepted")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("voting.windows_s", "voting.window_s"),
        ("intervall_s", "interval_s"),
        ("threshold", "voting.threshold"),
        ("policy.threshold", "voting.threshold"),
        ("standby.count.x", None),
        ("guard.baselin_s", "guard.baseline_s"),
        ("voteing", "voting"),
        ("qqqq", None),
    ],
)
def test_nearest(key, meant):
    assert command.nearest(key) == meant


COUNT = len(list(command.settings(config.Settings(), {})))
OLD = """\
voting: {method: markov, trust: 0.3}
standby:
  count: 1
  margin: 0.07
standing: {first_s: 60}
guard: {alpha: 0.01, worse_by: much}
"""


def test_settings_of_an_earlier_version_are_ignored_and_that_is_said(place, capsys):
    """An agent must start after an upgrade, whatever its file was written for."""
    place.write_text(OLD)
    said = []
    found = config.load(place, say=said.append)
    assert found == config.Settings(standby=config.StandbySettings(count=1))
    (line,) = said
    assert line == (
        f"{place}: ignored, no settings any more: voting.trust, standby.margin, guard.alpha and 3 more; "
        "delete them (`asa config check` names the lines)"
    )
    code, text, _ = asa(capsys, "check")
    assert code == 0
    assert text.replace(str(place), "F").splitlines() == [
        "F:1: voting.method: was removed, time-weighted is used (docs/voting.md); delete this line",
        "F:1: voting.trust: was removed (docs/voting.md); delete this line",
        "F:4: standby.margin: is a constant now, 0.05 (asa.decide.standbys.MARGIN); delete this line",
        "F:5: standing.first_s: is a constant now, 600 (asa.decide.penalties.FIRST_S); delete this line",
        "F:6: guard.alpha: is a constant now, 0.01 (asa.decide.guard.ALPHA); delete this line",
        "F:6: guard.worse_by: is a constant now, 0.25 (asa.decide.guard.WORSE_BY); delete this line",
        f"F is right; it sets 1 of {COUNT} settings; 6 that it sets are ignored",
    ]
    assert len(json.loads(asa(capsys, "check", "--json")[1])["ignored"]) == 6
    assert asa(capsys, "show")[0] == 0


@pytest.mark.parametrize(
    ("old", "learn"), [("true", "on"), ("false", "off"), ("on", "on"), ("off", "off"), ("ask", "ask")]
)
def test_whether_to_learn_was_true_or_false_before(place, old, learn):
    place.write_text(f"policy: {{learn: {old}, explore_share: 0.05}}\n")
    said = []
    assert config.load(place, say=said.append).policy.learn == learn
    (line,) = said
    assert "policy.explore_share" in line
    assert "`policy.learn` is off, ask or on" in config.gone("policy.explore_share")
    recorded, differing = config.recorded('{"policy": {"learn": true, "explore_share": 0.0}}')
    assert (recorded.policy.learn, differing) == (config.Learn.OFF, [])  # a recording of before has no trials


def test_the_agent_starts_by_an_old_file_and_says_so_once(place, tmp_path):
    place.write_text(OLD)
    said = []
    places = paths.Places(config=place, run=tmp_path / "run", state=tmp_path / "state")
    Assembly.open(places, config_path=place, observe=True, journal_path=None, say=said.append).close()
    assert sum("no settings any more" in line for line in said) == 1


def test_settings_of_an_old_recording_are_read():
    text = json.dumps({"interval_s": 2.0, "guard": {"alpha": 0.05, "settle_s": 2.0}, "voting": {"method": "mean"}})
    assert config.recorded(text) == (config.Settings(interval_s=2.0), ["guard.alpha", "voting.method"])
    with pytest.raises(msgspec.DecodeError, match="nonsense"):
        config.recorded('{"nonsense": 1}')


def test_what_became_a_constant_is_the_constant_that_is_named():
    now = {setting.key for setting in command.settings(config.Settings(), {})}
    assert now.isdisjoint(config.GONE)
    named = [(value, *where.rpartition(".")[::2]) for value, where in config.GONE.values() if where]
    assert [getattr(importlib.import_module(module), name) for _, module, name in named] == [one[0] for one in named]


def test_there_are_few_settings():
    assert len(list(command.settings(config.Settings(), {}))) <= 32


def test_every_setting_says_what_it_is_for():
    silent = [one.key for one in command.settings(config.Settings(), {}) if not one.comment]
    assert silent == []


def _keys(struct, above=""):
    for field in msgspec.structs.fields(struct):
        if isinstance(field.default, msgspec.Struct):
            yield from _keys(type(field.default), f"{field.name}.")
        else:
            yield above + field.name
