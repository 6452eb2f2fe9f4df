// SPDX-License-Identifier: GPL-2.0-only
/* The tests' codec: a page is "compressed" by leaving out the zero bytes at its end. */
#include "fake.h"

int zm_op_decompress(void *ctx, struct zm_reader *got, const void *from, u32 len, void *page)
{
	(void)ctx;
	(void)got;
	memcpy(page, from, len);
	memset((u8 *)page + len, 0, PAGE_SIZE - len);
	return 0;
}

bool zm_op_same(void *ctx, struct zm_reader *got, const void *from, u32 len, const void *page)
{
	return !zm_op_decompress(ctx, got, from, len, got->page) && zm_equal(got->page, page, PAGE_SIZE);
}

struct zm_packed zm_op_compress(void *ctx, struct zm_writer *got, const void *page)
{
	const u8 *bytes = page;
	u32 left = PAGE_SIZE;

	(void)ctx;
	while (left > 1 && !bytes[left - 1])
		left--;
	if (left == PAGE_SIZE)
		return (struct zm_packed){ NULL, -ENOSPC };
	memcpy(got->bytes, page, left);
	return (struct zm_packed){ got->bytes, left };
}
