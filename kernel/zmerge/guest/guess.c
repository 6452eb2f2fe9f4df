// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures whether timing reveals that a page is stored already, to an unprivileged program that
 * times its own pages.
 *
 *	guess victim BASE PAGES		holds half of the first PAGES pages of BASE, and swaps them out
 *	guess probe BASE PAGES		as user 65534: holds all of them, swaps them out one by one, and guesses
 *
 * BASE holds different pages. A fixed random sequence chooses the victim's half; the probe uses
 * that only to judge its guesses. Each operation is measured in ticks of the time stamp counter,
 * one page at a time:
 *
 *	write	madvise(MADV_PAGEOUT) of a page that was never swapped out
 *	read	reads it again
 *	again	madvise(MADV_PAGEOUT) after a write to it that leaves its contents as they were
 *	free	madvise(MADV_DONTNEED) of the swapped page
 *
 * The times also depend on how well a page compresses. So each operation is first done to a twin of
 * the page, which differs in one byte, and then to the page; "pair" is the time of the page minus
 * that of its twin.
 *
 * Each process stops itself when all of its pages are swapped out (before "read"), and continues at
 * SIGCONT. For each group the quartiles are printed; for all pages together the share of right
 * guesses with the best threshold, the same for random groups (the best of 20), and the area under
 * the ROC curve, which is 0.5 if time does not reveal anything.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measured.h"

#define NOBODY 65534
#define SHUFFLES 20

struct sample {
	int64_t ticks;
	bool copy;
};

static uint64_t dice_state = 0x9e3779b97f4a7c15;

static uint64_t dice(void)
{
	return roll(&dice_state);
}

static void shuffle(uint32_t *which, uint32_t count)
{
	uint32_t at;

	for (at = count - 1; at; at--) {
		uint32_t other = dice() % (at + 1), kept = which[at];

		which[at] = which[other];
		which[other] = kept;
	}
}

/* The pages of BASE in random order; the first half are the victim's. */
static uint32_t *in_random_order(uint32_t pages)
{
	uint32_t *which = malloc(pages * sizeof(*which)), at;

	for (at = 0; at < pages; at++)
		which[at] = at;
	shuffle(which, pages);
	return which;
}

static const uint8_t *map_base(const char *path, uint32_t pages)
{
	int file = open(path, O_RDONLY);
	struct stat about;
	uint8_t *base;

	MUST(file >= 0 && !fstat(file, &about) && (uint64_t)about.st_size >= pages * PAGE);
	base = mmap(NULL, pages * PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
	MUST(base != MAP_FAILED);
	return base;
}

/* Allocates anonymous memory whose page @at is page which[at] of BASE. */
static uint8_t *hold(const uint8_t *base, const uint32_t *which, uint32_t pages)
{
	uint8_t *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t at;

	MUST(memory != MAP_FAILED && !madvise(memory, pages * PAGE, MADV_NOHUGEPAGE));
	for (at = 0; at < pages; at++)
		memcpy(memory + at * PAGE, base + which[at] * PAGE, PAGE);
	return memory;
}

/* Counts swapped pages with /proc/self/pagemap, which every process may read of itself. */
static uint32_t count_swapped(const uint8_t *memory, uint32_t pages)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	uint32_t swapped = 0, at;

	MUST(pagemap >= 0);
	for (at = 0; at < pages; at++) {
		uint64_t entry;

		MUST(pread(pagemap, &entry, 8, ((uintptr_t)memory / PAGE + at) * 8) == 8);
		swapped += entry >> 62 & 1;
	}
	close(pagemap);
	return swapped;
}

static int by_ticks(const void *a, const void *b)
{
	const struct sample *one = a, *other = b;

	return (one->ticks > other->ticks) - (one->ticks < other->ticks);
}

/*
 * @sorted: the share of right guesses if all samples below (or all above) the best threshold count
 * as copies.
 */
static double best_share(const struct sample *sorted, uint32_t count, uint32_t copies)
{
	uint32_t at, below = 0, best = copies > count - copies ? copies : count - copies;

	for (at = 0; at < count; at++) {
		uint32_t right;

		below += sorted[at].copy;
		if (at + 1 < count && sorted[at].ticks == sorted[at + 1].ticks)
			continue;
		right = below + (count - copies) - (at + 1 - below);
		best = right > best ? right : best;
		best = count - right > best ? count - right : best;
	}
	return (double)best / count;
}

/*
 * The share of pairs of a copy and another page in which the copy took less time; equal times count
 * half.
 */
static double area(const struct sample *sorted, uint32_t count, uint32_t copies)
{
	double sum = 0, others_above = count - copies;
	uint32_t at = 0;

	while (at < count) {
		uint32_t end = at, of_copies = 0, of_others;

		while (end < count && sorted[end].ticks == sorted[at].ticks)
			of_copies += sorted[end++].copy;
		of_others = end - at - of_copies;
		others_above -= of_others;
		sum += of_copies * (others_above + of_others / 2.0);
		at = end;
	}
	return sum / ((double)copies * (count - copies));
}

static double best_share_by_chance(struct sample *sorted, uint32_t count, uint32_t copies)
{
	uint32_t *which = in_random_order(count), at, step;
	double best = 0;

	for (step = 0; step < SHUFFLES; step++) {
		double share;

		shuffle(which, count);
		for (at = 0; at < count; at++)
			sorted[which[at]].copy = at < copies;
		share = best_share(sorted, count, copies);
		best = share > best ? share : best;
	}
	free(which);
	return best;
}

