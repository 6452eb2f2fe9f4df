// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether an LZ4 block decompresses to a given page, determined without decompressing it.
 *
 * A block is a chain of sequences: literal bytes, then a match, which repeats earlier output. As
 * long as everything so far is equal, a literal is right if the page has the same byte at this
 * place, and a match is right if the page has the same bytes at both places, also if they overlap.
 * The first difference ends the comparison. That takes fewer instructions than decompressing and
 * comparing.
 *
 * The input is not trusted: every length and distance is checked against the block and the page.
 * Blocks that a strict decoder refuses compare as different, including those that violate the end
 * rules of the format. user/fuzz_lz4.c compares the results with those of liblz4.
 *
 * If the page repeats itself, some bytes of it are read twice. If it changes meanwhile, it may
 * compare equal to a block though it never had that content as a whole. Compressing a changing page
 * has the same effect, and its writer cannot expect any particular content.
 *
 * Written from the public description of the LZ4 block format.
 */
#include "core.h"

#define ZM_TOKEN_FULL	15	/* value of half a token: the length continues in more bytes */
#define ZM_MATCH_MIN	4
/*
 * Literals that are not the last ones are followed at least by a distance (2 bytes), a token and 5
 * literals.
 */
#define ZM_IN_BEHIND	8
#define ZM_AT_BEHIND	12	/* no match begins closer to the page's end, and */
#define ZM_LAST_RUN	5	/* no match ends closer to it */

/* Before these ends, 8 literals and a match of 18 bytes need no check against either end. */
#define ZM_IN_NEAR	(1 + 8 + ZM_IN_BEHIND)
#define ZM_AT_NEAR	(PAGE_SIZE - 8 - 18 - ZM_AT_BEHIND)

