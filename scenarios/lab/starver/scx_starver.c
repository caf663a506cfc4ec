/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads scx_starver.bpf.c, attaches it, and stays until a signal or the kernel ends it.
 */
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <scx/common.h>
#include "scx_starver.bpf.skel.h"

static const char help_text[] =
"A scheduler that starves tasks on purpose.\n"
"\n"
"Usage: %s [-s NAME]\n"
"\n"
"  -s            Starve the tasks of this name (comm); without it nobody is starved\n"
"  -h            Display this help and exit\n";

static volatile int ends;

static void end(int signal_number)
{
	ends = 1;
}

int main(int argc, char **argv)
{
	struct scx_starver *skel;
	struct bpf_link *link;
	const char *name = "";
	int opt;

	while ((opt = getopt(argc, argv, "s:h")) != -1) {
		if (opt != 's' || strlen(optarg) >= sizeof(skel->rodata->starved_name)) {
			fprintf(stderr, help_text, basename(argv[0]));
			return opt != 'h';
		}
		name = optarg;
	}
	signal(SIGINT, end);
	signal(SIGTERM, end);
	skel = SCX_OPS_OPEN(starver_ops, scx_starver);
	strcpy((char *)skel->rodata->starved_name, name);
	SCX_OPS_LOAD(skel, starver_ops, scx_starver, uei);
	link = SCX_OPS_ATTACH(skel, starver_ops, scx_starver);
	while (!ends && !UEI_EXITED(skel, uei))
		sleep(1);
	bpf_link__destroy(link);
	UEI_REPORT(skel, uei);
	scx_starver__destroy(skel);
	return 0;
}