static void print_quartiles(const char *name, const struct sample *sorted, uint32_t count, bool copy)
{
	int64_t *of_group = malloc(count * sizeof(*of_group));
	uint32_t members = 0, at;

	for (at = 0; at < count; at++)
		if (sorted[at].copy == copy)
			of_group[members++] = sorted[at].ticks;
	printf(" %s %lld %lld %lld", name, (long long)of_group[members / 4], (long long)of_group[members / 2],
	       (long long)of_group[members * 3 / 4]);
	free(of_group);
}

static void report(const char *operation, const char *of, const struct sample *samples, uint32_t count)
{
	struct sample *sorted = malloc(count * sizeof(*sorted));
	uint32_t copies = 0, at;

	memcpy(sorted, samples, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), by_ticks);
	for (at = 0; at < count; at++)
		copies += sorted[at].copy;
	printf("%s %s", operation, of);
	print_quartiles("copies", sorted, count, true);
	print_quartiles("others", sorted, count, false);
	printf(" right %.1f %% area %.3f", 100 * best_share(sorted, count, copies), area(sorted, count, copies));
	printf(" chance %.1f %%\n", 100 * best_share_by_chance(sorted, count, copies));
	fflush(stdout);
	free(sorted);
}

static void page_out(uint8_t *page)
{
	MUST(!madvise(page, PAGE, MADV_PAGEOUT));
}

static void read_page(uint8_t *page)
{
	*(volatile uint8_t *)page;
}

static void free_page(uint8_t *page)
{
	MUST(!madvise(page, PAGE, MADV_DONTNEED));
}

static int64_t time_of(void (*act)(uint8_t *page), uint8_t *page)
{
	uint64_t from = ticks();

	act(page);
	return ticks() - from;
}

/* The pages to guess, their twins, and the measurements of each. */
struct guesses {
	uint32_t pages;
	uint8_t *memory;
	uint8_t *twins;
	struct sample *alone;
	struct sample *pairs;
};

static void measure(const char *operation, void (*act)(uint8_t *page), struct guesses *guesses)
{
	uint32_t at;

	for (at = 0; at < guesses->pages; at++) {
		int64_t twin = time_of(act, guesses->twins + at * PAGE);
		int64_t page = time_of(act, guesses->memory + at * PAGE);

		guesses->alone[at].ticks = page;
		guesses->pairs[at].ticks = page - twin;
	}
	report(operation, "page", guesses->alone, guesses->pages);
	report(operation, "pair", guesses->pairs, guesses->pages);
}

/* Writes to each page without changing its contents. */
static void make_dirty(uint8_t *memory, uint32_t pages)
{
	uint32_t at;

	for (at = 0; at < pages; at++)
		((volatile uint8_t *)memory)[at * PAGE] = memory[at * PAGE];
}

/* Drops all privileges, to those of an untrusted program. */
static void become_nobody(void)
{
	MUST(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
	MUST(setuid(0));
	/* Allows the process to read its own pagemap, as any program of that user may. */
	MUST(!prctl(PR_SET_DUMPABLE, 1));
}

static void be_victim(const uint8_t *base, uint32_t pages)
{
	uint32_t *which = in_random_order(pages);
	uint8_t *memory = hold(base, which, pages / 2);

	MUST(!madvise(memory, pages / 2 * PAGE, MADV_PAGEOUT));
	printf("victim %u of %u out\n", count_swapped(memory, pages / 2), pages / 2);
	fflush(stdout);
	raise(SIGSTOP);
}

static struct guesses hold_guesses(const uint8_t *base, uint32_t pages)
{
	struct guesses guesses = { .pages = pages };
	uint32_t *which = in_random_order(pages), at;
	bool *copy = calloc(pages, sizeof(*copy));

	for (at = 0; at < pages / 2; at++)
		copy[which[at]] = true;
	shuffle(which, pages);
	guesses.memory = hold(base, which, pages);
	guesses.twins = hold(base, which, pages);
	guesses.alone = calloc(pages, sizeof(*guesses.alone));
	guesses.pairs = calloc(pages, sizeof(*guesses.pairs));
	for (at = 0; at < pages; at++) {
		guesses.twins[at * PAGE + PAGE / 2] ^= 1;
		guesses.alone[at].copy = guesses.pairs[at].copy = copy[which[at]];
	}
	free(copy);
	free(which);
	return guesses;
}

static void probe(const uint8_t *base, uint32_t pages)
{
	struct guesses guesses = hold_guesses(base, pages);

	become_nobody();
	measure("write", page_out, &guesses);
	printf("probe %u of %u out\n", count_swapped(guesses.memory, pages), pages);
	fflush(stdout);
	raise(SIGSTOP);
	measure("read", read_page, &guesses);
	make_dirty(guesses.memory, pages);
	make_dirty(guesses.twins, pages);
	measure("again", page_out, &guesses);
	measure("free", free_page, &guesses);
}

int main(int argc, char **argv)
{
	uint32_t pages;

	MUST(argc == 4);
	pages = atoi(argv[3]) / 2 * 2;
	MUST(pages >= 4);
	if (!strcmp(argv[1], "victim")) {
		be_victim(map_base(argv[2], pages), pages);
	} else {
		MUST(!strcmp(argv[1], "probe"));
		probe(map_base(argv[2], pages), pages);
	}
	return 0;
}
