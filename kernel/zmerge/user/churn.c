// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of the index while pages are stored and discarded: slots are filled with different
 * pages in inline mode, cleared at random except one in a hundred, half filled, cleared, and filled
 * again. Prints a line for each step: its number, the number of entries, and the bytes of the
 * index. churn.awk draws it.
 */
#include "fake.h"

#define SLOTS (1u << 17)
#define STEP (SLOTS / 64)

static struct zm_core zm;
static struct fake fake;
static u32 order[SLOTS], full, step;
static u64 number;

static u32 dice(u32 below)
{
	static u64 state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 16) % below;
}

/* Writes a page that no other slot has into an empty slot. */
static void fill_one(void)
{
	u64 page[PAGE_SIZE / 8] = { ++number, ~number };
	u32 other = full + dice(SLOTS - full), slot = order[other];

	order[other] = order[full];
	order[full++] = slot;
	CHECK(!zm_write(&zm, slot, page, ZM_NO_DOMAIN));
}

static void empty_one(void)
{
	u32 other = dice(full), slot = order[other];

	order[other] = order[--full];
	order[full] = slot;
	zm_clear(&zm, slot);
}

static void go_to(u32 wanted)
{
	while (full != wanted) {
		if (full < wanted)
			fill_one();
		else
			empty_one();
		if (full % STEP == 0 || full == wanted)
			printf("%u %u %llu\n", step++, full, (unsigned long long)zm_index_bytes(&zm));
	}
}

int main(void)
{
	static const u32 percent[] = { 100, 1, 50, 0, 100 };
	u32 at;

	CHECK(!zm_init(&zm, SLOTS, &fake, FAKE_HUGE_LEN, 1));
	zm_set_mode(&zm, ZM_INLINE);
	for (at = 0; at < SLOTS; at++)
		order[at] = at;
	for (at = 0; at < sizeof(percent) / sizeof(*percent); at++)
		go_to((u64)SLOTS * percent[at] / 100);
	zm_destroy(&zm);
	return 0;
}
