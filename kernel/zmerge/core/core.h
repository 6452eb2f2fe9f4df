/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * zmerge's core: the disk's slots, the objects they point to, and how equal ones become one.
 *
 * A slot is one page of the disk. An object is a page's content as it is stored: compressed, or as
 * it is where that does not pay. A slot of one repeated word has no object. Who counts the slots
 * that point to an object is the slot's kind:
 *
 *	plain		nobody: this slot alone
 *	counted		a 16-bit counter, whose number is the slot's key (counter.c); what a merge
 *			on request leaves behind
 *	indexed		the object's entry in the index, under the slot's key (index.c); what
 *			inline merging works with
 *
 * Hashes only nominate. An object is shared after its content was compared, byte by byte.
 *
 * Lock order, outermost first:
 *	slot lock	sleeps	a bit of the entry's attr: its slot (slot.c); never two at once
 *	reader		sleeps	what zm_op_reader_get() gives; taken under a slot lock or alone
 *	tree->lock	spin	a part of the index with the references of its objects
 *	counters->lock	spin	which counters are in use
 *	chunk->lock	spin	the counters of a chunk (counter.c)
 *
 * tree->lock and the locks of counters are never held together with each other or with a reader. The
 * writer of zm_op_writer_get() may be waited for and is taken with no lock held. Nothing that may wait for
 * memory is done while a slot is locked or a writer is held, so what frees memory may wait for both.
 */
#ifndef ZM_CORE_H
#define ZM_CORE_H

#include "port.h"

/* A slot's attributes: length of the object, kind, seen, lock, and above them the key. */
#define ZM_LEN_BITS	17
#define ZM_LEN_MASK	((1ull << ZM_LEN_BITS) - 1)
#define ZM_KIND_SHIFT	ZM_LEN_BITS
#define ZM_KIND_MASK	(7ull << ZM_KIND_SHIFT)
/*
 * A pass has hashed this slot's object: the mark, and the upper bits of the hash. Whoever stores into the slot
 * takes both away.
 */
#define ZM_SEEN		(1ull << (ZM_KIND_SHIFT + 3))
#define ZM_PART_SHIFT	(ZM_KIND_SHIFT + 4)
#define ZM_PART_BITS	8
#define ZM_PART_MASK	(((1ull << ZM_PART_BITS) - 1) << ZM_PART_SHIFT)
/* In an entry only, see slot.c. */
#define ZM_CLEARED	(1ull << 29)	/* the holder of the lock is to clear the slot */
#define ZM_WAITED	(1ull << 30)	/* somebody sleeps until it is unlocked */
#define ZM_LOCKED	(1ull << 31)
#define ZM_LOCK_MASK	(ZM_CLEARED | ZM_WAITED | ZM_LOCKED)
#define ZM_KEY_SHIFT	32

enum zm_kind { ZM_EMPTY, ZM_SAME, ZM_PLAIN, ZM_COUNTED, ZM_INDEXED };

/* What a page of the disk stores. All zero: nothing. */
struct zm_slot {
	u64 value;	/* the object's handle, or the word that fills the page */
	u64 attr;
};

/* A slot where it is kept, with its lock. */
struct zm_entry {
	u64 value;
	atomic64_t attr;
};

static inline enum zm_kind zm_kind(struct zm_slot slot)
{
	return (slot.attr & ZM_KIND_MASK) >> ZM_KIND_SHIFT;
}

static inline u32 zm_len(struct zm_slot slot)
{
	return slot.attr & ZM_LEN_MASK;
}

static inline u32 zm_key(struct zm_slot slot)
{
	return slot.attr >> ZM_KEY_SHIFT;
}

static inline bool zm_has_object(struct zm_slot slot)
{
	return zm_kind(slot) >= ZM_PLAIN;
}

static inline struct zm_slot zm_slot_of(enum zm_kind kind, u64 value, u32 len, u32 key)
{
	u64 attr = (u64)key << ZM_KEY_SHIFT | (u64)kind << ZM_KIND_SHIFT | len;

	return (struct zm_slot){ .value = value, .attr = attr };
}

/* index.c: many values under 32-bit tags, in memory that grows with their number. */
#ifndef ZM_LEAF_ENTRIES		/* the fuzzer has smaller ones */
#define ZM_LEAF_ENTRIES	31
#endif

