// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that write and read pages of a block device at the same time, at random places.
 *
 *	load OPERATION BASE DEVICE SLOTS THREADS PAGES PERCENT
 *
 * OPERATION: fill (every slot once), write, read, or both (half of each). PAGES operations in all, a page each, are
 * divided among THREADS threads, each bound to a processor of its own. PERCENT of the pages written are one of 64
 * pages of BASE, chosen at random; all others are pages of BASE with a number in them that makes them unique.
 *
 * Prints, for each page: ticks of the time stamp counter, and context switches (voluntary and
 * involuntary). In a guest that counts instructions all CPUs share one counter, so the ticks are
 * the instructions of all CPUs together, as long as no moment comes in which all of them are idle.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measured.h"

#define COPIED 64


enum operation { FILL, WRITE, READ, BOTH };
static const char *const operations[] = { "fill", "write", "read", "both" };

static enum operation operation;
static const uint8_t *base;
static uint32_t distinct, slots, threads, percent;
static int device;
static pthread_barrier_t begin;

struct worker {
	pthread_t thread;
	uint32_t number;
	uint32_t pages;
	uint64_t dice;
	uint64_t unique;
	uint8_t *buffer;
	uint64_t switches;
	uint64_t from, to;
};

static void choose_contents(struct worker *worker)
{
	if (roll(&worker->dice) % 100 < percent) {
		memcpy(worker->buffer, base + roll(&worker->dice) % COPIED * PAGE, PAGE);
		return;
	}
	memcpy(worker->buffer, base + roll(&worker->dice) % distinct * PAGE, PAGE);
	worker->unique++;
	memcpy(worker->buffer, &worker->unique, sizeof(worker->unique));
}

static void operate(struct worker *worker, uint32_t step)
{
	uint64_t slot = operation == FILL ? worker->number + (uint64_t)step * threads : roll(&worker->dice) % slots;
	bool write = operation == BOTH ? roll(&worker->dice) % 2 : operation != READ;

	if (!write) {
		MUST(pread(device, worker->buffer, PAGE, slot * PAGE) == PAGE);
		return;
	}
	choose_contents(worker);
	MUST(pwrite(device, worker->buffer, PAGE, slot * PAGE) == PAGE);
}

static uint64_t switches(void)
{
	struct rusage usage;

	MUST(!getrusage(RUSAGE_THREAD, &usage));
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void *work(void *with)
{
	struct worker *worker = with;
	cpu_set_t cpus;
	uint64_t before;
	uint32_t step;

	CPU_ZERO(&cpus);
	CPU_SET(worker->number, &cpus);
	MUST(!sched_setaffinity(0, sizeof(cpus), &cpus));
	worker->buffer = aligned_alloc(PAGE, PAGE);
	memset(worker->buffer, 0, PAGE);
	pthread_barrier_wait(&begin);
	before = switches();
	worker->from = ticks();
	for (step = 0; step < worker->pages; step++)
		operate(worker, step);
	worker->to = ticks();
	worker->switches = switches() - before;
	return NULL;
}

static void map_base(const char *path)
{
	int file = open(path, O_RDONLY);
	struct stat about;

	MUST(file >= 0 && !fstat(file, &about));
	distinct = about.st_size / PAGE;
	MUST(distinct >= COPIED);
	base = mmap(NULL, distinct * PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
	MUST(base != MAP_FAILED);
}

static enum operation operation_of(const char *word)
{
	uint32_t at;

	for (at = 0; at < sizeof(operations) / sizeof(*operations); at++)
		if (!strcmp(word, operations[at]))
			return at;
	fprintf(stderr, "load: no operation: %s\n", word);
	exit(2);
}

int main(int argc, char **argv)
{
	uint64_t from = UINT64_MAX, to = 0, switched = 0;
	struct worker *workers;
	uint32_t at, pages;

	MUST(argc == 8);
	operation = operation_of(argv[1]);
	map_base(argv[2]);
	device = open(argv[3], O_RDWR | O_DIRECT);
	slots = atoi(argv[4]);
	threads = atoi(argv[5]);
	MUST(device >= 0 && slots && threads);
	pages = (operation == FILL ? slots : (uint32_t)atoi(argv[6])) / threads;
	percent = atoi(argv[7]);
	workers = calloc(threads, sizeof(*workers));
	MUST(!pthread_barrier_init(&begin, NULL, threads));
	for (at = 0; at < threads; at++) {
		workers[at] = (struct worker){ .number = at, .pages = pages };
		workers[at].dice = (at + 1) * 0x9e3779b97f4a7c15 + operation;
		workers[at].unique = ((uint64_t)getpid() << 32 | at) << 24;
		MUST(!pthread_create(&workers[at].thread, NULL, work, &workers[at]));
	}
	for (at = 0; at < threads; at++) {
		MUST(!pthread_join(workers[at].thread, NULL));
		switched += workers[at].switches;
		from = workers[at].from < from ? workers[at].from : from;
		to = workers[at].to > to ? workers[at].to : to;
	}
	printf("%s threads %u ticks %llu switches %.4f\n", operations[operation], threads,
	       (unsigned long long)((to - from) / ((uint64_t)pages * threads)),
	       (double)switched / ((uint64_t)pages * threads));
	return 0;
}
