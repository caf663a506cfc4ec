/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loads what scx_compose.bpf.c was composed to, attaches it, prints what it does once a second, and stays until a signal
 * or the kernel ends it. scx_compose_slots.h says which parameters there are, each with its range and its default.
 */
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <scx/common.h>
#include "scx_compose.bpf.skel.h"

/* The names of slots are of the other file; here, only those that the loader acts by. */
#define CLASSES_NONE 0
#define CLASSES_NICE 1
#define CLASSES_BURST 2
#define CLASSES_CGROUP 3
#define CLASSES_COMM 4
#define QUEUES_GLOBAL 0
#define QUEUES_LLC 1
#define QUEUES_CPU 2
#define QUEUES_CLASS 3

#include "scx_compose_slots.h"

#define CPU_MOST 1024
#define CLASS_MOST 4
#define MEMBER_MOST 1024
#define NAME_LEN 16
#define MEMBER_OPTION 1000

struct parameter {
	const char *name, *unit;
	long low, high, value;
};

#define ROW(NAME, PLACE, UNIT, LOW, HIGH, DEFAULT) { NAME, UNIT, LOW, HIGH, DEFAULT },
static struct parameter parameters[] = { PARAMETERS(ROW) };
#define PARAMETER_COUNT (sizeof(parameters) / sizeof(parameters[0]))

static const char *members[MEMBER_MOST];
static int member_count;
static volatile int ends;
static bool verbose;

static void end(int signal_number)
{
	ends = 1;
}

static int print(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return level == LIBBPF_DEBUG && !verbose ? 0 : vfprintf(stderr, format, arguments);
}

static void help(FILE *to, char *program)
{
	size_t one;

	fprintf(to, "A scheduler composed of primitives: %s.\n\nUsage: %s [OPTIONS]\n\n", COMPOSED_OF, basename(program));
	for (one = 0; one < PARAMETER_COUNT; one++)
		fprintf(to, "      --%s <N>  %s, %ld to %ld (default: %ld)\n", parameters[one].name, parameters[one].unit,
			parameters[one].low, parameters[one].high, parameters[one].value);
	if (CLASSES == CLASSES_CGROUP || CLASSES == CLASSES_COMM)
		fprintf(to, "      --member <CLASS=NAME>  a %s of class 0 to %d; may be given repeatedly\n",
			CLASSES == CLASSES_CGROUP ? "control group's folder, with all below it," : "task's name", CLASS_MOST - 1);
	fprintf(to, "  -v, --verbose  libbpf's messages, too\n  -h, --help  this\n");
}

static bool take_number(struct parameter *one, const char *text)
{
	char *rest;
	long value = strtol(text, &rest, 10);

	if (rest == text || *rest || value < one->low || value > one->high) {
		fprintf(stderr, "--%s: %s: give a whole number of %s, %ld to %ld\n", one->name, text, one->unit, one->low,
			one->high);
		return false;
	}
	one->value = value;
	return true;
}

static bool take_member(const char *text)
{
	size_t longest = CLASSES == CLASSES_COMM ? NAME_LEN - 1 : PATH_MAX - 1, length = strlen(text);

	if (length < 3 || text[0] < '0' || text[0] >= '0' + CLASS_MOST || text[1] != '=' || length - 2 > longest) {
		fprintf(stderr, "--member: %s: give CLASS=NAME, a class of 0 to %d and a name of at most %zu bytes\n", text,
			CLASS_MOST - 1, longest);
		return false;
	}
	if (member_count == MEMBER_MOST) {
		fprintf(stderr, "--member: %s: at most %d\n", text, MEMBER_MOST);
		return false;
	}
	members[member_count++] = text;
	return true;
}

/* 0: go on, else the exit code + 1. */
static int take_words(int count, char **words)
{
	struct option options[PARAMETER_COUNT + 4] = {};
	size_t one;
	int found;

	for (one = 0; one < PARAMETER_COUNT; one++)
		options[one] = (struct option){ parameters[one].name, required_argument, NULL, MEMBER_OPTION + 1 + (int)one };
	options[one++] = (struct option){ "help", no_argument, NULL, 'h' };
	options[one++] = (struct option){ "verbose", no_argument, NULL, 'v' };
	if (CLASSES == CLASSES_CGROUP || CLASSES == CLASSES_COMM)
		options[one++] = (struct option){ "member", required_argument, NULL, MEMBER_OPTION };
	while ((found = getopt_long(count, words, "hv", options, NULL)) != -1) {
		if (found == 'h') {
			help(stdout, words[0]);
			return 1;
		}
		if (found == 'v')
			verbose = true;
		else if (found == MEMBER_OPTION ? !take_member(optarg) :
			 found < MEMBER_OPTION	? true :
						  !take_number(&parameters[found - MEMBER_OPTION - 1], optarg))
			return 2 + 1; /* getopt has said what it does not know */
	}
	if (optind == count)
		return 0;
	fprintf(stderr, "%s: it takes no words but options; see --help\n", words[optind]);
	return 2 + 1;
}

