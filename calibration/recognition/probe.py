# SPDX-License-Identifier: GPL-2.0-only
"""One candidate in a process of its own: what its import and its load cost, and what a prediction takes.

`python -m calibration.recognition.probe prepare|measure CANDIDATE ARTEFACT FOLDER TURNS`; prints one JSON object, with
`missing` where a library is not there. `bare` for the candidate measures an interpreter with NumPy alone.
"""

import importlib
import importlib.metadata
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

_WARM = 50


def main(words: list[str]) -> int:
    """Exit code 0 when there is an answer, `missing` included."""
    task, name, path, folder, turns = words[0], words[1], Path(words[2]), Path(words[3]), int(words[4])
    try:
        found = _prepare(name, path, folder) if task == "prepare" else _measure(name, path, folder, turns)
    except ImportError as error:
        found = {"missing": str(error)}
    print(json.dumps(found))
    return 0


def _prepare(name: str, path: Path, folder: Path) -> dict[str, Any]:
    from calibration.recognition.candidates import NEEDS, Candidate, prepare
    from models import artefact

    for library in NEEDS[Candidate(name)].runtime:
        _installed(library)
    start = time.perf_counter()
    prepare(Candidate(name), artefact.load(path), folder)
    return {"prepare_s": time.perf_counter() - start}


def _measure(name: str, path: Path, folder: Path, turns: int) -> dict[str, Any]:
    import numpy as np

    numpy_mb = _rss_mb()
    if name == "bare":
        return {"numpy": np.__version__, "rss_mb": numpy_mb}
    from calibration.recognition.candidates import NEEDS, Candidate, frames_of
    from models import artefact

    candidate = Candidate(name)
    model = artefact.load(path)
    frames = frames_of(model)
    before_mb, start = _rss_mb(), time.perf_counter()
    for library in NEEDS[candidate].runtime:
        importlib.import_module(_installed(library))
    imported = time.perf_counter()
    use = _own if candidate in {Candidate.NUMPY, Candidate.COMPILED} else _others
    found = use(candidate, model, frames, folder, turns)
    found["load_ms"] = (found.pop("loaded") - imported) * 1e3
    found["rss_mb"] = found.pop("after_mb") - before_mb
    megabytes = sum(_installed_bytes(library) for library in _with_requirements(NEEDS[candidate].runtime)) / 1e6
    return found | {"import_ms": (imported - start) * 1e3, "install_mb": megabytes}


def _own(candidate: Any, model: Any, frames: Sequence[Any], folder: Path, turns: int) -> dict[str, Any]:
    from calibration.recognition.candidates import only_boosted, whole

    ensemble = whole(candidate, model, folder)
    ensemble.judge(frames[0])
    found: dict[str, Any] = {"loaded": time.perf_counter(), "after_mb": _rss_mb()}
    found["whole"] = _timed([partial(ensemble.judge, frame) for frame in frames], turns)
    part = whole(candidate, only_boosted(model), folder)
    found["shares"] = [one[0].tolist() for one in part.members(frames[0])]
    found["boosted"] = _timed([partial(part.judge, frame) for frame in frames], turns)
    return found


def _others(candidate: Any, model: Any, frames: Sequence[Any], folder: Path, turns: int) -> dict[str, Any]:
    import numpy as np

    from calibration.recognition.candidates import load

    rows = [np.array([frame.values], dtype=np.float32) for frame in frames]
    heads = load(candidate, model, folder)

    def margins(row: Any) -> list[Any]:
        return [np.asarray(predict(row), dtype=np.float64).ravel() for predict in heads]

    powers = [np.exp(one) for one in margins(rows[0])]
    found: dict[str, Any] = {"loaded": time.perf_counter(), "after_mb": _rss_mb()}
    found["shares"] = [(one / one.sum()).tolist() for one in powers]
    found["boosted"] = _timed([partial(margins, row) for row in rows], turns)
    return found


def _timed(calls: list[Callable[[], Any]], turns: int) -> dict[str, float]:
    """Milliseconds of single calls back to back, in turn: of the clock, and of this thread alone."""
    clock, thread = time.perf_counter_ns, time.thread_time_ns
    spent, own = [], []
    for turn in range(turns + _WARM):
        call = calls[turn % len(calls)]
        own_ns, start_ns = thread(), clock()
        call()
        spent.append((clock() - start_ns) / 1e6)
        own.append((thread() - own_ns) / 1e6)
    spent, own = sorted(spent[_WARM:]), own[_WARM:]
    return {
        "mean_ms": sum(spent) / len(spent),
        "median_ms": spent[len(spent) // 2],
        "p99_ms": spent[max(0, -(-len(spent) * 99 // 100) - 1)],
        "cpu_mean_ms": sum(own) / len(own),
    }


def _rss_mb() -> float:
    status = Path("/proc/self/status").read_text()
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 / 1e6 if match else 0.0


def _installed(library: str) -> str:
    try:
        importlib.metadata.distribution(library)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(f"{library} is not installed") from None
    return {"xgboost-cpu": "xgboost"}.get(library, library)


def _with_requirements(libraries: tuple[str, ...]) -> set[str]:
    """Distributions that these bring along, NumPy aside: the agent has it."""
    found: set[str] = set()
    waiting = list(libraries)
    while waiting:
        name = waiting.pop().lower()
        if name in found or name == "numpy":
            continue
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or another Python
        found.add(name)
        waiting += [re.split(r"[^\w.-]", one)[0] for one in needed if ";" not in one]
    return found


def _installed_bytes(library: str) -> int:
    files = importlib.metadata.distribution(library).files or []
    places = (Path(str(file.locate())) for file in files)
    return sum(place.stat().st_size for place in places if place.is_file())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
