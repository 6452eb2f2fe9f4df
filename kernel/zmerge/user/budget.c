// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of a pass: it stays within the budget, however many slots there are, is included in
 * index_bytes, and does not change which pages are merged.
 */
#include "model.h"

static struct device {
	struct zm_core zm;
	struct fake fake;
	u32 *content;		/* content of each slot; 0: empty */
} *device;

static u32 dice_state = 1;

static u32 dice(void)
{
	dice_state = dice_state * 1664525 + 1013904223;
	return dice_state >> 8;
}

/* Of 16 contents, one is a repeated word, one does not compress, and two differ in one byte. */
static void page_of(u32 content, void *page)
{
	u8 *bytes = page;

	memset(page, content % 16 == 1 ? (int)(content / 16) : 0, PAGE_SIZE);
	if (content % 16 == 1 || !content)
		return;
	if (content % 16 == 2)
		memset(page, 0x5a, PAGE_SIZE);
	memcpy(page, &(u32){ content % 16 == 4 ? content - 1 : content }, sizeof(content));
	memset(bytes + 4, 0xa5, 64 * (content / 16 % 4));
	bytes[8] = content % 16 == 4;
}

static void write_content(u64 slot, u32 content)
{
	u8 page[PAGE_SIZE];

	page_of(content, page);
	CHECK(!zm_write(&device->zm, slot, page, ZM_NO_DOMAIN));
	device->content[slot] = content;
}

static struct device *new_device(u64 slots)
{
	device = calloc(1, sizeof(*device));
	device->content = calloc(slots, sizeof(*device->content));
	CHECK(!zm_init(&device->zm, slots, &device->fake, FAKE_HUGE_LEN, 11));
	return device;
}

/* A new device where one slot in eight is empty, and the others store one of @distinct contents. */
static void fill(u64 slots, u32 distinct, u32 seed)
{
	u64 slot;

	dice_state = seed;
	new_device(slots);
	for (slot = 0; slot < slots; slot++)
		if (dice() % 8)
			write_content(slot, 1 + dice() % distinct);
}

static void check_pages(void)
{
	u8 page[PAGE_SIZE], want[PAGE_SIZE];
	u64 slot;

	for (slot = 0; slot < device->zm.nslots; slot++) {
		page_of(device->content[slot], want);
		CHECK(!zm_read(&device->zm, slot, page) && !memcmp(page, want, PAGE_SIZE));
	}
	fake_check(&device->zm, &device->fake);
}

