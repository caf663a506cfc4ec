// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two processes on one CPU hand a byte to and fro through pipes: each hand-over is one wakeup and one switch.
 *
 *   pingpong time CPU        for each line "BATCHES" on stdin prints the median nanoseconds of one hand-over;
 *                            both processes run under SCHED_FIFO, so that nothing else comes between (sched(7))
 *   pingpong pace CPU RATE   makes RATE context switches a second, as an ordinary task, until stdin ends
 *
 * Ends with code 1 and one line on stderr when the machine does not allow something. Measures nothing else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
	PRIORITY = 50,		/* above ordinary tasks and the agent, below the kernel's own FIFO 99 threads */
	WARM_UP = 2000,		/* hand-overs before a measurement: caches, and code that was patched under us */
	PER_BATCH = 500,	/* exchanges: some 1.5 ms, so that the clock's own cost vanishes and a batch that was
				   interrupted is one of many */
	MOST_BATCHES = 100000,
	PERIOD_NS = 1000000,	/* of the paced load */
	OWN_SWITCHES = 2,	/* in each period: from idle, and back to idle */
	LATEST_NS = 100000000,	/* what is later than this (a suspended machine) is not caught up with */
};

static int to_partner[2], from_partner[2];

static void fail(const char *what)
{
	fprintf(stderr, "pingpong: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void exchange(int times)
{
	char byte = 0;

	while (times--)
		if (write(to_partner[1], &byte, 1) != 1 || read(from_partner[0], &byte, 1) != 1)
			fail("pipe");
}

static void start_partner(void)
{
	pid_t parent = getpid();

	if (pipe(to_partner) || pipe(from_partner))
		fail("pipe");
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid)
		return;
	char byte;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	while (read(to_partner[0], &byte, 1) == 1)
		if (write(from_partner[1], &byte, 1) != 1)
			break;
	_exit(0);
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static void time_bursts(void)
{
	static double took_ns[MOST_BATCHES];
	char line[32];

	while (fgets(line, sizeof(line), stdin)) {
		int batches = atoi(line);

		if (batches < 1 || batches > MOST_BATCHES) {
			errno = EINVAL;
			fail("batches");
		}
		exchange(WARM_UP);
		for (int i = 0; i < batches; i++) {
			long long start_ns = now_ns();

			exchange(PER_BATCH);
			took_ns[i] = (now_ns() - start_ns) / (2.0 * PER_BATCH);
		}
		qsort(took_ns, batches, sizeof(*took_ns), by_value);
		printf("%.2f\n", took_ns[batches / 2]);
		fflush(stdout);
	}
}

static int stdin_ended(void)
{
	struct timeval no_wait = {0};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(0, &set);
	return select(1, &set, NULL, NULL, &no_wait) == 1;
}

static void pace(int rate)
{
	/* exchanges for each period, in thousandths so that no rate is rounded away; one exchange is two switches */
	long long owed = 0, per_period = (rate * 1000LL / (1000000000 / PERIOD_NS) - OWN_SWITCHES * 1000LL) / 2;
	long long due_ns = now_ns();

	printf("pacing\n");
	fflush(stdout);
	while (!stdin_ended()) {
		owed += per_period;
		exchange(owed / 1000);
		owed %= 1000;
		due_ns += PERIOD_NS;
		if (now_ns() - due_ns > LATEST_NS)
			due_ns = now_ns();
		struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	}
}

int main(int count, char **words)
{
	int pacing = count == 4 && !strcmp(words[1], "pace"), timing = count == 3 && !strcmp(words[1], "time");
	struct sched_param first = {.sched_priority = PRIORITY};
	cpu_set_t cpus;

	if (!pacing && !timing) {
		fprintf(stderr, "usage: pingpong time CPU | pingpong pace CPU RATE\n");
		return 1;
	}
	CPU_ZERO(&cpus);
	CPU_SET(atoi(words[2]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fail("CPU");
	if (timing && sched_setscheduler(0, SCHED_FIFO, &first))
		fail("SCHED_FIFO");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start_partner();
	if (timing)
		time_bursts();
	else
		pace(atoi(words[3]));
	return 0;
}
