# SPDX-License-Identifier: GPL-2.0-only
"""The list of installed files, and what the files of asa/data say."""

import re
import shutil
import stat
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path, PurePosixPath

import pytest

from asa import config, yamlfile
from asa.act.gated import leaving, switcher
from asa.cli.install import texts
from asa.config import SwitchSettings
from asa.core.errors import SetupError
from asa.core.helper_api import BUS_NAME, INTERFACE, Action, Verb
from asa.install import system
from asa.install.payload import (
    DISTRIBUTION,
    LAUNCHER,
    LIBRARY_EXTRAS,
    NEEDED,
    PACKAGES,
    PROGRAM,
    SETTINGS,
    WELCOME,
    Kind,
    Texts,
    folders,
    laboratory,
    payload,
    pinned,
)
from asa.paths import LABORATORY
from calibration.laptop.installation import helper_security_score

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "asa/data"
NO_TEXTS = Texts(pages={}, completions={}, settings="")


@pytest.fixture(scope="module")
def items():
    return {str(item.path): item for item in payload(texts())}


def test_it_takes_what_the_project_file_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    def names(listed):
        return {re.match(r"[\w-]+", one)[0] for one in listed}

    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(PACKAGES) == set(wheel["packages"])
    assert {part for part in LABORATORY if "/" in part} < set(wheel["exclude"])
    assert set(NEEDED) == names(project["project"]["dependencies"])
    assert set(WELCOME) == names(project["project"]["optional-dependencies"]["monitor"])
    second = tomllib.loads((ROOT / "calibration/pyproject.toml").read_text())
    parts = second["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert parts == {f"../{part}": part for part in LABORATORY}
    (needed,) = second["project"]["dependencies"]
    assert needed == f"{DISTRIBUTION}[{','.join(LIBRARY_EXTRAS)}]"
    assert (project["project"]["name"], second["project"]["name"]) == (DISTRIBUTION, f"{DISTRIBUTION}-lab")


def test_the_laboratory_is_in_its_own_package_alone(items):
    mine = {str(item.path): item for item in laboratory()}
    assert not mine.keys() & items.keys()
    assert {"/usr/lib/asa/calibration/stages/campaign.py", "/usr/lib/asa/asa/cli/lab/calibrate.py"} <= set(mine)
    lock = mine["/usr/lib/asa/calibration/requirements.lock"].body.decode()
    pins = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    assert {"scipy", "pyarrow", "rich", "scikit-learn", "virtme-ng"} <= pins  # of each extra, one
    assert not {"mypy", "pytest", "ruff", "textual"} & pins
    assert lock.count("--hash=") >= len(pins)


def test_a_lock_file_is_cut_to_what_is_needed():
    lock = "a-b==1 \\\n    --hash=sha256:1\n    # via asa\nc==2 ; python_version < '3' \\\n    --hash=sha256:2\nd==3\n"
    assert pinned(lock, {"a-b", "d"}) == "a-b==1 \\\n    --hash=sha256:1\n    # via asa\nd==3\n"


def test_what_runs_is_in_it_and_what_never_runs_is_not(items):
    needed = {
        "/usr/bin/asa",
        "/etc/asa/asa.yaml",
        "/usr/lib/asa/asa/cli/helper.py",
        "/usr/lib/asa/collectors/ebpf/probes.bpf.o",
        "/usr/lib/asa/models/artefacts/base.npz",
        "/usr/lib/asa/models/members.c",
        "/usr/lib/asa/models/members.so",
        "/usr/lib/asa/scx_bin/manifest.yaml",
        "/usr/lib/asa/scx_bin/policies/scx_lavd-powersave.yaml",
        "/usr/lib/asa/numpy/__init__.py",
        "/usr/lib/systemd/system/asa-helper.service",
        "/usr/lib/systemd/user/asa.service",
        "/usr/share/dbus-1/system.d/org.asa.Helper1.conf",
        "/usr/share/dbus-1/system-services/org.asa.Helper1.service",
        "/usr/share/polkit-1/actions/org.asa.helper1.policy",
        "/usr/share/man/man1/asa-helper.1.gz",
        "/usr/share/bash-completion/completions/asa",
    }
    assert needed <= set(items)
    idle = r"/(tests|__pycache__|recordings|results|pandas|sklearn|xgboost|calibration|scenarios|models/train|cli/lab)/"
    assert not [path for path in items if re.search(idle, path)]
    for path, item in items.items():
        assert path == str(PurePosixPath(path))
        assert ".." not in PurePosixPath(path).parts
        assert item.mode in (0o644, 0o755)
        assert (item.kind is Kind.CONFIG) == (item.path == SETTINGS)


def test_what_is_known_of_the_model_comes_with_it_and_kept_results_do_not(tmp_path):
    known = ("collectors/ebpf/probes.bpf.o", "models/artefacts/base.npz", "models/artefacts/base.json")
    kept = ("calibration/results/fleet/vm120/trials.parquet", "calibration/results/fleet/vm120/trials/1.json")
    for name in (*known, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    paths = {str(item.path) for item in payload(NO_TEXTS, tmp_path)}
    assert {f"{PROGRAM}/{name}" for name in known} <= paths
    assert not [path for path in paths if path.startswith(f"{PROGRAM}/calibration/")]


def test_each_folder_comes_after_the_one_above_it(items):
    seen = {PurePosixPath("/")}
    for folder in folders(tuple(items.values())):
        assert folder.parent in seen
        seen.add(folder)
    assert {item.path.parent for item in items.values()} <= seen


def test_the_program_runs_from_its_folder_alone(items, tmp_path):
    for path, item in items.items():
        if path.startswith(f"{PROGRAM}/"):
            at = tmp_path / path.removeprefix("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(item.body)
    launcher = tmp_path / "launch"
    text = items[str(LAUNCHER)].body.decode()
    assert text.startswith("#!/usr/bin/python3 -IS\n")
    launcher.write_text(text.replace(str(PROGRAM), f"{tmp_path}{PROGRAM}"))

    def ran(*words):
        command = [sys.executable, "-IS", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env={})

    done = ran(str(launcher), "--version")
    assert (done.returncode, done.stderr) == (0, "")
    this, other = ".".join(map(str, sys.version_info[:2])), "2.7"
    launcher.write_text(launcher.read_text().replace(this, other).replace(str(sys.version_info[:2]), "(2, 7)"))
    done = ran(str(launcher), "--version")  # as after an upgrade of Python
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"asa: installed for Python {other}, and /usr/bin/python3 is {this} now;" in done.stderr
    code = f"""\
import sys; sys.path.append('{tmp_path}{PROGRAM}')
import asa.assembly, asa.helper.service, asa.monitor, textual.widgets, numpy.linalg, models.runtime, yaml
print(*(name for name, one in sys.modules.items() if 'site-packages' in str(getattr(one, '__file__', ''))))
"""
    done = ran("-c", code)
    assert (done.stderr, done.stdout.strip()) == ("", "")


def test_without_compiled_probes_it_says_how_to_compile_them(tmp_path):
    with pytest.raises(SetupError, match=r"probes\.bpf\.o is missing: .* run `make bpf`"):
        payload(NO_TEXTS, tmp_path)


def test_the_installed_program_does_not_install_itself():
    with pytest.raises(SetupError, match="this is the installed ASA"):
        payload(NO_TEXTS, Path(PROGRAM))


def test_the_settings_show_each_default_and_set_none(items, tmp_path):
    text = items[str(SETTINGS)].body.decode()
    (tmp_path / "asa.yaml").write_text(text)
    found = yamlfile.examine(tmp_path / "asa.yaml", config.Settings)
    assert (found.faults, found.lines) == ((), {})
    shown = [line.removeprefix("#") for line in text.splitlines()[2:]]
    (tmp_path / "all.yaml").write_text("\n".join(shown))
    found = yamlfile.examine(tmp_path / "all.yaml", config.Settings)
    assert found.faults == ()
    assert {"interval_s", "voting.window_s"} <= set(found.lines)
    assert config.load(tmp_path / "all.yaml", required=True) == config.Settings()


def test_the_bus_lets_through_the_helpers_methods_and_nothing_else():
    tree = ET.parse(DATA / "org.asa.Helper1.conf")  # noqa: S314  # our own file
    (default,) = tree.findall("policy[@context='default']")
    assert [rule.attrib for rule in default.findall("deny")] == [
        {"own": BUS_NAME},
        {"send_destination": BUS_NAME},
    ]
    allowed = default.findall("allow")
    assert all(rule.get("send_destination") == BUS_NAME and rule.get("send_type") == "method_call" for rule in allowed)
    members = {rule.get("send_member") for rule in allowed if rule.get("send_interface") == INTERFACE}
    assert members == {verb.member for verb in Verb}
    (root,) = tree.findall("policy[@user='root']")
    rules = [rule.attrib for rule in root.findall("allow")]
    assert rules == [{"own": BUS_NAME}, {"send_destination": BUS_NAME, "send_type": "signal"}]


def test_polkit_knows_each_action_and_asks_an_administrator_but_for_two():
    tree = ET.parse(DATA / "org.asa.helper1.policy")  # noqa: S314  # our own file
    found = {
        action.get("id"): tuple(action.findtext(f"defaults/allow_{who}") for who in ("any", "inactive", "active"))
        for action in tree.findall("action")
    }
    keep = ("auth_admin_keep",) * 3
    front = ("auth_admin", "auth_admin", "yes")
    assert found == {
        Action.OBSERVE: front,
        Action.SWITCH: front,
        Action.SWITCH_UNAPPROVED: keep,
        Action.HOLD: keep,
        Action.CONFIGURE: keep,
        Action.VOUCH: keep,
    }


def test_systemd_finds_no_fault_in_the_units_and_little_exposure(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed; `asa lab setup --tests` does it")
    for name in ("asa-helper.service", "asa-system.service", "asa.service"):
        text = (DATA / name).read_text().replace("/usr/bin/asa", "/bin/true")  # it asks for the program too
        (tmp_path / name).write_text(text)
        mode = "--user" if name == "asa.service" else "--system"
        command = ["systemd-analyze", mode, "--man=no", "--recursive-errors=no", "verify", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        ours = [line for line in done.stderr.splitlines() if name in line]
        assert ours == []
    assert helper_security_score() <= 3.5


def test_an_agent_without_a_desktop_is_held_as_narrow_as_the_helper():
    kept = {}
    for name in ("asa-helper.service", "asa-system.service"):
        _, _, text = (DATA / name).read_text().partition("# --- Files ---")
        text, _, _ = text.partition("[Install]")
        kept[name] = [line for line in text.splitlines() if line and not line.startswith("#")]
    helper, agent = kept.values()
    assert len(helper) > 30
    assert [line for line in agent if line not in helper] == ["ReadWritePaths=/root", "InaccessiblePaths=-/home"]
    assert [line for line in helper if line not in agent] == ["ProtectHome=yes"]
    unit = (DATA / "asa-system.service").read_text()
    assert re.findall(r"^(?:ExecStart|TimeoutStopSec|WantedBy)=.*$", unit, re.MULTILINE) == [
        "ExecStart=/usr/bin/asa run",
        "TimeoutStopSec=120",
        "WantedBy=multi-user.target",
    ]


def test_the_helper_has_the_time_that_its_slowest_way_out_takes():
    (text,) = re.findall(r"^TimeoutStopSec=(\d+)$", (DATA / "asa-helper.service").read_text(), re.MULTILINE)
    leaves_s = SwitchSettings().stop_limit_s + leaving._EXIT_LIMIT_S + leaving._KILLED_LIMIT_S
    assert int(text) > 60.0 + leaves_s + switcher.DETACH_LIMIT_S
    assert int(text) < system._LIMIT_S  # and nobody goes on without having waited for it


def test_the_data_is_read_by_all_and_run_by_nobody():
    for path in DATA.iterdir():
        assert not stat.S_IMODE(path.stat().st_mode) & 0o111 or path.is_dir()
