// SPDX-License-Identifier: GPL-2.0-only
/*
 * An archiver: pairs of threads, of which one looks for matches and hands blocks to the other, which codes them; in
 * front of them somebody who reads a file, behind them somebody who writes one. Then it is all extracted again, which
 * takes little and is one thread a block.
 */
#include "stand_in.h"

#include <fcntl.h>
#include <unistd.h>

enum { MOST_PAIRS = 32, AHEAD = 4 };

struct pair {
	struct gate given, found, room, ended;
	u64 find_us, code_us;
	u64 state;
};

static struct pair pairs[MOST_PAIRS];
static struct gate done;
static struct rate compressed = { .metric = "compress_mb_per_s" };
static struct pool extracting;

static void *find(void *argument)
{
	struct pair *pair = argument;

	for (;;) {
		gate_pass(&pair->given);
		for (u32 part = 0; part < AHEAD; part++) { /* a block is handed over in parts */
			gate_pass(&pair->room);
			work_us(about(&pair->state, pair->find_us) / AHEAD);
			gate_open(&pair->found, 1);
		}
	}
	return NULL;
}

static void *code(void *argument)
{
	struct pair *pair = argument;
	u64 state = pair->state + 1;

	for (;;) {
		for (u32 part = 0; part < AHEAD; part++) {
			gate_pass(&pair->found);
			work_us(about(&state, pair->code_us) / AHEAD);
			gate_open(&pair->room, 1);
		}
		gate_open(&done, 1);
	}
	return NULL;
}

static int new_file(const char *name)
{
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (file < 0)
		fail(name);
	return file;
}

/* Made anew before it has reached the disk, as an archiver's files are that come and go. */
static void empty(int file)
{
	if (ftruncate(file, 0) || lseek(file, 0, SEEK_SET))
		fail("a file");
}

static void put(int file, const char *block, size_t bytes)
{
	if (write(file, block, bytes) != (ssize_t)bytes)
		fail("a file");
}

static void take_block(u64 bytes)
{
	gate_pass(&done);
	rate_add(&compressed, (double)bytes / 1e6);
}

KIND(archive)

static void play_archive(void)
{
	u64 block_bytes = number("block-kb") << 10, blocks = number("blocks");
	u64 threads = number("threads"), count = threads < 2 * MOST_PAIRS ? (threads + 1) / 2 : MOST_PAIRS;
	u64 mb_ms = number("compress-ms-per-mb"), extract_us = number("extract-ms-per-mb") * block_bytes / 1000;
	u64 ahead = 2 * count, block_us = mb_ms * block_bytes / 1000; /* of two threads together */
	char *block = shared(block_bytes);
	int from = new_file("plain"), to = new_file("packed"), out = new_file("unpacked");

	for (u64 i = 0; i < count; i++) {
		pairs[i] = (struct pair){ .find_us = block_us * 11 / 20, .code_us = block_us * 9 / 20,
					  .state = number("seed") + 2 * i };
		gate_open(&pairs[i].room, 2);
		start_thread(find, &pairs[i]);
		start_thread(code, &pairs[i]);
	}
	pool_start(&extracting, 2);
	for (u64 n = 0; n < blocks; n++)
		put(from, block, block_bytes);
	ready();
	for (;;) {
		u64 begin_ns;

		rate_start(&compressed);
		for (u64 n = 0; n < blocks; n++) {
			if (n >= ahead)
				take_block(block_bytes);
			if (pread(from, block, block_bytes, (off_t)(n * block_bytes)) < 0)
				fail("plain");
			gate_open(&pairs[n % count].given, 1);
			put(to, block, block_bytes / 3);
		}
		for (u64 n = 0; n < ahead && n < blocks; n++)
			take_block(block_bytes);
		rate_end(&compressed);
		begin_ns = now_ns();
		for (u64 n = 0; n < 2 * blocks; n++) {
			if (pread(to, block, block_bytes / 3, (off_t)(n % blocks * (block_bytes / 3))) < 0)
				fail("packed");
			pool_run(&extracting, 2, (u32)(extract_us / 2));
			put(out, block, block_bytes);
		}
		measured("extract_mb_per_s",
			 (double)(2 * blocks * block_bytes) / 1e6 * SECOND / (double)(now_ns() - begin_ns));
		empty(to);
		empty(out);
	}
}
