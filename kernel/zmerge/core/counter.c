// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters for objects that a pass on request merged: how many slots point to each, in 16 bits.
 *
 * The slots keep the number of the counter as their key. Counters are stored in chunks of one page;
 * a chunk without a used counter is freed. If 16 bits cannot count one more slot, the object gets
 * no more references, and the next equal page starts a second object.
 *
 * The lock of a chunk protects the values of its counters; a chunk exists as long as one of its
 * counters is used. Allocating and freeing a counter takes counters->lock, and within it the
 * chunk's.
 */
#include "core.h"

#define ZM_CHUNK_BYTES	4096
#ifndef ZM_COUNT_MAX		/* smaller in a test */
#define ZM_COUNT_MAX	U16_MAX
#endif
#define ZM_NONE		U16_MAX

struct zm_chunk {
	spinlock_t lock;	/* protects the values of the used counters */
	struct list_head list;
	u32 number;
	u32 used;
	u32 free;	/* the first free counter; each holds the index of the next */
	u16 count[];
};

#define ZM_CHUNK_COUNTERS	((u32)((ZM_CHUNK_BYTES - offsetof(struct zm_chunk, count)) / sizeof(u16)))

int zm_counters_init(struct zm_counters *counters, u64 slots)
{
	u64 chunks = div_u64(slots, ZM_CHUNK_COUNTERS) + 1;

	memset(counters, 0, sizeof(*counters));
	spin_lock_init(&counters->lock);
	INIT_LIST_HEAD(&counters->spare);
	if (chunks > U32_MAX / ZM_CHUNK_COUNTERS)
		return -EFBIG;
	counters->chunks = kvcalloc(chunks, sizeof(*counters->chunks), ZM_GFP_SETUP);
	if (!counters->chunks)
		return -ENOMEM;
	counters->nchunks = chunks;
	return 0;
}

void zm_counters_destroy(struct zm_counters *counters)
{
	u32 at;

	for (at = 0; at < counters->nchunks; at++)
		kfree(counters->chunks[at]);
	kvfree(counters->chunks);
	memset(counters, 0, sizeof(*counters));
}

static struct zm_chunk *zm_chunk_new(gfp_t gfp)
{
	struct zm_chunk *chunk = kmalloc(ZM_CHUNK_BYTES, gfp);
	u32 at;

	if (!chunk)
		return NULL;
	spin_lock_init(&chunk->lock);
	INIT_LIST_HEAD(&chunk->list);
	chunk->used = 0;
	chunk->free = 0;
	for (at = 0; at < ZM_CHUNK_COUNTERS; at++)
		chunk->count[at] = at + 1 < ZM_CHUNK_COUNTERS ? at + 1 : ZM_NONE;
	return chunk;
}

/* Gives the chunk the lowest free number; false if there is none. */
static bool zm_chunk_enter(struct zm_counters *counters, struct zm_chunk *chunk)
{
	u32 at = counters->lowest;

	lockdep_assert_held(&counters->lock);
	while (at < counters->nchunks && counters->chunks[at])
		at++;
	counters->lowest = at;
	if (at == counters->nchunks)
		return false;
	chunk->number = at;
	WRITE_ONCE(counters->chunks[at], chunk);
	list_add(&chunk->list, &counters->spare);
	atomic64_add(ZM_CHUNK_BYTES, &counters->bytes);
	return true;
}

/* Ensures that zm_counter_new() succeeds, unless memory is short. May sleep, depending on @gfp. */
void zm_counters_reserve(struct zm_counters *counters, gfp_t gfp)
{
	struct zm_chunk *chunk;
	bool have, entered;

	spin_lock(&counters->lock);
	have = !list_empty(&counters->spare);
	spin_unlock(&counters->lock);
	if (have)
		return;
	chunk = zm_chunk_new(gfp);
	if (!chunk)
		return;
	spin_lock(&counters->lock);
	entered = zm_chunk_enter(counters, chunk);
	spin_unlock(&counters->lock);
	if (!entered)
		kfree(chunk);
}

/*
 * Allocates a counter with the value 2; false if no chunk has a free one, see
 * zm_counters_reserve().
 */
bool zm_counter_new(struct zm_counters *counters, u32 *number)
{
	struct zm_chunk *chunk;
	u32 at;

	spin_lock(&counters->lock);
	if (list_empty(&counters->spare)) {
		spin_unlock(&counters->lock);
		return false;
	}
	chunk = list_first_entry(&counters->spare, struct zm_chunk, list);
	spin_lock(&chunk->lock);
	at = chunk->free;
	chunk->free = chunk->count[at];
	chunk->count[at] = 2;
	spin_unlock(&chunk->lock);
	if (++chunk->used == ZM_CHUNK_COUNTERS)
		list_del_init(&chunk->list);
	*number = chunk->number * ZM_CHUNK_COUNTERS + at;
	spin_unlock(&counters->lock);
	return true;
}

/* The chunk of a used counter. It cannot be freed while the counter is used. */
static struct zm_chunk *zm_chunk_of(struct zm_counters *counters, u32 number)
{
	return READ_ONCE(counters->chunks[number / ZM_CHUNK_COUNTERS]);
}

/* Takes a reference; false if the counter is at its maximum. */
bool zm_counter_get(struct zm_counters *counters, u32 number)
{
	struct zm_chunk *chunk = zm_chunk_of(counters, number);
	u16 *count = &chunk->count[number % ZM_CHUNK_COUNTERS];
	bool taken = false;

	spin_lock(&chunk->lock);
	if (*count < ZM_COUNT_MAX) {
		++*count;
		taken = true;
	}
	spin_unlock(&chunk->lock);
	return taken;
}

bool zm_counter_full(struct zm_counters *counters, u32 number)
{
	struct zm_chunk *chunk = zm_chunk_of(counters, number);
	bool full;

	spin_lock(&chunk->lock);
	full = chunk->count[number % ZM_CHUNK_COUNTERS] == ZM_COUNT_MAX;
	spin_unlock(&chunk->lock);
	return full;
}

/* Frees a counter without references, so nobody else can access it. */
static void zm_counter_free(struct zm_counters *counters, u32 number)
{
	struct zm_chunk *chunk = zm_chunk_of(counters, number);
	bool empty;

	spin_lock(&counters->lock);
	spin_lock(&chunk->lock);
	chunk->count[number % ZM_CHUNK_COUNTERS] = chunk->free;
	chunk->free = number % ZM_CHUNK_COUNTERS;
	spin_unlock(&chunk->lock);
	if (chunk->used-- == ZM_CHUNK_COUNTERS)
		list_add(&chunk->list, &counters->spare);
	empty = !chunk->used;
	if (empty) {
		list_del(&chunk->list);
		WRITE_ONCE(counters->chunks[chunk->number], NULL);
		counters->lowest = min_t(u32, counters->lowest, chunk->number);
		atomic64_sub(ZM_CHUNK_BYTES, &counters->bytes);
	}
	spin_unlock(&counters->lock);
	if (empty)
		kfree(chunk);
}

/* Drops a reference; true if it was the last one: then the counter has been freed. */
bool zm_counter_put(struct zm_counters *counters, u32 number)
{
	struct zm_chunk *chunk = zm_chunk_of(counters, number);
	bool last;

	spin_lock(&chunk->lock);
	last = !--chunk->count[number % ZM_CHUNK_COUNTERS];
	spin_unlock(&chunk->lock);
	if (last)
		zm_counter_free(counters, number);
	return last;
}
