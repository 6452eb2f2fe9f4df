// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes -> a hash that nominates; a page -> whether one word fills it; two pages -> whether equal.
 *
 * The hash multiplies pairs of words and folds the product, six instructions for 16 bytes. It is
 * seeded, so that nobody outside can know which pages collide, and it never decides anything.
 */
#include "core.h"

#define ZM_MIX	0x9e3779b97f4a7c15ull
#define ZM_MIX2	0xd6e8feb86659fd93ull

static inline u64 zm_word(const u8 *at)
{
	u64 word;

	memcpy(&word, at, sizeof(word));
	return word;
}

#ifdef __SIZEOF_INT128__
static inline u64 zm_fold(u64 a, u64 b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (u64)product ^ (u64)(product >> 64);
}
#else
static inline u64 zm_fold(u64 a, u64 b)
{
	u64 cross = (a >> 32) * (u32)b ^ (b >> 32) * (u32)a;

	return (a >> 32) * (b >> 32) ^ (u64)(u32)a * (u32)b ^ (cross << 32 | cross >> 32);
}
#endif

/* The last, shorter block, with its length. */
static u64 zm_hash_end(const u8 *at, size_t left, u64 len, u64 sum)
{
	u8 block[32] = { 0 };

	memcpy(block, at, left);
	sum = zm_fold(zm_word(block) ^ ZM_MIX, zm_word(block + 8) ^ sum);
	sum = zm_fold(zm_word(block + 16) ^ ZM_MIX2, zm_word(block + 24) ^ sum);
	return zm_fold(sum ^ len, ZM_MIX);
}

u64 zm_hash(const void *bytes, size_t len, u64 seed)
{
	const u8 *at = bytes, *end = at + (len & ~(size_t)63);
	u64 a = seed, b = ~seed;

	for (; at != end; at += 64) {
		a = zm_fold(zm_word(at) ^ ZM_MIX, zm_word(at + 8) ^ a);
		b = zm_fold(zm_word(at + 16) ^ ZM_MIX2, zm_word(at + 24) ^ b);
		a = zm_fold(zm_word(at + 32) ^ ZM_MIX, zm_word(at + 40) ^ a);
		b = zm_fold(zm_word(at + 48) ^ ZM_MIX2, zm_word(at + 56) ^ b);
	}
	len &= 63;
	if (len >= 32) {
		a = zm_fold(zm_word(at) ^ ZM_MIX, zm_word(at + 8) ^ a);
		b = zm_fold(zm_word(at + 16) ^ ZM_MIX2, zm_word(at + 24) ^ b);
		at += 32;
	}
	return zm_hash_end(at, len & 31, len, a ^ (b << 32 | b >> 32));
}

/* A few words from all over an object: enough to choose some objects by what is in them. */
u32 zm_fingerprint(const void *bytes, u32 len, u64 seed)
{
	const u8 *at = bytes;
	u64 sum = seed ^ len;
	u32 part;

	if (len < sizeof(u64))
		return zm_hash(bytes, len, seed);
	for (part = 0; part <= 4; part++)
		sum = (sum ^ zm_word(at + (len - sizeof(u64)) * part / 4)) * ZM_MIX;
	return sum >> 32;
}

bool zm_same_filled(const void *page, u64 *word)
{
	const u64 *words = page;
	const size_t last = PAGE_SIZE / sizeof(u64) - 1;
	size_t at;

	if (words[0] != words[last])
		return false;
	for (at = 1; at < last; at++)
		if (words[at] != words[0])
			return false;
	*word = words[0];
	return true;
}

void zm_fill(void *page, u64 word)
{
	u64 *words = page;
	size_t at;

	if (!word) {
		memset(page, 0, PAGE_SIZE);
		return;
	}
	for (at = 0; at < PAGE_SIZE / sizeof(u64); at++)
		words[at] = word;
}

/* memcmp() would do; stock kernels' takes twice the instructions. */
bool zm_equal(const void *a, const void *b, size_t len)
{
	const u8 *x = a, *y = b, *end = x + (len & ~(size_t)31);

	for (; x != end; x += 32, y += 32) {
		u64 differ = zm_word(x) ^ zm_word(y);

		differ |= zm_word(x + 8) ^ zm_word(y + 8);
		differ |= zm_word(x + 16) ^ zm_word(y + 16);
		differ |= zm_word(x + 24) ^ zm_word(y + 24);
		if (differ)
			return false;
	}
	return !memcmp(x, y, len & 31);
}
