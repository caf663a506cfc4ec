-- SPDX-License-Identifier: GPL-2.0-only
-- The server's side: carries the player through the world, builds and digs around him, keeps creatures near him.
-- Settings asa_*: see game.py, which draws them.

local folder = minetest.get_modpath(minetest.get_current_modname())
dofile(folder .. "/nodes.lua")
local creatures = dofile(folder .. "/creatures.lua")

local function number(name)
	return tonumber(minetest.settings:get("asa_" .. name)) or error("setting asa_" .. name .. " is missing")
end

local path = minetest.settings:get("asa_path")
local speed, altitude, pitch = number("speed"), number("altitude"), number("pitch")
local sweep, sweep_s = number("sweep"), number("sweep_s")
local walk_s, stand_s = number("walk_s"), number("stand_s")
local edits_per_s = number("edits_per_s")
local ahead = number("ahead")
math.randomseed(number("seed"))

-- Highest land of each field of 16 x 16 nodes, as far as it has been generated.
local FIELD = 16
local SAMPLED = 4 -- every fourth node is looked at
local heights = {}

local function field(x, z)
	return math.floor(x / FIELD) .. "," .. math.floor(z / FIELD)
end

minetest.register_on_generated(function(low, high)
	local surface = minetest.get_mapgen_object("heightmap")
	if not surface or high.y < 0 then
		return
	end
	local wide = high.x - low.x + 1
	for z = low.z, high.z, SAMPLED do
		for x = low.x, high.x, SAMPLED do
			local y = math.max(1, math.min(high.y, surface[(z - low.z) * wide + x - low.x + 1]))
			local at = field(x, z)
			heights[at] = math.max(heights[at] or 1, y)
		end
	end
end)

local function ground(x, z)
	return heights[field(x, z)]
end

minetest.register_entity("asa:mount", {
	initial_properties = {physical = false, pointable = false, visual = "sprite", textures = {"blank.png"},
		static_save = false, visual_size = {x = 0.01, y = 0.01}},
})

local player, mount
local time, heading, since_look, since_edit, since_keep = 0, 0, 0, 0, 0

minetest.register_on_joinplayer(function(joined)
	minetest.set_timeofday(0.5)
	player = joined
	player:set_pos({x = 0, y = 40, z = 0})
	player:set_physics_override({gravity = 0})
end)

local function sit(here)
	mount = minetest.add_entity(here, "asa:mount")
	if mount then
		player:set_attach(mount, "", {x = 0, y = 0, z = 0}, {x = 0, y = 0, z = 0})
	end
end

local function turn(elapsed)
	if path == "circle" then
		heading = heading + elapsed * speed / 250
	elseif path == "wander" then
		heading = heading + elapsed * 0.6 * math.sin(time / 7) * math.sin(time / 2.3)
	else
		heading = 0.3 * math.sin(time / 11)
	end
end

local function move(here, elapsed)
	local standing = time % (walk_s + stand_s) > walk_s
	if not standing then
		turn(elapsed)
	end
	local x, z = math.cos(heading), math.sin(heading)
	-- Over the highest land just before him, and no further than the land that is there.
	local top = ground(here.x, here.z) or here.y - altitude
	for _, distance in ipairs({8, 20}) do
		top = math.max(top, ground(here.x + x * distance, here.z + z * distance) or top)
	end
	standing = standing or not ground(here.x + x * ahead, here.z + z * ahead)
	local climb = math.max(-speed, math.min(speed, top + altitude - here.y))
	local along = standing and 0 or speed
	mount:set_velocity({x = along * x, y = climb, z = along * z})
end

local function look()
	local yaw = heading - math.pi / 2 + sweep * math.sin(time * 2 * math.pi / sweep_s)
	player:set_look_horizontal(yaw % (2 * math.pi))
	player:set_look_vertical(pitch + 0.1 * math.sin(time * 4 / sweep_s))
end

-- Builds a piece of wall, digs one up, or opens a spring.
local WORKS = {"asa:brick", "asa:brick", "air", "air", "asa:trunk", "asa:water_source"}

local function edit(here)
	local angle = heading + (math.random() - 0.5) * 2
	local x, z = here.x + math.cos(angle) * math.random(8, 30), here.z + math.sin(angle) * math.random(8, 30)
	local land = ground(x, z)
	if land then
		local hit, at = minetest.line_of_sight({x = x, y = land + 8, z = z}, {x = x, y = land - 24, z = z})
		if not hit and at then
			minetest.set_node(at, {name = WORKS[math.random(#WORKS)]})
		end
	end
end

minetest.register_globalstep(function(elapsed)
	if not player then
		return
	end
	if not mount or not mount:get_pos() then
		sit(player:get_pos())
		return
	end
	time, since_look, since_keep = time + elapsed, since_look + elapsed, since_keep + elapsed
	since_edit = math.min(since_edit + elapsed * edits_per_s, 20)
	local here = mount:get_pos()
	move(here, elapsed)
	if since_look > 0.05 then
		since_look = 0
		look()
	end
	if since_keep > 0.5 then
		since_keep = 0
		creatures.keep(here, ground)
	end
	while since_edit >= 1 do
		since_edit = since_edit - 1
		edit(here)
	end
end)

minetest.register_abm({
	nodenames = {"asa:grass"}, neighbors = {"air"}, interval = 2, chance = 400,
	action = function(at)
		at.y = at.y + 1
		if minetest.get_node(at).name == "air" then
			minetest.set_node(at, {name = "asa:blades"})
		end
	end,
})
