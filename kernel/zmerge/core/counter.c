// SPDX-License-Identifier: GPL-2.0-only
/*
 * Objects that the pass on request merged -> how many slots point to each, two bytes an object.
 *
 * A counter has a number, which its slots keep as their key. Counters live in chunks of a page; a
 * chunk whose counters are all free is given back. An object that more slots want than 16 bits
 * can count stays as it is, and the next equal one starts a second object.
 */
#include "core.h"

#define ZM_CHUNK_BYTES	4096
#define ZM_CHUNK_HEAD	(sizeof(struct list_head) + 3 * sizeof(u32))
#define ZM_CHUNK_COUNTERS	((u32)((ZM_CHUNK_BYTES - ZM_CHUNK_HEAD) / sizeof(u16)))
#ifndef ZM_COUNT_MAX		/* a test has fewer */
#define ZM_COUNT_MAX	U16_MAX
#endif
#define ZM_NONE		U16_MAX

struct zm_chunk {
	struct list_head list;
	u32 number;
	u32 used;
	u32 free;	/* the first free counter, which holds the next one's place */
	u16 count[];
};

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
	INIT_LIST_HEAD(&chunk->list);
	chunk->used = 0;
	chunk->free = 0;
	for (at = 0; at < ZM_CHUNK_COUNTERS; at++)
		chunk->count[at] = at + 1 < ZM_CHUNK_COUNTERS ? at + 1 : ZM_NONE;
	return chunk;
}

/* Gives the chunk the first number that is free; false when there is none. */
static bool zm_chunk_enter(struct zm_counters *counters, struct zm_chunk *chunk)
{
	u32 at;

	lockdep_assert_held(&counters->lock);
	for (at = 0; at < counters->nchunks && counters->chunks[at]; at++)
		;
	if (at == counters->nchunks)
		return false;
	chunk->number = at;
	counters->chunks[at] = chunk;
	list_add(&chunk->list, &counters->spare);
	atomic64_add(ZM_CHUNK_BYTES, &counters->bytes);
	return true;
}

/* Sees to it that zm_counter_new() finds one, where there is memory. May sleep as @gfp says. */
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

/* A counter that stands at two. */
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
	at = chunk->free;
	chunk->free = chunk->count[at];
	chunk->count[at] = 2;
	if (++chunk->used == ZM_CHUNK_COUNTERS)
		list_del_init(&chunk->list);
	*number = chunk->number * ZM_CHUNK_COUNTERS + at;
	spin_unlock(&counters->lock);
	return true;
}

static u16 *zm_counter_at(struct zm_counters *counters, u32 number)
{
	lockdep_assert_held(&counters->lock);
	return &counters->chunks[number / ZM_CHUNK_COUNTERS]->count[number % ZM_CHUNK_COUNTERS];
}

/* False when it stands as high as it can. */
bool zm_counter_take(struct zm_counters *counters, u32 number)
{
	bool taken = false;
	u16 *count;

	spin_lock(&counters->lock);
	count = zm_counter_at(counters, number);
	if (*count < ZM_COUNT_MAX) {
		++*count;
		taken = true;
	}
	spin_unlock(&counters->lock);
	return taken;
}

bool zm_counter_full(struct zm_counters *counters, u32 number)
{
	bool full;

	spin_lock(&counters->lock);
	full = *zm_counter_at(counters, number) == ZM_COUNT_MAX;
	spin_unlock(&counters->lock);
	return full;
}

static void zm_counter_free(struct zm_counters *counters, u32 number)
{
	struct zm_chunk *chunk = counters->chunks[number / ZM_CHUNK_COUNTERS];

	lockdep_assert_held(&counters->lock);
	chunk->count[number % ZM_CHUNK_COUNTERS] = chunk->free;
	chunk->free = number % ZM_CHUNK_COUNTERS;
	if (chunk->used-- == ZM_CHUNK_COUNTERS)
		list_add(&chunk->list, &counters->spare);
	if (chunk->used)
		return;
	list_del(&chunk->list);
	counters->chunks[chunk->number] = NULL;
	atomic64_sub(ZM_CHUNK_BYTES, &counters->bytes);
	kfree(chunk);
}

/* True when that was the last reference: the counter is free then. */
bool zm_counter_drop(struct zm_counters *counters, u32 number)
{
	u16 *count;
	bool last;

	spin_lock(&counters->lock);
	count = zm_counter_at(counters, number);
	last = !--*count;
	if (last)
		zm_counter_free(counters, number);
	spin_unlock(&counters->lock);
	return last;
}
