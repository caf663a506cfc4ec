# SPDX-License-Identifier: GPL-2.0-only
"""The scripts of `asa completion` in real shells: keys go in at a terminal, Enter shows what the line became."""

import shutil
import subprocess

import pytest
from shell_driver import ALL, TAB, Shell

from asa import paths
from asa.act.portfolio import Portfolio
from asa.cli import completion, grammar
from asa.cli.main import LAB_COMMANDS, main, parser

CASES = [
    (f"resu{TAB}", ["resume"]),
    (f"resume scx_p2dq:perf{TAB}", ["resume", "scx_p2dq:performance"]),
    (f"lab ru{TAB} --cl{TAB}pa{TAB}", ["lab", "run", "--clock", "parallel"]),
    (f"lab run --clock=pa{TAB}", ["lab", "run", "--clock", "parallel"]),
    (f"lab run --memory 3072 --out fol{TAB}", ["lab", "run", "--memory", "3072", "--out", "folder"]),
    (f"lab run --limit 9 -- ls fi{TAB}", ["lab", "run", "--limit", "9", "--", "ls", "first.yaml"]),
    (f"run --config fi{TAB}", ["run", "--config", "first.yaml"]),
    (f"run --config=fi{TAB}", ["run", "--config", "first.yaml"]),
    (f"run --conf{TAB}two{TAB}", ["run", "--config", "two words.yaml"]),
    (f"run --obs{TAB}--jou{TAB}fi{TAB}", ["run", "--observe", "--journal", "first.yaml"]),
    (f"run --ebpf b{TAB}", ["run", "--ebpf", "bcc"]),
    (f"lab shadow report --plot x.svg fi{TAB}", ["lab", "shadow", "report", "--plot", "x.svg", "first.yaml"]),
    (f"run --for {TAB}", ["run", "--for"]),  # a number: nothing is offered, no file either
    (f"schedulers install scx_bp{TAB} scx_fl{TAB}", ["schedulers", "install", "scx_bpfland", "scx_flash"]),
]


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    for name in ("first.yaml", "two words.yaml"):
        (place / name).touch()
    (place / "folder").mkdir()
    return place


@pytest.fixture(params=["bash", "zsh"])
def shell(request, tmp_path, folder):
    script = tmp_path / "script"
    script.write_text(completion.script(completion.Shell(request.param)))
    shell = Shell(request.param, script, folder)
    yield shell
    shell.close()


def apart(words):
    """`--clock=parallel` is `--clock parallel`, `folder/` is `folder`: shells have their own taste."""
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return [word.rstrip("/") for word in split if word]


def test_keys_in_a_terminal(shell):
    for keys, words in CASES:
        assert apart(shell.press(f"asa {keys}")) == words, keys
    assert shell.press(f"asa resume scx_fl{ALL}") == ["resume", *names_of("scx_flash")]
    assert set(shell.press(f"asa {ALL}")) == set(grammar_of_asa())
    assert shell.press(f"asa lab {ALL}") == ["lab", *sorted(LAB_COMMANDS)]


def test_a_file_to_write_to(shell, folder):
    (folder / "first.yaml").write_text("old")
    shell.send(f"asa status > fi{TAB}")
    assert shell.press("asa done") == ["done"]  # the shell has run the line before
    assert (folder / "first.yaml").read_text() == "<status>!\n"


FISH = [
    ("resu", {"resume"}),
    ("resume scx_p2dq:perf", {"scx_p2dq:performance"}),
    ("run --conf", {"--config"}),
    ("run --config fi", {"first.yaml"}),
    ("run --config=fi", {"--config=first.yaml"}),
    ("lab run --memory 3072 --clock p", {"parallel"}),
    ("lab run --out fo", {"folder/"}),
    ("lab run -- ls fi", {"first.yaml"}),
    ("run --ebpf b", {"bcc"}),
    ("lab shadow report --plot x.svg fi", {"first.yaml"}),
    ("run --for ", set()),
    ("run fi", set()),
    ("schedulers install scx_bpfland scx_fl", {"scx_flash"}),
    ("table show kern", {"kernel"}),
    ("lab ", set(LAB_COMMANDS)),
]


@pytest.mark.parametrize(("line", "offered"), FISH)
def test_fish(line, offered, tmp_path, folder):
    assert from_fish(line, tmp_path, folder) == offered


def test_fish_knows_every_command(tmp_path, folder):
    assert from_fish("", tmp_path, folder) == set(grammar_of_asa())


def from_fish(line, tmp_path, folder):
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed; `asa lab setup --tests` does it")
    script = tmp_path / "asa.fish"
    script.write_text(completion.script(completion.Shell.FISH))
    words = f"source {script}; complete -C 'asa {line}'"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [fish, "--no-config", "-c", words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return {row.partition("\t")[0] for row in done.stdout.splitlines()}


def names_of(scheduler):
    """As the portfolio has them: policies that were tuned come and go."""
    modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()[scheduler]
    return [scheduler, *sorted(f"{scheduler}:{mode}" for mode in modes if mode != "default")]


def grammar_of_asa():
    return [command.path[-1] for command in grammar.read(parser()).children]


@pytest.mark.parametrize("shell", completion.Shell)
def test_every_name_of_the_manifest_is_there(shell):
    text = completion.script(shell)
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    for name, modes in portfolio.modes().items():
        assert name in text
        assert all(f"{name}:{mode}" in text for mode in modes if mode != "default")


def test_the_command_prints_the_script(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["completion", "fish"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == completion.script(completion.Shell.FISH)
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
