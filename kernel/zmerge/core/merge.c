// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pass on request: finds all equal objects, and leaves one of each.
 *
 * Slots are looked at one after the other, beside I/O. Equal pages have equal compressed bytes, so
 * those are hashed as they lie there, and nothing is decompressed. An index of the pass's own
 * says which slots had the same hash; every one of them is compared until one is equal. The
 * index is dropped at the end: what stays are the counters of shared objects. While pages are merged inline,
 * the objects that stay enter the inline index instead, so that pages written later are found to be copies.
 *
 * No two slots are locked at once, so a slot may change between two looks at it. The slot that is
 * looked at carries a mark that any change takes away; the other one is compared under its lock.
 */
#include "core.h"

struct zm_pass {
	struct zm_core *zm;
	struct zm_index index;		/* hash -> slots whose object nobody before them had */
	struct zm_slot slot;		/* the one that is looked at, as it was */
	bool copied;			/* its object's bytes are in ... */
	u8 *bytes;
	u8 *page;			/* for a page that is decompressed */
};

enum zm_match { ZM_DIFFERENT, ZM_MERGED, ZM_CHANGED, ZM_FULL };

static const void *zm_load(struct zm_core *zm, struct zm_slot slot, struct zm_reader **reader)
{
	*reader = zm_op_reader_get(zm->ctx);
	return zm_op_load(zm->ctx, *reader, slot.value, zm_len(slot));
}

static void zm_unload(struct zm_core *zm, struct zm_slot slot, struct zm_reader *reader, const void *at)
{
	zm_op_unload(zm->ctx, reader, slot.value, zm_len(slot), at);
	zm_op_reader_put(zm->ctx, reader);
}

/* Marks the slot and hashes its object into *tag; false when it has none that more slots can share. */
static bool zm_pass_hash(struct zm_pass *pass, u64 number, u32 *tag)
{
	struct zm_core *zm = pass->zm;
	spinlock_t *lock = zm_slot_lock(zm, number);
	struct zm_reader *reader;
	const void *at;
	bool shareable;

	spin_lock(lock);
	pass->slot = zm->slots[number];
	pass->copied = false;
	*tag = 0;
	shareable = zm_has_object(pass->slot) && !zm_is_full(zm, pass->slot);
	if (shareable) {
		zm->slots[number].attr |= ZM_SEEN;
		at = zm_load(zm, pass->slot, &reader);
		*tag = zm_hash(at, zm_len(pass->slot), zm->seed) >> 32;
		zm_unload(zm, pass->slot, reader, at);
	}
	spin_unlock(lock);
	return shareable;
}

/* Whether the slot still stores what was hashed. Its lock is held. */
static bool zm_pass_unchanged(struct zm_pass *pass, u64 number)
{
	struct zm_slot now = pass->zm->slots[number];

	lockdep_assert_held(zm_slot_lock(pass->zm, number));
	return (now.attr & ZM_SEEN) && now.value == pass->slot.value;
}

/* The bytes of the slot's object -> pass->bytes; false when it has changed. */
static bool zm_pass_copy(struct zm_pass *pass, u64 number)
{
	struct zm_core *zm = pass->zm;
	spinlock_t *lock = zm_slot_lock(zm, number);
	struct zm_reader *reader;
	const void *at;

	if (pass->copied)
		return true;
	spin_lock(lock);
	pass->copied = zm_pass_unchanged(pass, number);
	if (pass->copied) {
		at = zm_load(zm, pass->slot, &reader);
		memcpy(pass->bytes, at, zm_len(pass->slot));
		zm_unload(zm, pass->slot, reader, at);
	}
	spin_unlock(lock);
	return pass->copied;
}

/* A reference to the object of slot @other (ZM_MERGED) if it has the bytes that were copied. */
static enum zm_match zm_pass_share(struct zm_pass *pass, u64 other, struct zm_slot *object)
{
	struct zm_core *zm = pass->zm;
	spinlock_t *lock = zm_slot_lock(zm, other);
	enum zm_match match = ZM_DIFFERENT;
	struct zm_reader *reader;
	struct zm_slot slot;
	const void *at;
	bool same;
	int err;

	spin_lock(lock);
	slot = zm->slots[other];
	if (zm_has_object(slot) && zm_len(slot) == zm_len(pass->slot)) {
		at = zm_load(zm, slot, &reader);
		same = zm_equal(at, pass->bytes, zm_len(slot));
		zm_unload(zm, slot, reader, at);
		err = same ? zm_share(zm, other, object) : 0;
		if (same && err != -ENOMEM)
			match = err ? ZM_FULL : ZM_MERGED;
	}
	spin_unlock(lock);
	return match;
}

/* The slot stores @object from now on, unless it has changed. */
static bool zm_pass_adopt(struct zm_pass *pass, u64 number, struct zm_slot object)
{
	spinlock_t *lock = zm_slot_lock(pass->zm, number);
	struct zm_slot back = object;
	bool adopted;

	spin_lock(lock);
	adopted = zm_pass_unchanged(pass, number);
	if (adopted) {
		back = pass->zm->slots[number];
		pass->zm->slots[number] = object;
	}
	spin_unlock(lock);
	zm_release(pass->zm, back);
	return adopted;
}

