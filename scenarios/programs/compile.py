# SPDX-License-Identifier: GPL-2.0-only
"""Compile: g++, Clang and Cargo build projects that are written from the seed, with make, and with CMake and Ninja.

Number and size of the files, what they use, optimization and jobs differ from session to session. The kernel is
`scenarios.background.kernel`.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.driving import Driver
from scenarios.programs.looping import Argv, Looping, draw_degree, drawn, program

_CXX = """int %s(int n) {
  std::map<std::string, std::vector<int>> m;
  int s = %d;
  for (int i = 0; i < n; ++i) m[std::to_string(i %% %d)].push_back(i * s);
  for (auto &p : m) {
    std::sort(p.second.begin(), p.second.end(), [](int a, int b) { return a > b; });
    for (int v : p.second) s = s * %d + v;
  }
  return s;
}
"""
_RUST = """pub fn f%d(n: u64) -> u64 {
    let mut m: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for i in 0..n { m.entry(format!("{}", i %% %d)).or_default().push(i); }
    m.values_mut().map(|v| {
        v.sort_by(|a, b| b.cmp(a));
        v.iter().fold(%du64, |s, x| s.wrapping_mul(%d).wrapping_add(*x))
    }).fold(0, u64::wrapping_add)
}
"""
_LIBRARIES = ("algorithm", "map", "regex", "sstream", "unordered_map", "vector", "functional", "memory")


def _draw(file_s: float) -> Callable[[random.Random, Place], Parameters]:
    """`file_s`: CPU seconds of one file here, which sizes the project."""

    def draw(rng: random.Random, place: Place) -> Parameters:
        how = draw_degree(rng, place)
        working = min(int(how["threads"]), place.cpus)
        wanted_s = float(how["pass_s"]) * working
        return {
            **how,
            "files": max(1, min(60, round(wanted_s / file_s))),
            "functions": rng.randint(5, 30),  # of a file
            "libraries": rng.sample(_LIBRARIES, k=rng.randint(1, 5)),
            "optimization": rng.choice(("0", "1", "2", "3")),
            "debug": rng.random() < 0.4,
        }

    return draw


def _flags(driver: Driver) -> str:
    given = driver.parameters
    return f"-O{given['optimization']}{' -g' if given['debug'] else ''}"


def _cxx(driver: Driver) -> list[str]:
    """The sources' names without the suffix, `main` last."""
    rng, given, folder = drawn(driver), driver.parameters, driver.scratch / "source"
    folder.mkdir()
    includes = "".join(f"#include <{name}>\n" for name in {*given["libraries"], "vector", "algorithm", "map", "string"})
    names = [f"part{number}" for number in range(int(given["files"]))]
    for name in names:
        functions = [
            _CXX % (f"{name}_{number}", rng.randint(1, 99), rng.randint(2, 40), rng.randint(3, 31))
            for number in range(int(given["functions"]))
        ]
        (folder / f"{name}.cc").write_text(includes + "".join(functions))
    declared = "".join(f"int {name}_0(int);\n" for name in names)
    called = " + ".join(f"{name}_0(9)" for name in names)
    (folder / "main.cc").write_text(f"{declared}int main() {{ return ({called}) & 1; }}\n")
    return [*names, "main"]


def _makefile(driver: Driver) -> None:
    objects = " ".join(f"{name}.o" for name in _cxx(driver))
    (driver.scratch / "source/Makefile").write_text(f"program: {objects}\n\t$(CXX) -o $@ $^\n")


def _make(compiler: str) -> Callable[[Driver], Iterable[Argv]]:
    def steps(driver: Driver) -> Iterable[Argv]:
        folder = driver.scratch / "source"
        for path in (*folder.glob("*.o"), *folder.glob("program")):
            path.unlink()
        words = (f"-j{driver.parameters['threads']}", f"CXX={compiler}", f"CXXFLAGS={_flags(driver)}")
        yield ("make", "-s", "-C", str(folder), *words)

    return steps


def _cmake_project(driver: Driver) -> None:
    sources = " ".join(f"{name}.cc" for name in _cxx(driver))
    text = f"cmake_minimum_required(VERSION 3.16)\nproject(p CXX)\nadd_executable(program {sources})\n"
    (driver.scratch / "source/CMakeLists.txt").write_text(text)


def _cmake(driver: Driver) -> Iterable[Argv]:
    build = str(driver.scratch / "build")
    yield ("cmake", "--fresh", "-G", "Ninja", "-S", str(driver.scratch / "source"), "-B", build)
    words = ("--clean-first", "-j", str(driver.parameters["threads"]))
    yield ("cmake", "--build", build, *words)


def _crate(driver: Driver) -> None:
    rng, given, folder = drawn(driver), driver.parameters, driver.scratch / "crate"
    (folder / "src").mkdir(parents=True)
    level = str(given["optimization"])
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "made"\nversion = "0.1.0"\nedition = "2021"\n'
        f"[profile.dev]\nopt-level = {level}\ndebug = {str(given['debug']).lower()}\n"
    )
    modules = [f"part{number}" for number in range(int(given["files"]))]
    for name in modules:
        functions = [
            _RUST % (number, rng.randint(2, 40), rng.randint(1, 99), rng.randint(3, 31))
            for number in range(int(given["functions"]))
        ]
        (folder / f"src/{name}.rs").write_text("use std::collections::BTreeMap;\n" + "".join(functions))
    declared = "".join(f"mod {name};\n" for name in modules)
    called = " ^ ".join(f"{name}::f{number}(9)" for name in modules for number in range(int(given["functions"])))
    (folder / "src/main.rs").write_text(f'{declared}fn main() {{ println!("{{}}", {called}); }}\n')


def _cargo(driver: Driver) -> Iterable[Argv]:
    folder = driver.scratch / "crate"
    shutil.rmtree(folder / "target", ignore_errors=True)
    jobs = ("-j", str(driver.parameters["threads"]))
    yield ("cargo", "build", "-q", "--offline", *jobs, "--manifest-path", str(folder / "Cargo.toml"))


def _toolchain(_place: Place) -> Mapping[str, str]:
    """rustup keeps it below the user's home, which a session does not see."""
    there = Path(os.environ.get("RUSTUP_HOME", Path.home() / ".rustup"))
    return {"RUSTUP_HOME": str(there)} if there.exists() else {}


def _builder(
    name: str,
    packages: tuple[str, ...],
    programs: tuple[str, ...],
    file_s: float,
    make: Callable[[Driver], None],
    steps: Callable[[Driver], Iterable[Argv]],
) -> Looping:
    built = program(
        __name__,
        name=name,
        kind=Kind.COMPILE,
        packages=packages,
        programs=programs,
        draw=_draw(file_s),
        steps=steps,
        make=make,
    )
    return replace(built, environment=_toolchain)


PROGRAMS = (
    _builder("gxx", ("g++", "make"), ("g++", "make"), 1.5, _makefile, _make("g++")),
    _builder("clang", ("clang-19", "g++", "make"), ("clang++-19", "make"), 1.5, _makefile, _make("clang++-19")),
    _builder("cmake", ("cmake", "ninja-build", "g++"), ("cmake", "ninja", "g++"), 1.5, _cmake_project, _cmake),
    _builder("cargo", ("cargo-web", "rustc-web"), ("cargo", "rustc"), 0.4, _crate, _cargo),
)
