# SPDX-License-Identifier: GPL-2.0-only
"""Disk: rsync, SQLite, dd, Git and tar write and read files of the seed's, and force them to the disk.

Sizes, files, blocks and transactions differ from session to session. fio is `scenarios.background.disk`.
"""

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.background.archive import fill
from scenarios.driving import Driver
from scenarios.programs.looping import Argv, Looping, draw_degree, drawn, program, run

_MB = 1_000_000
_MB_PER_S = 40.0  # of a common disk, which sizes the files
_COMMIT_S = 0.01  # of a transaction that is forced to such a disk


def _draw(rng: random.Random, place: Place) -> Parameters:
    how = draw_degree(rng, place)
    return {
        **how,
        "content": rng.choice(("text", "records", "mixed", "photographs")),
        "files": rng.randint(1, 5) if rng.random() < 0.4 else rng.randint(50, 600),
        "size_mb": round(min(60.0, max(2.0, _MB_PER_S * float(how["pass_s"]))), 1),
        "block_kb": rng.choice((4, 64, 256, 1024, 4096)),
        "direct": rng.random() < 0.5,
        "transactions": max(2, min(300, round(float(how["pass_s"]) / _COMMIT_S))),
        "rows": rng.choice((1, 10, 200, 2000)),  # of a transaction
        "row_bytes": rng.choice((40, 200, 1000)),
        "journal": rng.choice(("DELETE", "WAL", "TRUNCATE")),
        "index": rng.random() < 0.5,
        "checksum": rng.random() < 0.3,
    }


def _fill(driver: Driver, name: str = "tree") -> Path:
    given, folder = driver.parameters, driver.scratch / name
    rng = drawn(driver)
    size_bytes = round(float(given["size_mb"]) * _MB)
    fill(folder, rng, content=given["content"], files=int(given["files"]), size_bytes=size_bytes)
    return folder


def _tree(driver: Driver) -> None:
    _fill(driver)


def _forget(folder: Path) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder)


def _rsync(driver: Driver) -> Iterable[Argv]:
    copy = _forget(driver.scratch / "copy")
    whole = ("-c",) if driver.parameters["checksum"] else ()
    source = f"{driver.scratch / 'tree'}/"
    yield ("rsync", "-a", "--fsync", *whole, source, copy)
    yield ("rsync", "-a", "-c", source, copy)  # reads both


def _statements(driver: Driver) -> None:
    given, rng = driver.parameters, drawn(driver)
    lines = [f"PRAGMA journal_mode={given['journal']}; PRAGMA synchronous=FULL;", "CREATE TABLE t (k INTEGER, v TEXT);"]
    if given["index"]:
        lines.append("CREATE INDEX i ON t (k);")
    insert = (
        f"INSERT INTO t SELECT random(), hex(randomblob({int(given['row_bytes']) // 2})) FROM "  # noqa: S608  # our own
        f"(WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<{given['rows']}) SELECT x FROM c);"
    )
    select = "SELECT count(*), max(v) FROM t WHERE k > {};"
    for _ in range(int(given["transactions"])):
        lines.append(f"BEGIN; {insert} COMMIT;")
        if rng.random() < 0.1:
            lines.append(select.format(rng.randrange(1 << 62)))
    (driver.scratch / "work.sql").write_text("\n".join(lines))


def _sqlite(driver: Driver) -> Iterable[Argv]:
    for path in driver.scratch.glob("work.db*"):
        path.unlink()
    yield ("sqlite3", "-bail", str(driver.scratch / "work.db"), f".read {driver.scratch / 'work.sql'}")


def _whole(driver: Driver) -> None:
    fill(
        driver.scratch / "whole",
        random.Random(driver.seed),  # noqa: S311
        content="photographs",
        files=1,
        size_bytes=round(float(driver.parameters["size_mb"]) * _MB),
    )


def _dd(driver: Driver) -> Iterable[Argv]:
    given, source = driver.parameters, next((driver.scratch / "whole").rglob("*.dat"))
    copy, block = driver.scratch / "copied", f"bs={given['block_kb']}k"
    dropped = () if given["direct"] else ("iflag=nocache",)
    yield ("dd", f"if={source}", f"of={copy}", block, "conv=fdatasync", *dropped, "status=none")
    yield ("dd", f"of={copy}", "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none")
    yield ("dd", f"if={copy}", "of=/dev/null", block, "status=none")  # from the disk again


def _repository(driver: Driver) -> None:
    folder = _fill(driver, "work")
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0")
    run((*git, "init", "-q"))
    files = sorted(folder.rglob("*.dat"))
    for number in range(3):  # commits, the later ones of changed files
        for path in files[number::3] or files:
            with path.open("ab") as file:
                file.write(f"changed {number}\n".encode())
        run((*git, "add", "-A"))
        run((*git, "commit", "-q", "-m", str(number)))


def _git(driver: Driver) -> Iterable[Argv]:
    clone = _forget(driver.scratch / "clone")
    always = ("-c", "core.fsync=all", "-c", f"pack.threads={driver.parameters['threads']}")
    yield ("git", *always, "clone", "-q", "--no-local", str(driver.scratch / "work"), clone)
    yield ("git", *always, "-C", clone, "repack", "-q", "-a", "-d", "-f")
    yield ("git", "-C", clone, "fsck", "--no-progress", "--full")


def _tar(driver: Driver) -> Iterable[Argv]:
    packed, unpacked = driver.scratch / "packed.tar", driver.scratch / "unpacked"
    _forget(unpacked)
    unpacked.mkdir()
    yield ("tar", "-cf", str(packed), "-C", str(driver.scratch), "tree")
    yield ("sync", str(packed))
    yield ("tar", "-xf", str(packed), "-C", str(unpacked))
    yield ("sync", *(str(path) for path in sorted(unpacked.rglob("*.dat"))))


def _worker(
    name: str, package: str, steps: Callable[[Driver], Iterable[Argv]], make: Callable[[Driver], None], *more: str
) -> Looping:
    return program(
        __name__,
        name=name,
        kind=Kind.DISK,
        packages=(package, "coreutils"),
        programs=(name, *more),
        draw=_draw,
        steps=steps,
        make=make,
    )


PROGRAMS = (
    _worker("rsync", "rsync", _rsync, _tree),
    _worker("sqlite3", "sqlite3", _sqlite, _statements),
    _worker("dd", "coreutils", _dd, _whole),
    _worker("git", "git", _git, _repository),
    _worker("tar", "tar", _tar, _tree, "sync"),
)
