// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a page to a slot: as one repeated word, as a reference to an equal object, or as a new
 * object.
 *
 * Inline merging looks for a copy before it compresses: the hash nominates candidates, and the
 * stored page is compared. The page may change while it is written; then its writer cannot expect
 * any particular content, and a candidate that does not compare equal is not used, whatever the
 * hash said.
 *
 * Adaptive mode counts the copies that it finds. If fewer than one page in 64 is a copy, it falls
 * asleep and looks up only two samples:
 *
 *	by content	a sixteenth of all pages, chosen by a few words of their compressed bytes, so that
 *			either all copies of a page are chosen or none. It finds copies of many different
 *			pages.
 *	by time		16 consecutive pages of 512 on average. It finds copies of a few pages that are
 *			written often, which the first sample misses if it contains none of them.
 */
#include "core.h"

/* Lookups between two decisions, and the copies among them from which lookups pay off. */
#define ZM_WINDOW	512
#define ZM_WORTH	8
/* These numbers while asleep: fewer lookups, because waking up too early costs little. */
#define ZM_WINDOW_ASLEEP 64
#define ZM_WORTH_ASLEEP	2
#define ZM_CANDIDATES	16	/* more objects than share a seeded 32-bit hash by chance */
#define ZM_CHOSEN	(1u << 28)	/* limit for fingerprints: selects a sixteenth */
/* Number of pages in a row that are looked up while asleep, and the share of such rows, of 2^32. */
#define ZM_ROW		16
#define ZM_ROWS_CHOSEN	(1u << 27)
#define ZM_SPREAD	0x9e3779b1u

/* The decision for @seen: 0 for awake, ZM_ASLEEP, or @seen itself for none yet. */
static u64 zm_decide(u64 seen)
{
	u32 looked = seen, found = (seen & ~ZM_ASLEEP) >> ZM_FOUND_SHIFT;

	if (seen & ZM_ASLEEP) {
		if (found >= ZM_WORTH_ASLEEP)
			return 0;
		return looked < ZM_WINDOW_ASLEEP ? seen : ZM_ASLEEP;
	}
	if (looked < ZM_WINDOW)
		return seen;
	return found < looked / (ZM_WINDOW / ZM_WORTH) ? ZM_ASLEEP : 0;
}

/*
 * Counts one lookup, and decides if enough were counted. If another CPU counts a lookup at the same
 * time, the exchange fails, and that CPU decides for both.
 */
static void zm_learn(struct zm_core *zm, bool copy)
{
	u64 seen, next;

	if (atomic_read(&zm->mode) != ZM_ADAPTIVE)
		return;
	seen = atomic64_add_return(1 + ((u64)copy << ZM_FOUND_SHIFT), &zm->adapt.seen);
	next = zm_decide(seen);
	if (next != seen)
		atomic64_cmpxchg(&zm->adapt.seen, seen, next);
}

/*
 * Whether to look up this page in any case. While asleep, rows are 21 to 55 apart, at irregular
 * distances.
 */
static bool zm_looks_up_all(struct zm_core *zm)
{
	if (!zm_asleep(zm))
		return true;
	return (u32)atomic_inc_return(&zm->adapt.written) / ZM_ROW * ZM_SPREAD < ZM_ROWS_CHOSEN;
}

/* Whether @object, to which the caller has a reference, stores @page. */
static bool zm_is_page(struct zm_core *zm, struct zm_slot object, const void *page)
{
	struct zm_reader *reader = zm_op_reader_get(zm->ctx);
	const void *from = zm_op_load(zm->ctx, reader, object.value, zm_len(object));
	bool same;

	if (zm_len(object) == PAGE_SIZE)
		same = zm_equal(from, page, PAGE_SIZE);
	else
		same = zm_op_same(zm->ctx, reader, from, zm_len(object), page);
	zm_op_unload(zm->ctx, reader, object.value, zm_len(object), from);
	zm_op_reader_put(zm->ctx, reader);
	return same;
}

/*
 * Takes a reference to an object under @tag that stores @page. If none does: empty, as
 * zm_index_get_nth() returns it.
 */
