// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pass on request: finds all equal objects, and keeps one of each.
 *
 * The pass reads the slots one after the other, while I/O goes on. Equal pages have equal
 * compressed bytes, so these are hashed as they are stored, and nothing is decompressed. A table,
 * which belongs to the pass, maps each hash to the slots that had it; each of these is compared
 * until one is equal. The table is freed at the end: only the counters of shared objects remain. In
 * the inline modes, objects that remain are also added to the inline index, so that copies written
 * later are found.
 *
 * The table has a fixed size. If it has no room for all objects, the pass takes several rounds,
 * each for a range of hashes. If a range turns out to be too large, it is halved; if the table must
 * shrink, the round starts again with a smaller one. After the first round, the upper bits of the
 * hash that a slot keeps (ZM_PART_MASK) exclude most objects of other ranges without reading them.
 *
 * No two slots are locked at the same time, so a slot may change between two steps. The slot being
 * merged carries a mark that any change clears; the other slot is compared under its lock.
 */
#include "core.h"

#define ZM_TAGS_END	(1ull << 32)
#define ZM_SPREAD	0x9e3779b1u
#ifndef ZM_TABLE_MIN	/* smaller in the fuzzer */
#define ZM_TABLE_MIN	(ZM_BUDGET_MIN - ZM_PASS_PAGES)
#endif
/* Bytes of zm_pass.bytes and zm_pass.page, which count in addition to the table. */
#define ZM_PASS_PAGES	(2 * PAGE_SIZE)

struct zm_pass {
	struct zm_core *zm;
	/*
	 * Entries: tag in the upper half, slot number + 1 in the lower. Zero: free. One for each
	 * distinct object.
	 */
	u64 *table;
	u32 room;			/* number of entries; a quarter stays free */
	u32 used;
	u64 from, to;			/* range of tags in this round */
	struct zm_slot slot;		/* the slot being merged, as it was read */
	u32 domain;			/* the domain of that slot */
	bool copied;			/* whether its object's bytes are in ... */
	u8 *bytes;
	u8 *page;			/* buffer for a decompressed page */
};

enum zm_match { ZM_DIFFERENT, ZM_MERGED, ZM_CHANGED, ZM_FULL, ZM_NO_COUNTER };

static u64 zm_pass_has(struct zm_pass *pass)
{
	return ZM_PASS_PAGES + (u64)pass->room * sizeof(*pass->table);
}

/*
 * The memory limit of the pass now: what the budget and the device's memory limit allow, but at
 * least ZM_BUDGET_MIN. However little the device's limit leaves, the pass may take four bytes for
 * each slot if the budget allows them: then it reads the slots three times, where a table of a
 * fixed size would take a number of rounds that grows with the device.
 */
static u64 zm_pass_may(struct zm_pass *pass)
{
	u64 budget = min_t(u64, atomic64_read(&pass->zm->pass_budget), ZM_BUDGET_MAX);
	u64 least = ZM_PASS_PAGES + pass->zm->nslots * sizeof(u32);
	u64 room = max_t(u64, zm_op_room(pass->zm->ctx), least);

	return max_t(u64, ZM_PASS_PAGES + ZM_TABLE_MIN, min_t(u64, budget, room));
}

static u32 zm_pass_full(struct zm_pass *pass)
{
	return pass->room / 4 * 3;
}

/* The approximate number of objects. */
static u64 zm_pass_objects(struct zm_pass *pass)
{
	struct zm_stats *stats = &pass->zm->stats;
	u64 none = zm_sum(&stats->same_pages) + zm_sum(&stats->merged_pages), pages = zm_sum(&stats->pages);

	return pages > none ? pages - none : 0;
}

static void zm_table_free(struct zm_pass *pass)
{
	kvfree(pass->table);
	pass->table = NULL;
	atomic64_sub((s64)pass->room * sizeof(*pass->table), &pass->zm->pass_bytes);
	pass->room = 0;
}

/* Allocates a table of @bytes; without memory, tries half of it, and so on. */
static int zm_table_new(struct zm_pass *pass, u64 bytes)
{
	for (;;) {
		pass->table = kvmalloc(bytes, ZM_GFP_PASS);
		if (pass->table)
			break;
		if (bytes <= ZM_TABLE_MIN)
			return -ENOMEM;
		bytes = max_t(u64, bytes / 2, ZM_TABLE_MIN);
	}
	pass->room = div_u64(bytes, sizeof(*pass->table));
	atomic64_add((s64)pass->room * sizeof(*pass->table), &pass->zm->pass_bytes);
	return 0;
}

