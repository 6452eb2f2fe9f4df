// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hash that nominates candidates for merging; whether one word fills a page; comparing pages.
 *
 * The hash multiplies words with the result so far, four instructions for 16 bytes. Its seed is
 * secret, so that nobody outside can know which pages collide, and equal hashes alone never cause a
 * merge.
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

/*
 * XORs a word into each half, and replaces the halves by their 128-bit product. On x86-64 this is
 * one instruction with fixed registers, written as asm because compilers add moves around it, half
 * as many instructions again.
 */
static inline void zm_multiply(u64 *low, u64 *high, const u8 *at)
{
	u64 x = *low ^ zm_word(at), y = *high ^ zm_word(at + 8);
#if defined(__x86_64__)
	asm("mulq %1" : "+a"(x), "+d"(y) : : "cc");
	*low = x;
	*high = y;
#elif defined(__SIZEOF_INT128__)
	unsigned __int128 product = (unsigned __int128)x * y;

	*low = product;
	*high = product >> 64;
#else
	u64 a = (u32)x, b = x >> 32, c = (u32)y, d = y >> 32;
	u64 middle = b * c + (a * c >> 32), other = a * d + (u32)middle;

	*low = other << 32 | (u32)(a * c);
	*high = b * d + (middle >> 32) + (other >> 32);
#endif
}

/*
 * Four multiplications, each of the halves of the previous product. With words of zero, the upper
 * half shrinks and the lower half gets trailing zeros, so the halves are folded before that
 * matters, and one factor of the first product is the key. A word that makes a factor zero would
 * erase everything before it, but key and halves are secret, so such a word is unlikely.
 */
static inline u64 zm_mix(u64 key, u64 sum, const u8 *at)
{
	u64 low = sum, high = key;

	zm_multiply(&low, &high, at);
	zm_multiply(&low, &high, at + 16);
	zm_multiply(&low, &high, at + 32);
	zm_multiply(&low, &high, at + 48);
	return low ^ high;
}

/* Two independent sums: a CPU computes the multiplications of both in parallel. */
struct zm_sums {
	u64 a, b;
};

static inline struct zm_sums zm_mix_block(u64 key, struct zm_sums sums, const u8 *at)
{
	return (struct zm_sums){
		.a = zm_mix(key, zm_mix(key, sums.a, at), at + 64),
		.b = zm_mix(key, zm_mix(key, sums.b, at + 128), at + 192),
	};
}

#define ZM_BLOCK	256

/* Mixes the bytes after the last whole block, padded with zeros. */
static noinline struct zm_sums zm_mix_rest(u64 key, struct zm_sums sums, const u8 *at, size_t left)
{
	u8 rest[ZM_BLOCK] = { 0 };

	memcpy(rest, at, left);
	return zm_mix_block(key, sums, rest);
}

u64 zm_hash(const void *bytes, size_t len, u64 seed)
{
	const u8 *at = bytes, *end = at + (len & ~(size_t)(ZM_BLOCK - 1));
	/*
	 * A small factor would lose bits of the other one, so the key and the initial sums are
	 * large.
	 */
	u64 key = (seed * ZM_MIX ^ ZM_MIX2) | 1ull << 63 | 1, first = key * ZM_MIX ^ seed;
	struct zm_sums sums = { first, ~first };

	for (; at != end; at += ZM_BLOCK)
		sums = zm_mix_block(key, sums, at);
	if (len & (ZM_BLOCK - 1))
		sums = zm_mix_rest(key, sums, at, len & (ZM_BLOCK - 1));
	return zm_mix(key, sums.a, (const u8 *)(u64[8]){ sums.b, len });
}

/*
 * Mixes a few words from all over an object: enough to select a share of objects by their content.
 */
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

/*
 * For a page whose first and last word are equal: whether all words in between are equal to them,
 * too.
 */
bool zm_same_between(const void *page)
{
	const u64 *words = page;
	size_t at;

	for (at = 1; at < PAGE_SIZE / sizeof(u64) - 1; at++)
		if (words[at] != words[0])
			return false;
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

/* Like memcmp() == 0, with half the instructions of the kernel's memcmp(). */
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
