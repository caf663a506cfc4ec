// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens each millisecond, while schedulers are switched; until SIGTERM, then the text goes to FILE.
 *
 *   switch_probe late FILE	an ordinary task that wants to wake up every millisecond (absolute times); one line a
 *				wakeup: "DUE_NS LATE_NS"
 *   switch_probe state FILE	a SCHED_FIFO task that reads what sysfs says; one line a change: "NS STATE OPS" (OPS may
 *				be empty); what came and went within a millisecond is not seen
 *
 * Times are of CLOCK_MONOTONIC. Prints "ready" when it has begun. Nothing is written while it runs: records are kept in
 * memory that was touched before. Ends with code 1 and one line on stderr when the machine does not allow something.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	PERIOD_NS = 1000000,
	MOST = 600000,		/* records: ten minutes of wakeups */
	PRIORITY = 50,		/* of the one that reads sysfs: above the agent's */
	NAME = 128,
};

struct late {
	long long due_ns, late_ns;
};

struct change {
	long long at_ns;
	char state[16], ops[NAME];
};

static volatile sig_atomic_t ending;

static void end(int sign)
{
	(void)sign;
	ending = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "switch_probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(long long due_ns)
{
	struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void *touched(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		fail("memory");
	memset(memory, 1, bytes);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fail("mlockall");
	return memory;
}

static void began(void)
{
	printf("ready\n");
	fflush(stdout);
}

static void watch_lateness(FILE *file)
{
	struct late *found = touched(MOST * sizeof(*found));
	int count = 0;
	long long due_ns, woke_ns;

	began();
	due_ns = now_ns() + PERIOD_NS;
	while (!ending && count < MOST) {
		sleep_until(due_ns);
		woke_ns = now_ns();
		if (ending && woke_ns < due_ns)
			break;
		found[count++] = (struct late){due_ns, woke_ns - due_ns};
		while (due_ns <= woke_ns)	/* what was slept through is one late wakeup, not many */
			due_ns += PERIOD_NS;
	}
	for (int i = 0; i < count; i++)
		fprintf(file, "%lld %lld\n", found[i].due_ns, found[i].late_ns);
}

static void read_line(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = 0;
	text[strcspn(text, "\n")] = 0;
}

static void watch_state(FILE *file)
{
	enum { CHANGES = 4096 };
	struct change *found = touched(CHANGES * sizeof(*found)), look = {0};
	struct sched_param first = {.sched_priority = PRIORITY};
	int count = 0;

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		fail("SCHED_FIFO");
	began();
	for (long long due_ns = now_ns(); !ending && count < CHANGES; due_ns += PERIOD_NS) {
		sleep_until(due_ns);
		look.at_ns = now_ns();
		read_line("/sys/kernel/sched_ext/state", look.state, sizeof(look.state));
		read_line("/sys/kernel/sched_ext/root/ops", look.ops, sizeof(look.ops));
		if (!count || strcmp(look.state, found[count - 1].state) || strcmp(look.ops, found[count - 1].ops))
			found[count++] = look;
	}
	for (int i = 0; i < count; i++)
		fprintf(file, "%lld %s %s\n", found[i].at_ns, found[i].state, found[i].ops);
}

int main(int count, char **words)
{
	int late = count == 3 && !strcmp(words[1], "late"), state = count == 3 && !strcmp(words[1], "state");
	struct sigaction action = {.sa_handler = end};
	FILE *file;

	if (!late && !state) {
		fprintf(stderr, "usage: switch_probe late FILE | switch_probe state FILE\n");
		return 1;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sigaction(SIGTERM, &action, NULL))
		fail("SIGTERM");
	file = fopen(words[2], "we");
	if (!file)
		fail(words[2]);
	if (late)
		watch_lateness(file);
	else
		watch_state(file);
	if (fclose(file))
		fail(words[2]);
	return 0;
}
