// SPDX-License-Identifier: GPL-2.0-only
/*
 * Holds pages of a file in memory and has them swapped out, or guesses pages as an unprivileged
 * program.
 *
 *	hold anon FILE		in private anonymous memory
 *	hold shared FILE	in memory that programs share
 *	hold guess FILE		as user 65534: fills the swap until no page is swapped out any more, then tries the
 *				pages of FILE, and pages that differ from these in one bit
 *
 * With anon and shared it prints how many pages have left memory, stops itself, and at SIGCONT
 * compares them with FILE: exit status 1 if a byte differs. With guess it prints how many pages of
 * each kind have left memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measured.h"

#define NOBODY 65534
#define FILLERS 60000
#define TURNS 100

static uint8_t *map(uint64_t pages, int flags)
{
	uint8_t *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	MUST(memory != MAP_FAILED);
	madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
	return memory;
}

static const uint8_t *map_file(const char *path, uint64_t *pages)
{
	int file = open(path, O_RDONLY);
	struct stat about;
	const uint8_t *base;

	MUST(file >= 0 && !fstat(file, &about));
	*pages = about.st_size / PAGE;
	base = mmap(NULL, *pages * PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
	MUST(base != MAP_FAILED);
	return base;
}

static bool is_resident(void *page)
{
	unsigned char resident;

	MUST(!mincore(page, PAGE, &resident));
	return resident & 1;
}

static uint64_t count_left(uint8_t *memory, uint64_t pages)
{
	uint64_t left = 0, at;

	for (at = 0; at < pages; at++)
		left += !is_resident(memory + at * PAGE);
	return left;
}

/* Pages that were referenced lately are swapped out at a later turn. */
static uint64_t page_out(uint8_t *memory, uint64_t pages)
{
	int turn;

	for (turn = 0; turn < TURNS && count_left(memory, pages) < pages; turn++)
		madvise(memory, pages * PAGE, MADV_PAGEOUT);
	return count_left(memory, pages);
}

static int hold(const uint8_t *base, uint64_t pages, int flags)
{
	uint8_t *memory = map(pages, flags);

	memcpy(memory, base, pages * PAGE);
	printf("held %llu of %llu\n", (unsigned long long)page_out(memory, pages), (unsigned long long)pages);
	fflush(stdout);
	raise(SIGSTOP);
	return !!memcmp(memory, base, pages * PAGE);
}

/* Fills the swap with random pages: 50 in a row stay in memory then. */
static void fill_swap(void)
{
	uint8_t *memory = map(FILLERS, MAP_PRIVATE);
	uint64_t dice = 0x2545f4914f6cdd1d, page = 0, word;
	int failed = 0;

	for (; page < FILLERS && failed < 50; page++) {
		for (word = 0; word < PAGE; word += 8) {
			uint64_t value = roll(&dice);

			memcpy(memory + page * PAGE + word, &value, 8);
		}
		failed = page_out(memory + page * PAGE, 1) ? 0 : failed + 1;
	}
	printf("filled %llu pages, full %d\n", (unsigned long long)page, failed == 50);
}

static void guess(const uint8_t *base, uint64_t pages)
{
	uint8_t *memory = map(2 * pages, MAP_PRIVATE);
	uint64_t at, left[2] = { 0, 0 };

	for (at = 0; at < 2 * pages; at++) {
		memcpy(memory + at * PAGE, base + at / 2 * PAGE, PAGE);
		memory[at * PAGE] ^= at & 1;
		left[at & 1] += page_out(memory + at * PAGE, 1);
	}
	printf("left memory: %llu that are stored, %llu that are not\n", (unsigned long long)left[0],
	       (unsigned long long)left[1]);
}

int main(int argc, char **argv)
{
	const uint8_t *base;
	uint64_t pages;

	if (argc != 3)
		return 2;
	base = map_file(argv[2], &pages);
	if (!strcmp(argv[1], "anon"))
		return hold(base, pages, MAP_PRIVATE);
	if (!strcmp(argv[1], "shared"))
		return hold(base, pages, MAP_SHARED);
	if (strcmp(argv[1], "guess"))
		return 2;
	MUST(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
	fill_swap();
	guess(base, pages);
	return 0;
}