/* Allocates a table for twice the objects, within the limit. */
static int zm_table_first(struct zm_pass *pass)
{
	u64 may = zm_pass_may(pass) - ZM_PASS_PAGES;
	u64 need = zm_pass_objects(pass) * 2 * sizeof(*pass->table);

	return zm_table_new(pass, clamp_t(u64, need, ZM_TABLE_MIN, may));
}

/* Replaces the table by one of at most half its size. */
static int zm_table_smaller(struct zm_pass *pass)
{
	u64 bytes = (u64)pass->room * sizeof(*pass->table) / 2;

	zm_table_free(pass);
	return zm_table_new(pass, clamp_t(u64, bytes, ZM_TABLE_MIN, zm_pass_may(pass) - ZM_PASS_PAGES));
}

static u32 zm_table_home(struct zm_pass *pass, u32 tag)
{
	return (u64)(tag * ZM_SPREAD) * pass->room >> 32;
}

static u32 zm_table_next(struct zm_pass *pass, u32 at)
{
	return at + 1 < pass->room ? at + 1 : 0;
}

/* Finds the @nth entry with @tag; false if there is none: then *at is the free place for it. */
static bool zm_table_find(struct zm_pass *pass, u32 tag, u32 nth, u32 *at)
{
	for (*at = zm_table_home(pass, tag); pass->table[*at]; *at = zm_table_next(pass, *at))
		if (pass->table[*at] >> 32 == tag && !nth--)
			return true;
	return false;
}

/* Removes an entry, and moves displaced entries after it forward; they keep their order. */
static void zm_table_remove(struct zm_pass *pass, u32 hole)
{
	u32 at = zm_table_next(pass, hole), home, far, gap;

	for (; pass->table[at]; at = zm_table_next(pass, at)) {
		home = zm_table_home(pass, pass->table[at] >> 32);
		far = at >= home ? at - home : at + pass->room - home;
		gap = at >= hole ? at - hole : at + pass->room - hole;
		if (far < gap)
			continue;
		pass->table[hole] = pass->table[at];
		hole = at;
	}
	pass->table[hole] = 0;
	pass->used--;
}

/* Halves the range of hashes; entries of the upper half are removed and left to later rounds. */
static void zm_pass_halve(struct zm_pass *pass)
{
	u32 at;

	pass->to = pass->from + (pass->to - pass->from + 1) / 2;
	for (at = 0; at < pass->room; at++)
		while (pass->table[at] && pass->table[at] >> 32 >= pass->to)
			zm_table_remove(pass, at);
}

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

/*
 * Whether the hash of the slot's object may be in the range of this round, judged by the bits in
 * the slot.
 */
static bool zm_pass_may_be_in_range(struct zm_pass *pass, struct zm_slot slot)
{
	const u32 shift = 32 - ZM_PART_BITS;
	u64 part = (slot.attr & ZM_PART_MASK) >> ZM_PART_SHIFT;

	return !(slot.attr & ZM_SEEN) || (part >= pass->from >> shift && part <= (pass->to - 1) >> shift);
}

static void zm_pass_mark(struct zm_slot *slot, u32 tag)
{
	slot->attr &= ~ZM_PART_MASK;
	slot->attr |= ZM_SEEN | (u64)(tag >> (32 - ZM_PART_BITS)) << ZM_PART_SHIFT;
}

/* The domain of a slot, which must be locked. */
static u32 zm_pass_domain(struct zm_core *zm, u64 number)
{
	return zm->domains ? zm->domains[number] : ZM_NO_DOMAIN;
}

/* Whether the object of @slot may be shared with other slots, judged by the slot alone. */
static bool zm_pass_can_share(struct zm_pass *pass, struct zm_slot slot)
{
	return zm_has_object(slot) && !(pass->zm->domains && pass->domain == ZM_NO_DOMAIN) &&
	       zm_pass_may_be_in_range(pass, slot) && !zm_is_full(pass->zm, slot);
}

/*
 * Hashes the object of the slot into *tag, and marks the slot. False if the slot has no object that
 * can be shared, or if the hash is not in the range of this round.
 */
static bool zm_pass_hash(struct zm_pass *pass, u64 number, u32 *tag)
{
	struct zm_core *zm = pass->zm;
	struct zm_slot slot = zm_slot_lock(zm, number);
	struct zm_reader *reader;
	const void *at;
	bool shareable;

	pass->slot = slot;
	pass->domain = zm_pass_domain(zm, number);
	pass->copied = false;
	*tag = 0;
	shareable = zm_pass_can_share(pass, slot);
	if (shareable) {
		at = zm_load(zm, slot, &reader);
		*tag = zm_hash(at, zm_len(slot), zm_seed_of(zm, pass->domain)) >> 32;
		zm_unload(zm, slot, reader, at);
		zm_pass_mark(&slot, *tag);
	}
	zm_slot_unlock(zm, number, slot);
	return shareable && *tag >= pass->from && *tag < pass->to;
}

