# SPDX-License-Identifier: GPL-2.0-only
"""Settings and other YAML: errors in one line that say where, what stands there, and what may."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from asa import config, yamlfile
from asa.core.errors import InputError


@pytest.mark.parametrize(
    ("text", "key", "value", "allowed"),
    [
        ("intervall_s: 1", "intervall_s", 1, "interval_s"),
        ("voting: {windows_s: 6}", "voting.windows_s", 6, "window_s"),
        ("voting: {window_s: long}", "voting.window_s", "long", "float"),
        ("voting: {threshold: 1.5}", "voting.threshold", 1.5, "<= 1.0"),
        ("interval_s: -1", "interval_s", -1, ">= 0.1"),
        ("journal: [1]", "journal", [1], "object"),
        ("- 1", "", [1], "object"),
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
    (tmp_path / "asa.yaml").write_text("voting: {window_s: 4, decay: 0.5}\npolicy: {cooldown_s: 3}\n")
    settings = config.load(tmp_path / "asa.yaml")
    assert (settings.voting.window_s, settings.voting.decay, settings.policy.cooldown_s) == (4.0, 0.5, 3.0)


def test_not_text_and_too_large(tmp_path):
    path = tmp_path / "asa.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        config.load(path)
    path.write_bytes(b"#" * 2_000_000)
    with pytest.raises(InputError, match="1 MiB"):
        config.load(path)


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
