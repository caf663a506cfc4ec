// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver's lines on standard output, which is a file that others add to: whole lines in one write each time.
 */
#include "stand_in.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum {
	LINE = 160,		/* bytes of the longest */
	BUFFER = 8192,
};

static const u64 KEEP_NS = 200 * MS;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char buffer[BUFFER];
static size_t used;
static u64 written_ns;

static void put_out(void)
{
	if (used && write(STDOUT_FILENO, buffer, used) != (ssize_t)used)
		fail("standard output");
	used = 0;
}

void ready(void)
{
	pthread_mutex_lock(&lock); /* some threads may measure already */
	used += (size_t)snprintf(buffer + used, LINE, "{\"ready\": {\"stand-in\": \"2\", \"steps a ms\": \"%llu\"}}\n",
				 (unsigned long long)speed());
	put_out();
	pthread_mutex_unlock(&lock);
}

void measured(const char *metric, double value)
{
	u64 at_ns = now_ns();

	pthread_mutex_lock(&lock);
	used += (size_t)snprintf(buffer + used, LINE, "{\"at_ns\": %llu, \"metric\": \"%s\", \"value\": %.6f}\n",
				 (unsigned long long)at_ns, metric, value);
	if (used > BUFFER - LINE || at_ns - written_ns >= KEEP_NS) {
		written_ns = at_ns;
		put_out();
	}
	pthread_mutex_unlock(&lock);
}

void rate_start(struct rate *rate)
{
	rate->since_ns = now_ns();
}

void rate_end(struct rate *rate)
{
	u64 at_ns = now_ns();

	rate->worked_ns += at_ns - rate->since_ns;
	rate->since_ns = at_ns;
}

void rate_add(struct rate *rate, double amount)
{
	rate_end(rate);
	rate->sum += amount;
	if (rate->worked_ns < SECOND)
		return;
	for (u64 n = rate->worked_ns / SECOND; n; n--)
		measured(rate->metric, rate->sum * SECOND / (double)rate->worked_ns);
	rate->worked_ns = 0;
	rate->sum = 0;
}

static void *count(void *argument)
{
	struct counter *counter = argument;
	u64 before = counter->sum, at_ns = now_ns();

	for (;;) {
		u64 sum, passed_ns;

		sleep_until(at_ns + SECOND);
		sum = counter->sum;
		passed_ns = now_ns() - at_ns;
		at_ns += passed_ns;
		measured(counter->metric, (double)(sum - before) * counter->each * SECOND / (double)passed_ns);
		before = sum;
	}
	return NULL;
}

void counter_start(struct counter *counter)
{
	start_thread(count, counter);
}
