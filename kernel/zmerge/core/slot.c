// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slot table: what a slot stores is read, replaced, shared and given back here.
 *
 * A slot is replaced in one step under its lock, and what it held before is given back after the
 * lock is dropped. Nobody else can still be reading that through the slot: readers hold its lock.
 * Nobody can be reading it through another slot unless that has a reference of its own.
 */
#include "core.h"

#define ZM_LOCKS_MAX	1024
#ifndef ZM_TABLE_MAX		/* a test has less */
#define ZM_TABLE_MAX	SIZE_MAX
#endif

static int zm_init_locks(struct zm_core *zm)
{
	u32 at, count = min_t(u64, ZM_LOCKS_MAX, rounddown_pow_of_two(zm->nslots));

	zm->locks = kvcalloc(count, sizeof(*zm->locks), ZM_GFP_SETUP);
	if (!zm->locks)
		return -ENOMEM;
	zm->lock_mask = count - 1;
	for (at = 0; at < count; at++)
		spin_lock_init(&zm->locks[at]);
	return 0;
}

/**
 * zm_init - prepare a core whose slots are all empty
 * @zm: the core
 * @nslots: how many pages the disk has, 1 to U32_MAX
 * @ctx: what the operations zm_op_*() get
 * @huge_len: an object of so many bytes or more is stored as the page itself
 * @seed: secret, different for each device: the hashes depend on it
 *
 * Context: may sleep.
 * Return: 0; -EINVAL for a number of slots that cannot be, -ENOMEM. On failure nothing is left to destroy.
 */
int zm_init(struct zm_core *zm, u64 nslots, void *ctx, u32 huge_len, u64 seed)
{
	int err;

	BUILD_BUG_ON(sizeof(struct zm_slot) != 16);
	BUILD_BUG_ON(ZM_PART_SHIFT + ZM_PART_BITS > ZM_KEY_SHIFT);
	BUILD_BUG_ON(PAGE_SIZE > 1ul << (ZM_LEN_BITS - 1));
	memset(zm, 0, sizeof(*zm));
	zm->ctx = ctx;
	zm->huge_len = huge_len;
	zm->nslots = nslots;
	zm->seed = seed;
	atomic_set(&zm->mode, ZM_REQUEST);
	atomic64_set(&zm->pass_budget, ZM_BUDGET);
	if (!nslots || nslots > U32_MAX)
		return -EINVAL;
	/* With 32 bits, 2^28 slots are more bytes than a size can say. */
	if (nslots > ZM_TABLE_MAX / sizeof(*zm->slots))
		return -ENOMEM;
	zm->slots = __vmalloc(nslots * sizeof(*zm->slots), ZM_GFP_SETUP | __GFP_ZERO);
	if (!zm->slots)
		return -ENOMEM;
	err = zm_init_locks(zm);
	if (!err)
		err = zm_index_init(&zm->index, nslots);
	if (!err)
		err = zm_counters_init(&zm->counters, nslots);
	if (err)
		zm_destroy(zm);
	return err;
}

/**
 * zm_destroy - give every object and all memory back
 * @zm: the core, which nobody may use any more
 *
 * Context: may sleep.
 */
void zm_destroy(struct zm_core *zm)
{
	u64 number;

	if (zm->counters.chunks) {
		for (number = 0; number < zm->nslots; number++) {
			zm_clear(zm, number);
			if (!(number & 1023))
				cond_resched();
		}
	}
	zm_counters_destroy(&zm->counters);
	zm_index_destroy(&zm->index);
	kvfree(zm->locks);
	vfree(zm->slots);
	zm->locks = NULL;
	zm->slots = NULL;
	zm->nslots = 0;
}

spinlock_t *zm_slot_lock(struct zm_core *zm, u64 number)
{
	return &zm->locks[number & zm->lock_mask];
}

/* @object begins to be stored, or ends. */
void zm_account_object(struct zm_core *zm, struct zm_slot object, int sign)
{
	atomic64_add(sign * (s64)zm_len(object), &zm->stats.stored_bytes);
}

static void zm_account_slot(struct zm_core *zm, struct zm_slot slot, int sign)
{
	atomic64_add(sign, &zm->stats.pages);
	if (zm_kind(slot) == ZM_SAME)
		atomic64_add(sign, &zm->stats.same_pages);
	else if (zm_len(slot) == PAGE_SIZE)
		atomic64_add(sign, &zm->stats.huge_pages);
}

/* One more or less slot points to an object that another one points to as well. */
void zm_account_shared(struct zm_core *zm, struct zm_slot object, int sign)
{
	atomic64_add(sign, &zm->stats.merged_pages);
	atomic64_add(sign * (s64)zm_len(object), &zm->stats.merged_bytes);
}

/* One reference less; true when nobody has one any more. */
static bool zm_unref(struct zm_core *zm, struct zm_slot object)
{
	switch (zm_kind(object)) {
	case ZM_COUNTED:
		return zm_counter_drop(&zm->counters, zm_key(object));
	case ZM_INDEXED:
		return zm_index_drop(&zm->index, zm_key(object), object.value);
	default:
		return true;
	}
}