static int by_content(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/*
 * The number of distinct contents in objects: a pass that misses nothing leaves this many objects.
 */
static u64 objects_wanted(void)
{
	u64 *all = malloc((device->zm.nslots + 1) * sizeof(*all)), count = 0, distinct = 0, slot;

	for (slot = 0; slot < device->zm.nslots; slot++)
		if (zm_has_object(fake_slot(&device->zm, slot)))
			all[count++] = device->content[slot];
	qsort(all, count, sizeof(*all), by_content);
	for (slot = 0; slot < count; slot++)
		distinct += !slot || all[slot] != all[slot - 1];
	free(all);
	return distinct;
}

static void check_all_merged(void)
{
	CHECK(atomic64_read(&device->fake.objects) == (s64)objects_wanted());
}

static void end_device(void)
{
	check_pages();
	zm_destroy(&device->zm);
	CHECK(!atomic64_read(&device->fake.objects));
	free(device->content);
	free(device);
}

/* For each slot, the first slot with the same object. */
static u64 *owners(void)
{
	u64 *owner = malloc(device->zm.nslots * sizeof(*owner)), slot;
	struct pair { u64 value, slot; } *all = malloc(device->zm.nslots * sizeof(*all));

	for (slot = 0; slot < device->zm.nslots; slot++)
		all[slot] = (struct pair){ fake_slot(&device->zm, slot).value, slot };
	qsort(all, device->zm.nslots, sizeof(*all), by_content);
	for (slot = 0; slot < device->zm.nslots;) {
		u64 end = slot, first = U64_MAX, at;

		for (; end < device->zm.nslots && all[end].value == all[slot].value; end++)
			first = min_t(u64, first, all[end].slot);
		for (at = slot; at < end; at++)
			owner[all[at].slot] = zm_has_object(fake_slot(&device->zm, all[at].slot)) ? first : U64_MAX;
		slot = end;
	}
	free(all);
	return owner;
}

/* The memory that remains after a pass: counters and index. */
static u64 kept(void)
{
	return atomic64_read(&device->zm.counters.bytes) + atomic64_read(&device->zm.index.bytes);
}

/* What progress() watches during a pass, and its interference with it. */
static struct {
	u64 memory, counted;	/* before the pass, without what stays after it */
	u64 most;		/* maximum memory of the pass */
	u64 at;			/* last progress of the pass */
	u64 calls;
	void (*meddle)(void);
} watch;

static void progress(void *ctx)
{
	u64 at = atomic64_read(&device->zm.pass_at);

	(void)ctx;
	CHECK(zm_index_bytes(&device->zm) - watch.counted == fake_memory() - watch.memory);
	watch.most = max_t(u64, watch.most, fake_memory() - watch.memory - kept());
	CHECK(at >= watch.at && at < device->zm.nslots);
	watch.at = at;
	watch.calls++;
	if (watch.meddle)
		watch.meddle();
}

/* Runs a pass over slots that no pass has seen, and checks that it frees its own memory. */
static int pass(u64 budget, void (*meddle)(void))
{
	u64 most;
	int err;

	memset(&watch, 0, sizeof(watch));
	fake_memory_most();
	watch.memory = fake_memory() - kept();
	watch.counted = zm_index_bytes(&device->zm) - kept();
	watch.meddle = meddle;
	atomic64_set(&device->zm.pass_budget, budget);
	atomic64_set(&device->zm.pass_at, 0);
	atomic_set(&device->zm.pass_stop, 0);
	err = zm_merge(&device->zm, progress, NULL);
	CHECK(fake_memory() - watch.memory == kept() && zm_index_bytes(&device->zm) - watch.counted == kept());
	/* Without interference, the counters and the index only grow during a pass. */
	most = fake_memory_most() - watch.memory - kept();
	if (!meddle)
		watch.most = max_t(u64, watch.most, most);
	return err;
}

static void a_pass_stays_within_its_budget_and_merges_the_same_pages(void)
{
	static const struct { u32 slots, distinct; } tables[] = {
		{ 1, 1 }, { 1000, 100 }, { 1 << 14, 1 << 14 }, { 1 << 16, 1 << 10 }, { 1 << 17, 1 << 18 },
	};
	const u64 budgets[] = { ZM_BUDGET_MIN, 64 << 10, ZM_BUDGET };
	u64 *without, *within, at, table;

	for (table = 0; table < sizeof(tables) / sizeof(*tables); table++) {
		fill(tables[table].slots, tables[table].distinct, 1);
		CHECK(!pass(ZM_BUDGET_MAX, NULL));
		check_all_merged();
		without = owners();
		printf("  %u slots: %llu objects", tables[table].slots, (unsigned long long)objects_wanted());
		end_device();
		for (at = 0; at < sizeof(budgets) / sizeof(*budgets); at++) {
			fill(tables[table].slots, tables[table].distinct, 1);
			CHECK(!pass(budgets[at], NULL));
			printf(", %llu of %llu bytes", (unsigned long long)watch.most, (unsigned long long)budgets[at]);
			CHECK(watch.most <= budgets[at]);
			within = owners();
			CHECK(!memcmp(within, without, tables[table].slots * sizeof(*within)));
			free(within);
			end_device();
		}
		printf("\n");
		free(without);
	}
}

static void a_second_pass_merges_nothing_more(void)
{
	fill(1 << 15, 1 << 14, 2);
	CHECK(!pass(ZM_BUDGET_MIN, NULL));
	check_all_merged();
	CHECK(!pass(64 << 10, NULL));
	check_all_merged();
	end_device();
}

static void a_pass_takes_less_where_memory_is_short(void)
{
	fill(1 << 15, 1 << 15, 3);
	zm_test_largest = 3 * PAGE_SIZE;
	CHECK(!pass(ZM_BUDGET, NULL));
	zm_test_largest = 0;
	CHECK(watch.most <= 5 * PAGE_SIZE);
	check_all_merged();
	end_device();

	fill(1 << 12, 1 << 10, 3);
	fake_refuse(1);
	CHECK(pass(ZM_BUDGET, NULL) == -ENOMEM);
	fake_refuse(0);
	CHECK(!atomic64_read(&device->zm.stats.merged_pages));
	end_device();
}

static void a_pass_takes_no_more_than_a_limit_leaves(void)
{
	fill(1 << 15, 1 << 15, 4);
	device->fake.room = 200001;
	CHECK(!pass(ZM_BUDGET, NULL));
	printf("  %llu of %llu bytes\n", (unsigned long long)watch.most, 200000ull);
	CHECK(watch.most <= 200000 && watch.most > 190000);
	check_all_merged();
	end_device();
}

/* Four bytes for each slot, and no more than the budget. */
static u64 least(u64 budget)
{
	return min_t(u64, budget, 2 * PAGE_SIZE + 4 * device->zm.nslots);
}

/* However many slots there are, the pass reads each only a few times. */
static void a_pass_without_room_takes_four_bytes_for_each_slot(void)
{
	u64 slots, calls;

	for (slots = 1 << 13; slots <= 1 << 17; slots *= 4) {
		fill(slots, 1 << 30, 4);
		device->fake.room = 1;
		CHECK(!pass(ZM_BUDGET, NULL));
		calls = slots / ZM_PASS_STEP;
		printf("  %llu slots: %llu bytes, %llu rounds\n", (unsigned long long)slots,
		       (unsigned long long)watch.most, (unsigned long long)(watch.calls / calls));
		CHECK(watch.most <= least(ZM_BUDGET) && watch.calls <= 4 * calls);
		check_all_merged();
		end_device();
	}
	fill(1 << 15, 1 << 15, 4);
	device->fake.room = 1;
	CHECK(!pass(ZM_BUDGET_MIN, NULL));
	CHECK(watch.most <= least(ZM_BUDGET_MIN));
	check_all_merged();
	end_device();
}

/* During the pass the memory limit leaves no more room: it must continue with less memory. */
static u64 had;

static void take_room(void)
{
	u64 has = fake_memory() - watch.memory - kept();

	if (watch.calls == 5)
		device->fake.room = 1;
	if (watch.calls == 4)
		had = has;
	if (watch.calls == 16)
		CHECK(has <= least(ZM_BUDGET));
}

static void a_pass_gives_back_what_others_need(void)
{
	fill(1 << 15, 1 << 16, 5);
	CHECK(!pass(ZM_BUDGET, take_room));
	printf("  %llu bytes, later %llu at most\n", (unsigned long long)had, (unsigned long long)least(ZM_BUDGET));
	CHECK(had > ZM_BUDGET / 4 && watch.calls > 16);
	check_all_merged();
	end_device();
}

static u64 stop_at;

static void stop_pass(void)
{
	if (watch.calls == stop_at)
		atomic_set(&device->zm.pass_stop, 1);
}

static void a_pass_that_is_stopped_gives_all_back(void)
{
	for (stop_at = 1; stop_at < 200; stop_at += 23) {
		u64 calls;

		fill(1 << 14, 1 << 13, 6);
		CHECK(pass(ZM_BUDGET_MIN, stop_pass) == -EINTR);
		calls = watch.calls;
		CHECK(calls == stop_at);
		check_pages();
		CHECK(!pass(ZM_BUDGET_MIN, NULL));
		check_all_merged();
		end_device();
	}
}

static void write_some(void)
{
	u32 at;

	for (at = 0; at < 300; at++)
		write_content(dice() % device->zm.nslots, 1 + dice() % (1 << 15));
	for (at = 0; at < 50; at++) {
		u64 slot = dice() % device->zm.nslots;

		zm_clear(&device->zm, slot);
		device->content[slot] = 0;
	}
}

/* The table was allocated for few objects, but there are many before the pass is over. */
static void pages_written_during_a_pass_are_kept(void)
{
	u32 seed;

	for (seed = 1; seed <= 8; seed++) {
		fill(1 << 15, 1 << 4, 100 + seed);
		zm_set_mode(&device->zm, seed % 4);
		CHECK(!pass(ZM_BUDGET_MIN << seed % 3, write_some));
		CHECK(watch.most <= ZM_BUDGET_MIN << seed % 3);
		check_pages();
		zm_set_mode(&device->zm, ZM_REQUEST);
		CHECK(!pass(ZM_BUDGET_MIN, NULL));
		check_all_merged();
		end_device();
	}
}

#define LAW(name) { #name, name }

int main(void)
{
	static const struct { const char *name; void (*run)(void); } laws[] = {
		LAW(a_pass_stays_within_its_budget_and_merges_the_same_pages),
		LAW(a_second_pass_merges_nothing_more),
		LAW(a_pass_takes_less_where_memory_is_short),
		LAW(a_pass_takes_no_more_than_a_limit_leaves),
		LAW(a_pass_without_room_takes_four_bytes_for_each_slot),
		LAW(a_pass_gives_back_what_others_need),
		LAW(a_pass_that_is_stopped_gives_all_back),
		LAW(pages_written_during_a_pass_are_kept),
	};
	size_t at;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (at = 0; at < sizeof(laws) / sizeof(*laws); at++) {
		printf("%s\n", laws[at].name);
		laws[at].run();
	}
	printf("%zu laws of a pass hold\n", at);
	return 0;
}
