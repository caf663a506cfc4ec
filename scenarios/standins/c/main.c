// SPDX-License-Identifier: GPL-2.0-only
/*
 * stand_in KIND --flag NUMBER... ORDERS: one application of the benchmark, as small as an emulated guest needs it.
 *
 * It works in the current folder, prints a driver's lines and never ends by itself. ORDERS are not looked at: all that
 * a kind needs stands in its flags. `stand_in job ...` is what the stand-in of a build executes.
 */
#include "stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static char **flags;

static struct kind *kinds;

void add_kind(struct kind *kind)
{
	kind->next = kinds;
	kinds = kind;
}

u64 number(const char *name)
{
	for (char **flag = flags; flag[0] && flag[1]; flag++)
		if (strncmp(flag[0], "--", 2) == 0 && strcmp(flag[0] + 2, name) == 0)
			return strtoull(flag[1], NULL, 10);
	fprintf(stderr, "stand_in: --%s is missing\n", name);
	exit(2);
}

int main(int count, char **words)
{
	if (count > 1 && strcmp(words[1], "job") == 0)
		return kernel_job(words + 2);
	flags = words + 1;
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* the stand-ins' own devices are timers: 50 us later would be another */
	for (struct kind *kind = count > 1 ? kinds : NULL; kind; kind = kind->next)
		if (strcmp(words[1], kind->name) == 0) {
			measure_speed();
			kind->play();
		}
	fprintf(stderr, "stand_in: %s is no kind\n", count > 1 ? words[1] : "nothing");
	return 2;
}