/* Gives back the reference that @was is. Never sleeps. */
void zm_release(struct zm_core *zm, struct zm_slot was)
{
	if (!zm_has_object(was))
		return;
	if (!zm_unref(zm, was)) {
		zm_account_shared(zm, was, -1);
		return;
	}
	zm_account_object(zm, was, -1);
	zm_op_free(zm->ctx, was.value);
}

/* Slot @number stores @now, whose reference it takes over, and forgets what it stored. */
void zm_slot_put(struct zm_core *zm, u64 number, struct zm_slot now)
{
	spinlock_t *lock = zm_slot_lock(zm, number);
	struct zm_slot was;

	spin_lock(lock);
	was = zm->slots[number];
	zm->slots[number] = now;
	spin_unlock(lock);
	if (zm_kind(now) != ZM_EMPTY)
		zm_account_slot(zm, now, 1);
	if (zm_kind(was) != ZM_EMPTY)
		zm_account_slot(zm, was, -1);
	zm_release(zm, was);
}

/**
 * zm_clear - forget what a slot stores, so that it reads as zero
 * @zm: the core
 * @number: the slot
 *
 * Context: never sleeps.
 */
void zm_clear(struct zm_core *zm, u64 number)
{
	zm_slot_put(zm, number, (struct zm_slot){ 0 });
}

/* The same object, counted another way. The slot's lock is held. */
void zm_recount(struct zm_slot *slot, enum zm_kind kind, u32 key)
{
	u64 seen = slot->attr & (ZM_SEEN | ZM_PART_MASK);

	*slot = zm_slot_of(kind, slot->value, zm_len(*slot), key);
	slot->attr |= seen;
}

/* A plain slot becomes one whose object can be shared. False without a counter. */
static bool zm_make_counted(struct zm_core *zm, struct zm_slot *slot)
{
	u32 number;

	if (!zm_counter_new(&zm->counters, &number))
		return false;
	zm_recount(slot, ZM_COUNTED, number);
	return true;
}

/* Whether the object of @slot has as many references as can be counted. The slot's lock is held. */
bool zm_is_full(struct zm_core *zm, struct zm_slot slot)
{
	switch (zm_kind(slot)) {
	case ZM_COUNTED:
		return zm_counter_full(&zm->counters, zm_key(slot));
	case ZM_INDEXED:
		return zm_index_full(&zm->index, zm_key(slot), slot.value);
	default:
		return false;
	}
}

/*
 * One more reference to the object of slot @number, in *object. The slot's lock is held.
 * EMLINK: it has as many as can be counted. ENOMEM: there is no counter.
 */
int zm_share(struct zm_core *zm, u64 number, struct zm_slot *object)
{
	struct zm_slot *slot = &zm->slots[number];
	bool shared;

	lockdep_assert_held(zm_slot_lock(zm, number));
	if (zm_kind(*slot) == ZM_PLAIN)
		shared = zm_make_counted(zm, slot);
	else if (zm_kind(*slot) == ZM_COUNTED)
		shared = zm_counter_take(&zm->counters, zm_key(*slot));
	else
		shared = zm_index_take_object(&zm->index, zm_key(*slot), slot->value);
	if (!shared)
		return zm_kind(*slot) == ZM_PLAIN ? -ENOMEM : -EMLINK;
	*object = *slot;
	object->attr &= ~(ZM_SEEN | ZM_PART_MASK);
	zm_account_shared(zm, *object, 1);
	return 0;
}

/* The object of @slot -> @page. The slot's lock is held. */
int zm_read_object(struct zm_core *zm, struct zm_slot slot, void *page)
{
	struct zm_reader *reader = zm_op_reader_get(zm->ctx);
	const void *from = zm_op_load(zm->ctx, reader, slot.value, zm_len(slot));
	int err = 0;

	if (zm_len(slot) == PAGE_SIZE)
		memcpy(page, from, PAGE_SIZE);
	else
		err = zm_op_decompress(zm->ctx, reader, from, zm_len(slot), page);
	zm_op_unload(zm->ctx, reader, slot.value, zm_len(slot), from);
	zm_op_reader_put(zm->ctx, reader);
	return err;
}

/**
 * zm_read - read a page
 * @zm: the core
 * @number: the slot
 * @page: where its page is put
 *
 * Context: never sleeps, and waits for no compression.
 * Return: 0, or the codec's error where what is stored does not decompress.
 */
int zm_read(struct zm_core *zm, u64 number, void *page)
{
	spinlock_t *lock = zm_slot_lock(zm, number);
	struct zm_slot slot;
	int err = 0;

	spin_lock(lock);
	slot = zm->slots[number];
	if (zm_has_object(slot))
		err = zm_read_object(zm, slot, page);
	spin_unlock(lock);
	if (!zm_has_object(slot))
		zm_fill(page, slot.value);
	return err;
}

/**
 * zm_index_bytes - the memory that merging takes
 * @zm: the core
 *
 * Return: bytes of the index, of the counters, and of a pass while it runs.
 */
u64 zm_index_bytes(struct zm_core *zm)
{
	return atomic64_read(&zm->index.bytes) + atomic64_read(&zm->counters.bytes) +
	       atomic64_read(&zm->pass_bytes);
}
