// SPDX-License-Identifier: GPL-2.0-only
/*
 * lz4; the level is its acceleration. Compression needs no check for space: the buffer holds the
 * worst case.
 */
#include "zmerge.h"

#include <linux/lz4.h>

#if IS_ENABLED(CONFIG_LZ4_COMPRESS) && IS_ENABLED(CONFIG_LZ4_DECOMPRESS)
static size_t lz4_writer_size(int level)
{
	return LZ4_MEM_COMPRESS;
}

static int lz4_compress(void *work, int level, const void *page, void *to, u32 room)
{
	int stored = LZ4_compress_fast(page, to, PAGE_SIZE, room, level, work);

	return stored > 0 ? stored : -ENOSPC;
}

static int lz4_decompress(void *work, const void *from, u32 len, void *page)
{
	return LZ4_decompress_safe(from, page, len, PAGE_SIZE) == PAGE_SIZE ? 0 : -EIO;
}

const struct zm_codec zm_codec_lz4 = {
	.name = "lz4",
	.level = 1,
	.level_min = 1,
	.level_max = 65537,
	.writer_size = lz4_writer_size,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
	.equal = zm_lz4_equal,
};
#endif
