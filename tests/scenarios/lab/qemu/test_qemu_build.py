# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own QEMU with a made-up source, configure and ninja: what is changed, what is kept, what a failure leaves.

The real source is built by `asa lab setup`; what its clock does is seen in guests.
"""

import subprocess

import pytest

from asa.core.errors import LabError
from scenarios.lab.qemu import build, change

CONFIGURE = '#!/bin/sh\necho configured by "$@", with "$PYTHONPATH"; echo \'  gcc\' > config.log\n'
NINJA = """#!/bin/sh
echo '[1/2] Compiling C object x.o'
%s
echo '[2/2] Linking target qemu-system-x86_64'
cp /bin/true qemu-system-x86_64
"""


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


@pytest.fixture
def cache(builds, tmp_path):
    builds.pack(lay_out(tmp_path / "tree/qemu-10.0.99"), builds.cache / "qemu/source/qemu_10.0.99+ds.orig.tar.xz")
    return builds.cache


@pytest.fixture
def ninja(builds):
    """Puts the made-up ninja in its place; `trouble` is what it does while compiling."""

    def put(trouble=":"):
        builds.put("ninja", NINJA % trouble)

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


def test_the_libraries_of_an_installed_laboratory_are_there_for_its_tools(cache, ninja, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/usr/lib/asa-lab:/usr/lib/asa")
    build.ensure(cache, print)
    assert ", with /usr/lib/asa-lab:/usr/lib/asa\n" in (cache / "logs/build-qemu.log").read_text()


def test_another_change_is_another_qemu(cache, ninja, monkeypatch):
    first = build.ensure(cache, print)
    monkeypatch.setattr(build, "_OPTIONS", (*build._OPTIONS, "--enable-kvm"))
    assert build.found(cache) is None
    assert build.ensure(cache, print) != first
    assert first.is_file()  # a checkout with the old change still finds its own


def test_a_failed_build_says_so_in_one_line_and_leaves_the_old_one(cache, ninja, monkeypatch, fault):
    trouble, words = fault
    old = build.ensure(cache, print)
    monkeypatch.setattr(build, "_OPTIONS", (*build._OPTIONS, "--enable-kvm"))
    ninja(trouble)
    with pytest.raises(LabError) as caught:
        build.ensure(cache, print)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left(cache) == {old.parent.name}


def test_no_compiler_and_no_room_are_one_line(cache, monkeypatch):
    with pytest.raises(LabError, match="ninja"):  # none on the path
        build.ensure(cache, print)
    monkeypatch.setattr(build, "_NEEDED_MB", 1 << 40)
    with pytest.raises(LabError, match="MB are free; make room"):
        build.ensure(cache, print)
    assert left(cache) == set()


def test_what_a_killed_build_left_goes_with_the_next(cache, ninja):
    (cache / "qemu/building-old/build").mkdir(parents=True)
    half = cache / f"qemu/10.0.99-asa-{build._digest()}"
    half.mkdir()
    (half / "build.json").write_text("half")
    binary = build.ensure(cache, print)
    assert left(cache) == {binary.parent.name} == {half.name}
    assert build.read(binary).version == "10.0.99"


@pytest.mark.parametrize("what", ["#!/bin/sh\necho version GLIBC_9.9 not found >&2; exit 1\n", "half of a program"])
def test_one_that_does_not_run_here_is_built_again(cache, ninja, what):
    binary = build.ensure(cache, print)
    binary.write_text(what)
    assert build.found(cache) is None
    assert build.ensure(cache, print) == binary
    assert subprocess.run([binary], check=False).returncode == 0


def test_a_cache_that_makes_no_sense_is_one_line(cache, ninja):
    binary = build.ensure(cache, print)
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


def test_versions_that_it_fits_are_tried_newest_first_and_dropped_ones_passed_over(cache, builds, ninja):
    kept = cache / "qemu_10.0.99+ds.orig.tar.xz"
    next((cache / "qemu/source").iterdir()).rename(kept)
    offers = ["1:11.1.3+ds-1", "1:10.0.13+ds-0+deb13u1", "1:10.0.8+ds-0+deb13u1", "1:7.2+dfsg-7"]
    builds.mirror(offers[:1])
    with pytest.raises(LabError, match=r"no source of QEMU 10\.0 \(it has 1:11\.1\.3\+ds-1\); put one in"):
        build.ensure(cache, print)
    asked = builds.mirror(offers, offers[2], kept)
    assert build.read(build.ensure(cache, print)).source == kept.name
    assert asked == offers[1:3]
