// SPDX-License-Identifier: GPL-2.0-only
/*
 * zstd, with parameters for inputs of one page. Its contexts are placed in memory that we provide.
 */
#include "zmerge.h"

#include <linux/zstd.h>

#if IS_ENABLED(CONFIG_ZSTD_COMPRESS) && IS_ENABLED(CONFIG_ZSTD_DECOMPRESS)
struct zstd_writer {
	zstd_parameters parameters;
	zstd_cctx *context;
	u64 memory[] __aligned(8);	/* zstd requires it; on 32-bit x86 a u64 has only 4 */
};

struct zstd_reader {
	zstd_dctx *context;
	u64 memory[] __aligned(8);	/* zstd requires it; on 32-bit x86 a u64 has only 4 */
};

static size_t zstd_memory(int level)
{
	zstd_parameters parameters = zstd_get_params(level, PAGE_SIZE);

	return zstd_cctx_workspace_bound(&parameters.cParams);
}

static size_t zstd_writer_size(int level)
{
	return sizeof(struct zstd_writer) + zstd_memory(level);
}

static size_t zstd_reader_size(void)
{
	return sizeof(struct zstd_reader) + zstd_dctx_workspace_bound();
}

static int zstd_writer_init(void *work, int level)
{
	struct zstd_writer *writer = work;

	writer->parameters = zstd_get_params(level, PAGE_SIZE);
	writer->context = zstd_init_cctx(writer->memory, zstd_memory(level));
	return writer->context ? 0 : -EOPNOTSUPP;
}

static int zstd_reader_init(void *work)
{
	struct zstd_reader *reader = work;

	reader->context = zstd_init_dctx(reader->memory, zstd_dctx_workspace_bound());
	return reader->context ? 0 : -EOPNOTSUPP;
}

static int zstd_compress(void *work, int level, const void *page, void *to, u32 room)
{
	struct zstd_writer *writer = work;
	size_t stored = zstd_compress_cctx(writer->context, to, room, page, PAGE_SIZE, &writer->parameters);

	return zstd_is_error(stored) ? -ENOSPC : stored;
}

static int zstd_decompress(void *work, const void *from, u32 len, void *page)
{
	struct zstd_reader *reader = work;

	return zstd_decompress_dctx(reader->context, page, PAGE_SIZE, from, len) == PAGE_SIZE ? 0 : -EIO;
}

const struct zm_codec zm_codec_zstd = {
	.name = "zstd",
	.level = 3,
	.level_min = 1,
	.level_max = 22,
	.writer_size = zstd_writer_size,
	.reader_size = zstd_reader_size,
	.writer_init = zstd_writer_init,
	.reader_init = zstd_reader_init,
	.compress = zstd_compress,
	.decompress = zstd_decompress,
};
#endif