/* The first CPU that shares the last cache with this one; itself where the kernel tells of none. */
static int first_of_cluster(int cpu)
{
	char path[128];
	int index, first = cpu;

	for (index = 0; index < 8; index++) {
		FILE *file;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, index);
		file = fopen(path, "r");
		if (!file)
			break;
		if (fscanf(file, "%d", &first) != 1)
			first = cpu;
		fclose(file);
	}
	return index ? first : 0;
}

static void set_queues(struct scx_compose *skel)
{
	int cpus = libbpf_num_possible_cpus(), cpu, first, queues = 0;

	SCX_BUG_ON(cpus < 1 || cpus > CPU_MOST, "%d CPUs; at most %d can be told apart", cpus, CPU_MOST);
	for (cpu = 0; cpu < cpus; cpu++) {
		first = QUEUES == QUEUES_CPU ? cpu : QUEUES == QUEUES_LLC ? first_of_cluster(cpu) : 0;
		skel->rodata->queue_of_cpu[cpu] = first < cpu ? skel->rodata->queue_of_cpu[first] : queues++;
	}
	skel->rodata->queue_count = queues;
}

static void set_members(struct scx_compose *skel)
{
	int one;

	for (one = 0; one < member_count; one++) {
		char key[NAME_LEN] = {};
		const char *name = members[one] + 2;
		__u32 class = members[one][0] - '0';
		struct stat facts;
		__u64 id;

		if (CLASSES == CLASSES_CGROUP) {
			SCX_BUG_ON(stat(name, &facts) || !S_ISDIR(facts.st_mode), "--member: %s: no control group's folder", name);
			id = facts.st_ino; /* what cgroup v2 has as its number */
			memcpy(key, &id, sizeof(id));
		} else {
			memcpy(key, name, strlen(name)); /* take_member has counted */
		}
		SCX_BUG_ON(bpf_map_update_elem(bpf_map__fd(skel->maps.members), key, &class, BPF_ANY), "--member: %s", name);
	}
}

static void set_parameters(struct scx_compose *skel)
{
	size_t one = 0;

#define SET(NAME, PLACE, UNIT, LOW, HIGH, DEFAULT) skel->rodata->PLACE = parameters[one++].value;
	PARAMETERS(SET)
	SCX_BUG_ON(one != PARAMETER_COUNT, "parameters were lost");
}

static void tell(struct scx_compose *skel)
{
	static const char *const names[] = { "local", "queued", "stolen", "kept", "overdue" };
	int cpus = libbpf_num_possible_cpus(), cpu;
	__u64 counts[CPU_MOST], sum;
	__u32 which;

	for (which = 0; which < sizeof(names) / sizeof(names[0]); which++) {
		sum = 0;
		if (!bpf_map_lookup_elem(bpf_map__fd(skel->maps.stats), &which, counts))
			for (cpu = 0; cpu < cpus; cpu++)
				sum += counts[cpu];
		printf("%s%s=%llu", which ? " " : "", names[which], sum);
	}
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct scx_compose *skel;
	struct bpf_link *link;
	__u64 code;
	int ended = take_words(argc, argv);

	if (ended)
		return ended - 1;
	libbpf_set_print(print);
	signal(SIGINT, end);
	signal(SIGTERM, end);
	do {
		skel = SCX_OPS_OPEN(compose_ops, scx_compose);
		set_parameters(skel);
		set_queues(skel);
		SCX_OPS_LOAD(skel, compose_ops, scx_compose, uei);
		set_members(skel);
		link = SCX_OPS_ATTACH(skel, compose_ops, scx_compose);
		while (!ends && !UEI_EXITED(skel, uei)) {
			tell(skel);
			sleep(1);
		}
		bpf_link__destroy(link);
		tell(skel);
		code = UEI_REPORT(skel, uei);
		scx_compose__destroy(skel);
	} while (UEI_ECODE_RESTART(code) && !ends);
	return 0;
}