/*
 * A leaf has room for 1, 3, 7, 15 or 31 entries, as many as it needs: zm_leaf_bytes() is a power of two. Behind
 * the head are the values, the tags and the metas of all entries; there is one more tag, where a search ends that
 * finds nothing.
 */
struct zm_leaf {
	u8 depth;	/* how many bits of the tag all entries have in common */
	u8 count;
	u8 room;
	u64 values[];
};

struct zm_tree {
	spinlock_t lock;	/* all of the tree */
	u8 depth;	/* the directory has 2^depth pointers */
	u16 singles;	/* entries with one reference */
	struct zm_leaf **leaves;	/* NULL: no entries */
};

struct zm_index {
	struct zm_tree *trees;
	u32 ntrees;
	atomic64_t bytes;
};

/* What an entry of the inline index says beside its tag: a handle, its length, its references. */
#ifndef ZM_REFS_MAX		/* a test has fewer */
#define ZM_REFS_MAX	((1u << (32 - ZM_LEN_BITS)) - 1)
#endif

/*
 * Objects under one tag that have as many references as can be counted. Further objects of the same page get
 * another tag, the next one, because a leaf has room for only so many entries with the same tag.
 */
#define ZM_TAG_FULL	(ZM_LEAF_ENTRIES / 2)
#define ZM_NEXT_TAG	0x9e3779b1u

int zm_index_init(struct zm_index *index, u64 objects);
void zm_index_destroy(struct zm_index *index);
bool zm_index_add(struct zm_index *index, u32 tag, u64 value, u32 meta);
struct zm_slot zm_index_get_nth(struct zm_index *index, u32 tag, u32 nth);
bool zm_index_get(struct zm_index *index, u32 tag, u64 handle);
bool zm_index_full(struct zm_index *index, u32 tag, u64 handle);
bool zm_index_put(struct zm_index *index, u32 tag, u64 handle);
bool zm_index_forget_single(struct zm_index *index, u32 tag, u64 handle);
u64 zm_index_singles(struct zm_index *index);

/* counter.c: 16-bit reference counts, in chunks of a page. */
struct zm_counters {
	spinlock_t lock;		/* which counters are in use */
	struct zm_chunk **chunks;
	u32 nchunks;
	u32 lowest;			/* all chunks before this one are there */
	struct list_head spare;		/* chunks with a free counter */
	atomic64_t bytes;
};

int zm_counters_init(struct zm_counters *counters, u64 slots);
void zm_counters_destroy(struct zm_counters *counters);
void zm_counters_reserve(struct zm_counters *counters, gfp_t gfp);
bool zm_counter_new(struct zm_counters *counters, u32 *number);
bool zm_counter_get(struct zm_counters *counters, u32 number);
bool zm_counter_put(struct zm_counters *counters, u32 number);
bool zm_counter_full(struct zm_counters *counters, u32 number);

/*
 * Where there are domains, pages are merged only with pages of the same one. What is in this one is of no known
 * domain, and is merged with nothing.
 */
#define ZM_NO_DOMAIN	0

/* What one page costs to hash and compare is most of what inline merging costs: hash.c. */
u64 zm_hash(const void *bytes, size_t len, u64 seed);
bool zm_same_between(const void *page);
bool zm_equal(const void *a, const void *b, size_t len);
u32 zm_fingerprint(const void *bytes, u32 len, u64 seed);
void zm_fill(void *page, u64 word);

/* Whether one word fills a page. Most pages end with another one than they begin with. */
static inline bool zm_same_filled(const void *page)
{
	const u64 *words = page;

	return words[0] == words[PAGE_SIZE / sizeof(u64) - 1] && zm_same_between(page);
}

/* Whether an LZ4 block decompresses to a page, told without decompressing: lz4_equal.c. */
bool zm_lz4_equal(const void *from, u32 len, const void *page);

enum zm_mode { ZM_OFF, ZM_REQUEST, ZM_INLINE, ZM_ADAPTIVE };

/*
 * Where objects are kept, and what turns pages into them: the operations that the core is linked
 * with (glue/store.c in the kernel, user/fake.c in user space). A handle is never zero.
 */
struct zm_reader;
struct zm_writer;

