# SPDX-License-Identifier: GPL-2.0-only
"""Settings and other YAML: errors in one line that say where, what stands there, and what may."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from asa import config, yamlfile
from asa.core.errors import InputError

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("text", "key", "value", "allowed"),
    [
        ("intervall_s: 1", "intervall_s", 1, "interval_s"),
        ("voting: {windows_s: 6}", "voting.windows_s", 6, "window_s"),
        ("voting: {window_s: long}", "voting.window_s", "long", "a number above 0, up to 600"),
        ("voting: {threshold: 1.5}", "voting.threshold", 1.5, "a number from 0 to 1"),
        ("interval_s: -1", "interval_s", -1, "a number from 0.1 to 5"),
        ("journal: [1]", "journal", [1], "a mapping with the keys size_mb, "),
        ("- 1", "", [1], "a mapping with the keys interval_s, "),
    ],
)
def test_wrong_settings(tmp_path, text, key, value, allowed):
    path = tmp_path / "asa.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        config.load(path)
    assert (caught.value.path, caught.value.key, caught.value.value) == (str(path), key, value)
    assert allowed in caught.value.allowed
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["a: [", "a: 1\na: 2", "{[1]: 2}", "a: !!python/object/apply:os.system [id]", "\x00", "{1: 2, 1: 3}"]
)
def test_broken_yaml_is_one_line(tmp_path, text):
    path = tmp_path / "asa.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        config.load(path)
    assert "\n" not in str(caught.value)


def test_missing_means_defaults_unless_required(tmp_path):
    assert config.load(tmp_path / "none.yaml") == config.Settings()
    with pytest.raises(InputError, match="No such file"):
        config.load(tmp_path / "none.yaml", required=True)


def test_empty_means_defaults(tmp_path):
    (tmp_path / "asa.yaml").write_text("# nothing\n")
    assert config.load(tmp_path / "asa.yaml") == config.Settings()


def test_values_arrive(tmp_path):
    (tmp_path / "asa.yaml").write_text("voting: {window_s: 4, threshold: 0.5}\npolicy: {cooldown_s: 3}\n")
    settings = config.load(tmp_path / "asa.yaml")
    assert (settings.voting.window_s, settings.voting.threshold, settings.policy.cooldown_s) == (4.0, 0.5, 3.0)


def test_not_text_and_too_large(tmp_path):
    path = tmp_path / "asa.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        config.load(path)
    path.write_bytes(b"#" * 2_000_000)
    with pytest.raises(InputError, match="1 MiB"):
        config.load(path)


BOMB = ", ".join(
    ["&a [x, x, x, x, x, x]", *(f"&{two} [{', '.join([f'*{one}'] * 6)}]" for one, two in pairwise("abcdefghi"))]
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 500_000, "nested more than 50 deep in line 1"),
        ("- " * 400_000, "nested more than 50 deep in line 1"),
        ("{a: " * 200_000, "nested more than 50 deep in line 1"),
        (f"journal: [{BOMB}]", "more than 200000 parts in line 1"),
        (f"a: &a {'x' * 500_000}\nb: [{'*a, ' * 100_000}]", "more than 200000 parts in line 2"),
        ("- 1\n" * 200_000, "more than 200000 parts in line"),
        ('interval_s: !!int ""', "'' is no int in line 1"),
        ('interval_s: !!float ""', "'' is no float in line 1"),
        ("\njournal: !!bool x", "'x' is no bool in line 2"),
        ("journal: !!timestamp x", "'x' is no timestamp in line 1"),
        ("journal: 2026-13-01", "'2026-13-01' is no timestamp in line 1"),
        (f"interval_s: {2**63}", "needs more than 63 bits in line 1"),
        (f"interval_s: 0x{'f' * 9999}", "int of 10001 letters in line 1"),
        (f"interval_s: 1{':59' * 300_000}", "int of 900001 letters in line 1"),
        ("~: 1", "key None is no text"),
        ("{[1]: 2}", "key [1] is no text"),
    ],
    ids=range(16),
)
def test_what_would_take_the_stack_or_the_memory_is_one_short_line(tmp_path, text, said):
    # in a process of its own: the parser in C took the whole program with it
    path = tmp_path / "asa.yaml"
    path.write_text(text)
    code = "import sys\nfrom pathlib import Path\nfrom asa import config, yamlfile\n"
    code += "from asa.core.errors import InputError\npath = Path(sys.argv[1])\n"
    code += "try: config.load(path)\nexcept InputError as error: print(error)\n"
    code += "print(len(yamlfile.examine(path, config.Settings).faults))"
    done = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True, check=False)
    line, faults = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(line) < 600, int(faults) > 0) == (0, "", True, True)
    assert said in line


def test_a_long_value_is_shown_in_short(tmp_path):
    path = tmp_path / "asa.yaml"
    path.write_text(f"journal: [{'1, ' * 100_000}]")
    with pytest.raises(InputError, match=r"journal: '\[1, 1, .*\.\.\.' is not accepted") as caught:
        config.load(path)
    assert len(str(caught.value)) < 700


def test_what_is_no_file_is_said_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError, match="no regular file"):
            config.load(path, required=True)
    with pytest.raises(InputError, match="Is a directory"):
        config.load(tmp_path, required=True)
    for path in ("a\0b", "a" * 300):
        with pytest.raises(InputError, match=r"null|too long"):
            config.load(Path(path), required=True)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="symbolic links"):
        config.load(loop, required=True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=5) | st.sampled_from(["voting", "interval_s"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_whatever_stands_there_is_accepted_or_named(data):
    text = yaml.safe_dump(data, allow_unicode=True)
    try:
        settings = yamlfile.loads(text, config.Settings, "f.yaml")
    except InputError as error:
        said = str(error)
    else:
        said = repr(settings)
    assert "\n" not in said


@pytest.mark.parametrize("word", ["off", "auto", '"off"'])
def test_a_word_is_a_word(tmp_path, word):
    path = tmp_path / "asa.yaml"
    path.write_text(f"collect: {{ebpf: {word}, gpu: false, desktop: True}}")
    assert config.load(path).collect == config.CollectSettings(ebpf=config.Ebpf(word.strip('"')), gpu=False)


@pytest.mark.parametrize("word", ["off", "no", "yes", "y"])
def test_only_true_and_false_are_truth_values(tmp_path, word):
    path = tmp_path / "asa.yaml"
    path.write_text(f"collect: {{gpu: {word}}}")
    with pytest.raises(InputError) as caught:
        config.load(path)
    assert (caught.value.key, caught.value.value) == ("collect.gpu", word)
