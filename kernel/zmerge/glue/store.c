// SPDX-License-Identifier: GPL-2.0-only
/*
 * The core's operations: objects are stored in zsmalloc, codecs are in the streams.
 *
 * Depending on the kernel, zsmalloc either maps an object until it is unmapped, or (newer kernels,
 * without mappings) copies an object that spans two pages. Only one mapping can exist on each CPU
 * at a time, and nothing may sleep while it does.
 */
#include <linux/highmem.h>

#include "streams.h"

#define ZM_GFP_STORE	(__GFP_NOWARN | __GFP_HIGHMEM | __GFP_MOVABLE)
#define ZM_GFP_AT_ONCE	(__GFP_KSWAPD_RECLAIM | ZM_GFP_STORE)
#define ZM_GFP_WAIT	(GFP_NOIO | ZM_GFP_STORE)

/*
 * Allocates on the NUMA node of the page, as zram does, so that data is read back near its origin.
 * With CONFIG_KMAP_LOCAL the address does not determine the page, so the current CPU's node is
 * used.
 */
static unsigned long zm_zs_malloc(struct zs_pool *pool, const void *page, u32 len, gfp_t gfp)
{
#if ZM_HAS_ZS_MALLOC_NODE
	int node = IS_ENABLED(CONFIG_KMAP_LOCAL) ? numa_mem_id() : page_to_nid(virt_to_page(page));

	return zs_malloc(pool, len, gfp, node);
#else
	return zs_malloc(pool, len, gfp);
#endif
}

/* Updates the highest use so far. If two CPUs exceed it at once, the higher value wins. */
static void zm_note_use(struct zm_device *device, long pages)
{
	long max = atomic_long_read(&device->max_pages);

	while (pages > max && !atomic_long_try_cmpxchg(&device->max_pages, &max, pages))
		;
}

u64 zm_op_alloc(void *ctx, const void *page, u32 len, bool may_wait)
{
	struct zm_device *device = ctx;
	gfp_t gfp = may_wait ? ZM_GFP_WAIT : ZM_GFP_AT_ONCE;
	unsigned long handle = zm_zs_malloc(device->pool, page, len, gfp);

	if (!handle || IS_ERR_VALUE(handle))
		return 0;
	zm_note_use(device, zs_get_total_pages(device->pool));
	return handle;
}

/* Has the pool compacted in the background, at most once a second. */
static void zm_compact_soon(struct zm_device *device)
{
	unsigned long last = READ_ONCE(device->compacted_at);

	if (time_before(jiffies, last + HZ) || cmpxchg(&device->compacted_at, last, jiffies) != last)
		return;
	queue_work(zm_workqueue, &device->compact_work);
}

/*
 * The charge does not tell how much memory partly used pages of the pool waste. Beyond the limit
 * the pool is compacted; a quarter beyond it, no page can be written until that has helped.
 */
bool zm_op_permits(void *ctx, u64 charge)
{
	struct zm_device *device = ctx;
	u64 limit = atomic_long_read(&device->limit_pages), pages;

	if (!limit)
		return true;
	pages = zs_get_total_pages(device->pool);
	if (pages > limit)
		zm_compact_soon(device);
	return DIV_ROUND_UP_ULL(charge, PAGE_SIZE) <= limit && pages <= limit + limit / 4;
}

void zm_op_free(void *ctx, u64 handle)
{
	struct zm_device *device = ctx;

	zs_free(device->pool, handle);
}

u64 zm_op_room(void *ctx)
{
	struct zm_device *device = ctx;
	unsigned long limit = atomic_long_read(&device->limit_pages), pages = zs_get_total_pages(device->pool);

	if (!limit)
		return U64_MAX;
	return limit > pages ? (u64)(limit - pages) << PAGE_SHIFT : 0;
}

void zm_op_store(void *ctx, u64 handle, const void *bytes, u32 len)
{
	struct zm_device *device = ctx;
#if ZM_HAS_ZS_MAP_OBJECT
	void *to = zs_map_object(device->pool, handle, ZS_MM_WO);

	memcpy(to, bytes, len);
	zs_unmap_object(device->pool, handle);
#else
	zs_obj_write(device->pool, handle, (void *)bytes, len);
#endif
}

const void *zm_op_load(void *ctx, struct zm_reader *reader, u64 handle, u32 len)
{
	struct zm_device *device = ctx;
#if ZM_HAS_ZS_MAP_OBJECT
	return zs_map_object(device->pool, handle, ZS_MM_RO);
#elif ZM_HAS_ZS_READ_WITH_LENGTH
	return zs_obj_read_begin(device->pool, handle, len, reader->copy);
#else
	return zs_obj_read_begin(device->pool, handle, reader->copy);
#endif
}

void zm_op_unload(void *ctx, struct zm_reader *reader, u64 handle, u32 len, const void *at)
{
	struct zm_device *device = ctx;
#if ZM_HAS_ZS_MAP_OBJECT
	zs_unmap_object(device->pool, handle);
#elif ZM_HAS_ZS_READ_WITH_LENGTH
	zs_obj_read_end(device->pool, handle, len, (void *)at);
#else
	zs_obj_read_end(device->pool, handle, (void *)at);
#endif
}

struct zm_reader *zm_op_reader_get(void *ctx)
{
	struct zm_device *device = ctx;

	return zm_reader_get(&device->streams);
}

void zm_op_reader_put(void *ctx, struct zm_reader *reader)
{
	struct zm_device *device = ctx;

	zm_reader_put(&device->streams, reader);
}

static void zm_assert_held(struct zm_device *device, struct zm_reader *reader)
{
	if (device->streams.readers_lock)
		lockdep_assert_held(&reader->lock);
}

int zm_op_decompress(void *ctx, struct zm_reader *reader, const void *from, u32 len, void *page)
{
	struct zm_device *device = ctx;

	zm_assert_held(device, reader);
	return device->streams.codec->decompress(reader->work, from, len, page);
}

bool zm_op_same(void *ctx, struct zm_reader *reader, const void *from, u32 len, const void *page)
{
	struct zm_device *device = ctx;
	const struct zm_codec *codec = device->streams.codec;

	zm_assert_held(device, reader);
	if (codec->equal)
		return codec->equal(from, len, page);
	return !codec->decompress(reader->work, from, len, reader->page) &&
	       zm_equal(reader->page, page, PAGE_SIZE);
}

struct zm_writer *zm_op_writer_get(void *ctx)
{
	struct zm_device *device = ctx;

	return zm_writer_get(&device->streams);
}

void zm_op_writer_put(void *ctx, struct zm_writer *writer)
{
	mutex_unlock(&writer->lock);
}

struct zm_packed zm_op_compress(void *ctx, struct zm_writer *writer, const void *page)
{
	struct zm_streams *streams = &((struct zm_device *)ctx)->streams;
	void *to = writer->bytes;

	lockdep_assert_held(&writer->lock);
	return (struct zm_packed){ to, streams->codec->compress(writer->work, streams->level, page, to, ZM_WRITER_ROOM) };
}
