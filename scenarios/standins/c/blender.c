// SPDX-License-Identifier: GPL-2.0-only
/*
 * A path tracer: all CPUs take tiles of very different cost until the picture is whole; then one thread alone prepares
 * the next.
 */
#include "stand_in.h"

static u64 tile_us, tiles, threads;
static _Atomic u32 next_tile;
static struct counter finished = { .metric = "tiles_per_s", .each = 1.0 };
static struct gate start, done;

static void *render(void *argument)
{
	u64 seed = number("seed");

	(void)argument;
	for (;;) {
		gate_pass(&start);
		for (;;) {
			u32 tile = next_tile++;
			u64 state = seed + tile % 1024; /* the same tiles are dear in each picture */

			if (tile >= tiles)
				break;
			work_us(between(&state, tile_us / 4, tile_us * 7 / 4));
			finished.sum++;
		}
		gate_open(&done, 1);
	}
	return NULL;
}

KIND(blender)

static void play_blender(void)
{
	u64 prepare_us = number("prepare-us"), state = number("seed");

	tile_us = number("tile-us");
	tiles = number("tiles");
	threads = number("threads");
	for (u64 i = 0; i < threads; i++)
		start_thread(render, NULL);
	counter_start(&finished);
	ready();
	for (;;) {
		u64 begin_ns = now_ns();

		work_us(about(&state, prepare_us));
		next_tile = 0;
		gate_open(&start, (u32)threads);
		for (u64 i = 0; i < threads; i++)
			gate_pass(&done);
		measured("frame_s", (double)(now_ns() - begin_ns) / SECOND);
	}
}
