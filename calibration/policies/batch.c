// SPDX-License-Identifier: GPL-2.0-only
/*
 * A batch with a long tail: JOBS processes that compute, all started at once; one of them computes RATIO times as long.
 *
 *   batch JOBS RATIO UNIT_US SEED	UNIT_US of a short job, by the lab's 250 million instructions a second
 *
 * SEED says which of them is the long one. A job takes its name once it runs, as a program does by exec: batch-short or
 * batch-long. Prints lines "NAME VALUE": from the first start, in ns, when the long one first ran (long_began_ns), when
 * the last short one ended (short_ended_ns), and when all had ended (makespan_ns). Ends with code 1 and one line on
 * stderr when something is not allowed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST_JOBS = 1024,
	LOOPS_US = 25, /* ten instructions a loop */
};

static volatile unsigned long sink;

static void fail(const char *what)
{
	fprintf(stderr, "batch: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long number(const char *what, const char *text, long most)
{
	char *rest;
	long value = strtol(text, &rest, 10);

	if (rest == text || *rest || value < 1 || value > most) {
		fprintf(stderr, "batch: %s: %s: give 1 to %ld\n", what, text, most);
		exit(1);
	}
	return value;
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void compute(long loops)
{
	unsigned long x = 88172645463325252UL;

	while (loops--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	sink = x;
}

struct job {
	long long began_ns, ended_ns;
};

static void run(struct job *job, const char *name, long loops)
{
	job->began_ns = now_ns();
	prctl(PR_SET_NAME, name);
	compute(loops);
	job->ended_ns = now_ns();
	_exit(0);
}

int main(int argc, char **argv)
{
	long jobs, ratio, unit_us, which, one, longest;
	long long began_ns, last_ns = 0, shorts_ns = 0;
	struct job *table;
	int status;

	if (argc != 5) {
		fprintf(stderr, "usage: batch JOBS RATIO UNIT_US SEED\n");
		return 1;
	}
	jobs = number("JOBS", argv[1], MOST_JOBS);
	ratio = number("RATIO", argv[2], 1000);
	unit_us = number("UNIT_US", argv[3], 1000000);
	which = number("SEED", argv[4], 1L << 30);
	srand48(which);
	longest = lrand48() % jobs;
	table = mmap(NULL, sizeof(*table) * jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		fail("mmap");
	began_ns = now_ns();
	for (one = 0; one < jobs; one++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (one == longest)
			run(&table[one], "batch-long", unit_us * ratio * LOOPS_US);
		run(&table[one], "batch-short", unit_us * LOOPS_US);
	}
	while (wait(&status) > 0)
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "batch: a job ended with status %d\n", status);
			return 1;
		}
	for (one = 0; one < jobs; one++) {
		if (table[one].ended_ns > last_ns)
			last_ns = table[one].ended_ns;
		if (one != longest && table[one].ended_ns > shorts_ns)
			shorts_ns = table[one].ended_ns;
	}
	printf("makespan_ns %lld\nlong_began_ns %lld\nshort_ended_ns %lld\n", last_ns - began_ns,
	       table[longest].began_ns - began_ns, (shorts_ns ? shorts_ns : began_ns) - began_ns);
	return 0;
}