/* Room on the memory node of @page; zero when there is none. Without @may_wait it returns at once. */
u64 zm_op_alloc(void *ctx, const void *page, u32 len, bool may_wait);
void zm_op_free(void *ctx, u64 handle);
/* Bytes that a limit of the device's memory leaves for what is no object; U64_MAX: there is no limit. */
u64 zm_op_room(void *ctx);
void zm_op_store(void *ctx, u64 handle, const void *bytes, u32 len);
/* A reader is held for one object. Between load and unload nothing sleeps. */
struct zm_reader *zm_op_reader_get(void *ctx);
void zm_op_reader_put(void *ctx, struct zm_reader *reader);
const void *zm_op_load(void *ctx, struct zm_reader *reader, u64 handle, u32 len);
void zm_op_unload(void *ctx, struct zm_reader *reader, u64 handle, u32 len, const void *at);
int zm_op_decompress(void *ctx, struct zm_reader *reader, const void *from, u32 len, void *page);
/* Whether these bytes decompress to @page. False where they do not decompress. */
bool zm_op_same(void *ctx, struct zm_reader *reader, const void *from, u32 len, const void *page);
/* A writer holds what it compressed last until it is put. */
struct zm_writer *zm_op_writer_get(void *ctx);
void zm_op_writer_put(void *ctx, struct zm_writer *writer);
/* Compressed bytes: where they are, and how many; below zero: the error, -ENOSPC where they are too many. */
struct zm_packed {
	const void *at;
	int len;
};

struct zm_packed zm_op_compress(void *ctx, struct zm_writer *writer, const void *page);

/* Whole-device sums. Those of objects count a shared object once. */
struct zm_stats {
	atomic64_t pages;		/* slots that store something */
	atomic64_t same_pages;
	atomic64_t stored_bytes;	/* of all objects */
	atomic64_t huge_pages;		/* slots whose object is a page as it is */
	atomic64_t huge_pages_since;
	atomic64_t merged_pages;	/* slots that need no object of their own */
	atomic64_t merged_bytes;
	atomic64_t hits;		/* writes that inline merging looked for, and found */
	atomic64_t misses;
};

/* A CPU may take away from a sum before another one has added what that is: never below zero for who reads. */
static inline u64 zm_sum(const atomic64_t *sum)
{
	return max_t(s64, atomic64_read(sum), 0);
}

/*
 * Whether copies are frequent enough to look every page up. One word has all that a decision depends on, and
 * is replaced as a whole: ZM_ASLEEP, the pages looked up since the last decision, and above them the copies
 * among those.
 */
#define ZM_ASLEEP	(1ull << 63)
#define ZM_FOUND_SHIFT	32

struct zm_adapt {
	atomic64_t seen;
	atomic_t written;	/* pages since the device fell asleep, and before */
};

struct zm_core {
	void *ctx;
	u32 huge_len;		/* from here on an object is a page as it is */
	u64 nslots;
	struct zm_entry *entries;
	u32 *domains;		/* of each slot, under its lock; NULL: there is one domain */
	struct lockdep_map slot_map;	/* tells lockdep of the locks of all slots */
	u64 seed;
	atomic_t mode;
	struct zm_adapt adapt;
	struct zm_index index;
	atomic64_t forget_at;	/* the slot that zm_forget_some() looks at next */
	struct zm_counters counters;
	struct zm_stats stats;
	/* The request pass: how far it is, in slots; who wants it to end; what memory it may have, and has. */
	atomic64_t pass_at;
	atomic_t pass_stop;
	atomic64_t pass_budget;
	atomic64_t pass_bytes;
};

/* What a pass may take if nobody says otherwise, and what can be said. */
#define ZM_BUDGET	(1ul << 20)
#define ZM_BUDGET_MIN	(4 * PAGE_SIZE)
#define ZM_BUDGET_MAX	(1ul << 30)
/* A pass tells how far it is after so many slots: a power of two. */
#define ZM_PASS_STEP	1024

static inline bool zm_asleep(struct zm_core *zm)
{
	return atomic64_read(&zm->adapt.seen) & ZM_ASLEEP;
}

