// SPDX-License-Identifier: GPL-2.0-only
/*
 * A sound server with a device that plays nothing, and a client with several streams, two processes. Each period the
 * device's thread takes a block of each stream, mixes them with an effect and has the server's main thread ask the
 * client for the next blocks, by a socket; the client's main loop has a team compute their tracks and sends them back.
 * What is not there when the spare blocks are used up is an underrun.
 */
#include "stand_in.h"

enum { MOST_STREAMS = 64, LAST = 128 /* of the asks of a period */ };

static u64 streams, period_ns;
static struct port *asks, *answers;
static struct gate taken;

/* Shared by the two processes. */
static struct buffer {
	_Atomic bool missing[MOST_STREAMS];
	_Atomic u64 asked_ns;
} *buffer;

static void *client(void *unused)
{
	struct pool *team = shared(sizeof(*team));
	u64 tracks = number("tracks"), track_us = number("track-us"), state = number("seed") + 1;

	(void)unused;
	pool_start(team, (u32)number("workers"));
	port_listen(asks);
	for (;;) {
		u32 wanted[MOST_STREAMS], count = 0;

		do
			wanted[count] = port_take(asks);
		while (!(wanted[count++] & LAST));
		pool_run(team, (u32)(count * tracks), (u32)about(&state, track_us));
		measured("block_pct", 100.0 * (double)(now_ns() - buffer->asked_ns) / (double)period_ns);
		for (u32 i = 0; i < count; i++)
			port_send(answers, wanted[i] % LAST);
	}
	return NULL;
}

/* The server's main thread, outwards. */
static void *ask(void *unused)
{
	(void)unused;
	for (;;) {
		u32 wanted[MOST_STREAMS], count = 0;

		gate_pass(&taken);
		for (u32 i = 0; i < streams; i++)
			if (!atomic_exchange(&buffer->missing[i], true))
				wanted[count++] = i;
		for (u32 i = 0; i < count; i++)
			port_send(asks, wanted[i] | (i + 1 == count ? LAST : 0));
	}
	return NULL;
}

/* The same, inwards. */
static void *answer(void *unused)
{
	u64 copy_us = number("copy-us");

	(void)unused;
	port_listen(answers);
	for (;;) {
		u32 stream = port_take(answers);

		work_us(copy_us);
		buffer->missing[stream] = false;
	}
	return NULL;
}

KIND(audio)

static void play_audio(void)
{
	u64 mix_us = number("mix-us"), spare = number("spare"), state = number("seed"), next_ns, since_ns;
	u64 underruns = 0, late[MOST_STREAMS] = { 0 }; /* periods */

	streams = number("streams") < MOST_STREAMS ? number("streams") : MOST_STREAMS;
	period_ns = number("period-us") * US;
	buffer = shared(sizeof(*buffer));
	asks = port_make();
	answers = port_make();
	start_process(client, NULL);
	start_thread(ask, NULL);
	start_thread(answer, NULL);
	ready();
	next_ns = since_ns = now_ns();
	for (;; next_ns += period_ns) {
		u64 passed_ns;

		sleep_until(next_ns);
		for (; next_ns + period_ns < now_ns(); next_ns += period_ns)
			underruns += streams; /* we were late ourselves: nothing was played */
		for (u32 i = 0; i < streams; i++) {
			late[i] = buffer->missing[i] ? late[i] + 1 : 0;
			underruns += late[i] > spare;
		}
		buffer->asked_ns = now_ns();
		gate_open(&taken, 1);
		work_us(about(&state, mix_us));
		passed_ns = now_ns() - since_ns;
		if (passed_ns < SECOND)
			continue;
		measured("underruns_per_min", (double)underruns / (double)streams * 60 * SECOND / (double)passed_ns);
		underruns = 0;
		since_ns += passed_ns;
	}
}
