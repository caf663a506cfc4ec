-- SPDX-License-Identifier: GPL-2.0-only
-- The client's side: times each frame, counts the blocks of the world that have come, and says both each second.
--   [asa] AT_US BLOCKS FRAME_MS FRAME_MS ...
-- AT_US is the end of the last frame. Blocks that it has seen before count again after 60 s out of sight.

local BLOCK = 16
local reach = math.ceil((tonumber(minetest.settings:get("viewing_range")) or 100) / BLOCK)
local frames, last, began = {}, nil, nil
local seen = {}

local function fresh(now)
	local player = minetest.localplayer
	if not player then
		return 0
	end
	local here = player:get_pos()
	local x0, y0, z0 = math.floor(here.x / BLOCK), math.floor(here.y / BLOCK), math.floor(here.z / BLOCK)
	local count = 0
	for x = x0 - reach, x0 + reach do
		for y = y0 - 3, y0 + 1 do
			for z = z0 - reach, z0 + reach do
				local at = {x = x * BLOCK + 8, y = y * BLOCK + 8, z = z * BLOCK + 8}
				if minetest.get_node_or_nil(at) then
					local key = (x * 4096 + y) * 4096 + z
					if now - (seen[key] or -1e12) > 60e6 then
						count = count + 1
					end
					seen[key] = now
				end
			end
		end
	end
	return count
end

minetest.register_globalstep(function()
	local now = minetest.get_us_time()
	if last then
		frames[#frames + 1] = string.format("%.2f", (now - last) / 1000)
	end
	last, began = now, began or now
	if now - began >= 1e6 then
		minetest.log("warning", string.format("[asa] %.0f %d %s", now, fresh(now), table.concat(frames, " ")))
		frames, began = {}, now
	end
end)