/* slot.c */
int zm_init(struct zm_core *zm, u64 nslots, void *ctx, u32 huge_len, u64 seed);
int zm_use_domains(struct zm_core *zm);
void zm_destroy(struct zm_core *zm);
int zm_read(struct zm_core *zm, u64 number, void *page);
int zm_read_object(struct zm_core *zm, struct zm_slot slot, void *page);
void zm_clear(struct zm_core *zm, u64 number);
void zm_clear_at_once(struct zm_core *zm, u64 number);
u64 zm_entry_wait(struct zm_entry *entry);
void zm_entry_release(struct zm_core *zm, struct zm_entry *entry, struct zm_slot slot);
void zm_slot_put(struct zm_core *zm, u64 number, struct zm_slot now, u32 domain);
int zm_object_get(struct zm_core *zm, struct zm_slot *slot, struct zm_slot *object);
bool zm_is_full(struct zm_core *zm, struct zm_slot slot);
void zm_object_put(struct zm_core *zm, struct zm_slot was);
void zm_account_shared(struct zm_core *zm, struct zm_slot object, int sign);
u64 zm_index_bytes(struct zm_core *zm);

/* Equal pages of different domains have different hashes, but for one pair in 2^32. */
static inline u64 zm_seed_of(struct zm_core *zm, u32 domain)
{
	return zm->seed ^ domain * 0x9e3779b97f4a7c15ull;
}

/* @object begins to be stored, or ends. */
static inline void zm_account_object(struct zm_core *zm, struct zm_slot object, int sign)
{
	atomic64_add(sign * (s64)zm_len(object), &zm->stats.stored_bytes);
}

/* The same object, counted another way. */
static inline void zm_recount(struct zm_slot *slot, enum zm_kind kind, u32 key)
{
	u64 seen = slot->attr & (ZM_SEEN | ZM_PART_MASK);

	*slot = zm_slot_of(kind, slot->value, zm_len(*slot), key);
	slot->attr |= seen;
}

/* Locks a slot where it is not locked, and gives what it stores in *slot. Never sleeps. */
static inline bool zm_slot_trylock(struct zm_core *zm, u64 number, struct zm_slot *slot)
{
	struct zm_entry *entry = &zm->entries[number];
	s64 attr = atomic64_read(&entry->attr) & ~ZM_LOCK_MASK;

	if (unlikely(!atomic64_try_cmpxchg(&entry->attr, &attr, attr | ZM_LOCKED)))
		return false;
	mutex_acquire(&zm->slot_map, 0, 1, _RET_IP_);
	*slot = (struct zm_slot){ .value = entry->value, .attr = attr };
	return true;
}

/* Locks a slot, and gives what it stores. May sleep: only a debugging kernel looks whether it may, as that costs. */
static inline struct zm_slot zm_slot_lock(struct zm_core *zm, u64 number)
{
	struct zm_entry *entry = &zm->entries[number];
	s64 attr = atomic64_read(&entry->attr) & ~ZM_LOCK_MASK;

	__might_sleep(__FILE__, __LINE__);
	mutex_acquire(&zm->slot_map, 0, 0, _RET_IP_);
	if (unlikely(!atomic64_try_cmpxchg(&entry->attr, &attr, attr | ZM_LOCKED)))
		attr = zm_entry_wait(entry);
	return (struct zm_slot){ .value = entry->value, .attr = attr };
}

/* The slot stores @slot from now on, and is unlocked. Never sleeps. */
static inline void zm_slot_unlock(struct zm_core *zm, u64 number, struct zm_slot slot)
{
	struct zm_entry *entry = &zm->entries[number];
	s64 attr = atomic64_read(&entry->attr);

	mutex_release(&zm->slot_map, _RET_IP_);
	entry->value = slot.value;
	if (unlikely(attr & (ZM_CLEARED | ZM_WAITED)) || unlikely(!atomic64_try_cmpxchg(&entry->attr, &attr, slot.attr)))
		zm_entry_release(zm, entry, slot);
}

/* write.c */
u32 zm_tag(struct zm_core *zm, const void *page, u32 domain);
struct zm_slot zm_make_findable(struct zm_core *zm, u32 tag, struct zm_slot object);
int zm_write(struct zm_core *zm, u64 number, const void *page, u32 domain);
void zm_set_mode(struct zm_core *zm, enum zm_mode mode);
u64 zm_forget_some(struct zm_core *zm, u64 entries);

/* merge.c */
int zm_merge(struct zm_core *zm, void (*progress)(void *ctx), void *ctx);

#endif
