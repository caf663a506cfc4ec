# SPDX-License-Identifier: GPL-2.0-only
"""Runs inside Blender: builds one scene from a seed and renders its frames, one after another, until it is ended.

Reads its orders, one JSON object, from the last argument. Writes eight pictures, over and over, and says on standard
output `asa frame N SECONDS` after each frame; Blender itself tells of the tiles. No part of ASA can be imported here.
"""

import json
import math
import random
import sys
import time

import bpy  # type: ignore[import-not-found]  # Blender's own

ORDERS = json.loads(sys.argv[-1])
RANDOM = random.Random(ORDERS["seed"])  # noqa: S311
PICTURES = 8


def build() -> None:
    """The whole scene; what differs between sessions are its kind, its objects, its materials and its lights."""
    bpy.ops.object.select_all(action="SELECT")
    bpy.ops.object.delete()
    materials = [make_material(number) for number in range(8)]
    if ORDERS["scene"] == "room":  # closed: light comes in by many bounces
        bpy.ops.mesh.primitive_cube_add(size=16, location=(0, 0, 7.9))
    else:
        bpy.ops.mesh.primitive_plane_add(size=60)
    bpy.context.object.data.materials.append(materials[0])
    meshes = [make_mesh(RANDOM.choice(ORDERS["shapes"]), RANDOM.choice(materials)) for _ in range(6)]
    for _ in range(ORDERS["objects"]):
        place_object(RANDOM.choice(meshes))
    make_lights()
    bpy.ops.object.camera_add(location=(6.5, -6.5, 5.5), rotation=(1.0, 0, math.pi / 4))
    bpy.context.scene.camera = bpy.context.object


def make_material(number: int) -> bpy.types.Material:
    """Matt, metal or glass, of some colour."""
    material = bpy.data.materials.new(f"material{number}")
    material.use_nodes = True
    colour = (RANDOM.random(), RANDOM.random(), RANDOM.random(), 1)
    nodes = material.node_tree.nodes
    if number and RANDOM.random() < ORDERS["glass_share"]:
        glass = nodes.new("ShaderNodeBsdfGlass")
        glass.inputs["Color"].default_value = colour
        material.node_tree.links.new(glass.outputs["BSDF"], nodes["Material Output"].inputs["Surface"])
        return material
    surface = nodes["Principled BSDF"]
    surface.inputs["Base Color"].default_value = colour
    surface.inputs["Roughness"].default_value = RANDOM.random()
    surface.inputs["Metallic"].default_value = float(RANDOM.random() < 0.3)
    return material


def make_mesh(kind: str, material: bpy.types.Material) -> bpy.types.Mesh:
    """One shape, made smoother by `subdivisions`; objects are instances of it, as an artist makes them."""
    add = {
        "monkey": bpy.ops.mesh.primitive_monkey_add,
        "torus": bpy.ops.mesh.primitive_torus_add,
        "ball": bpy.ops.mesh.primitive_ico_sphere_add,
        "cone": bpy.ops.mesh.primitive_cone_add,
        "box": bpy.ops.mesh.primitive_cube_add,
    }[kind]
    add(location=(0, 0, -50))
    shape = bpy.context.object
    shape.data.materials.append(material)
    modifier = shape.modifiers.new("smooth", "SUBSURF")
    modifier.levels = modifier.render_levels = ORDERS["subdivisions"]
    bpy.ops.object.modifier_apply(modifier=modifier.name)
    return shape.data


def place_object(mesh: bpy.types.Mesh) -> None:
    """One more object on the ground before the camera."""
    thing = bpy.data.objects.new(mesh.name, mesh)
    thing.location = (RANDOM.uniform(-4, 4), RANDOM.uniform(-4, 4), RANDOM.uniform(0.4, 2.5))
    thing.rotation_euler = [RANDOM.uniform(0, math.tau) for _ in range(3)]
    thing.scale = [RANDOM.uniform(0.3, 0.9)] * 3
    bpy.context.collection.objects.link(thing)


def make_lights() -> None:
    """A sun outside; lamps with soft shadows everywhere."""
    if ORDERS["scene"] != "room":
        bpy.ops.object.light_add(type="SUN", location=(4, -4, 8))
        bpy.context.object.data.energy = RANDOM.uniform(1, 4)
    for _ in range(ORDERS["lamps"]):
        bpy.ops.object.light_add(type="AREA", location=(RANDOM.uniform(-5, 5), RANDOM.uniform(-5, 5), 7))
        bpy.context.object.data.energy = RANDOM.uniform(200, 800)
        bpy.context.object.data.size = RANDOM.uniform(0.5, 3)


def set_up() -> None:
    """Picture, samples and tiles; the number of threads is an argument of Blender."""
    scene = bpy.context.scene
    render, cycles = scene.render, scene.cycles
    render.engine = "CYCLES"
    render.resolution_x, render.resolution_y = ORDERS["width"], ORDERS["height"]
    render.resolution_percentage = 100
    render.use_persistent_data = ORDERS["keep_scene"]
    render.image_settings.file_format = ORDERS["format"]
    cycles.device = "CPU"
    cycles.samples = ORDERS["samples"]
    cycles.use_adaptive_sampling = False  # each frame the same work
    cycles.use_denoising = False
    cycles.max_bounces = ORDERS["bounces"]
    cycles.use_auto_tile = True
    cycles.tile_size = ORDERS["tile"]


def play() -> None:
    """An animation without end: some of the objects turn from frame to frame."""
    scene = bpy.context.scene
    moving = [one for one in scene.objects if one.type == "MESH" and RANDOM.random() < ORDERS["moving_share"]]
    number = 0
    while True:
        for thing in moving:
            thing.rotation_euler[2] += 0.1
        begin_s = time.monotonic()
        scene.render.filepath = f"{ORDERS['pictures']}/{number % PICTURES}"
        bpy.ops.render.render(write_still=True)
        number += 1
        print(f"asa frame {number} {time.monotonic() - begin_s:.6f}", flush=True)


build()
set_up()
play()
