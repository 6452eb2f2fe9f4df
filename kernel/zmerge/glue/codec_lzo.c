// SPDX-License-Identifier: GPL-2.0-only
/* lzo and lzo-rle: two compressors, one decompressor, no levels. */
#include "zmerge.h"

#include <linux/lzo.h>

#if IS_ENABLED(CONFIG_LZO_COMPRESS) && IS_ENABLED(CONFIG_LZO_DECOMPRESS)
static size_t lzo_writer_size(int level)
{
	return LZO1X_MEM_COMPRESS;
}

static int lzo_compress(void *work, int level, const void *page, void *to, u32 room)
{
	size_t stored = room;

	if (lzo1x_1_compress(page, PAGE_SIZE, to, &stored, work) != LZO_E_OK)
		return -EIO;
	return stored;
}

static int lzo_rle_compress(void *work, int level, const void *page, void *to, u32 room)
{
	size_t stored = room;

	if (lzorle1x_1_compress(page, PAGE_SIZE, to, &stored, work) != LZO_E_OK)
		return -EIO;
	return stored;
}

static int lzo_decompress(void *work, const void *from, u32 len, void *page)
{
	size_t got = PAGE_SIZE;

	if (lzo1x_decompress_safe(from, len, page, &got) != LZO_E_OK)
		return -EIO;
	return got == PAGE_SIZE ? 0 : -EIO;
}

const struct zm_codec zm_codec_lzo = {
	.name = "lzo",
	.writer_size = lzo_writer_size,
	.compress = lzo_compress,
	.decompress = lzo_decompress,
};

const struct zm_codec zm_codec_lzo_rle = {
	.name = "lzo-rle",
	.writer_size = lzo_writer_size,
	.compress = lzo_rle_compress,
	.decompress = lzo_decompress,
};
#endif
