// SPDX-License-Identifier: GPL-2.0-only
/*
 * Native time per page, compared with that of lz4: bench BASE, a file of pages.
 *
 * Each line is the best of several rounds over all pages, because other load on the machine only
 * adds time.
 */
#include <lz4.h>
#include <time.h>

#include "fake.h"

#define ROUNDS 7

static u8 *pages;
static u64 count;
static char *blocks;
static int *lens;
static u64 sink;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void compress(u64 at)
{
	lens[at] = LZ4_compress_default((char *)pages + at * PAGE_SIZE, blocks + at * 2 * PAGE_SIZE,
					PAGE_SIZE, 2 * PAGE_SIZE);
}

static void decompress(u64 at)
{
	char back[PAGE_SIZE];

	sink += LZ4_decompress_safe(blocks + at * 2 * PAGE_SIZE, back, lens[at], PAGE_SIZE) + back[9];
}

static void hash_page(u64 at)
{
	sink += zm_hash(pages + at * PAGE_SIZE, PAGE_SIZE, 7);
}

static void hash_block(u64 at)
{
	sink += zm_hash(blocks + at * 2 * PAGE_SIZE, lens[at], 7);
}

static void compare(u64 at)
{
	static u8 copy[PAGE_SIZE];

	memcpy(copy, pages + at * PAGE_SIZE, PAGE_SIZE);
	sink += zm_equal(copy, pages + at * PAGE_SIZE, PAGE_SIZE);
}

static struct zm_index table;

static void add(u64 at)
{
	sink += zm_index_add(&table, (u32)(at * 0x9e3779b97f4a7c15ull >> 32), at, 0);
}

static void find(u64 at)
{
	sink += zm_index_get_nth(&table, (u32)(at * 0x9e3779b97f4a7c15ull >> 32), 0).value;
}

static void measure(const char *what, void (*one)(u64 at), int rounds)
{
	double best = 1e18;
	int round;
	u64 at;

	for (round = 0; round < rounds; round++) {
		double from = now();

		for (at = 0; at < count; at++)
			one(at);
		from = (now() - from) / count;
		best = from < best ? from : best;
	}
	printf("%-44s %7.0f ns\n", what, best);
}

int main(int argc, char **argv)
{
	FILE *file = fopen(argc > 1 ? argv[1] : "", "r");

	if (!file) {
		fprintf(stderr, "usage: bench BASE (a file of pages)\n");
		return 2;
	}
	pages = malloc(8192 * PAGE_SIZE);
	count = fread(pages, PAGE_SIZE, 8192, file);
	blocks = malloc(count * 2 * PAGE_SIZE);
	lens = malloc(count * sizeof(*lens));
	CHECK(!zm_index_init(&table, count));
	measure("compress a page with liblz4", compress, ROUNDS);
	measure("decompress it", decompress, ROUNDS);
	measure("hash a page", hash_page, ROUNDS);
	measure("hash what it was compressed to", hash_block, ROUNDS);
	measure("compare two pages (and copy one)", compare, ROUNDS);
	measure("add to the index", add, 1);
	measure("find in the index", find, ROUNDS);
	zm_index_destroy(&table);
	return sink == 42;
}
