// SPDX-License-Identifier: GPL-2.0-only
/*
 * Four threads write, read and clear their own slots, which lie between each other's, while a fifth
 * merges in several rounds (its table is small, see Makefile), and a sixth switches modes, removes
 * entries of the index and stops passes. Each thread knows the contents of its slots; under TSan,
 * no thread may access what another one is writing.
 */
#include "model.h"

#define WORKERS 4
#define SLOTS_EACH 64
#define IDS 40

static struct zm_core zm;
static struct fake fake;
static atomic_t stop;
static unsigned int steps;

static u32 dice(u32 *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void look(u64 slot, u32 id)
{
	u8 page[PAGE_SIZE], want[PAGE_SIZE];

	model_page(id, want);
	CHECK(!zm_read(&zm, slot, page) && !memcmp(page, want, PAGE_SIZE));
}

static void *work(void *arg)
{
	u32 me = (uintptr_t)arg, state = me + 1, ids[SLOTS_EACH] = { 0 };
	u8 page[PAGE_SIZE];
	unsigned int at;

	for (at = 0; at < steps; at++) {
		u32 mine = dice(&state) % SLOTS_EACH, what = dice(&state) % 8;
		u64 slot = (u64)mine * WORKERS + me;

		if (what < 3) {
			look(slot, ids[mine]);
		} else if (what == 3) {
			/* Discard uses the first, swap the second. */
			if (dice(&state) % 2)
				zm_clear(&zm, slot);
			else
				zm_clear_at_once(&zm, slot);
			ids[mine] = 0;
		} else {
			ids[mine] = dice(&state) % IDS;
			model_page(ids[mine], page);
			CHECK(!zm_write(&zm, slot, page, dice(&state) % 3));
		}
	}
	for (at = 0; at < SLOTS_EACH; at++)
		look((u64)at * WORKERS + me, ids[at]);
	return NULL;
}

static void *merge(void *arg)
{
	unsigned long *passes = arg;
	int err;

	while (!atomic_read(&stop)) {
		atomic_set(&zm.pass_stop, 0);
		err = zm_merge(&zm, nothing, NULL);
		CHECK(!err || err == -EINTR);
		*passes += !err;
	}
	return NULL;
}

static void *switch_modes(void *arg)
{
	unsigned long *switches = arg;
	u32 state = 99;

	while (!atomic_read(&stop)) {
		zm_set_mode(&zm, dice(&state) % 4);
		zm_forget_some(&zm, zm_index_singles(&zm.index) / 2);
		if (dice(&state) % 4 == 0)
			atomic_set(&zm.pass_stop, 1);
		++*switches;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long passes = 0, switches = 0;
	pthread_t workers[WORKERS], others[2];
	uintptr_t at;

	steps = argc > 1 ? atoi(argv[1]) : 20000;
	CHECK(!zm_init(&zm, WORKERS * SLOTS_EACH, &fake, FAKE_HUGE_LEN, 5) && !zm_use_domains(&zm));
	atomic64_set(&zm.pass_budget, 0);
	pthread_create(&others[0], NULL, merge, &passes);
	pthread_create(&others[1], NULL, switch_modes, &switches);
	for (at = 0; at < WORKERS; at++)
		pthread_create(&workers[at], NULL, work, (void *)at);
	for (at = 0; at < WORKERS; at++)
		pthread_join(workers[at], NULL);
	atomic_set(&stop, 1);
	for (at = 0; at < 2; at++)
		pthread_join(others[at], NULL);
	fake_check(&zm, &fake);
	zm_destroy(&zm);
	CHECK(!atomic64_read(&fake.objects));
	printf("%u operations, %lu passes, %lu switches of mode: every page as it was written\n",
	       WORKERS * steps, passes, switches);
	return 0;
}