static inline u64 zm_load(const u8 *at)
{
	u64 word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static inline u32 zm_load_half(const u8 *at)
{
	u32 half;

	memcpy(&half, at, sizeof(half));
	return half;
}

/* Mask for the first @n bytes of a word, as it is loaded. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ZM_FIRST(n)	(~0ull >> (64 - 8 * (n)))
#else
#define ZM_FIRST(n)	(~0ull << (64 - 8 * (n)))
#endif

/*
 * For each half of a token: the mask for that many literals, and for a match, which is 4 bytes
 * longer.
 */
static const u64 zm_first[16] = {
	0, ZM_FIRST(1), ZM_FIRST(2), ZM_FIRST(3), ZM_FIRST(4), ZM_FIRST(5), ZM_FIRST(6), ZM_FIRST(7), ~0ull,
};

static const u64 zm_first_of_match[16] = { ZM_FIRST(4), ZM_FIRST(5), ZM_FIRST(6), ZM_FIRST(7), ~0ull };

/* The distance of a match: two bytes, little-endian. */
static inline size_t zm_distance(const u8 *in)
{
	u16 back;

	memcpy(&back, in, sizeof(back));
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
	back = __builtin_bswap16(back);
#endif
	return back;
}

/* Compares the bytes in the mask @which; 8 bytes must be readable at both places. */
static __always_inline bool zm_few_equal(const u8 *a, const u8 *b, u64 which)
{
	return !((zm_load(a) ^ zm_load(b)) & which);
}

/*
 * Whether 8 bytes at @a and @b, and 8 bytes at @other behind each, are equal, with one branch for
 * both.
 */
static __always_inline bool zm_words_equal(const u8 *a, const u8 *b, size_t other)
{
	return !((zm_load(a) ^ zm_load(b)) | (zm_load(a + other) ^ zm_load(b + other)));
}

/* Compares at least 8 bytes. The last word may overlap the word before it. */
static __always_inline bool zm_many_equal(const u8 *a, const u8 *b, size_t count)
{
	size_t at, last = count - 16;

	if (count <= 16)
		return zm_words_equal(a, b, count - 8);
	for (at = 0; at < last; at += 16)
		if (!zm_words_equal(a + at, b + at, 8))
			return false;
	return zm_words_equal(a + last, b + last, 8);
}

static noinline bool zm_bytes_equal(const u8 *a, const u8 *b, size_t count)
{
	if (count >= 8)
		return zm_many_equal(a, b, count);
	if (count >= 4)
		return !((zm_load_half(a) ^ zm_load_half(b)) | (zm_load_half(a + count - 4) ^ zm_load_half(b + count - 4)));
	while (count--)
		if (a[count] != b[count])
			return false;
	return true;
}

/* The position reached in block and page; NULL in the block after a difference. */
struct zm_place {
	const u8 *in;
	size_t at;
};

static const struct zm_place zm_nowhere;

/* Reads the rest of a length whose half of the token is 15; false if the block ends within it. */
static bool zm_length(const u8 **in, const u8 *in_end, size_t *length)
{
	u8 more;

	do {
		if (*in == in_end)
			return false;
		more = *(*in)++;
		*length += more;
	} while (more == 255);
	return true;
}

/* Checks a match; @length is its half of the token. */
static struct zm_place zm_match(const u8 *in, const u8 *in_end, const u8 *page, size_t at, size_t length)
{
	size_t back = zm_distance(in);

	in += 2;
	if (back - 1 >= at)
		return zm_nowhere;
	if (length == ZM_TOKEN_FULL && !zm_length(&in, in_end, &length))
		return zm_nowhere;
	length += ZM_MATCH_MIN;
	if (length > PAGE_SIZE - ZM_LAST_RUN - at || !zm_bytes_equal(page + at, page + at - back, length))
		return zm_nowhere;
	return (struct zm_place){ in, at + length };
}

/*
 * Checks one sequence, with checks against both ends at every step. Reaching both ends means equal.
 */
static noinline struct zm_place zm_sequence(const u8 *in, const u8 *in_end, const u8 *page, size_t at)
{
	u8 token;
	size_t run;

	if (in == in_end)
		return zm_nowhere;
	token = *in++;
	run = token >> 4;
	if (run == ZM_TOKEN_FULL && !zm_length(&in, in_end, &run))
		return zm_nowhere;
	if (run > (size_t)(in_end - in) || run > PAGE_SIZE - at || !zm_bytes_equal(in, page + at, run))
		return zm_nowhere;
	in += run;
	at += run;
	if (in_end - in >= ZM_IN_BEHIND && PAGE_SIZE - at >= ZM_AT_BEHIND)
		return zm_match(in, in_end, page, at, token & ZM_TOKEN_FULL);
	return in == in_end && at == PAGE_SIZE ? (struct zm_place){ in, at } : zm_nowhere;
}

/* Compares at most 8 literals at @in. */
static __always_inline bool zm_short_run(const u8 *in, const u8 *page, size_t at, size_t run)
{
	/*
	 * A pointer, not the array: kernels with bounds checks would check each access, though the
	 * index cannot exceed 15.
	 */
	const u64 *first = zm_first;

	return zm_few_equal(in, page + at, first[run]);
}

/*
 * More than 8 literals. @in is moved from behind the token to behind the length. Also false near
 * either end.
 */
static __always_inline bool zm_long_run(const u8 **in, const u8 *in_near, const u8 *page, size_t at, size_t *run)
{
	if (*run == ZM_TOKEN_FULL) {
		*run += **in;
		if (*(*in)++ == 255)
			return false;
	}
	if (*run > (size_t)(in_near + ZM_IN_NEAR - ZM_IN_BEHIND - *in) || at + *run > ZM_AT_NEAR + 8)
		return false;
	return zm_many_equal(*in, page + at, *run);
}

/* A match of more than 8 bytes. @in is moved from behind the distance to behind the length. */
static __always_inline bool zm_long_match(const u8 **in, const u8 *page, size_t to, size_t from, size_t *length)
{
	const u8 *a = page + to, *b = page + from;
	const u64 *first = zm_first;

	if (*length <= 16 - ZM_MATCH_MIN)
		return zm_load(a) == zm_load(b) &&
		       zm_few_equal(a + 8, b + 8, first[*length + ZM_MATCH_MIN - 8]);
	if (*length == ZM_TOKEN_FULL) {
		*length += **in;
		if (*(*in)++ == 255 || *length > PAGE_SIZE - ZM_LAST_RUN - ZM_MATCH_MIN - to)
			return false;
	}
	return zm_many_equal(a, b, *length + ZM_MATCH_MIN);
}

/* Tokens with at most 8 literals and a match of at most 8 bytes, the most frequent ones. */
#define ZM_SHORT(run)	[16 * (run) ... 16 * (run) + 8 - ZM_MATCH_MIN] = true
static const bool zm_short[256] = {
	ZM_SHORT(0), ZM_SHORT(1), ZM_SHORT(2), ZM_SHORT(3), ZM_SHORT(4), ZM_SHORT(5), ZM_SHORT(6), ZM_SHORT(7),
	ZM_SHORT(8),
};

/*
 * Checks sequences up to one that is unusual, different or near the ends, which is left to
 * zm_sequence().
 */
static __always_inline struct zm_place zm_usual_sequences(const u8 *in, const u8 *in_near, const u8 *page, size_t at)
{
	while (in < in_near && at < ZM_AT_NEAR) {
		size_t token = *in, run = token >> 4, length = token & ZM_TOKEN_FULL, to, from;
		const u64 *first_of_match = zm_first_of_match;
		const u8 *next;

		/* Without this, the compiler keeps two copies of the variable and adds to both. */
		asm("" : "+r"(length));
		if (likely(zm_short[token])) {
			to = at + run;
			from = to - zm_distance(in + run + 1);
			if (!zm_short_run(in + 1, page, at, run) || from >= to ||
			    !zm_few_equal(page + to, page + from, first_of_match[length]))
				break;
			in += run + 3;
			at = to + length + ZM_MATCH_MIN;
			continue;
		}
		next = in + 1;
		if (run > 8) {
			if (!zm_long_run(&next, in_near, page, at, &run))
				break;
		} else if (!zm_short_run(next, page, at, run)) {
			break;
		}
		to = at + run;
		next += run;
		from = to - zm_distance(next);
		next += 2;
		if (from >= to)
			break;
		if (length > 8 - ZM_MATCH_MIN) {
			if (!zm_long_match(&next, page, to, from, &length))
				break;
		} else if (!zm_few_equal(page + to, page + from, first_of_match[length])) {
			break;
		}
		in = next;
		at = to + length + ZM_MATCH_MIN;
	}
	return (struct zm_place){ in, at };
}

bool zm_lz4_equal(const void *from, u32 len, const void *page)
{
	const u8 *in_end = (const u8 *)from + len;
	const u8 *in_near = len > ZM_IN_NEAR ? in_end - ZM_IN_NEAR : from;
	struct zm_place place = { from, 0 };

	for (;;) {
		place = zm_usual_sequences(place.in, in_near, page, place.at);
		place = zm_sequence(place.in, in_end, page, place.at);
		if (!place.in || place.at == PAGE_SIZE)
			return place.in;
	}
}
