// SPDX-License-Identifier: GPL-2.0-only
/*
 * Built with small limits of references (Makefile): however many copies of a page there are, an
 * object is shared by as many slots as can be counted, and only then is another object stored.
 */
#include "model.h"

#define SLOTS	(16 * ZM_LEAF_ENTRIES * ZM_REFS_MAX)
#define CONTENTS 3

static struct zm_core zm;
static struct fake fake;
static u32 content[SLOTS];	/* 0: empty */
static u32 dice_state;

static u32 dice(void)
{
	dice_state = dice_state * 1664525 + 1013904223;
	return dice_state >> 8;
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void page_of(u32 id, void *page)
{
	memset(page, 0, PAGE_SIZE);
	memset(page, id, 64);
}

static void write_content(u64 slot, u32 id)
{
	u8 page[PAGE_SIZE];

	page_of(id, page);
	CHECK(!zm_write(&zm, slot, page, ZM_NO_DOMAIN));
	content[slot] = id;
}

static void check_pages(void)
{
	u8 page[PAGE_SIZE], want[PAGE_SIZE];
	u64 slot;

	for (slot = 0; slot < SLOTS; slot++) {
		page_of(content[slot], want);
		CHECK(!zm_read(&zm, slot, page) && !memcmp(page, want, PAGE_SIZE));
	}
	fake_check(&zm, &fake);
}

static void check_objects(const char *how, u64 most)
{
	u64 objects = atomic64_read(&fake.objects);

	printf("  %s: %u slots, %llu objects (at most %llu)\n", how, SLOTS, (unsigned long long)objects,
	       (unsigned long long)most);
	CHECK(objects <= most);
}

static u64 slots_of(u32 id)
{
	u64 slot, slots = 0;

	for (slot = 0; slot < SLOTS; slot++)
		slots += content[slot] == id;
	return slots;
}

/* The number of objects if an object can be shared by at most @most slots. */
static u64 objects_of(u32 most)
{
	u64 objects = 0;
	u32 id;

	for (id = 1; id <= CONTENTS; id++)
		objects += (slots_of(id) + most - 1) / most;
	return objects;
}

static void begin(enum zm_mode mode, u32 seed)
{
	memset(content, 0, sizeof(content));
	dice_state = seed;
	CHECK(!zm_init(&zm, SLOTS, &fake, FAKE_HUGE_LEN, seed));
	zm_set_mode(&zm, mode);
}

static void end(void)
{
	check_pages();
	zm_destroy(&zm);
	CHECK(!atomic64_read(&fake.objects));
}

static void one_page_everywhere_inline(void)
{
	u64 slot;

	begin(ZM_INLINE, 1);
	for (slot = 0; slot < SLOTS; slot++)
		write_content(slot, 1);
	check_objects("inline", objects_of(ZM_REFS_MAX));
	end();
}

static void one_page_everywhere_on_request(void)
{
	u64 slot;

	begin(ZM_REQUEST, 2);
	for (slot = 0; slot < SLOTS; slot++)
		write_content(slot, 1);
	CHECK(!zm_merge(&zm, nothing, NULL));
	check_objects("on request", objects_of(ZM_COUNT_MAX));
	CHECK(!zm_merge(&zm, nothing, NULL));
	check_objects("again", objects_of(ZM_COUNT_MAX));
	end();
}

/*
 * Writes, clears and merges in all modes; after the last pass, of each content at most one object
 * is not full.
 */
static void random_operations(u32 seed)
{
	u32 at;

	begin(ZM_INLINE, seed);
	for (at = 0; at < 8 * SLOTS; at++) {
		u64 slot = dice() % SLOTS;

		write_content(slot, 1 + dice() % CONTENTS);
		if (at % 5 == 0) {
			zm_clear(&zm, slot);
			content[slot] = 0;
		}
		if (at % SLOTS == SLOTS / 2)
			zm_set_mode(&zm, dice() % 4);
		if (at % SLOTS == 0)
			CHECK(!zm_merge(&zm, nothing, NULL));
	}
	check_pages();
	zm_set_mode(&zm, ZM_REQUEST);
	CHECK(!zm_merge(&zm, nothing, NULL));
	check_objects("random operations, then a pass", objects_of(ZM_REFS_MAX));
	end();
}

static void a_table_larger_than_a_size_can_say_is_refused(void)
{
	const u64 most = ZM_TABLE_MAX / sizeof(struct zm_slot);

	CHECK(zm_init(&zm, most + 1, &fake, FAKE_HUGE_LEN, 1) == -ENOMEM);
	CHECK(!zm_init(&zm, most, &fake, FAKE_HUGE_LEN, 1));
	zm_destroy(&zm);
}

int main(void)
{
	u32 seed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	a_table_larger_than_a_size_can_say_is_refused();
	one_page_everywhere_inline();
	one_page_everywhere_on_request();
	for (seed = 1; seed <= 16; seed++)
		random_operations(seed);
	printf("objects are shared as often as can be counted (%u inline, %u on request)\n", ZM_REFS_MAX, ZM_COUNT_MAX);
	return 0;
}
