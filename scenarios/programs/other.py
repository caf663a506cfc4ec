# SPDX-License-Identifier: GPL-2.0-only
"""Situations of no kind: what a machine does, too, and no kind is the right name for. Recognition is judged on them.

Packages, Git, a database, an image's build, a backup, scans and searches, jobs of the clock, pictures that change by
themselves, and tabs that nobody looks at. All work on what the seed makes, or on files of the system that they only
read; none needs a network. A session's label is `other`.
"""

import random
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from scenarios.application import Application, Parameters, Place
from scenarios.background.archive import fill
from scenarios.driving import Driver
from scenarios.programs import looping, staged
from scenarios.programs.browse import chromium_words
from scenarios.programs.looping import Argv, draw_degree, drawn, run
from scenarios.programs.staged import Stage, draw_person, words

_MB_PER_S = 15.0  # of small files that are looked into, which sizes them
_READ_ONLY = ("/usr/share/doc", "/usr/share/perl", "/usr/lib/python3", "/usr/share/locale", "/usr/include", "/etc")


def _draw(rng: random.Random, place: Place) -> Parameters:
    how = draw_degree(rng, place)
    return {
        **how,
        "content": rng.choice(("text", "records", "mixed")),
        "files": rng.randint(20, 400),
        "size_mb": round(min(40.0, max(1.0, _MB_PER_S * float(how["pass_s"]))), 1),
        "parts": rng.randint(2, 8),  # packages, wheels, commits, layers
        "rows": round(20_000 * float(how["pass_s"])),
        "queries": rng.randint(20, 200),
        "level": rng.randint(1, 6),  # of a compression that is a part of it
        "gaps_s": [round(rng.uniform(0.5, 9.0), 2) for _ in range(rng.randint(2, 4))],
        "trees": rng.sample(_READ_ONLY, rng.randint(1, 4)),
    }


def _tree(driver: Driver) -> None:
    given = driver.parameters
    size_bytes = round(float(given["size_mb"]) * 1e6)
    fill(
        driver.scratch / "tree",
        drawn(driver),
        content=given["content"],
        files=int(given["files"]),
        size_bytes=size_bytes,
    )


def _files(driver: Driver) -> list[Path]:
    return sorted(path for path in (driver.scratch / "tree").rglob("*") if path.is_file())


def _part(driver: Driver, number: int) -> list[Path]:
    return _files(driver)[number :: int(driver.parameters["parts"])]


def _fresh(driver: Driver, name: str) -> Path:
    folder = driver.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _packages(driver: Driver) -> None:
    _tree(driver)
    for number in range(int(driver.parameters["parts"])):
        folder = driver.scratch / f"made{number}"
        (folder / "DEBIAN").mkdir(parents=True)
        about = (
            f"Package: part{number}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: part\n"
        )
        (folder / "DEBIAN/control").write_text(about)
        inside = folder / f"usr/share/part{number}"
        inside.mkdir(parents=True)
        for place, path in enumerate(_part(driver, number)):
            shutil.copy(path, inside / f"{place}.dat")
        run(
            (
                "dpkg-deb",
                "-Zgzip",
                f"-z{driver.parameters['level']}",
                "-b",
                str(folder),
                str(driver.scratch / f"{number}.deb"),
            )
        )


