// SPDX-License-Identifier: GPL-2.0-only
/* liblz4 as the codec, for measurements in user space. */
#include <lz4.h>

#include "fake.h"

int zm_op_decompress(void *ctx, struct zm_reader *got, const void *from, u32 len, void *page)
{
	(void)ctx;
	(void)got;
	return LZ4_decompress_safe(from, page, len, PAGE_SIZE) == (int)PAGE_SIZE ? 0 : -EIO;
}

bool zm_op_same(void *ctx, struct zm_reader *got, const void *from, u32 len, const void *page)
{
	(void)ctx;
	(void)got;
	return zm_lz4_equal(from, len, page);
}

struct zm_packed zm_op_compress(void *ctx, struct zm_writer *got, const void *page)
{
	int len = LZ4_compress_default(page, (char *)got->bytes, PAGE_SIZE, sizeof(got->bytes));

	(void)ctx;
	return (struct zm_packed){ got->bytes, len ? len : -ENOSPC };
}
