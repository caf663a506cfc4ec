# SPDX-License-Identifier: GPL-2.0-only
"""Render: POV-Ray traces a scene, OpenSCAD makes a solid, GraphicsMagick and librsvg make pictures, all of the seed's.

Objects, sizes, quality and threads differ from session to session. Blender is `scenarios.background.blender`.
"""

import random
from collections.abc import Callable, Iterable

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.driving import Driver
from scenarios.programs.looping import Argv, Looping, draw_degree, drawn, program

_PIXELS_PER_S = {"povray": 700_000, "gm": 700_000, "rsvg-convert": 2_300_000}  # of one thread here; of rsvg and object
_PARTS_PER_S = 25.0  # of a solid, about
_OPERATIONS = ("-blur", "-sharpen", "-median", "-resize", "-emboss")
_SHAPES = ("sphere", "cube", "cylinder")


def _draw(name: str, *, threaded: bool) -> Callable[[random.Random, Place], Parameters]:
    def draw(rng: random.Random, place: Place) -> Parameters:
        how = draw_degree(rng, place)
        working = min(int(how["threads"]), place.cpus) if threaded else 1
        objects = rng.randint(5, 60)
        pixels = _PIXELS_PER_S.get(name, 1) * working * float(how["pass_s"])
        if name == "rsvg-convert":
            pixels /= objects
        return {
            **how,
            "width": max(48, min(4000, round((pixels * 4 / 3) ** 0.5))),
            "objects": objects,
            "facets": rng.randint(8, 24),
            "quality": rng.choice((8, 9, 11)),
            "antialias": rng.random() < 0.4,
            "operations": [rng.choice(_OPERATIONS) for _ in range(rng.randint(1, 3))],
            "radius": rng.randint(1, 3),
        }

    return draw


def _vector(rng: random.Random, low: float, high: float) -> str:
    return ", ".join(f"{rng.uniform(low, high):.2f}" for _ in range(3))


def _scene(driver: Driver) -> None:
    rng, given = drawn(driver), driver.parameters
    lines = [
        "global_settings { assumed_gamma 1.0 max_trace_level 6 }",
        "camera { location <0, 3, -14> look_at <0, 0, 0> }",
        *(f"light_source {{ <{_vector(rng, 4, 20)}> color rgb 0.8 }}" for _ in range(rng.randint(1, 3))),
        "plane { y, -4 pigment { checker color rgb 0.9, color rgb 0.2 } finish { reflection 0.2 } }",
    ]
    for _ in range(int(given["objects"])):
        look = f"pigment {{ color rgb <{_vector(rng, 0, 1)}> }} finish {{ reflection {rng.uniform(0, 0.5):.2f} }}"
        lines.append(f"sphere {{ <{_vector(rng, -5, 5)}>, {rng.uniform(0.3, 1.5):.2f} {look} }}")
    (driver.scratch / "scene.pov").write_text("\n".join(lines))


def _povray(driver: Driver) -> Iterable[Argv]:
    given = driver.parameters
    width = int(given["width"])
    out = f"+O{driver.scratch / 'scene.png'}"
    look = (f"+Q{given['quality']}", "+A0.2" if given["antialias"] else "-A")
    size = (f"+W{width}", f"+H{width * 3 // 4}", f"+WT{given['threads']}")
    yield ("povray", "-D", "-GA", "-V", *size, *look, f"+I{driver.scratch / 'scene.pov'}", out)


def _solid(driver: Driver) -> None:
    rng, given = drawn(driver), driver.parameters
    count = max(2, round(float(given["pass_s"]) * _PARTS_PER_S))
    shapes = {
        "sphere": "sphere({0});",
        "cube": "cube({0}, center=true);",
        "cylinder": "cylinder(h={0}, r={0}/2, center=true);",
    }
    parts = [
        f"translate([{_vector(rng, -9, 9)}]) {shapes[rng.choice(_SHAPES)].format(f'{rng.uniform(3, 6):.1f}')}"
        for _ in range(count)
    ]
    body = "difference() { cube(20, center=true); " + " ".join(parts) + " }"
    (driver.scratch / "solid.scad").write_text(f"$fn={given['facets']};\n{body}\n")


def _openscad(driver: Driver) -> Iterable[Argv]:
    yield ("openscad", "-q", "-o", str(driver.scratch / "solid.stl"), str(driver.scratch / "solid.scad"))


def _drawing(driver: Driver) -> None:
    rng, given = drawn(driver), driver.parameters
    shapes = []
    for _ in range(int(given["objects"]) * 10):
        points = " ".join(f"{rng.randint(0, 800)},{rng.randint(0, 600)}" for _ in range(rng.randint(3, 9)))
        color = f"fill='rgb({rng.randint(0, 255)},{rng.randint(0, 255)},{rng.randint(0, 255)})'"
        shapes.append(f"<polygon points='{points}' {color} opacity='{rng.uniform(0.2, 1):.2f}' filter='url(#b)'/>")
    blur = f"<filter id='b'><feGaussianBlur stdDeviation='{given['radius']}'/></filter>"
    head = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 800 600'>"
    (driver.scratch / "drawing.svg").write_text(f"{head}<defs>{blur}</defs>{''.join(shapes)}</svg>")


def _rsvg(driver: Driver) -> Iterable[Argv]:
    size = ("-w", str(driver.parameters["width"]), "-f", "png")
    yield ("rsvg-convert", *size, "-o", str(driver.scratch / "drawing.png"), str(driver.scratch / "drawing.svg"))


def _gm(driver: Driver) -> Iterable[Argv]:
    given = driver.parameters
    width = int(given["width"])
    words = {
        "-blur": (f"0x{given['radius']}",),
        "-sharpen": (f"0x{given['radius']}",),
        "-median": (str(given["radius"]),),
        "-resize": ("150%",),
        "-emboss": (str(given["radius"]),),
    }
    operations = [word for name in given["operations"] for word in (name, *words[name])]
    limits = ("-limit", "Threads", str(given["threads"]))
    source = ("-size", f"{width}x{width * 3 // 4}", "plasma:fractal")
    yield ("gm", "convert", *limits, *source, *operations, str(driver.scratch / "picture.jpg"))


def _renderer(
    name: str,
    package: str,
    steps: Callable[[Driver], Iterable[Argv]],
    make: Callable[[Driver], None] = lambda _driver: None,
    *,
    threaded: bool = False,
    version: str = "--version",
) -> Looping:
    return program(
        __name__,
        name=name,
        kind=Kind.RENDER,
        packages=(package,),
        draw=_draw(name, threaded=threaded),
        steps=steps,
        make=make,
        version=(version,),
    )


PROGRAMS = (
    _renderer("povray", "povray", _povray, _scene, threaded=True),
    _renderer("openscad", "openscad", _openscad, _solid),
    _renderer("rsvg-convert", "librsvg2-bin", _rsvg, _drawing),
    _renderer("gm", "graphicsmagick", _gm, threaded=True, version="version"),
)
