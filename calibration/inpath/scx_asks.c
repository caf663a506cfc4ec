/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_asks blocking|cached|apart ANSWER_US: the loop of scx_asks.bpf.c, with a pause of ANSWER_US for a model's answer.
 *
 *   blocking	what has come waits for the answer to it
 *   cached	what has come runs at once, by what was answered before; then the loop stands until the next answer
 *   apart	the loop asks nothing: who asks does so where nobody waits
 *
 * Stays until a signal or the kernel ends it. Ends with code 1 and one line on stderr when something is not allowed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <scx/common.h>
#include "scx_asks.bpf.skel.h"

#define LOOK_US 1000
#define LONGEST_US 10000000L

static volatile int ends;

static void end(int signal_number)
{
	ends = 1;
}

static void wake(struct scx_asks *skel)
{
	LIBBPF_OPTS(bpf_test_run_opts, nothing);

	SCX_BUG_ON(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.wake), &nothing), "the CPUs cannot be woken");
}

static void let_run(struct scx_asks *skel)
{
	__atomic_store_n(&skel->data->answered, skel->data->taken, __ATOMIC_SEQ_CST);
	wake(skel);
}

/* One turn of the loop, where a task has come since the last one. */
static void turn(struct scx_asks *skel, int blocking, useconds_t answer_us)
{
	__atomic_add_fetch(&skel->data->taken, 1, __ATOMIC_SEQ_CST);
	if (!blocking)
		let_run(skel);
	usleep(answer_us);
	if (blocking)
		let_run(skel);
}

int main(int argc, char **argv)
{
	struct scx_asks *skel;
	struct bpf_link *link;
	__u64 seen = 0, now;
	int apart = argc == 3 && !strcmp(argv[1], "apart"), blocking = argc == 3 && !strcmp(argv[1], "blocking");
	long answer_us = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

	if (answer_us < 1 || answer_us > LONGEST_US || !(apart || blocking || !strcmp(argv[1], "cached"))) {
		fprintf(stderr, "scx_asks: give blocking, cached or apart, and 1 to %ld us\n", LONGEST_US);
		return 1;
	}
	signal(SIGINT, end);
	signal(SIGTERM, end);
	skel = SCX_OPS_OPEN(asks_ops, scx_asks);
	skel->rodata->waits = !apart;
	skel->rodata->loop_tgid = getpid();
	SCX_OPS_LOAD(skel, asks_ops, scx_asks, uei);
	link = SCX_OPS_ATTACH(skel, asks_ops, scx_asks);
	while (!ends && !UEI_EXITED(skel, uei)) {
		now = __atomic_load_n(&skel->bss->queued, __ATOMIC_SEQ_CST);
		if (now == seen) {
			usleep(LOOK_US);
			continue;
		}
		seen = now;
		turn(skel, blocking, answer_us);
	}
	bpf_link__destroy(link);
	UEI_REPORT(skel, uei);
	scx_asks__destroy(skel);
	return 0;
}
