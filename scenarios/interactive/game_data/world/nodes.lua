-- SPDX-License-Identifier: GPL-2.0-only
-- What the world is made of, and how the map generator lays it out. Textures are written by game_textures.py.

local function node(name, fields)
	fields.tiles = fields.tiles or {"asa_" .. name .. ".png"}
	fields.groups = fields.groups or {oddly_breakable_by_hand = 1}
	minetest.register_node("asa:" .. name, fields)
end

local grass_tiles = {"asa_grass.png", "asa_dirt.png", "asa_dirt.png^asa_fringe.png"}
local snow_tiles = {"asa_snow.png", "asa_dirt.png"}

node("stone", {})
node("dirt", {})
node("sand", {})
node("ore", {tiles = {"asa_stone.png^asa_specks.png"}})
node("brick", {})
node("trunk", {})
node("grass", {tiles = grass_tiles})
node("snow", {tiles = snow_tiles})
node("leaves", {drawtype = "allfaces_optional", paramtype = "light", walkable = false})
for _, plant in ipairs({"blades", "flower"}) do
	local fields = {drawtype = "plantlike", paramtype = "light", sunlight_propagates = true, walkable = false}
	fields.buildable_to, fields.waving = true, 1
	node(plant, fields)
end

for _, kind in ipairs({"source", "flowing"}) do
	local tile = {name = "asa_water.png", backface_culling = false}
	node("water_" .. kind, {
		drawtype = kind == "source" and "liquid" or "flowingliquid",
		tiles = {tile}, special_tiles = {tile, tile},
		use_texture_alpha = "blend", paramtype = "light", paramtype2 = kind == "flowing" and "flowingliquid" or nil,
		walkable = false, pointable = false, buildable_to = true,
		liquidtype = kind, liquid_range = 5,
		liquid_alternative_source = "asa:water_source", liquid_alternative_flowing = "asa:water_flowing",
		post_effect_color = {a = 90, r = 30, g = 60, b = 110},
	})
end

minetest.register_alias("mapgen_stone", "asa:stone")
minetest.register_alias("mapgen_water_source", "asa:water_source")
minetest.register_alias("mapgen_river_water_source", "asa:water_source")

local function biome(name, top, heat, humidity, low)
	minetest.register_biome({
		name = name, node_top = "asa:" .. top, depth_top = 1, node_filler = top == "sand" and "asa:sand" or "asa:dirt",
		depth_filler = 3, y_min = low, heat_point = heat, humidity_point = humidity,
	})
end

biome("meadow", "grass", 50, 40, 3)
biome("forest", "grass", 60, 75, 3)
biome("tundra", "snow", 10, 50, 3)
biome("desert", "sand", 90, 10, 3)
minetest.register_biome({
	name = "shore", node_top = "asa:sand", depth_top = 2, node_filler = "asa:sand", depth_filler = 2,
	y_max = 2, heat_point = 50, humidity_point = 50,
})

local function tree(height)
	local size, data = {x = 5, y = height + 2, z = 5}, {}
	for z = -2, 2 do
		for y = 0, height + 1 do
			for x = -2, 2 do
				local at = {name = "air", prob = 0}
				if x == 0 and z == 0 and y < height then
					at = {name = "asa:trunk", prob = 254, force_place = true}
				elseif y >= height - 2 and math.abs(x) + math.abs(z) + math.max(0, y - height + 1) < 4 then
					at = {name = "asa:leaves", prob = 230}
				end
				data[#data + 1] = at
			end
		end
	end
	return {size = size, data = data}
end

local function trees(biomes, height, share)
	minetest.register_decoration({
		deco_type = "schematic", place_on = {"asa:grass", "asa:snow"}, sidelen = 16, fill_ratio = share,
		biomes = biomes, schematic = tree(height), flags = "place_center_x, place_center_z",
	})
end

local function plants(name, share)
	minetest.register_decoration({
		deco_type = "simple", place_on = {"asa:grass"}, sidelen = 16, fill_ratio = share, decoration = "asa:" .. name,
	})
end

local density = tonumber(minetest.settings:get("asa_trees")) or 0.01
trees({"forest"}, 7, density)
trees({"forest", "meadow"}, 5, density / 3)
trees({"tundra"}, 9, density / 4)
plants("blades", 0.15)
plants("flower", 0.02)

minetest.register_ore({
	ore_type = "scatter", ore = "asa:ore", wherein = "asa:stone", clust_scarcity = 512, clust_num_ores = 8,
	clust_size = 3, y_max = 64, y_min = -200,
})
