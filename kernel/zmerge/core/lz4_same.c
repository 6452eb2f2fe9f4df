// SPDX-License-Identifier: GPL-2.0-only
/*
 * An lz4 block and a page -> whether the block is that page.
 *
 * Decompressing and comparing would write 4 KiB to read them again. A block says where bytes are
 * as they stand (literals) and where they repeat earlier ones (matches); both can be held against
 * the page itself: what a match repeats has been found equal already. So nothing is written, and
 * the first difference ends it. The format is that of the lz4 block format description.
 */
#include "core.h"

struct zm_lz4 {
	const u8 *in, *in_end;
	const u8 *page, *at, *end;
};

#define ZM_LZ4_MATCH_MIN	4

/* A length of 15 goes on: bytes are added up until one is not 255. False at the end of the block. */
static inline bool zm_lz4_length(struct zm_lz4 *block, u32 *len)
{
	u8 more;

	if (*len != 15)
		return true;
	do {
		if (block->in == block->in_end)
			return false;
		more = *block->in++;
		*len += more;
	} while (more == 255);
	return true;
}

static inline u64 zm_lz4_word(const u8 *at)
{
	u64 word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* The first @len of eight bytes, 1 to 8, as they lie in memory. */
static inline u64 zm_lz4_first(u64 word, u32 len)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return word >> (64 - 8 * len);
#else
	return word << (64 - 8 * len);
#endif
}

/* Whether @len bytes, at least one, are equal; eight more could be read behind each. */
static inline bool zm_lz4_equal(const u8 *a, const u8 *b, u32 len)
{
	for (; len > 8; a += 8, b += 8, len -= 8)
		if (zm_lz4_word(a) != zm_lz4_word(b))
			return false;
	return !zm_lz4_first(zm_lz4_word(a) ^ zm_lz4_word(b), len);
}

static inline bool zm_lz4_literals(struct zm_lz4 *block, u32 len)
{
	bool same;

	if (len > block->in_end - block->in || len > block->end - block->at)
		return false;
	if (!len)
		return true;
	if (block->in_end - block->in >= len + 8 && block->end - block->at >= len + 8)
		same = zm_lz4_equal(block->in, block->at, len);
	else
		same = !memcmp(block->in, block->at, len);
	block->in += len;
	block->at += len;
	return same;
}

static inline bool zm_lz4_match(struct zm_lz4 *block, u32 distance, u32 len)
{
	const u8 *from = block->at - distance;
	bool same;

	if (!distance || distance > block->at - block->page || len > block->end - block->at)
		return false;
	if (block->end - block->at >= len + 8)
		same = zm_lz4_equal(from, block->at, len);
	else
		same = !memcmp(from, block->at, len);
	block->at += len;
	return same;
}

/* Whether the block of @len bytes decompresses to exactly @page. */
bool zm_lz4_same(const void *bytes, u32 len, const void *page)
{
	struct zm_lz4 block = {
		.in = bytes, .in_end = (const u8 *)bytes + len,
		.page = page, .at = page, .end = (const u8 *)page + PAGE_SIZE,
	};

	while (block.in < block.in_end) {
		u32 token = *block.in++, literals = token >> 4, match = token & 15, distance;

		if (!zm_lz4_length(&block, &literals) || !zm_lz4_literals(&block, literals))
			return false;
		if (block.in == block.in_end)
			return block.at == block.end;
		if (block.in_end - block.in < 2)
			return false;
		distance = block.in[0] | block.in[1] << 8;
		block.in += 2;
		if (!zm_lz4_length(&block, &match) ||
		    !zm_lz4_match(&block, distance, match + ZM_LZ4_MATCH_MIN))
			return false;
	}
	return false;
}
