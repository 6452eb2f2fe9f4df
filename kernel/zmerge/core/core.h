/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * zmerge's core: the disk's slots, the objects they point to, and the merging of equal objects.
 *
 * A slot is one page of the disk. An object is the content of a page as it is stored: compressed,
 * or uncompressed if compression does not save enough. A slot whose page is one repeated word has
 * no object. The kind of a slot says where the number of slots that point to its object is counted:
 *	plain		nowhere: only this slot points to it
 *	counted		in a 16-bit counter, whose number is the slot's key (counter.c); used by
 *			passes on request
 *	indexed		in the object's entry in the index, under the slot's key (index.c); used by
 *			inline merging
 *
 * Hashes only nominate candidates: an object is shared only after its content was compared byte by
 * byte.
 *
 * Lock order, outermost first:
 *	slot lock	sleeps	one slot; a bit of the entry's attr (slot.c); never two at once
 *	reader		sleeps	the result of zm_op_reader_get(); taken under a slot lock or alone
 *	tree->lock	spin	a part of the index with the references of its objects
 *	counters->lock	spin	allocating and freeing counters
 *	chunk->lock	spin	the values of the counters in a chunk (counter.c)
 *
 * tree->lock and the locks of counters are never held together with each other or with a reader.
 * The writer of zm_op_writer_get() is taken with no lock held, and taking it may sleep. Memory is
 * never waited for while a slot is locked or a writer is held, so code that reclaims memory may
 * wait for both.
 */
#ifndef ZM_CORE_H
#define ZM_CORE_H

#include "port.h"

/*
 * zm_slot.attr, from the lowest bit: length of the object, kind, seen mark with part of the hash,
 * lock bits, key.
 */
#define ZM_LEN_BITS	17
#define ZM_LEN_MASK	((1ull << ZM_LEN_BITS) - 1)
#define ZM_KIND_SHIFT	ZM_LEN_BITS
#define ZM_KIND_MASK	(7ull << ZM_KIND_SHIFT)
/*
 * Set when a pass has hashed this slot's object, together with the upper bits of the hash. A write
 * to the slot clears both.
 */
#define ZM_SEEN		(1ull << (ZM_KIND_SHIFT + 3))
#define ZM_PART_SHIFT	(ZM_KIND_SHIFT + 4)
#define ZM_PART_BITS	8
#define ZM_PART_MASK	(((1ull << ZM_PART_BITS) - 1) << ZM_PART_SHIFT)
/* Only in struct zm_entry, see slot.c. */
#define ZM_CLEARED	(1ull << 29)	/* the holder of the lock must clear the slot */
#define ZM_WAITED	(1ull << 30)	/* tasks wait for the lock */
#define ZM_LOCKED	(1ull << 31)
#define ZM_LOCK_MASK	(ZM_CLEARED | ZM_WAITED | ZM_LOCKED)
#define ZM_KEY_SHIFT	32

enum zm_kind { ZM_EMPTY, ZM_SAME, ZM_PLAIN, ZM_COUNTED, ZM_INDEXED };

/* What a page of the disk stores. All zero: the slot is empty. */
struct zm_slot {
	u64 value;	/* the object's handle, or the word that fills the page */
	u64 attr;
};

/* A slot in the table, whose attr also contains the lock. */
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

/* index.c: maps 32-bit tags to objects; its memory grows with their number. */
#ifndef ZM_LEAF_ENTRIES		/* smaller in the fuzzer */
#define ZM_LEAF_ENTRIES	31
#endif

/*
 * A leaf has room for 1, 3, 7, 15 or 31 entries, so that zm_leaf_bytes() is a power of two. After
 * the head follow the values, the tags and the metas of all entries. There is one tag more than
 * entries, a sentinel for searches.
 */
struct zm_leaf {
	u8 depth;	/* number of tag bits that all entries share */
	u8 count;
	u8 room;
	u64 values[];
};

