-- SPDX-License-Identifier: GPL-2.0-only
-- Creatures that walk about near the player: the load of the server's simulation.

local creatures = {count = 0}

local wanted = tonumber(minetest.settings:get("asa_creatures")) or 0
local FAR = 60

minetest.register_entity("asa:creature", {
	initial_properties = {
		physical = true, collide_with_objects = true, collisionbox = {-0.4, -0.5, -0.4, 0.4, 0.4, 0.4},
		visual = "cube", visual_size = {x = 0.8, y = 0.9}, static_save = false, stepheight = 1.1,
		textures = {
			"asa_fur.png", "asa_fur.png", "asa_fur.png", "asa_fur.png", "asa_fur.png^asa_specks.png", "asa_fur.png",
		},
	},
	on_activate = function(self)
		creatures.count = creatures.count + 1
		self.until_thought = 0
		self.object:set_acceleration({x = 0, y = -9.8, z = 0})
	end,
	on_deactivate = function(self)
		creatures.count = creatures.count - 1
	end,
	on_step = function(self, elapsed)
		self.until_thought = self.until_thought - elapsed
		if self.until_thought > 0 then
			return
		end
		self.until_thought = 0.3 + math.random()
		local object = self.object
		local here = object:get_pos()
		local player = creatures.near
		if not player or vector.distance(here, player) > FAR then
			object:remove()
			return
		end
		-- Looks at the player where nothing is between, and wanders elsewhere.
		local seen = minetest.line_of_sight(vector.add(here, {x = 0, y = 1, z = 0}), player)
		local turn = seen and math.atan2(player.z - here.z, player.x - here.x) or math.random() * 2 * math.pi
		local speed = 1 + 2 * math.random()
		local up = math.random() < 0.2 and 5 or object:get_velocity().y
		object:set_velocity({x = speed * math.cos(turn), y = up, z = speed * math.sin(turn)})
		object:set_yaw(turn)
	end,
})

-- Keeps as many as wanted; `ground` gives the height of the land at x, z, or nil.
function creatures.keep(player, ground)
	creatures.near = player
	for _ = 1, math.min(4, wanted - creatures.count) do
		local x = player.x + math.random(-FAR / 2, FAR / 2)
		local z = player.z + math.random(-FAR / 2, FAR / 2)
		local y = ground(x, z)
		if y and vector.distance(player, {x = x, y = y, z = z}) < FAR then
			minetest.add_entity({x = x, y = y + 2, z = z}, "asa:creature")
		end
	end
end

return creatures
