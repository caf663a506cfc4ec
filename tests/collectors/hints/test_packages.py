# SPDX-License-Identifier: GPL-2.0-only
"""What packages say of programs at work: who is asked, how often, and what is made of answers, silence and lies."""

import os
import select
import shutil
import subprocess
import sys

import pytest
from waiting import until

from asa.core.sample import PackageUse, ProcessUsage
from collectors.hints.packages import Packages, _ask, facets_of, packages_of

PIGZ = """\
Package: pigz
Section: universe/utils
Description-en: parallel pigz of 2 gzip
 use::gameplaying is not one of its tags
Tag: implemented-in::c, role::program, use::compressing,
 works-with::archive, works-with::file

Package: other
Section: games
"""
OF_PIGZ = (
    "about::gzip",
    "about::parallel",
    "section::utils",
    "use::compressing",
    "works-with::archive",
    "works-with::file",
)


def usage(pid, ticks, started=100):
    return ProcessUsage(pid, started, ticks, 0, 0, 0, 1, 1 << 20)


class Tools:
    """Stands in for dpkg-query and apt-cache, which no machine has with these answers."""

    def __init__(self, proc, answers, seconds=0.0, **more):
        self.now_ns, self.asked, self._proc = 1, [], proc
        self._answers, self._seconds = answers, seconds
        self.packages = Packages(proc, lambda: self.now_ns, ask=self._ask, tools=True, **more)

    def _ask(self, words):
        self.asked.append(words)
        code = "import sys, time; time.sleep(float(sys.argv[1])); sys.stdout.write(sys.argv[2])"
        answer = self._answers.get(words[0], "")
        command = [sys.executable, "-S", "-c", code, str(self._seconds), answer]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)

    def runs(self, pid, file):
        folder = self._proc / str(pid)
        folder.mkdir(parents=True)
        (folder / "exe").symlink_to(file)

    def tick(self, *processes, step_ns=1_000_000_000):
        self.now_ns += step_ns
        return self.packages.at_work(processes)

    def known(self, pid=7):
        """Ticks of a busy process until something is said of it."""
        ticks = [0]

        def told():
            ticks[0] += 90
            return self.tick(usage(pid, ticks[0]))

        return until(told, "an answer")


@pytest.fixture
def tools(tmp_path):
    made = Tools(tmp_path, {"dpkg-query": "pigz:amd64, other: /usr/bin/pigz\n", "apt-cache": PIGZ})
    yield made
    made.packages.close()


def test_a_busy_program_has_the_facets_of_its_package(tools):
    tools.runs(7, "/usr/bin/pigz")
    assert tools.tick(usage(7, 0)) == ()
    assert tools.known() == (PackageUse(facets=OF_PIGZ, cores=0.9),)
    assert [words[0] for words in tools.asked] == ["dpkg-query", "apt-cache"]
    assert tuple(tools.asked[0][-2:]) == ("/usr/bin/pigz", "/bin/pigz")
    assert tools.asked[1][-1] == "pigz"


def test_it_is_asked_once_for_all_its_processes_and_their_time_is_added(tools):
    for pid in (7, 8):
        tools.runs(pid, "/usr/bin/pigz")
    tools.known()
    tools.tick(usage(7, 1000), usage(8, 0))
    (use,) = tools.tick(usage(7, 1050), usage(8, 75))
    assert use.cores == pytest.approx(1.25)
    assert len(tools.asked) == 2


def test_who_uses_little_is_not_asked_for_and_who_is_new_here_has_used_nothing_yet(tools):
    tools.runs(7, "/usr/bin/pigz")
    tools.runs(8, "/usr/bin/pigz")
    tools.known()  # which takes some 90 ticks a look, on a busy machine thousands
    assert tools.tick(usage(7, 200_000), usage(8, 5000, started=90)) != ()  # 8 is old, and was not followed before
    assert tools.tick(usage(7, 200_001), usage(8, 5001, started=90)) == ()
    (use,) = tools.tick(usage(7, 200_001), usage(8, 5001, started=90), usage(9, 30, started=200))[:1] or (None,)
    assert use is None  # 9 cannot be read
    tools.runs(10, "/usr/bin/pigz")
    (use,) = tools.tick(usage(7, 200_001), usage(10, 30, started=300))
    assert use.cores == pytest.approx(0.3)  # it began since the last tick: all of it counts


@pytest.mark.parametrize(
    ("answers", "count"),
    [({}, 1), ({"dpkg-query": "no such file"}, 1), ({"dpkg-query": "own: /home/me/own\n"}, 2)],
)
def test_a_file_of_no_package_is_asked_for_once(tmp_path, answers, count):
    tools = Tools(tmp_path, answers)
    tools.runs(7, "/home/me/own")
    tools.tick(usage(7, 0))
    used = 0
    for _ in range(200):
        used += 90
        assert tools.tick(usage(7, used)) == ()
        if tools.packages._known:
            break
        tools._seconds = 0.0
        until(lambda: tools.packages._asked is None or tools.packages._asked.child.poll() is not None, "the answer")
    assert tools.packages._known == {"/home/me/own": ()}
    assert len(tools.asked) == count


def asked_and_silent(proc):
    """The tools, and who was asked and does not answer."""
    tools = Tools(proc, {}, seconds=3600)
    tools.runs(7, "/usr/bin/pigz")
    for used in (0, 90, 180):
        tools.tick(usage(7, used))
    return tools, tools.packages._asked.child