static struct zm_slot zm_find_under(struct zm_core *zm, u32 tag, const void *page)
{
	struct zm_slot object;
	u32 nth;

	for (nth = 0; nth < ZM_CANDIDATES; nth++) {
		object = zm_index_get_nth(&zm->index, tag, nth);
		if (!zm_has_object(object))
			return object;
		zm_account_shared(zm, object, 1);
		if (zm_is_page(zm, object, page))
			return object;
		zm_object_put(zm, object);
	}
	return (struct zm_slot){ 0 };
}

/*
 * Takes a reference to an object that stores @page. If none does: empty, with the tag for adding
 * @page as the key.
 */
static struct zm_slot zm_find_copy(struct zm_core *zm, u32 tag, const void *page)
{
	struct zm_slot object;

	for (;; tag += ZM_NEXT_TAG) {
		object = zm_find_under(zm, tag, page);
		if (zm_has_object(object))
			return object;
		if (object.value < ZM_TAG_FULL)
			return zm_slot_of(ZM_EMPTY, 0, 0, tag);
	}
}

/* Compresses @page; if that does not save enough, returns the page itself. */
static struct zm_packed zm_compress(struct zm_core *zm, struct zm_writer *writer, const void *page)
{
	struct zm_packed packed = zm_op_compress(zm->ctx, writer, page);

	if (packed.len == -ENOSPC || packed.len >= (int)zm->huge_len)
		packed = (struct zm_packed){ .at = page, .len = PAGE_SIZE };
	return packed;
}

/* An object being stored: its handle, allocated and used bytes, and fingerprint. */
struct zm_parcel {
	u64 handle;
	u32 room;
	u32 len;
	u32 fingerprint;
	bool wants_fingerprint;
};

/*
 * Compresses and stores the page, allocating room if there is none. -EAGAIN: wait for room, then
 * try again.
 */
static int zm_try_store(struct zm_core *zm, const void *page, struct zm_parcel *parcel)
{
	struct zm_writer *writer = zm_op_writer_get(zm->ctx);
	struct zm_packed packed = zm_compress(zm, writer, page);
	int err = min_t(int, packed.len, 0);

	parcel->len = packed.len;
	if (!err && !parcel->handle) {
		parcel->room = parcel->len;
		parcel->handle = zm_op_alloc(zm->ctx, page, parcel->len, false);
	}
	if (!err && (!parcel->handle || parcel->len > parcel->room))
		err = -EAGAIN;
	if (!err) {
		zm_op_store(zm->ctx, parcel->handle, packed.at, parcel->len);
		if (parcel->wants_fingerprint)
			parcel->fingerprint = zm_fingerprint(packed.at, parcel->len, zm->seed);
	}
	zm_op_writer_put(zm->ctx, writer);
	return err;
}

/*
 * Replaces the room, waiting for memory; from the second try on for a whole page, because the page
 * changes.
 */
static int zm_wait_for_room(struct zm_core *zm, const void *page, struct zm_parcel *parcel, int tries)
{
	if (parcel->handle)
		zm_op_free(zm->ctx, parcel->handle);
	parcel->room = tries ? PAGE_SIZE : parcel->len;
	parcel->handle = zm_op_alloc(zm->ctx, page, parcel->room, true);
	return parcel->handle ? 0 : -ENOMEM;
}

/* An empty result that carries the error. */
static struct zm_slot zm_no_object(int err)
{
	return (struct zm_slot){ .value = err };
}

/*
 * Stores @page as a new object, or returns zm_no_object(). Memory is waited for without holding the
 * writer, and then the page is compressed again. With @fingerprint, also computes that of the
 * object.
 */
static struct zm_slot zm_store(struct zm_core *zm, const void *page, u32 *fingerprint)
{
	struct zm_parcel parcel = { .wants_fingerprint = fingerprint };
	struct zm_slot object;
	int tries = 0, err;

