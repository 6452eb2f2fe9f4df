// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slot table: reads, replaces, shares and clears what slots store.
 *
 * A slot is replaced in one step while it is locked, and the reference to its old object is dropped
 * after that. Nobody can still be reading the old object through this slot, because readers hold
 * its lock, nor through another slot, unless that has a reference of its own.
 *
 * The lock is three bits of the entry's attr. A task that finds ZM_LOCKED set sets ZM_WAITED and
 * sleeps. A task that must not sleep and wants to clear the slot (swap does, under its spinlocks)
 * sets ZM_CLEARED instead: then the holder of the lock clears the slot when it unlocks it, and no
 * memory is left behind. A slot is never written and freed at the same time: swap frees a slot only
 * while no write to it is in progress.
 */
#include "core.h"

#ifndef ZM_TABLE_MAX		/* smaller in a test */
#define ZM_TABLE_MAX	SIZE_MAX
#endif

/**
 * zm_init - prepare a core whose slots are all empty
 * @zm: the core
 * @nslots: number of pages of the disk, 1 to U32_MAX
 * @ctx: passed to the operations zm_op_*()
 * @huge_len: objects that would have this many bytes or more are stored uncompressed
 * @seed: secret, different for each device: the hashes depend on it
 *
 * Context: may sleep.
 * Return: 0; -EINVAL for an invalid number of slots; -ENOMEM. On failure nothing needs to be
 * destroyed.
 */
int zm_init(struct zm_core *zm, u64 nslots, void *ctx, u32 huge_len, u64 seed)
{
	static struct lock_class_key slot_key;
	int err;

	BUILD_BUG_ON(sizeof(struct zm_entry) != 16);
	BUILD_BUG_ON(ZM_PART_MASK & ZM_LOCK_MASK);
	BUILD_BUG_ON(PAGE_SIZE > 1ul << (ZM_LEN_BITS - 1));
	memset(zm, 0, sizeof(*zm));
	lockdep_init_map(&zm->slot_map, "zmerge slot", &slot_key, 0);
	zm->ctx = ctx;
	zm->huge_len = huge_len;
	zm->nslots = nslots;
	zm->seed = seed;
	atomic_set(&zm->mode, ZM_REQUEST);
	atomic64_set(&zm->pass_budget, ZM_BUDGET);
	if (!nslots || nslots > U32_MAX)
		return -EINVAL;
	/* On 32 bits, the bytes of 2^28 slots do not fit into a size_t. */
	if (nslots > ZM_TABLE_MAX / sizeof(*zm->entries))
		return -ENOMEM;
	zm->entries = __vmalloc(nslots * sizeof(*zm->entries), ZM_GFP_SETUP | __GFP_ZERO);
	if (!zm->entries)
		return -ENOMEM;
	err = zm_index_init(&zm->index, nslots);
	if (!err)
		err = zm_counters_init(&zm->counters, nslots);
	if (err)
		zm_destroy(zm);
	return err;
}

/**
 * zm_use_domains - merge pages only with pages of the same domain
 * @zm: the core, in which nothing is stored yet
 *
 * Context: may sleep.
 * Return: 0; -ENOMEM.
 */
int zm_use_domains(struct zm_core *zm)
{
	if (zm->nslots > ZM_TABLE_MAX / sizeof(*zm->domains))
		return -ENOMEM;
	zm->domains = __vmalloc(zm->nslots * sizeof(*zm->domains), ZM_GFP_SETUP | __GFP_ZERO);
	return zm->domains ? 0 : -ENOMEM;
}

/**
 * zm_destroy - free all objects and all memory
 * @zm: the core, which must not be used any more
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
	vfree(zm->entries);
	vfree(zm->domains);
	zm->entries = NULL;
	zm->domains = NULL;
	zm->nslots = 0;
}

static inline void zm_account_slot(struct zm_core *zm, struct zm_slot slot, int sign)
{
	atomic64_add(sign, &zm->stats.pages);
	if (zm_kind(slot) == ZM_SAME)
		atomic64_add(sign, &zm->stats.same_pages);
	else if (zm_len(slot) == PAGE_SIZE)
		atomic64_add(sign, &zm->stats.huge_pages);
}

/*
 * Updates the sums when a slot starts (@sign 1) or stops (-1) sharing the object of another slot.
 */
void zm_account_shared(struct zm_core *zm, struct zm_slot object, int sign)
{
	atomic64_add(sign, &zm->stats.merged_pages);
	atomic64_add(sign * (s64)zm_len(object), &zm->stats.merged_bytes);
}

/* Drops a reference; true if it was the last one. */
static bool zm_put_reference(struct zm_core *zm, struct zm_slot object)
{
	switch (zm_kind(object)) {
	case ZM_COUNTED:
		return zm_counter_put(&zm->counters, zm_key(object));
	case ZM_INDEXED:
		return zm_index_put(&zm->index, zm_key(object), object.value);
	default:
		return true;
	}
}

/*
 * Drops the reference of slot content @was, and frees the object with the last one. Never sleeps.
 */
void zm_object_put(struct zm_core *zm, struct zm_slot was)
{
	if (!zm_has_object(was))
		return;
	if (!zm_put_reference(zm, was)) {
		zm_account_shared(zm, was, -1);
		return;
	}
	zm_account_object(zm, was, -1);
	zm_op_free(zm->ctx, was.value);
}

/* Updates the sums and drops the reference after a slot stopped storing @was. Never sleeps. */
static inline void zm_slot_drop(struct zm_core *zm, struct zm_slot was)
{
	if (zm_kind(was) == ZM_EMPTY)
		return;
	zm_account_slot(zm, was, -1);
	zm_object_put(zm, was);
}