static bool zm_same_object(struct zm_pass *pass, u64 other)
{
	spinlock_t *lock = zm_slot_lock(pass->zm, other);
	struct zm_slot slot;

	spin_lock(lock);
	slot = pass->zm->slots[other];
	spin_unlock(lock);
	return zm_has_object(slot) && slot.value == pass->slot.value;
}

static enum zm_match zm_pass_merge(struct zm_pass *pass, u64 number, u64 other)
{
	struct zm_slot object;
	enum zm_match match;

	if (zm_same_object(pass, other))
		return ZM_MERGED;
	if (!zm_pass_copy(pass, number))
		return ZM_CHANGED;
	zm_counters_reserve(&pass->zm->counters, ZM_GFP_PASS);
	match = zm_pass_share(pass, other, &object);
	if (match != ZM_MERGED)
		return match;
	return zm_pass_adopt(pass, number, object) ? ZM_MERGED : ZM_CHANGED;
}

/* The page of the slot, which only this slot has -> pass->page; false when it has changed. */
static bool zm_pass_read(struct zm_pass *pass, u64 number)
{
	spinlock_t *lock = zm_slot_lock(pass->zm, number);
	bool read;

	spin_lock(lock);
	read = zm_pass_unchanged(pass, number) && zm_kind(pass->zm->slots[number]) == ZM_PLAIN &&
	       !zm_read_object(pass->zm, pass->zm->slots[number], pass->page);
	spin_unlock(lock);
	return read;
}

static bool zm_looks_up(struct zm_core *zm)
{
	enum zm_mode mode = atomic_read(&zm->mode);

	return mode == ZM_INLINE || (mode == ZM_ADAPTIVE && !zm_asleep(zm));
}

/*
 * Lets pages written later find the slot's object. The mode is read under the slot's lock: whoever changes
 * it visits all slots afterwards.
 */
static void zm_pass_make_findable(struct zm_pass *pass, u64 number)
{
	struct zm_core *zm = pass->zm;
	spinlock_t *lock = zm_slot_lock(zm, number);
	struct zm_slot *slot = &zm->slots[number];
	u32 tag;

	if (zm_kind(pass->slot) != ZM_PLAIN || !zm_looks_up(zm) || !zm_pass_read(pass, number))
		return;
	tag = zm_tag(zm, pass->page);
	spin_lock(lock);
	if (zm_looks_up(zm) && zm_pass_unchanged(pass, number) && zm_kind(*slot) == ZM_PLAIN)
		zm_make_findable(zm, tag, slot);
	spin_unlock(lock);
}

/* The index takes memory that is free; the pass may wait until some is. */
static void zm_pass_remember(struct zm_pass *pass, u32 tag, u64 number)
{
	const u32 once = 1u << ZM_LEN_BITS;

	if (zm_index_add(&pass->index, tag, number, once))
		return;
	kfree(kmalloc(2 * sizeof(struct zm_leaf), ZM_GFP_PASS));
	zm_index_add(&pass->index, tag, number, once);
}

/*
 * Merges the slot's object with that of one before it, or lets those after it find it. An object that cannot
 * take another reference is forgotten: the next equal one takes its place.
 */
static void zm_pass_slot(struct zm_pass *pass, u64 number)
{
	enum zm_match match = ZM_DIFFERENT;
	u32 tag, nth = 0;
	u64 other;

	if (!zm_pass_hash(pass, number, &tag))
		return;
	while ((match == ZM_DIFFERENT || match == ZM_FULL) && zm_index_peek(&pass->index, tag, nth, &other)) {
		match = zm_pass_merge(pass, number, other);
		if (match == ZM_FULL)
			zm_index_drop(&pass->index, tag, other);
		else
			nth++;
	}
	if (match != ZM_DIFFERENT && match != ZM_FULL)
		return;
	zm_pass_make_findable(pass, number);
	zm_pass_remember(pass, tag, number);
}

static int zm_pass_run(struct zm_pass *pass, void (*progress)(void *ctx), void *ctx)
{
	struct zm_core *zm = pass->zm;
	u64 number;

	for (number = 0; number < zm->nslots; number++) {
		if (atomic_read(&zm->pass_stop))
			return -EINTR;
		zm_pass_slot(pass, number);
		if (number & 1023)
			continue;
		atomic64_set(&zm->pass_at, number);
		progress(ctx);
		cond_resched();
	}
	return 0;
}

/* One pass over all slots. The caller sees to it that there is one at a time. */
int zm_merge(struct zm_core *zm, void (*progress)(void *ctx), void *ctx)
{
	struct zm_pass pass = { .zm = zm };
	int err;

	pass.bytes = kmalloc(PAGE_SIZE, GFP_KERNEL);
	pass.page = kmalloc(PAGE_SIZE, GFP_KERNEL);
	err = pass.bytes && pass.page ? zm_index_init(&pass.index, zm->nslots) : -ENOMEM;
	if (!err) {
		err = zm_pass_run(&pass, progress, ctx);
		zm_index_destroy(&pass.index);
	}
	kfree(pass.page);
	kfree(pass.bytes);
	return err;
}