	while ((err = zm_try_store(zm, page, &parcel)) == -EAGAIN) {
		err = zm_wait_for_room(zm, page, &parcel, tries++);
		if (err)
			return zm_no_object(err);
	}
	if (err) {
		if (parcel.handle)
			zm_op_free(zm->ctx, parcel.handle);
		return zm_no_object(err);
	}
	if (fingerprint)
		*fingerprint = parcel.fingerprint;
	object = zm_slot_of(ZM_PLAIN, parcel.handle, parcel.len, 0);
	zm_account_object(zm, object, 1);
	if (parcel.len == PAGE_SIZE)
		atomic64_inc(&zm->stats.huge_pages_since);
	return object;
}

/*
 * Adds @object, to which one slot points, to the index, so that later copies find it; without
 * memory it is not added. Returns the object with its new kind. If a slot stores it already, that
 * slot must be locked.
 */
struct zm_slot zm_make_findable(struct zm_core *zm, u32 tag, struct zm_slot object)
{
	u32 meta = zm_len(object) | 1u << ZM_LEN_BITS;

	if (zm_index_add(&zm->index, tag, object.value, meta))
		zm_recount(&object, ZM_INDEXED, tag);
	return object;
}

u32 zm_tag(struct zm_core *zm, const void *page, u32 domain)
{
	return zm_hash(page, PAGE_SIZE, zm_seed_of(zm, domain)) >> 32;
}

/* Finds a copy by zm_find_copy(), and updates the sums and the state of the adaptive mode. */
static struct zm_slot zm_look(struct zm_core *zm, const void *page, u32 domain)
{
	struct zm_slot found = zm_find_copy(zm, zm_tag(zm, page, domain), page);
	bool copy = zm_has_object(found);

	atomic64_inc(copy ? &zm->stats.hits : &zm->stats.misses);
	zm_learn(zm, copy);
	return found;
}

/* Looks for a copy, and compresses the page only if there is none. */
static struct zm_slot zm_write_inline(struct zm_core *zm, const void *page, u32 domain)
{
	struct zm_slot found = zm_look(zm, page, domain), object;

	if (zm_has_object(found))
		return found;
	object = zm_store(zm, page, NULL);
	return zm_has_object(object) ? zm_make_findable(zm, zm_key(found), object) : object;
}

/* Compresses, and looks for a copy only if the object is in the sample by content. */
static noinline struct zm_slot zm_write_asleep(struct zm_core *zm, const void *page, u32 domain)
{
	u32 fingerprint;
	struct zm_slot object = zm_store(zm, page, &fingerprint), found;

	if (!zm_has_object(object) || fingerprint >= ZM_CHOSEN)
		return object;
	found = zm_look(zm, page, domain);
	if (!zm_has_object(found))
		return zm_make_findable(zm, zm_key(found), object);
	zm_object_put(zm, object);
	return found;
}

/* An object that stores @page, or zm_no_object(). */
static struct zm_slot zm_write_object(struct zm_core *zm, const void *page, u32 domain)
{
	enum zm_mode mode = atomic_read(&zm->mode);

	if (mode < ZM_INLINE || (zm->domains && domain == ZM_NO_DOMAIN))
		return zm_store(zm, page, NULL);
	if (mode == ZM_INLINE || zm_looks_up_all(zm))
		return zm_write_inline(zm, page, domain);
	return zm_write_asleep(zm, page, domain);
}

/*
 * The bytes that the pages of all slots would take if none were merged. Compressed objects count an
 * eighth more than their length, because the allocator rounds it up. Merging does not change this
 * sum, nor does it matter for it whether a page that is written was stored already.
 */
static u64 zm_charge(struct zm_core *zm)
{
	u64 all = zm_sum(&zm->stats.stored_bytes) + zm_sum(&zm->stats.merged_bytes);
	u64 huge = zm_sum(&zm->stats.huge_pages) << PAGE_SHIFT;

	return all + (all > huge ? all - huge : 0) / 8;
}

/*
 * Whether the memory limit permits to write a page, whatever it contains. This is decided before
 * the page is looked up, for a whole page, and counts the writes that have not ended: if a copy
 * could be written where no other page can, any program could find out what others have stored.
 */