/* Whether the slot, whose content is now @now, still has the object that was hashed. */
static bool zm_pass_unchanged(struct zm_pass *pass, struct zm_slot now)
{
	return (now.attr & ZM_SEEN) && now.value == pass->slot.value;
}

/* Copies the bytes of the slot's object into pass->bytes; false if the slot has changed. */
static bool zm_pass_copy(struct zm_pass *pass, u64 number)
{
	struct zm_core *zm = pass->zm;
	struct zm_reader *reader;
	struct zm_slot slot;
	const void *at;

	if (pass->copied)
		return true;
	slot = zm_slot_lock(zm, number);
	pass->copied = zm_pass_unchanged(pass, slot);
	if (pass->copied) {
		at = zm_load(zm, slot, &reader);
		memcpy(pass->bytes, at, zm_len(slot));
		zm_unload(zm, slot, reader, at);
	}
	zm_slot_unlock(zm, number, slot);
	return pass->copied;
}

/*
 * Takes a reference to the object of slot @other if its bytes equal those copied; then returns
 * ZM_MERGED.
 */
static enum zm_match zm_pass_share(struct zm_pass *pass, u64 other, struct zm_slot *object)
{
	struct zm_core *zm = pass->zm;
	struct zm_slot slot = zm_slot_lock(zm, other);
	enum zm_match match = ZM_DIFFERENT;
	struct zm_reader *reader;
	const void *at;
	bool same;
	int err;

	if (zm_has_object(slot) && zm_len(slot) == zm_len(pass->slot) && zm_pass_domain(zm, other) == pass->domain) {
		at = zm_load(zm, slot, &reader);
		same = zm_equal(at, pass->bytes, zm_len(slot));
		zm_unload(zm, slot, reader, at);
		err = same ? zm_object_get(zm, &slot, object) : 0;
		if (same)
			match = !err ? ZM_MERGED : err == -ENOMEM ? ZM_NO_COUNTER : ZM_FULL;
	}
	zm_slot_unlock(zm, other, slot);
	return match;
}

/* Replaces the object of the slot by @object; false if the slot has changed. */
static bool zm_pass_adopt(struct zm_pass *pass, u64 number, struct zm_slot object)
{
	struct zm_slot slot = zm_slot_lock(pass->zm, number), back = object;
	bool adopted = zm_pass_unchanged(pass, slot);

	if (adopted) {
		back = slot;
		slot = object;
		slot.attr |= back.attr & (ZM_SEEN | ZM_PART_MASK);
	}
	zm_slot_unlock(pass->zm, number, slot);
	zm_object_put(pass->zm, back);
	return adopted;
}

