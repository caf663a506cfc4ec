# SPDX-License-Identifier: GPL-2.0-only
"""Archive: 7-Zip packs a folder and unpacks it again, over and over.

The folder is made of the seed: text, records or photographs, few large files or many small ones. Method, level,
dictionary and threads differ from session to session; one session repeats the same work, so that its passes compare.
Speeds count the unpacked bytes. Reads and writes nothing but the scratch folder.
"""

import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import SEVEN_ZIP, Application, Parameters, Place, Role, either
from scenarios.driving import Driver, fail
from scenarios.metric import speed

_MB = 1_000_000
_LEAST_MB, _MOST_MB = 3.0, 40.0
_SPEEDS = {  # method -> level -> MB/s of one thread here, between those of text and of records; they size the folder
    "lzma2": {1: 16.0, 3: 6.0, 5: 2.4, 7: 2.0, 9: 1.9},
    "bzip2": {1: 11.0, 5: 10.0, 9: 5.0},
    "ppmd": {3: 9.0, 5: 7.0},
    "deflate": {1: 20.0, 5: 12.0, 9: 2.3},
}
_WEIGHTS = (8, 2, 1, 2)  # of the methods: 7-Zip's own is what most people get
_THREADED = ("lzma2", "bzip2")
_DICTIONARIES = ("64k", "256k", "1m", "4m", "16m", "64m")
_LETTERS = "etaoinshrdlucmfwypvbgkqjxz"
_TOKENS = 20_000
_TOKENS_AT_ONCE = 10_000


def _draw(rng: random.Random, place: Place) -> Parameters:
    method = rng.choices(tuple(_SPEEDS), _WEIGHTS)[0]
    level = rng.choice(tuple(_SPEEDS[method]))
    threads = rng.randint(1, max(2, place.cpus))
    working = min(threads, place.cpus, 4) if method in _THREADED else 1
    size_mb = _SPEEDS[method][level] * working * rng.uniform(1.2, 3.0)  # so many seconds of packing on an idle machine
    return {
        "method": method,
        "level": level,
        "dictionary": rng.choice(_DICTIONARIES) if method == "lzma2" else None,
        "threads": threads,
        "solid": rng.random() < 0.7,
        "content": rng.choice(("text", "records", "mixed", "photographs")),
        "files": rng.randint(1, 6) if rng.random() < 0.4 else rng.randint(150, 1500),
        "size_mb": round(min(max(size_mb, _LEAST_MB), _MOST_MB), 1),
        "extract_s": round(rng.uniform(0.5, 2.5), 1),  # unpacking is quick: again and again for so long
    }


APPLICATION = Application(
    name="archive",
    title="Archive",
    role=Role.BACKGROUND,
    kind=Kind.COMPRESS,
    scored=(
        speed("compress_mb_per_s", "MB/s", "compressed", 0.50),
        speed("extract_mb_per_s", "MB/s", "extracted", 0.50),
    ),
    packages=("7zip",),
    programs=(SEVEN_ZIP,),
    draw=_draw,
    command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.background.archive"),
    silence_limit_s=120.0,  # one pass beside an interactive program on a busy machine
)


def contents(rng: random.Random, content: str) -> Iterator[bytes]:
    """Endless pieces of data that packs about as well as its kind does; the same numbers give the same data."""
    tokens, weights = _tokens(rng, text=content != "records"), _falling(_TOKENS)
    while True:
        if content == "photographs" or (content == "mixed" and rng.random() < 0.3):
            yield rng.randbytes(50_000)  # packed already
        if content != "photographs" or rng.random() < 0.1:
            yield b"".join(rng.choices(tokens, cum_weights=weights, k=_TOKENS_AT_ONCE))


def fill(folder: Path, rng: random.Random, *, content: str, files: int, size_bytes: int) -> int:
    """Make the files, of sizes as different as a person's; returns the bytes written. Raises OSError."""
    shares = [rng.lognormvariate(0.0, 1.0) for _ in range(files)]
    data, piece, written = contents(rng, content), b"", 0
    for number, share in enumerate(shares):
        left = max(1, round(size_bytes * share / sum(shares)))
        path = folder / f"{number % 20:02}" / f"{number:04}.dat"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while left > 0:
                piece = piece or next(data)
                taken = file.write(piece[:left])
                piece, left, written = piece[taken:], left - taken, written + taken
    return written


def _tokens(rng: random.Random, *, text: bool) -> list[bytes]:
    if not text:
        return [
            rng.randbytes(rng.randint(1, 3)) + bytes(rng.randint(0, 3)) + rng.randbytes(rng.randint(1, 4))
            for _ in range(_TOKENS)
        ]
    letters, common = _falling(len(_LETTERS)), _falling(6000)
    words = ["".join(rng.choices(_LETTERS, cum_weights=letters, k=rng.randint(1, 10))) for _ in range(6000)]
    return [
        (" ".join(rng.choices(words, cum_weights=common, k=rng.randint(1, 6))) + " ").encode() for _ in range(_TOKENS)
    ]


def _falling(count: int) -> list[float]:
    # Zipf's law, cumulated: random.choices would cumulate plain weights anew in each call.
    return list(accumulate(1 / (5 + rank) for rank in range(count)))


def _version() -> str:
    banner = subprocess.run((either(SEVEN_ZIP),), stdout=subprocess.PIPE, text=True, check=False).stdout
    found = re.search(r"^7-Zip.*? (\d+\.\d+)", banner, re.MULTILINE)
    return found.group(1) if found else "unknown"


def _pass(*arguments: str) -> float:
    begin_s = time.monotonic()
    code = subprocess.run((either(SEVEN_ZIP), *arguments, "-y", "-bso0", "-bsp0"), check=False).returncode
    if code != 0:
        fail(f"7-Zip: {arguments[0]} ended with code {code}")
    return time.monotonic() - begin_s


def _switches(parameters: Parameters) -> tuple[str, ...]:
    dictionary = parameters["dictionary"]
    return (
        f"-m0={parameters['method']}",
        f"-mx={parameters['level']}",
        f"-mmt={parameters['threads']}",
        f"-ms={'on' if parameters['solid'] else 'off'}",
        *((f"-md={dictionary}",) if dictionary else ()),
    )


def main() -> None:
    """Pack and unpack until asked to end."""
    driver = Driver.begin(interrupt=True)
    parameters = driver.parameters
    folder, packed, unpacked = (driver.scratch / name for name in ("folder", "packed.7z", "unpacked"))
    rng = random.Random(driver.seed)  # noqa: S311
    size_mb, files = float(parameters["size_mb"]), int(parameters["files"])
    try:
        written = fill(folder, rng, content=parameters["content"], files=files, size_bytes=round(size_mb * _MB))
    except OSError as error:
        fail(str(error))
    driver.ready({"7-Zip": _version()})
    while not driver.ending:
        packed.unlink(missing_ok=True)  # or 7-Zip would bring it up to date
        took_s = _pass("a", *_switches(parameters), str(packed), str(folder))
        driver.measured("compress_mb_per_s", written / _MB / took_s)
        until_s = time.monotonic() + float(parameters["extract_s"])
        while not driver.ending:
            driver.measured("extract_mb_per_s", written / _MB / _pass("x", f"-o{unpacked}", str(packed)))
            if time.monotonic() > until_s:
                break
        shutil.rmtree(unpacked)


if __name__ == "__main__":
    main()
