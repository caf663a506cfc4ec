# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own QEMU with a made-up source, configure and ninja: what is changed, what is kept, what a failure leaves.

The real source is built by `asa lab setup`; what its clock does is seen in guests.
"""

import subprocess

import pytest

from asa import debian
from asa.core.errors import LabError, SetupError
from scenarios.lab import building
from scenarios.lab.qemu import build, change

CONFIGURE = "#!/bin/sh\necho configured by \"$@\"; echo '  gcc' > config.log\n"
NINJA = """#!/bin/sh
echo '[1/2] Compiling C object x.o'
%s
echo '[2/2] Linking target qemu-system-x86_64'
cp /bin/true qemu-system-x86_64
"""


def quiet(*_, **__):
    pass


def lay_out(folder, version="10.0.99"):
    """A source that has every place of the change once."""
    texts = {}
    for place in change.PLACES:
        texts[place.file] = texts.get(place.file, f"/* {place.file} */\n") + place.old
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "include/system").mkdir(parents=True, exist_ok=True)
    (folder / "VERSION").write_text(f"{version}\n")
    (folder / "configure").write_text(CONFIGURE)
    (folder / "configure").chmod(0o755)
    return folder


def pack(tmp_path, cache, tree):
    place = cache / "qemu/source/qemu_10.0.99+ds.orig.tar.xz"
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "--create", "--xz", "--file", place, "--directory", tree.parent, tree.name], check=True)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    cache = tmp_path / "cache"
    pack(tmp_path, cache, lay_out(tmp_path / "tree/qemu-10.0.99"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(building, "_PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(debian, "install", quiet)
    monkeypatch.setattr(debian, "source_versions", lambda *_, **__: pytest.fail("the source is here"))
    return cache


@pytest.fixture
def ninja(tmp_path, cache):
    """Puts the made-up ninja in its place; `trouble` is what it does while compiling."""

    def put(trouble=":"):
        path = tmp_path / "bin/ninja"
        path.write_text(NINJA % trouble)
        path.chmod(0o755)

    put()
    return put


def left(cache):
    """What lies beside the source."""
    return {path.name for path in (cache / "qemu").iterdir()} - {"source", ".ensure"}


def test_it_is_built_once_and_kept_with_how_it_was_built(cache, ninja):
    told = []
    ninja("sleep 0.3")
    binary = build.ensure(cache, pytest.fail, tell=lambda *step: told.append(step))
    assert binary.parent.name.startswith("10.0.99-asa-")
    assert subprocess.run([binary], check=False).returncode == 0
    built = build.read(binary)
    assert (built.version, built.source) == ("10.0.99", "qemu_10.0.99+ds.orig.tar.xz")
    assert 0.2 <= built.seconds < 60
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert told[-1] == ("compiling QEMU 10.0.99", 0.98)
    assert "--target-list=x86_64-softmmu" in (cache / "logs/build-qemu.log").read_text()
    assert build.ensure(cache, pytest.fail, tell=pytest.fail) == binary == build.found(cache)
    assert left(cache) == {binary.parent.name}


def test_another_change_is_another_qemu(cache, ninja, monkeypatch):
    first = build.ensure(cache, quiet)
    monkeypatch.setattr(build, "_OPTIONS", (*build._OPTIONS, "--enable-kvm"))
    assert build.found(cache) is None
    assert build.ensure(cache, quiet) != first
    assert first.is_file()  # a checkout with the old change still finds its own


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("echo '../accel/tcg/icount-parallel.c:7: error: no such thing'; exit 1", "error: no such thing"),
        ("echo 'fatal error: x.o: No space left on device'; exit 1", "make room and run again"),
        ("kill -9 $$", "ninja ended with"),
    ],
)
def test_a_failed_build_says_so_in_one_line_and_leaves_the_old_one(cache, ninja, monkeypatch, trouble, words):
    old = build.ensure(cache, quiet)
    monkeypatch.setattr(build, "_OPTIONS", (*build._OPTIONS, "--enable-kvm"))
    ninja(trouble)
    with pytest.raises(LabError) as caught:
        build.ensure(cache, quiet)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left(cache) == {old.parent.name}


def test_no_compiler_and_no_room_are_one_line(cache, monkeypatch):
    with pytest.raises(LabError, match="ninja"):  # none on the path
        build.ensure(cache, quiet)
    monkeypatch.setattr(build, "_NEEDED_MB", 1 << 40)
    with pytest.raises(LabError, match="MB are free; make room"):
        build.ensure(cache, quiet)
    assert left(cache) == set()


def test_what_a_killed_build_left_goes_with_the_next(cache, ninja):
    (cache / "qemu/building-old/build").mkdir(parents=True)
    half = cache / f"qemu/10.0.98-asa-{build._digest()}"
    half.mkdir()
    binary = build.ensure(cache, quiet)
    assert "building-old" not in left(cache)
    assert binary.parent != half


def test_a_cache_that_makes_no_sense_is_one_line(cache, ninja):
    binary = build.ensure(cache, quiet)
    (binary.parent / "build.json").write_text('{"version": ')
    with pytest.raises(LabError, match="run `asa lab setup` again"):
        build.read(binary)


def test_a_source_that_it_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    source = lay_out(tmp_path / "qemu")
    path = source / "accel/tcg/tcg-accel-ops-rr.c"
    good = path.read_text()
    first = source / change.PLACES[0].file
    before = first.read_text()
    for bad in (good.replace("icount_prepare_for_run", "icount_prepare"), good + good):
        path.write_text(bad)
        with pytest.raises(LabError, match="does not fit this QEMU"):
            change.change(source)
        assert first.read_text() == before
    path.unlink()
    with pytest.raises(LabError, match="does not fit this QEMU"):
        change.change(source)
    path.write_text(good)
    change.change(source)
    assert "icount_parallel_next" in path.read_text()
    assert (source / "accel/tcg/icount-parallel.c").is_file()


def test_versions_that_it_fits_are_tried_newest_first_and_dropped_ones_passed_over(monkeypatch, tmp_path):
    asked = []

    def download(_, version, folder, **__):
        asked.append(version)
        if version.startswith("1:10.0.13"):
            raise SetupError("404")
        return folder / "qemu_10.0.8+ds.orig.tar.xz"

    offers = ["1:11.1.3+ds-1", "1:10.0.13+ds-0+deb13u1", "1:10.0.8+ds-0+deb13u1", "1:7.2+dfsg-7"]
    monkeypatch.setattr(debian, "source_versions", lambda *_, **__: offers)
    monkeypatch.setattr(debian, "download_source", download)
    assert build._source(tmp_path / "source", tmp_path, quiet).name == "qemu_10.0.8+ds.orig.tar.xz"
    assert asked == offers[1:3]
    monkeypatch.setattr(debian, "source_versions", lambda *_, **__: offers[:1])
    with pytest.raises(LabError, match=r"no source of QEMU 10\.0 \(it has 1:11\.1\.3\+ds-1\); put one in"):
        build._source(tmp_path / "source", tmp_path, quiet)
