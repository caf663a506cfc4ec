// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ways of threads and processes to wait for each other: futexes for what shares memory, Unix sockets for what does not.
 */
#define _GNU_SOURCE
#include "stand_in.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void futex_wait(_Atomic u32 *word, u32 seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic u32 *word, u32 most)
{
	syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void gate_open(struct gate *gate, u32 times)
{
	gate->open += times;
	if (gate->waiting)
		futex_wake(&gate->open, times);
}

void gate_pass(struct gate *gate)
{
	for (;;) {
		u32 open = gate->open;

		while (open)
			if (atomic_compare_exchange_weak(&gate->open, &open, open - 1))
				return;
		gate->waiting++;
		futex_wait(&gate->open, 0);
		gate->waiting--;
	}
}

void progress_to(struct progress *progress, u32 value)
{
	progress->value = value;
	if (progress->waiting)
		futex_wake(&progress->value, INT_MAX);
}

void progress_await(struct progress *progress, u32 value)
{
	u32 seen;

	while ((seen = progress->value) < value) {
		progress->waiting++;
		futex_wait(&progress->value, seen);
		progress->waiting--;
	}
}

void team_meet(struct team *team)
{
	u32 round = team->round;
	u64 begin_ns;

	if (atomic_fetch_add(&team->arrived, 1) + 1 == team->members) {
		team->arrived = 0;
		team->round = round + 1;
		if (team->waiting)
			futex_wake(&team->round, INT_MAX);
		return;
	}
	begin_ns = now_ns();
	while (team->round == round && now_ns() - begin_ns < team->spin_ns)
		for (int i = 0; i < 32 && team->round == round; i++)
			relax();
	while (team->round == round) {
		team->waiting++;
		futex_wait(&team->round, round);
		team->waiting--;
	}
}

static void *pool_thread(void *argument)
{
	struct pool *pool = argument;

	for (;;) {
		gate_pass(&pool->start);
		for (;;) {
			u32 left = pool->left;

			while (left && !atomic_compare_exchange_weak(&pool->left, &left, left - 1))
				;
			if (!left)
				break;
			work_us(pool->piece_us);
		}
		if (atomic_fetch_sub(&pool->busy, 1) == 1)
			gate_open(&pool->done, 1);
	}
	return NULL;
}

void pool_start(struct pool *pool, u32 threads)
{
	pool->threads = threads;
	for (u32 i = 0; i < threads; i++)
		start_thread(pool_thread, pool);
}

void pool_run(struct pool *pool, u32 pieces, u32 piece_us)
{
	u32 threads = pieces < pool->threads ? pieces : pool->threads;

	if (!threads)
		return;
	pool->piece_us = piece_us;
	pool->left = pieces;
	pool->busy = threads;
	gate_open(&pool->start, threads);
	gate_pass(&pool->done);
}

struct port *port_make(void)
{
	struct port *port = shared(sizeof(*port));

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, port->ends))
		fail("socketpair");
	return port;
}

static void *port_thread(void *argument)
{
	struct port *port = argument;
	uint8_t what;

	while (read(port->ends[1], &what, 1) == 1) {
		port->ring[port->put++ % sizeof(port->ring)] = what;
		gate_open(&port->came, 1);
	}
	return NULL;
}

void port_listen(struct port *port)
{
	start_thread(port_thread, port);
}

u32 port_take(struct port *port)
{
	gate_pass(&port->came);
	return port->ring[port->taken++ % sizeof(port->ring)];
}

void port_send(struct port *port, u32 what)
{
	uint8_t byte = (uint8_t)what;

	if (write(port->ends[0], &byte, 1) != 1)
		fail("a socket");
}
