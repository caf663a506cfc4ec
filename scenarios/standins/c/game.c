// SPDX-License-Identifier: GPL-2.0-only
/*
 * A game that draws in software: a frame loop with a deadline, which hands pieces of each frame to a team of threads
 * and waits for them, then for a display server, another process; a server that steps each 50 ms; a thread that makes
 * new parts of the world as they are asked for.
 */
#include "stand_in.h"

static struct pool raster;
static struct gate chunk_asked;
static _Atomic u32 chunks_waiting;
static struct port *shown, *free_again;
static struct counter chunks = { .metric = "chunks_per_s", .each = 1.0 };

static void *server(void *unused)
{
	u64 period_ns = number("step-ms") * MS, step_us = number("step-us"), state = number("seed") + 1;
	u64 next_ns = now_ns();

	(void)unused;
	for (;;) {
		u64 begin_ns = now_ns();

		work_us(about(&state, step_us));
		measured("mspt_ms", (double)(now_ns() - begin_ns) / MS);
		next_ns += period_ns;
		if (next_ns < now_ns())
			next_ns = now_ns(); /* the world slows down */
		sleep_until(next_ns);
	}
	return NULL;
}

static void *mesher(void *unused)
{
	u64 chunk_us = number("chunk-us"), state = number("seed") + 2;

	(void)unused;
	for (;;) {
		gate_pass(&chunk_asked);
		work_us(about(&state, chunk_us));
		chunks_waiting--;
		chunks.sum++;
	}
	return NULL;
}

/* The threads of the connection between client and server, the small map, sounds. */
static void *chores(void *unused)
{
	u64 chores_per_s = number("chores-per-s"), state = number("seed") + 3;

	(void)unused;
	for (;;) {
		sleep_until(now_ns() + about(&state, SECOND / chores_per_s));
		work_us(20);
	}
	return NULL;
}

static void *display(void *unused)
{
	u64 show_us = number("show-us");

	(void)unused;
	port_listen(shown);
	for (;;) {
		port_take(shown);
		work_us(show_us);
		port_send(free_again, 1);
	}
	return NULL;
}

KIND(game)

static void play_game(void)
{
	u64 period_ns = number("frame-us") * US, logic_us = number("logic-us"), present_us = number("present-us");
	u64 raster_us = number("raster-us"), passes = number("passes"), chunk_pct = number("chunk-pct");
	u64 state = number("seed"), next_ns, before_ns;
	u32 threads = (u32)number("threads"), pieces = 4 * threads;
	struct rate fps = { .metric = "fps" };

	shown = port_make();
	free_again = port_make();
	start_process(display, NULL);
	port_listen(free_again);
	pool_start(&raster, threads);
	start_thread(server, NULL);
	start_thread(chores, NULL);
	start_thread(mesher, NULL);
	counter_start(&chunks);
	ready();
	rate_start(&fps);
	next_ns = before_ns = now_ns();
	for (;;) {
		u64 end_ns;

		work_us(about(&state, logic_us));
		for (u64 pass = 0; pass < passes; pass++)
			pool_run(&raster, pieces, (u32)(about(&state, raster_us) / passes / pieces));
		work_us(about(&state, present_us));
		port_send(shown, 1);
		port_take(free_again);
		if (between(&state, 0, 99) < chunk_pct && chunks_waiting < 8) {
			chunks_waiting++;
			gate_open(&chunk_asked, 1);
		}
		next_ns += period_ns;
		end_ns = now_ns();
		if (next_ns > end_ns)
			sleep_until(next_ns);
		else
			next_ns = end_ns;
		end_ns = now_ns();
		measured("frame_ms", (double)(end_ns - before_ns) / MS);
		rate_add(&fps, 1.0);
		before_ns = end_ns;
	}
}