/* Tries to lock the entry, and sets ZM_WAITED: either we wait, or others may be waiting already. */
static bool zm_entry_take(struct zm_entry *entry, s64 *attr)
{
	*attr = atomic64_fetch_or(ZM_WAITED | ZM_LOCKED, &entry->attr);
	return !(*attr & ZM_LOCKED);
}

/* Sleeps until the entry is locked by this task; returns its attr without the lock bits. */
noinline u64 zm_entry_wait(struct zm_entry *entry)
{
	s64 attr;

	wait_var_event(entry, zm_entry_take(entry, &attr));
	return attr & ~ZM_LOCK_MASK;
}

/* Unlocks an entry in the rare cases: with waiters, to be cleared, or attr changed concurrently. */
noinline void zm_entry_release(struct zm_core *zm, struct zm_entry *entry, struct zm_slot slot)
{
	s64 attr = atomic64_read(&entry->attr);

	do
		entry->value = attr & ZM_CLEARED ? 0 : slot.value;
	while (!atomic64_try_cmpxchg(&entry->attr, &attr, attr & ZM_CLEARED ? 0 : slot.attr));
	if (attr & ZM_WAITED)
		wake_up_var(entry);
	if (attr & ZM_CLEARED)
		zm_slot_drop(zm, slot);
}

/*
 * Stores @now, whose reference it takes over, in slot @number, and drops the old content. May
 * sleep.
 */
void zm_slot_put(struct zm_core *zm, u64 number, struct zm_slot now, u32 domain)
{
	struct zm_slot was = zm_slot_lock(zm, number);

	if (zm->domains)
		zm->domains[number] = domain;
	if (zm_kind(now) != ZM_EMPTY)
		zm_account_slot(zm, now, 1);
	zm_slot_unlock(zm, number, now);
	zm_slot_drop(zm, was);
}

/**
 * zm_clear - clear a slot, so that it reads as zeros
 * @zm: the core
 * @number: the slot
 *
 * Context: may sleep.
 */
void zm_clear(struct zm_core *zm, u64 number)
{
	zm_slot_put(zm, number, (struct zm_slot){ 0 }, ZM_NO_DOMAIN);
}

/**
 * zm_clear_at_once - clear a slot, or let the holder of its lock clear it
 * @zm: the core
 * @number: the slot, which nobody writes at the same time
 *
 * Context: never sleeps.
 */
void zm_clear_at_once(struct zm_core *zm, u64 number)
{
	struct zm_entry *entry = &zm->entries[number];
	s64 attr = atomic64_read(&entry->attr);
	struct zm_slot was;

	while (!atomic64_try_cmpxchg(&entry->attr, &attr, attr | (attr & ZM_LOCKED ? ZM_CLEARED : ZM_LOCKED)))
		;
	if (attr & ZM_LOCKED)
		return;
	mutex_acquire(&zm->slot_map, 0, 1, _RET_IP_);
	was = (struct zm_slot){ .value = entry->value, .attr = attr };
	zm_slot_unlock(zm, number, (struct zm_slot){ 0 });
	zm_slot_drop(zm, was);
}

/* Gives a plain slot's object a counter, so that it can be shared; false if none is free. */
static bool zm_make_counted(struct zm_core *zm, struct zm_slot *slot)
{
	u32 number;

	if (!zm_counter_new(&zm->counters, &number))
		return false;
	zm_recount(slot, ZM_COUNTED, number);
	return true;
}

/* Whether the object of @slot has the maximum number of references. The slot must be locked. */
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
 * Takes another reference to the object of @slot, which must be locked, and stores it in *object.
 * May change the kind of @slot. -EMLINK: the object has the maximum number of references. -ENOMEM:
 * there is no free counter.
 */
int zm_object_get(struct zm_core *zm, struct zm_slot *slot, struct zm_slot *object)
{
	bool shared;

	if (zm_kind(*slot) == ZM_PLAIN)
		shared = zm_make_counted(zm, slot);
	else if (zm_kind(*slot) == ZM_COUNTED)
		shared = zm_counter_get(&zm->counters, zm_key(*slot));
	else
		shared = zm_index_get(&zm->index, zm_key(*slot), slot->value);
	if (!shared)
		return zm_kind(*slot) == ZM_PLAIN ? -ENOMEM : -EMLINK;
	*object = *slot;
	object->attr &= ~(ZM_SEEN | ZM_PART_MASK);
	zm_account_shared(zm, *object, 1);
	return 0;
}

/* Reads the object of @slot, which must be locked, into @page. */
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
 * @page: buffer for its page
 *
 * Context: may sleep, but does not wait for a compression.
 * Return: 0, or the codec's error if the stored bytes do not decompress.
 */
int zm_read(struct zm_core *zm, u64 number, void *page)
{
	struct zm_slot slot = zm_slot_lock(zm, number);
	int err = 0;

	if (zm_has_object(slot))
		err = zm_read_object(zm, slot, page);
	zm_slot_unlock(zm, number, slot);
	if (!zm_has_object(slot))
		zm_fill(page, slot.value);
	return err;
}

/**
 * zm_index_bytes - the memory that merging uses
 * @zm: the core
 *
 * Return: bytes of the index and the counters, and of a running pass.
 */
u64 zm_index_bytes(struct zm_core *zm)
{
	return atomic64_read(&zm->index.bytes) + atomic64_read(&zm->counters.bytes) +
	       atomic64_read(&zm->pass_bytes);
}
