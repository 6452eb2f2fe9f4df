// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes pages of a file to a block device, with the requested share of copies, and measures ticks
 * of the time stamp counter.
 *
 *	measure write BASE PAGES PERCENT DEVICE
 *	measure read BASE PAGES PERCENT DEVICE	also compares, outside of what is counted
 *	measure swap BASE PAGES PERCENT ROUNDS	the pages in memory, read and changed again and again
 *	measure merge WORD /sys/block/zmergeN/merge
 *
 * BASE holds different pages. PERCENT of the PAGES written are copies of other ones; a fixed random
 * sequence spreads them over all. In a guest that counts instructions, one tick is one instruction;
 * on arm64 the counter advances in steps of 16.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "measured.h"

#define BATCH 16	/* pages per request */

static uint64_t dice_state = 0x9e3779b97f4a7c15;

static uint64_t dice(void)
{
	return roll(&dice_state);
}

/* The page of BASE for each place of the device. */
static uint32_t *sequence(uint32_t pages, uint32_t percent)
{
	uint32_t *which = malloc(pages * sizeof(*which)), distinct = pages - (uint64_t)pages * percent / 100;
	uint32_t at;

	for (at = 0; at < pages; at++)
		which[at] = at < distinct ? at : dice() % distinct;
	for (at = pages - 1; at; at--) {
		uint32_t other = dice() % (at + 1), kept = which[at];

		which[at] = which[other];
		which[other] = kept;
	}
	return which;
}

static const uint8_t *map_base(const char *path, uint32_t pages, uint32_t percent)
{
	int file = open(path, O_RDONLY);
	struct stat about;
	uint8_t *base;

	MUST(file >= 0 && !fstat(file, &about));
	MUST((uint64_t)about.st_size / PAGE >= pages - (uint64_t)pages * percent / 100);
	base = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
	MUST(base != MAP_FAILED);
	return base;
}

static void gather(uint8_t *buffer, const uint8_t *base, const uint32_t *which)
{
	uint32_t at;

	for (at = 0; at < BATCH; at++)
		memcpy(buffer + at * PAGE, base + which[at] * PAGE, PAGE);
}

static uint64_t run(bool write, const uint8_t *base, const uint32_t *which, uint32_t pages, int device)
{
	uint8_t *buffer = aligned_alloc(PAGE, BATCH * PAGE), *want = aligned_alloc(PAGE, BATCH * PAGE);
	uint64_t sum = 0, from;
	uint32_t at;

	memset(buffer, 0, BATCH * PAGE);
	for (at = 0; at + BATCH <= pages; at += BATCH) {
		gather(write ? buffer : want, base, which + at);
		from = ticks();
		MUST((write ? pwrite(device, buffer, BATCH * PAGE, at * PAGE) :
			      pread(device, buffer, BATCH * PAGE, at * PAGE)) == BATCH * PAGE);
		sum += ticks() - from;
		MUST(write || !memcmp(buffer, want, BATCH * PAGE));
	}
	return sum;
}

/* Compares every page before changing it to another one; returns the number of wrong ones. */
static uint32_t swap(const uint8_t *base, uint32_t *which, uint32_t pages, uint32_t rounds)
{
	uint8_t *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t wrong = 0, at, step;

	MUST(memory != MAP_FAILED);
	/* A kernel without huge pages, such as PREEMPT_RT, does not know the advice. */
	MUST(access("/sys/kernel/mm/transparent_hugepage", F_OK) || !madvise(memory, pages * PAGE, MADV_NOHUGEPAGE));
	for (at = 0; at < pages; at++)
		memcpy(memory + at * PAGE, base + which[at] * PAGE, PAGE);
	for (step = 0; step < rounds * pages; step++) {
		at = dice() % pages;
		wrong += !!memcmp(memory + at * PAGE, base + which[at] * PAGE, PAGE);
		if (step % 4)
			continue;
		which[at] = which[dice() % pages];
		memcpy(memory + at * PAGE, base + which[at] * PAGE, PAGE);
	}
	for (at = 0; at < pages; at++)
		wrong += !!memcmp(memory + at * PAGE, base + which[at] * PAGE, PAGE);
	return wrong;
}

static int read_number(int file)
{
	char text[32] = { 0 };

	MUST(pread(file, text, sizeof(text) - 1, 0) > 0);
	return atoi(text);
}

static uint64_t merge(const char *word, const char *path)
{
	int file = open(path, O_RDWR);
	struct pollfd changed = { .fd = file, .events = POLLPRI };
	uint64_t from;

	MUST(file >= 0);
	read_number(file);
	from = ticks();
	MUST(write(file, word, strlen(word)) > 0);
	while (read_number(file))
		MUST(poll(&changed, 1, 60000) > 0);
	return ticks() - from;
}

int main(int argc, char **argv)
{
	uint32_t pages, percent, wrong;
	uint64_t from;
	bool write;
	int device;

	if (argc == 4 && !strcmp(argv[1], "merge")) {
		printf("%llu\n", (unsigned long long)merge(argv[2], argv[3]));
		return 0;
	}
	MUST(argc == 6);
	pages = atoi(argv[3]) / BATCH * BATCH;
	percent = atoi(argv[4]);
	if (!strcmp(argv[1], "swap")) {
		from = ticks();
		wrong = swap(map_base(argv[2], pages, percent), sequence(pages, percent), pages, atoi(argv[5]));
		printf("ticks %llu wrong %u\n", (unsigned long long)(ticks() - from), wrong);
		return wrong ? 3 : 0;
	}
	write = !strcmp(argv[1], "write");
	device = open(argv[5], O_RDWR | O_DIRECT);
	MUST(device >= 0);
	from = run(write, map_base(argv[2], pages, percent), sequence(pages, percent), pages, device);
	printf("%llu\n", (unsigned long long)(from / pages));
	return 0;
}