def test_who_does_not_answer_is_given_up(tmp_path):
    tools, child = asked_and_silent(tmp_path)
    assert child.poll() is None
    tools.tick(usage(7, 270), step_ns=30_000_000_000)
    assert child.returncode is not None
    assert tools.packages._known == {"/usr/bin/pigz": ()}
    tools.packages.close()


def test_closing_ends_who_is_asked(tmp_path):
    tools, child = asked_and_silent(tmp_path)
    tools.packages.close()
    assert child.returncode is not None


def test_closing_ends_what_the_asked_one_has_started_too(tmp_path):
    """As apt-cache starts dpkg: each of them holds the pipe as long as it lives."""
    now = iter(range(1, 1 << 40, 1_000_000_000))
    words = ["sh", "-c", "sleep 3600 & echo; wait"]
    packages = Packages(tmp_path, now.__next__, ask=lambda _: _ask(words), tools=True)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/exe").symlink_to("/usr/bin/pigz")
    for used in (0, 90):
        packages.at_work([usage(7, used)])
    said = os.dup(packages._asked.child.stdout.fileno())
    assert os.read(said, 1) == b"\n"
    packages.close()
    until(lambda: select.select([said], [], [], 0.0)[0], "the end of the pipe")
    assert os.read(said, 1) == b""
    os.close(said)


def test_names_that_dpkg_takes_for_patterns_are_not_asked_for(tools):
    tools.runs(7, "/usr/bin/*")
    for used in (0, 90, 180, 270):
        tools.tick(usage(7, used))
    assert tools.asked == []


def test_without_a_package_manager_nothing_is_told(tmp_path):
    assert Packages(tmp_path, lambda: 1, tools=False).at_work([usage(7, 1)]) is None


def test_tools_that_cannot_be_started_tell_nothing(tmp_path):
    def ask(_words):
        raise FileNotFoundError("dpkg-query")

    now = [1]
    packages = Packages(tmp_path, lambda: now[0], ask=ask, tools=True)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/exe").symlink_to("/usr/bin/pigz")
    for used in (0, 90, 180, 270):
        now[0] += 1_000_000_000
        assert packages.at_work([usage(7, used)]) == ()
    assert packages._known == {"/usr/bin/pigz": ()}


def test_all_new_files_are_asked_for_together(tmp_path):
    other = PIGZ.replace("pigz", "zstd").replace("parallel", "fast")
    tools = Tools(tmp_path, {"dpkg-query": "pigz: /usr/bin/pigz\nzstd: /usr/bin/zstd\n", "apt-cache": PIGZ + other})
    for pid, file in ((7, "/usr/bin/pigz"), (8, "/usr/bin/zstd"), (9, "/home/me/own")):
        tools.runs(pid, file)
    used = [0]

    def told():
        used[0] += 90
        return len(tools.tick(usage(7, used[0]), usage(8, used[0]), usage(9, used[0]))) == 2

    until(told, "both")
    assert [words[0] for words in tools.asked] == ["dpkg-query", "apt-cache"]
    assert tuple(tools.asked[1][-2:]) == ("pigz", "zstd")
    assert tools.packages._known["/home/me/own"] == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pigz: /usr/bin/pigz\n", {"/usr/bin/pigz": "pigz"}),
        ("pigz: /bin/pigz\n", {"/usr/bin/pigz": "pigz"}),
        ("libc6:amd64, libc6:i386: /opt/x\npigz: /usr/bin/pigz\n", {"/opt/x": "libc6", "/usr/bin/pigz": "pigz"}),
        ("diversion by dash from: /opt/x\ndash: /opt/x\n", {"/opt/x": "dash"}),
        ("", {}),
        ("nothing", {}),
        ("odd: /not/asked\n", {}),
    ],
)
def test_the_first_package_of_a_file_counts(text, expected):
    assert packages_of(text, ("/usr/bin/pigz", "/opt/x")) == expected


def test_words_of_the_synopsis_are_told_without_the_name_of_the_package():
    said = "Package: fast-thing\nDescription: a Fast thing: 3D renderer (x264)\n that renders\nDescription-md5: abcd\n"
    assert facets_of(said) == {"fast-thing": ("about::renderer",)}
    many = " ".join(f"word{chr(97 + number)}" for number in range(26))
    told = facets_of(f"Package: x\nDescription-en: {many}")
    assert told == {"x": tuple(f"about::word{chr(97 + number)}" for number in range(16))}


def test_facets_that_tell_no_use_and_fields_of_other_packages_are_left_out():
    assert facets_of(PIGZ) == {"pigz": OF_PIGZ, "other": ("section::games",)}
    assert facets_of("") == {"": ()}
    many = sorted(f"use::{number}" for number in range(100))
    assert facets_of(f"Package: x\nTag: {', '.join(many)}") == {"x": tuple(many[:24])}
    assert facets_of(f"Section: {'x' * 100}\n continued\nTag:use::playing") == {"": ("use::playing",)}


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="needs Debian's apt, which `make test` is run with")
def test_debians_own_tools_know_a_package(tmp_path):
    packages = Packages(tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/exe").symlink_to(shutil.which("dpkg-query"))
    used = [0]

    def told():
        used[0] += 100_000
        return packages.at_work([usage(7, used[0])])

    (use,) = until(told, "apt's answer")
    assert "section::admin" in use.facets
    packages.close()
