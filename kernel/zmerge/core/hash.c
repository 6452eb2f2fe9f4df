// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes -> a hash that nominates; a page -> whether one word fills it; two pages -> whether equal.
 *
 * The hash multiplies pairs of words with what came before, five instructions for 16 bytes. It is
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

/*
 * The halves of the product, folded. A word that equals the key would end all memory of what came
 * before: the key is secret, and no word is likely to be it.
 */
#ifdef __SIZEOF_INT128__
static inline u64 zm_mix(u64 key, u64 sum, u64 a, u64 b)
{
	unsigned __int128 product = (unsigned __int128)(a ^ key) * (sum ^ b);

	sum = (u64)product ^ (u64)(product >> 64);
	/* Or the compiler folds in another order, with two instructions more. */
	asm("" : "+r"(sum));
	return sum;
}
#else
static inline u64 zm_mix(u64 key, u64 sum, u64 a, u64 b)
{
	u64 x = a ^ key, y = sum ^ b;
	u64 cross = (x >> 32) * (u32)y ^ (y >> 32) * (u32)x;

	return (x >> 32) * (y >> 32) ^ (u64)(u32)x * (u32)y ^ (cross << 32 | cross >> 32);
}
#endif

static inline u64 zm_mix_64_bytes(u64 key, u64 sum, const u8 *at)
{
	sum = zm_mix(key, sum, zm_word(at), zm_word(at + 8));
	sum = zm_mix(key, sum, zm_word(at + 16), zm_word(at + 24));
	sum = zm_mix(key, sum, zm_word(at + 32), zm_word(at + 40));
	return zm_mix(key, sum, zm_word(at + 48), zm_word(at + 56));
}

/* The bytes behind the last whole block, as if zeros followed. */
static noinline void zm_mix_rest(u64 key, u64 *a, u64 *b, const u8 *at, size_t left)
{
	u8 rest[128] = { 0 };

	memcpy(rest, at, left);
	*a = zm_mix_64_bytes(key, *a, rest);
	*b = zm_mix_64_bytes(key, *b, rest + 64);
}

/* Two sums: a processor multiplies for both at the same time. */
u64 zm_hash(const void *bytes, size_t len, u64 seed)
{
	const u8 *at = bytes, *end = at + (len & ~(size_t)127);
	u64 key = seed * ZM_MIX ^ ZM_MIX2, a = seed, b = ~seed;

	for (; at != end; at += 128) {
		a = zm_mix_64_bytes(key, a, at);
		b = zm_mix_64_bytes(key, b, at + 64);
	}
	if (len & 127)
		zm_mix_rest(key, &a, &b, at, len & 127);
	return zm_mix(key, zm_mix(key, a, b, len), seed, ZM_MIX);
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
