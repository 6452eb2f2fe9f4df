// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures natively, for comparison with published figures (docs/measured/zmerge.md): seconds to
 * compress and store pages with lz4, and to merge them on request: pass BASE PAGES PERCENT...,
 * where BASE is a file of different pages, and PERCENT of those written are copies.
 *
 * It measures the core with liblz4 and malloc(), not the module: without block layer and zsmalloc.
 * Each time is the best of several rounds, each on a new device, and the CPU time of the single
 * thread, so that other load matters less. Every page is read back and compared at the end.
 */
#include <time.h>

#include "fake.h"

#define ROUNDS 5

static u8 *base;
static u32 *which;
static u32 count;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static u64 dice(void)
{
	static u64 state = 0x9e3779b97f4a7c15ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static const u8 *content(u32 at)
{
	return base + (u64)which[at] * PAGE_SIZE;
}

/* Chooses random pages to copy, spread over all. */
static void choose(u32 percent)
{
	u32 distinct = count - (u64)count * percent / 100, at;

	for (at = 0; at < count; at++)
		which[at] = at < distinct ? at : dice() % distinct;
	for (at = count - 1; at; at--) {
		u32 other = dice() % (at + 1), kept = which[at];

		which[at] = which[other];
		which[other] = kept;
	}
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void verify(struct zm_core *zm)
{
	u8 page[PAGE_SIZE];
	u32 at;

	for (at = 0; at < count; at++)
		CHECK(!zm_read(zm, at, page) && !memcmp(page, content(at), PAGE_SIZE));
}

struct times {
	double store, merge;
	u64 merged, before, after;
};

static struct times round_of(void)
{
	struct fake fake = { 0 };
	struct zm_core zm;
	struct times times;
	double from;
	u32 at;

	CHECK(!zm_init(&zm, count, &fake, FAKE_HUGE_LEN, 7));
	from = now();
	for (at = 0; at < count; at++)
		CHECK(!zm_write(&zm, at, content(at), ZM_NO_DOMAIN));
	times.store = now() - from;
	times.before = atomic64_read(&fake.bytes);
	from = now();
	CHECK(!zm_merge(&zm, nothing, NULL));
	times.merge = now() - from;
	times.after = atomic64_read(&fake.bytes);
	times.merged = atomic64_read(&zm.stats.merged_pages);
	verify(&zm);
	zm_destroy(&zm);
	return times;
}

static void measure(u32 percent)
{
	struct times best = { .store = 1e9, .merge = 1e9 }, times;
	int at;

	choose(percent);
	for (at = 0; at < ROUNDS; at++) {
		times = round_of();
		times.store = min_t(double, times.store, best.store);
		times.merge = min_t(double, times.merge, best.merge);
		best = times;
	}
	printf("%3u %% copies: stored in %.4f s, merged in %.4f s (%.1f times faster), %llu of %llu pages, %llu -> %llu bytes\n",
	       percent, best.store, best.merge, best.store / best.merge, (unsigned long long)best.merged,
	       (unsigned long long)count * percent / 100, (unsigned long long)best.before,
	       (unsigned long long)best.after);
}

int main(int argc, char **argv)
{
	FILE *file = fopen(argc > 1 ? argv[1] : "", "r");
	int at;

	if (!file || argc < 4) {
		fprintf(stderr, "usage: pass BASE PAGES PERCENT... (BASE: a file of different pages)\n");
		return 2;
	}
	count = atoi(argv[2]);
	base = malloc((u64)count * PAGE_SIZE);
	which = malloc(count * sizeof(*which));
	CHECK(fread(base, PAGE_SIZE, count, file) == count);
	for (at = 3; at < argc; at++)
		measure(atoi(argv[at]));
	return 0;
}