static bool zm_may_write(struct zm_core *zm, s64 writes)
{
	return zm_op_permits(zm->ctx, zm_charge(zm) + ((u64)writes << PAGE_SHIFT));
}

/**
 * zm_write - store a page
 * @zm: the core
 * @number: the slot
 * @page: its page; if it changes meanwhile, the stored content is undefined
 * @domain: the domain within which it may be merged; ignored without zm_use_domains()
 *
 * Context: may sleep, waiting for a writer and for memory.
 * Return: 0; -ENOMEM without memory or at the memory limit, or the codec's error. On failure the
 * slot is unchanged.
 */
int zm_write(struct zm_core *zm, u64 number, const void *page, u32 domain)
{
	s64 writes = atomic64_add_return(1, &zm->writes);
	struct zm_slot now;

	if (zm_same_filled(page))
		now = zm_slot_of(ZM_SAME, *(const u64 *)page, 0, 0);
	else if (zm_may_write(zm, writes))
		now = zm_write_object(zm, page, domain);
	else
		now = zm_no_object(-ENOMEM);
	if (zm_kind(now) != ZM_EMPTY)
		zm_slot_put(zm, number, now, domain);
	atomic64_sub(1, &zm->writes);
	return zm_kind(now) == ZM_EMPTY ? now.value : 0;
}

/*
 * Removes the index entry of an object that only this slot has. The slot must be locked. True if
 * an entry was removed.
 */
static bool zm_make_plain(struct zm_core *zm, struct zm_slot *slot)
{
	bool had = zm_kind(*slot) == ZM_INDEXED && zm_index_forget_single(&zm->index, zm_key(*slot), slot->value);

	if (had)
		zm_recount(slot, ZM_PLAIN, 0);
	return had;
}

/*
 * zm_make_plain() for slot @number, which is locked for that without waiting. False if another task
 * has locked it, or if its object has no index entry that can be removed.
 */
static bool zm_try_make_plain(struct zm_core *zm, u64 number)
{
	struct zm_slot slot;
	bool had;

	if (!zm_slot_trylock(zm, number, &slot))
		return false;
	had = zm_make_plain(zm, &slot);
	zm_slot_unlock(zm, number, slot);
	return had;
}

/* Slots examined for each entry to be removed: most slots may have none. */
#define ZM_FORGET_LOOKS	16

/**
 * zm_forget_some - free memory of the index
 * @zm: the core
 * @entries: maximum number of entries to remove
 *
 * Removes entries of objects that only one slot has. Copies of these are not found when they are
 * written, but by a pass. Examines up to 16 slots for each entry, and continues where the last call
 * ended.
 *
 * Context: never sleeps.
 * Return: the number of removed entries.
 */
u64 zm_forget_some(struct zm_core *zm, u64 entries)
{
	u64 most = min_t(u64, entries * ZM_FORGET_LOOKS, zm->nslots), forgotten = 0;

	while (most-- && forgotten < entries) {
		u64 number;

		div64_u64_rem(atomic64_add_return(1, &zm->forget_at), zm->nslots, &number);
		forgotten += zm_try_make_plain(zm, number);
	}
	return forgotten;
}

/**
 * zm_set_mode - change what writes do from now on
 * @zm: the core
 * @mode: when pages are merged
 *
 * Leaving inline merging frees the index, except for the entries of shared objects, which count
 * their references.
 *
 * Context: may sleep. One caller at a time.
 */
void zm_set_mode(struct zm_core *zm, enum zm_mode mode)
{
	enum zm_mode was = atomic_xchg(&zm->mode, mode);
	struct zm_slot slot;
	u64 number;

	atomic64_set(&zm->adapt.seen, 0);
	atomic_set(&zm->adapt.written, 0);
	if (was < ZM_INLINE || mode >= ZM_INLINE)
		return;
	for (number = 0; number < zm->nslots; number++) {
		slot = zm_slot_lock(zm, number);
		zm_make_plain(zm, &slot);
		zm_slot_unlock(zm, number, slot);
		if (!(number & 1023))
			cond_resched();
	}
}
