// SPDX-License-Identifier: GPL-2.0-only
/*
 * A browser: a process for the browser, one a tab, one that draws. What a person does goes through all of them and back
 * (browser -> tab, with its threads -> drawing -> browser), after a time to think; scrolling does so 60 times a second.
 */
#include "stand_in.h"

static const u64 FRAME_NS = SECOND / 60;

enum action { CLICK, SORT, INPUT, SWITCH, SCROLL, ACTIONS, CHORE = ACTIONS };

static const char *const metrics[ACTIONS] = { "click_ms", "sort_ms", "input_ms", "tab_switch_ms", "scroll_frame_ms" };
static const enum action deck[] = { CLICK, SCROLL, INPUT, SORT, CLICK, SWITCH, INPUT, SCROLL, CLICK, INPUT };

enum { TABS = 2, CARDS = sizeof(deck) / sizeof(*deck) };

static struct port *tabs[TABS], *drawing, *painted;
static u64 script_us[ACTIONS], raster_us[ACTIONS], draw_us, chore_us, raster_threads;

static void *tab(void *argument)
{
	struct port *own = *(struct port **)argument;
	struct pool *raster = shared(sizeof(*raster));
	u64 state = number("seed") + 1;

	pool_start(raster, (u32)raster_threads);
	port_listen(own);
	for (;;) {
		u32 action = port_take(own);

		if (action == CHORE) {
			work_us(chore_us);
			continue;
		}
		work_us(about(&state, script_us[action]));
		if (action != SCROLL) /* which comes on time; all else waits for the next frame */
			sleep_until((now_ns() / FRAME_NS + 1) * FRAME_NS);
		pool_run(raster, (u32)(2 * raster_threads), (u32)(raster_us[action] / (2 * raster_threads)));
		port_send(drawing, action);
	}
	return NULL;
}

static void *draw_process(void *unused)
{
	u64 state = number("seed") + 2;

	(void)unused;
	port_listen(drawing);
	for (;;) {
		u32 action = port_take(drawing);

		work_us(about(&state, action == CHORE ? chore_us : draw_us));
		if (action != CHORE)
			port_send(painted, action);
	}
	return NULL;
}

/* What a browser does by itself: timers of pages, statistics; its processes tell each other. */
static void *chores(void *unused)
{
	u64 state = number("seed") + 3, chores_per_s = number("chores-per-s");

	(void)unused;
	for (u32 n = 0;; n++) {
		sleep_until(now_ns() + about(&state, SECOND / chores_per_s));
		work_us(chore_us);
		port_send(n % 2 ? drawing : tabs[n / 2 % TABS], CHORE);
	}
	return NULL;
}

static void act(u32 tab, enum action action)
{
	u64 begin_ns = now_ns();

	work_us(100);
	port_send(tabs[tab], action);
	port_take(painted);
	measured(metrics[action], (double)(now_ns() - begin_ns) / MS);
}

static void scroll(u32 tab, u64 frames)
{
	u64 next_ns = now_ns(), before_ns = 0;

	for (u64 frame = 0; frame < frames; frame++) {
		u64 painted_ns;

		work_us(100);
		port_send(tabs[tab], SCROLL);
		port_take(painted);
		painted_ns = now_ns();
		if (before_ns)
			measured(metrics[SCROLL], (double)(painted_ns - before_ns) / MS);
		before_ns = painted_ns;
		next_ns += FRAME_NS;
		if (next_ns < painted_ns)
			next_ns = (painted_ns / FRAME_NS + 1) * FRAME_NS;
		sleep_until(next_ns);
	}
}

static void shuffle(enum action *cards, u64 *state)
{
	for (u32 i = 0; i < CARDS; i++) {
		u64 other = between(state, 0, i);

		cards[i] = cards[other];
		cards[other] = deck[i];
	}
}

KIND(web)

static void play_web(void)
{
	u64 state = number("seed"), think_ms = number("think-ms"), frames = number("scroll-frames");
	enum action cards[CARDS];
	u32 shown = 0;

	script_us[CLICK] = number("click-us");
	script_us[SORT] = number("sort-us");
	script_us[INPUT] = number("input-us");
	script_us[SWITCH] = number("switch-us");
	script_us[SCROLL] = number("scroll-us");
	raster_threads = number("threads");
	draw_us = number("draw-us");
	chore_us = number("chore-us");
	for (u32 action = 0; action < ACTIONS; action++)
		raster_us[action] = number("raster-us") / (action == SCROLL || action == INPUT ? 3 : 1);
	drawing = port_make();
	painted = port_make();
	for (u32 i = 0; i < TABS; i++)
		tabs[i] = port_make();
	for (u32 i = 0; i < TABS; i++)
		start_process(tab, &tabs[i]);
	start_process(draw_process, NULL);
	start_process(chores, NULL);
	port_listen(painted);
	ready();
	for (;;) {
		shuffle(cards, &state);
		for (u32 i = 0; i < CARDS; i++) {
			sleep_until(now_ns() + about(&state, think_ms) * MS);
			if (cards[i] == SWITCH)
				shown = (shown + 1) % TABS;
			if (cards[i] == SCROLL)
				scroll(shown, about(&state, frames));
			else
				act(shown, cards[i]);
		}
	}
}
