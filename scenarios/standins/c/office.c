// SPDX-License-Identifier: GPL-2.0-only
/*
 * An office, and who remote-controls it: a process each. An order goes by a socket through the office's bridge to its
 * main thread, which does most by itself, parts of it with a team of threads, and back when the document has settled.
 */
#include "stand_in.h"

enum action { KEY, RECALC, SLIDE, COPY, ACTIONS };

static const char *const metrics[ACTIONS] = { "key_ms", "recalc_ms", "slide_ms", "copy_ms" };
static const enum action deck[] = { KEY, RECALC, KEY, SLIDE, KEY, COPY };
static const u32 trips[ACTIONS] = { 16, 12, 20, 40 }; /* orders until it is done */

static struct port *orders, *settled;
static u64 main_us[ACTIONS], team_us[ACTIONS];

static void *office(void *unused)
{
	struct pool *team = shared(sizeof(*team));
	u64 state = number("seed") + 1, threads = number("threads");

	(void)unused;
	pool_start(team, (u32)threads);
	port_listen(orders);
	for (;;) {
		u32 action = port_take(orders);

		work_us(about(&state, main_us[action]) / trips[action]);
		if (team_us[action])
			pool_run(team, (u32)(2 * threads), (u32)(team_us[action] / trips[action] / (2 * threads)));
		port_send(settled, action);
	}
	return NULL;
}

static void act(enum action action)
{
	u64 begin_ns = now_ns();

	for (u32 trip = 0; trip < trips[action]; trip++) {
		port_send(orders, action);
		port_take(settled);
		work_us(10);
	}
	measured(metrics[action], (double)(now_ns() - begin_ns) / MS);
}

KIND(office)

static void play_office(void)
{
	u64 state = number("seed"), think_ms = number("think-ms"), key_ms = number("key-ms"), keys = number("keys");
	u32 card = (u32)between(&state, 0, sizeof(deck) / sizeof(*deck) - 1);

	main_us[KEY] = number("key-us");
	main_us[RECALC] = number("recalc-us") / 2;
	team_us[RECALC] = number("recalc-us") - main_us[RECALC];
	main_us[SLIDE] = number("slide-us");
	main_us[COPY] = number("copy-us");
	orders = port_make();
	settled = port_make();
	start_process(office, NULL);
	port_listen(settled);
	ready();
	for (;; card = (card + 1) % (sizeof(deck) / sizeof(*deck))) {
		sleep_until(now_ns() + about(&state, think_ms) * MS);
		if (deck[card] != KEY) {
			act(deck[card]);
			continue;
		}
		for (u64 left = about(&state, keys); left; left--) {
			act(KEY);
			sleep_until(now_ns() + about(&state, key_ms) * MS);
		}
	}
}