struct zm_tree {
	spinlock_t lock;	/* protects the whole tree */
	u8 depth;	/* the directory has 2^depth pointers */
	u16 singles;	/* entries with one reference */
	struct zm_leaf **leaves;	/* NULL: no entries */
};

struct zm_index {
	struct zm_tree *trees;
	u32 ntrees;
	atomic64_t bytes;
};

/* The meta of an index entry: the length of the object, and above it the number of references. */
#ifndef ZM_REFS_MAX		/* smaller in a test */
#define ZM_REFS_MAX	((1u << (32 - ZM_LEN_BITS)) - 1)
#endif

/*
 * This many objects under one tag can have the maximum number of references. Further objects with
 * the same page get another tag, tag + ZM_NEXT_TAG, because a leaf has room for only so many
 * entries with the same tag.
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

/* counter.c: 16-bit reference counts, in chunks of one page. */
struct zm_counters {
	spinlock_t lock;		/* protects allocating and freeing counters */
	struct zm_chunk **chunks;
	u32 nchunks;
	u32 lowest;			/* all chunks below this index exist */
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
 * With merge_domain, pages are merged only with pages of the same domain. Pages of this one have no
 * known domain, and are never merged.
 */
#define ZM_NO_DOMAIN	0

/* hash.c: hashing and comparing a page is most of the cost of inline merging. */
u64 zm_hash(const void *bytes, size_t len, u64 seed);
bool zm_same_between(const void *page);
bool zm_equal(const void *a, const void *b, size_t len);
u32 zm_fingerprint(const void *bytes, u32 len, u64 seed);
void zm_fill(void *page, u64 word);

/*
 * Whether one word fills the page. The first and last word are compared first: for most pages they
 * differ.
 */
static inline bool zm_same_filled(const void *page)
{
	const u64 *words = page;

	return words[0] == words[PAGE_SIZE / sizeof(u64) - 1] && zm_same_between(page);
}

/*
 * lz4_equal.c: whether an LZ4 block decompresses to the page, determined without decompressing it.
 */
bool zm_lz4_equal(const void *from, u32 len, const void *page);

enum zm_mode { ZM_OFF, ZM_REQUEST, ZM_INLINE, ZM_ADAPTIVE };

/*
 * Operations that store objects and (de)compress pages. The core is linked with them (glue/store.c
 * in the kernel, user/fake.c in user space). A handle is never zero.
 */
struct zm_reader;
struct zm_writer;

/*
 * Allocates room for @len bytes, on the NUMA node of @page; 0 without memory. Without @may_wait it
 * never sleeps.
 */
u64 zm_op_alloc(void *ctx, const void *page, u32 len, bool may_wait);
void zm_op_free(void *ctx, u64 handle);
/*
 * Whether the device's memory limit permits to write a page when the pages of all slots, with those
 * being written, would take @charge bytes without merging.
 */
bool zm_op_permits(void *ctx, u64 charge);
/* Bytes that the limit leaves for anything but objects; U64_MAX without a limit. */
u64 zm_op_room(void *ctx);
void zm_op_store(void *ctx, u64 handle, const void *bytes, u32 len);
/* A reader is held for one object. Nothing sleeps between zm_op_load() and zm_op_unload(). */
struct zm_reader *zm_op_reader_get(void *ctx);
void zm_op_reader_put(void *ctx, struct zm_reader *reader);
const void *zm_op_load(void *ctx, struct zm_reader *reader, u64 handle, u32 len);
void zm_op_unload(void *ctx, struct zm_reader *reader, u64 handle, u32 len, const void *at);
int zm_op_decompress(void *ctx, struct zm_reader *reader, const void *from, u32 len, void *page);
/* Whether these bytes decompress to @page; false if they do not decompress at all. */
bool zm_op_same(void *ctx, struct zm_reader *reader, const void *from, u32 len, const void *page);
/* A writer keeps the result of its last compression until it is put. */
struct zm_writer *zm_op_writer_get(void *ctx);
void zm_op_writer_put(void *ctx, struct zm_writer *writer);
/*
 * Compressed bytes: address and length. A negative length is an error, -ENOSPC if they do not fit.
 */
struct zm_packed {
	const void *at;
	int len;
};

struct zm_packed zm_op_compress(void *ctx, struct zm_writer *writer, const void *page);

/* Sums of the whole device. Sums of objects count a shared object once. */
struct zm_stats {
	atomic64_t pages;		/* slots that are not empty */
	atomic64_t same_pages;
	atomic64_t stored_bytes;	/* length of all objects */
	atomic64_t huge_pages;		/* slots whose object is uncompressed */
	atomic64_t huge_pages_since;
	atomic64_t merged_pages;	/* slots that share another slot's object */
	atomic64_t merged_bytes;
	atomic64_t hits;		/* lookups of inline merging that found a copy */
	atomic64_t misses;
};

/* With concurrent updates a sum may be negative for a moment; readers then get 0. */
static inline u64 zm_sum(const atomic64_t *sum)
{
	return max_t(s64, atomic64_read(sum), 0);
}

/*
 * State of adaptive mode: whether copies are frequent enough to look up every page. All that a
 * decision depends on is in one word, which is replaced atomically: ZM_ASLEEP, above bit 32 the
 * copies found, and below it the pages looked up since the last decision.
 */
#define ZM_ASLEEP	(1ull << 63)
#define ZM_FOUND_SHIFT	32

struct zm_adapt {
	atomic64_t seen;
	atomic_t written;	/* pages written while asleep, selects the sample by time */
};

struct zm_core {
	void *ctx;
	u32 huge_len;		/* objects of this length or more are stored uncompressed */
	u64 nslots;
	struct zm_entry *entries;
	u32 *domains;		/* domain of each slot, under its lock; NULL: one domain */
	struct lockdep_map slot_map;	/* lockdep's view of the slot locks */
	u64 seed;
	atomic_t mode;
	struct zm_adapt adapt;
	struct zm_index index;
	atomic64_t forget_at;	/* the next slot for zm_forget_some() */
	struct zm_counters counters;
	struct zm_stats stats;
	atomic64_t writes;	/* number of writes that have not ended */
	/*
	 * The pass on request: its progress in slots, a request to stop it, its memory limit and
	 * the memory that it uses, both in bytes.
	 */
	atomic64_t pass_at;
	atomic_t pass_stop;
	atomic64_t pass_budget;
	atomic64_t pass_bytes;
};

/* Memory limit of a pass in bytes: the default, the minimum and the maximum. */
#define ZM_BUDGET	(1ul << 20)
#define ZM_BUDGET_MIN	(4 * PAGE_SIZE)
#define ZM_BUDGET_MAX	(1ul << 30)
/* A pass reports its progress after this many slots; a power of two. */
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

/* Equal pages of different domains get different hashes, except for one pair in 2^32. */
static inline u64 zm_seed_of(struct zm_core *zm, u32 domain)
{
	return zm->seed ^ domain * 0x9e3779b97f4a7c15ull;
}

/* Adds @object to the sums of stored objects, or with @sign -1 removes it. */
static inline void zm_account_object(struct zm_core *zm, struct zm_slot object, int sign)
{
	atomic64_add(sign * (s64)zm_len(object), &zm->stats.stored_bytes);
}

/* Changes where the references of the slot's object are counted; the object stays the same. */
static inline void zm_recount(struct zm_slot *slot, enum zm_kind kind, u32 key)
{
	u64 seen = slot->attr & (ZM_SEEN | ZM_PART_MASK);

	*slot = zm_slot_of(kind, slot->value, zm_len(*slot), key);
	slot->attr |= seen;
}

/* Locks a slot if it is not locked, and stores its contents in *slot. Never sleeps. */
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

/*
 * Locks a slot, and returns its contents. May sleep; only debugging kernels check that, to save
 * time.
 */
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

/* Stores @slot into the slot, and unlocks it. Never sleeps. */
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