static bool zm_same_object(struct zm_pass *pass, u64 other)
{
	struct zm_slot slot = zm_slot_lock(pass->zm, other);

	zm_slot_unlock(pass->zm, other, slot);
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

/*
 * Reads the page of a slot with an unshared object into pass->page; false if the slot has changed.
 */
static bool zm_pass_read(struct zm_pass *pass, u64 number)
{
	struct zm_slot slot = zm_slot_lock(pass->zm, number);
	bool read = zm_pass_unchanged(pass, slot) && zm_kind(slot) == ZM_PLAIN &&
		    !zm_read_object(pass->zm, slot, pass->page);

	zm_slot_unlock(pass->zm, number, slot);
	return read;
}

static bool zm_looks_up(struct zm_core *zm)
{
	enum zm_mode mode = atomic_read(&zm->mode);

	return mode == ZM_INLINE || (mode == ZM_ADAPTIVE && !zm_asleep(zm));
}

/*
 * Adds the slot's object to the inline index, so that pages written later find it. The mode is read
 * while the slot is locked, because zm_set_mode() visits all slots after changing it.
 */
static void zm_pass_make_findable(struct zm_pass *pass, u64 number)
{
	struct zm_core *zm = pass->zm;
	struct zm_slot slot;
	u32 tag;

	if (zm_kind(pass->slot) != ZM_PLAIN || !zm_looks_up(zm) || !zm_pass_read(pass, number))
		return;
	tag = zm_tag(zm, pass->page, pass->domain);
	slot = zm_slot_lock(zm, number);
	if (zm_looks_up(zm) && zm_pass_unchanged(pass, slot) && zm_kind(slot) == ZM_PLAIN)
		slot = zm_make_findable(zm, tag, slot);
	zm_slot_unlock(zm, number, slot);
}

/* Adds the slot to the table, so that later slots find it. */
static void zm_pass_remember(struct zm_pass *pass, u32 tag, u64 number)
{
	u32 at;

	while (pass->used >= zm_pass_full(pass) && pass->to - pass->from > 1)
		zm_pass_halve(pass);
	/*
	 * The tag belongs to a later round now, or one tag fills the table, which does not happen
	 * by chance.
	 */
	if (tag >= pass->to || pass->used >= zm_pass_full(pass))
		return;
	zm_table_find(pass, tag, U32_MAX, &at);
	pass->table[at] = (u64)tag << 32 | (u32)(number + 1);
	pass->used++;
}

/*
 * Merges the slot's object with that of an earlier slot, or adds it to the table for later slots.
 * If the earlier object has the maximum number of references, it is removed from the table, and
 * this one takes its place.
 */
static void zm_pass_slot(struct zm_pass *pass, u64 number)
{
	enum zm_match match;
	u32 tag, nth = 0, at;

	if (!zm_pass_hash(pass, number, &tag))
		return;
	while (zm_table_find(pass, tag, nth, &at)) {
		match = zm_pass_merge(pass, number, (u32)pass->table[at] - 1);
		if (match == ZM_FULL)
			zm_table_remove(pass, at);
		else if (match == ZM_DIFFERENT)
			nth++;
		else
			return;
	}
	zm_pass_make_findable(pass, number);
	zm_pass_remember(pass, tag, number);
}

/*
 * Empties the table, and chooses the range whose objects fit into it if hashes are spread evenly.
 */
static void zm_pass_begin_round(struct zm_pass *pass)
{
	u64 fits = zm_pass_full(pass) - zm_pass_full(pass) / 8, objects = zm_pass_objects(pass);
	u64 tags = objects <= fits ? ZM_TAGS_END : max_t(u64, div64_u64(fits << 32, objects), 1);

	memset(pass->table, 0, (size_t)pass->room * sizeof(*pass->table));
	pass->used = 0;
	pass->to = min_t(u64, pass->from + tags, ZM_TAGS_END);
}

/*
 * Sets pass_at: the progress over all rounds, scaled to the slots of the device; never decreases.
 */
static void zm_pass_tell(struct zm_pass *pass, u64 number)
{
	u64 at = (pass->from * pass->zm->nslots + (pass->to - pass->from) * number) >> 32;

	if (at > (u64)atomic64_read(&pass->zm->pass_at))
		atomic64_set(&pass->zm->pass_at, at);
}

/* One round over all slots. -EAGAIN: the table exceeds the limit now. */
static int zm_pass_round(struct zm_pass *pass, void (*progress)(void *ctx), void *ctx)
{
	struct zm_core *zm = pass->zm;
	u64 number;

	for (number = 0; number < zm->nslots; number++) {
		if (atomic_read(&zm->pass_stop))
			return -EINTR;
		zm_pass_slot(pass, number);
		if (number & (ZM_PASS_STEP - 1))
			continue;
		zm_pass_tell(pass, number);
		progress(ctx);
		cond_resched();
		if (zm_pass_has(pass) > zm_pass_may(pass))
			return -EAGAIN;
	}
	return 0;
}

static int zm_pass_run(struct zm_pass *pass, void (*progress)(void *ctx), void *ctx)
{
	int err = zm_table_first(pass);

	while (!err && pass->from < ZM_TAGS_END) {
		zm_pass_begin_round(pass);
		err = zm_pass_round(pass, progress, ctx);
		if (!err)
			pass->from = pass->to;
		else if (err == -EAGAIN)
			err = zm_table_smaller(pass);
	}
	zm_table_free(pass);
	return err;
}

/**
 * zm_merge - one pass over all slots
 * @zm: the core, whose pass_at is 0; setting its pass_stop ends the pass
 * @progress: called after ZM_PASS_STEP slots, with no lock held; may sleep
 * @ctx: what @progress gets
 *
 * Context: may sleep. One caller at a time.
 * Return: 0; -EINTR if it was stopped; -ENOMEM without memory for the smallest table. What was
 * merged by then stays merged.
 */
int zm_merge(struct zm_core *zm, void (*progress)(void *ctx), void *ctx)
{
	struct zm_pass pass = { .zm = zm };
	int err = -ENOMEM;

	atomic64_add(ZM_PASS_PAGES, &zm->pass_bytes);
	pass.bytes = kmalloc(PAGE_SIZE, ZM_GFP_PASS);
	pass.page = kmalloc(PAGE_SIZE, ZM_GFP_PASS);
	if (pass.bytes && pass.page)
		err = zm_pass_run(&pass, progress, ctx);
	kfree(pass.page);
	kfree(pass.bytes);
	atomic64_sub(ZM_PASS_PAGES, &zm->pass_bytes);
	return err;
}