def _dpkg(driver: Driver) -> Iterable[Argv]:
    root = _fresh(driver, "root")
    state = root / "var/lib/dpkg"
    for name in ("info", "updates", "triggers"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    (root / "var/log").mkdir()
    for package in sorted(driver.scratch.glob("*.deb")):
        yield ("dpkg", f"--root={root}", "--force-not-root,bad-path", "--install", str(package))
    yield ("dpkg", f"--root={root}", "--verify")


def _wheels(driver: Driver) -> None:
    rng = drawn(driver)
    for number in range(int(driver.parameters["parts"])):
        name, about = f"part{number}", f"part{number}-1.dist-info"
        with zipfile.ZipFile(driver.scratch / f"{name}-1-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            for module in range(int(driver.parameters["files"]) // int(driver.parameters["parts"]) + 1):
                lines = (f"def f{line}(x):\n    return x + {rng.random()}\n" for line in range(60))
                wheel.writestr(f"{name}/m{module}.py", "\n".join(lines))
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
            wheel.writestr(
                f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{about}/RECORD", "")


def _pip(driver: Driver) -> Iterable[Argv]:
    into = _fresh(driver, "installed")
    always = ("--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "-q", "--target", str(into))
    yield ("pip3", "install", *always, *(str(path) for path in sorted(driver.scratch.glob("*.whl"))))


_WHO = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "gc.auto=0")


def _repository(driver: Driver) -> None:
    _tree(driver)
    here = ("git", *_WHO, "-C", str(driver.scratch / "tree"))
    run((*here, "init", "-q"))
    for number in range(int(driver.parameters["parts"])):
        for path in _part(driver, number):
            if ".git" not in path.parts:
                with path.open("a") as file:
                    file.write(f"changed {number}\n")
        run((*here, "add", "-A"))
        run((*here, "commit", "-q", "--allow-empty", "-m", str(number)))


def _git(driver: Driver) -> Iterable[Argv]:
    clone = driver.scratch / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    threads = f"pack.threads={driver.parameters['threads']}"
    yield ("git", "clone", "-q", str(driver.scratch / "tree"), str(clone))
    here = ("git", *_WHO, "-c", threads, "-C", str(clone))
    yield (*here, "--no-pager", "log", "-p", "--stat")
    yield (*here, "checkout", "-q", "HEAD~1")
    yield (*here, "status", "--short")
    yield (*here, "gc", "-q")


def _database(driver: Driver) -> None:
    given, rng = driver.parameters, drawn(driver)
    rows = max(500, int(given["rows"]))
    counted = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<{}) INSERT INTO"
    made = (
        "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, town INTEGER);"  # noqa: S608  # our own
        "CREATE TABLE bought (id INTEGER PRIMARY KEY, person INTEGER, price REAL, what TEXT);"
        "CREATE INDEX of_person ON bought (person); BEGIN;"
        f"{counted.format(rows)} person SELECT x, hex(randomblob(8)), abs(random()) % 50 FROM c;"
        f"{counted.format(2 * rows)} bought"
        f" SELECT x, abs(random()) % {rows}, abs(random()) % 10000 / 100.0, hex(randomblob(20)) FROM c;"
        "COMMIT;"
    )
    run(("sqlite3", "-bail", str(driver.scratch / "shop.db"), made))
    kinds = (
        "SELECT * FROM bought WHERE person = {};",
        "SELECT * FROM bought WHERE person = {};",
        "UPDATE bought SET price = price + 1 WHERE person = {};",
        "SELECT town, sum(price) FROM person JOIN bought ON person.id = person WHERE person.id > {} GROUP BY town;",
        "DELETE FROM bought WHERE id = {0}; INSERT INTO bought VALUES ({0}, 1, 2.5, 'again');",
        "SELECT count(*) FROM person WHERE name LIKE '%{}%';",
    )
    asked = (rng.choice(kinds).format(rng.randrange(rows)) for _ in range(int(given["queries"])))
    (driver.scratch / "asked.sql").write_text("\n".join(asked))


def _sqlite(driver: Driver) -> Iterable[Argv]:
    yield ("sqlite3", "-bail", str(driver.scratch / "shop.db"), f".read {driver.scratch / 'asked.sql'}")


def _index(driver: Driver) -> Iterable[Argv]:
    base = driver.scratch / "index.db"
    base.unlink(missing_ok=True)
    taken = "INSERT INTO d SELECT name, CAST(data AS TEXT) FROM fsdir('tree') WHERE data IS NOT NULL;"
    asked = "SELECT count(*) FROM d WHERE d MATCH 'a* OR th*';"
    yield ("sqlite3", "-bail", str(base), f"CREATE VIRTUAL TABLE d USING fts5(name, body); {taken} {asked}")


def _image(driver: Driver) -> Iterable[Argv]:
    given, root = driver.parameters, _fresh(driver, "root")
    layer = driver.scratch / "layer.tar"
    for number in range(int(given["parts"])):
        new = driver.scratch / f"layer{number}.txt"
        new.write_text("".join(f"{path}\n" for path in _part(driver, number)))
        yield ("tar", "-cPf", str(layer), "-T", str(new))
        yield ("sha256sum", str(layer))
        yield ("gzip", "-kf", f"-{given['level']}", str(layer))
        yield ("tar", "-xf", str(layer), "-C", str(root))
    yield ("find", str(root), "-type", "f", "-newer", str(layer), "-exec", "chmod", "a+r", "{}", "+")


def _backup(driver: Driver) -> Iterable[Argv]:
    """A snapshot beside the last one, of which most stayed the same; and an archive of it."""
    given, last, new = driver.parameters, driver.scratch / "last", _fresh(driver, "new")
    for path in _part(driver, 0):
        with path.open("a") as file:
            file.write("changed\n")
    linked = (f"--link-dest={last}",) if last.exists() else ()
    yield ("rsync", "-a", *linked, f"{driver.scratch / 'tree'}/", str(new))
    yield ("sleep", str(given["gaps_s"][0]))
    yield ("tar", "-czf", str(driver.scratch / "kept.tar.gz"), "-C", str(new), ".")
    yield ("sync", str(driver.scratch / "kept.tar.gz"))
    shutil.rmtree(last, ignore_errors=True)
    new.rename(last)


def _there(driver: Driver) -> list[str]:
    return [name for name in driver.parameters["trees"] if Path(name).exists()] or ["/etc"]


def _signatures(driver: Driver) -> None:
    rng = drawn(driver)
    lines = ("".join(rng.choices("abcdef0123456789", k=24)) for _ in range(500))
    (driver.scratch / "signatures").write_text("\n".join(lines) + "\n")
    _tree(driver)


def _scan(driver: Driver) -> Iterable[Argv]:
    """As a scanner does: a sum of each file, then known pieces are looked for in it."""
    places = (str(driver.scratch / "tree"), *_there(driver)[:1])
    # what may not be read, and that nothing was found, is no failure
    yield ("sh", "-c", f"find {' '.join(places)} -type f -exec sha256sum {{}} + 2>/dev/null || true")
    yield ("sh", "-c", f"grep -rqFf signatures {' '.join(places)} 2>/dev/null || true")


def _search(driver: Driver) -> Iterable[Argv]:
    for place in _there(driver):
        yield ("sh", "-c", f"grep -rnIE 'licen[cs]e|err(or|no)[0-9]+' {place} 2>/dev/null || true")
        yield ("sh", "-c", f"find {place} -name '*.[ch]' -size +2k 2>/dev/null || true")


def _logs(driver: Driver) -> Iterable[Argv]:
    """What an administrator asks a log, line by line."""
    counted = "cat tree/*/* tree/* 2>/dev/null | tr -cs 'A-Za-z' '\\n'"
    yield ("sh", "-c", f"{counted} | sort --parallel={driver.parameters['threads']} | uniq -c | sort -rn | head -100")
    yield ("sh", "-c", f"{counted} | awk '{{ seen[length($1)]++ }} END {{ for (k in seen) print k, seen[k] }}'")


def _cron(driver: Driver) -> Iterable[Argv]:
    """Small jobs, some seconds apart, and nothing between them."""
    jobs = (
        ("sh", "-c", "find /etc /usr/share/doc -newer /etc/passwd -type f 2>/dev/null | sort | tail -5 || true"),
        ("tar", "-czf", str(driver.scratch / "rotated.tar.gz"), "-C", str(driver.scratch), "tree"),
        ("sh", "-c", "df; ps ax; du -s /etc 2>/dev/null || true"),
        (sys.executable, "-c", "import json, email, http.client, sqlite3"),
    )
    for number, gap_s in enumerate(driver.parameters["gaps_s"]):
        yield ("sleep", str(gap_s))
        yield jobs[number % len(jobs)]


def _work(
    name: str,
    steps: Callable[[Driver], Iterable[Argv]],
    *,
    packages: tuple[str, ...],
    programs: tuple[str, ...],
    make: Callable[[Driver], None] = _tree,
) -> Application:
    return looping.program(
        __name__, name=name, kind=None, packages=packages, programs=programs, draw=_draw, steps=steps, make=make
    )


def _draw_shown(rng: random.Random, _place: Place) -> Parameters:
    return {
        **draw_person(rng),
        "pictures": rng.randint(4, 20),
        "shown_s": round(rng.uniform(2.0, 8.0), 1),
        "tabs": rng.randint(4, 16),
        "waking": round(rng.uniform(0.0, 0.6), 2),  # a share of the tabs
        "paragraphs": rng.randint(20, 200),
    }


def _slides(stage: Stage) -> None:
    folder = stage.driver.scratch / "pictures"
    folder.mkdir()
    picture = f"testsrc2=size={stage.given['size']}:rate=1,noise=alls=20:allf=t"
    count = str(stage.given["pictures"])
    run(("ffmpeg", "-v", "error", "-f", "lavfi", "-i", picture, "-frames:v", count, f"{folder}/%03d.jpg"))
    shown = (f"--image-display-duration={stage.given['shown_s']}", "--loop-playlist=inf", "--fs")
    stage.start(("mpv", "--no-config", "--no-terminal", "--vo=x11", *shown, *map(str, sorted(folder.iterdir()))))


def _tabs(stage: Stage) -> None:
    """Some pages wake up by themselves, as mail and news do."""
    rng, given, pages = stage.rng, stage.given, []
    wakes = "<script>setInterval(() => document.title = Date.now(), 2000)</script>"
    for number in range(given["tabs"]):
        text = "".join(f"<p>{words(rng, 60)}</p>" for _ in range(given["paragraphs"]))
        path = stage.driver.scratch / f"tab{number}.html"
        path.write_text(f"<!doctype html><title>tab</title>{text}{wakes if rng.random() < given['waking'] else ''}")
        pages.append(path.as_uri())
    stage.start((*chromium_words(stage), *pages))


def _nobody(stage: Stage) -> None:
    stage.pause(2.0)


def _shown(
    name: str, begin: Callable[[Stage], None], *, packages: tuple[str, ...], programs: tuple[str, ...]
) -> Application:
    return staged.program(
        __name__,
        name=name,
        kind=None,
        packages=packages,
        programs=programs,
        draw=_draw_shown,
        begin=begin,
        act=_nobody,
    )


PROGRAMS = (
    _work("packages-install", _dpkg, packages=("dpkg",), programs=("dpkg", "dpkg-deb"), make=_packages),
    _work("pip-install", _pip, packages=("python3-pip",), programs=("pip3",), make=_wheels),
    _work("git-work", _git, packages=("git",), programs=("git",), make=_repository),
    _work("database-queries", _sqlite, packages=("sqlite3",), programs=("sqlite3",), make=_database),
    _work("documents-index", _index, packages=("sqlite3",), programs=("sqlite3",)),
    _work("image-build", _image, packages=("tar", "gzip", "coreutils"), programs=("tar", "gzip", "sha256sum")),
    _work("backup", _backup, packages=("rsync", "tar"), programs=("rsync", "tar")),
    _work("files-scan", _scan, packages=("findutils", "grep"), programs=("find", "grep"), make=_signatures),
    _work("text-search", _search, packages=("grep", "findutils"), programs=("grep", "find")),
    _work("logs-count", _logs, packages=("coreutils", "mawk"), programs=("sort", "awk")),
    _work("cron-jobs", _cron, packages=("findutils", "procps", "tar"), programs=("find", "ps", "tar")),
    _shown("slide-show", _slides, packages=("mpv", "ffmpeg"), programs=("mpv", "ffmpeg")),
    _shown("idle-tabs", _tabs, packages=("chromium",), programs=("chromium",)),
)
