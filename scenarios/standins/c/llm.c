// SPDX-License-Identifier: GPL-2.0-only
/*
 * A language model: a team computes the nodes of a graph, one after the other, and meets after each, spinning; a graph a
 * token, a dearer one for the prompt. A part of each node streams weights from memory.
 */
#include "stand_in.h"

static struct team team;
static struct gate start;
static u64 nodes, stream_bytes, weight_words;
static _Atomic u64 node_us;
static u64 *weights;
static _Atomic u64 sink;

static u64 stream(u64 place)
{
	u64 sum = 0;

	for (u64 i = 0; i < stream_bytes / sizeof(u64); i += 8) /* one word a cache line */
		sum += weights[(place + i) & (weight_words - 1)];
	return sum;
}

static void graph(u64 thread)
{
	u64 sum = 0;

	for (u64 node = 0; node < nodes; node++) {
		sum += stream((node * team.members + thread) * stream_bytes / sizeof(u64));
		work_us(node_us);
		team_meet(&team);
	}
	sink += sum;
}

static void *member(void *argument)
{
	for (;;) {
		gate_pass(&start);
		graph((u64)(uintptr_t)argument);
	}
	return NULL;
}

static u64 run_graph(u64 us)
{
	u64 begin_ns = now_ns();

	node_us = us;
	gate_open(&start, team.members - 1);
	graph(0);
	return now_ns() - begin_ns;
}

KIND(llm)

static void play_llm(void)
{
	u64 token_us = number("node-us"), prompt = number("prompt-tokens"), tokens = number("tokens");
	u64 pause_ms = number("pause-ms"), state = number("seed");
	struct rate rate = { .metric = "tokens_per_s" };

	nodes = number("nodes");
	stream_bytes = number("stream-kb") << 10;
	weight_words = number("weights-mb") << 17; /* a power of two */
	weights = shared(weight_words * sizeof(u64));
	for (u64 i = 0; i < weight_words; i += 512)
		weights[i] = i;
	team.members = (u32)number("threads");
	team.spin_ns = number("spin-us") * US;
	for (u64 i = 1; i < team.members; i++)
		start_thread(member, (void *)(uintptr_t)i);
	ready();
	for (;;) {
		u64 begin_ns = now_ns(), left;

		for (left = about(&state, prompt) / 8 + 1; left; left--) /* eight tokens of a prompt cost about three */
			run_graph(3 * token_us);
		measured("first_token_ms", (double)(now_ns() - begin_ns) / MS);
		rate_start(&rate);
		for (left = about(&state, tokens); left; left--) {
			measured("token_gap_ms", (double)run_graph(token_us) / MS);
			rate_add(&rate, 1.0);
		}
		rate_end(&rate);
		sleep_until(now_ns() + about(&state, pause_ms) * MS);
	}
}
