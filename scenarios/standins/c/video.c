// SPDX-License-Identifier: GPL-2.0-only
/*
 * A video encoder: a source makes pictures, one thread a picture encodes it row by row, and each row needs those of the
 * picture before that lie around it; so threads follow each other through the pictures and wake each other at each row.
 */
#include "stand_in.h"

enum { MOST_THREADS = 64, REACH = 3 /* rows that motion may reach down */ };

struct encoder {
	u64 number;
	struct gate picture;
	struct progress rows;	/* of all pictures of the film so far */
};

static struct encoder encoders[MOST_THREADS];
static u64 threads, rows, row_us;
static struct gate room, done;
static struct counter encoded = { .metric = "frames_per_s", .each = 1.0 };

static void *encode(void *argument)
{
	struct encoder *own = argument, *before = &encoders[(own->number + threads - 1) % threads];
	u64 state = number("seed") + own->number;

	for (u64 picture = own->number;; picture += threads) {
		gate_pass(&own->picture);
		for (u64 row = 1; row <= rows; row++) {
			u64 needed = row + REACH < rows ? row + REACH : rows;

			if (picture)
				progress_await(&before->rows, (u32)((picture - 1) * rows + needed));
			work_us(about(&state, row_us));
			progress_to(&own->rows, (u32)(picture * rows + row));
		}
		encoded.sum++;
		gate_open(&room, 1);
		gate_open(&done, 1);
	}
	return NULL;
}

KIND(video)

static void play_video(void)
{
	u64 pictures = number("pictures"), source_us = number("source-us"), start_us = number("start-us");
	u64 state = number("seed") + MOST_THREADS, next = 0;

	threads = number("threads") < MOST_THREADS ? number("threads") : MOST_THREADS;
	rows = number("rows");
	row_us = number("row-us");
	for (u64 i = 0; i < threads; i++) {
		encoders[i].number = i;
		start_thread(encode, &encoders[i]);
	}
	gate_open(&room, (u32)threads);
	counter_start(&encoded);
	ready();
	for (;;) {
		u64 begin_ns = now_ns();

		work_us(about(&state, start_us));
		for (u64 i = 0; i < pictures; i++, next++) {
			gate_pass(&room);
			work_us(about(&state, source_us));
			gate_open(&encoders[next % threads].picture, 1);
		}
		for (u64 i = 0; i < pictures; i++)
			gate_pass(&done);
		measured("total_s", (double)(now_ns() - begin_ns) / SECOND);
	}
}
