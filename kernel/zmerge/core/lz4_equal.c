// SPDX-License-Identifier: GPL-2.0-only
/*
 * An LZ4 block and a page -> whether the block decompresses to the page. Nothing is decompressed.
 *
 * A block is a chain of sequences: some literal bytes, then a match, which repeats what came some
 * way before. While all that came before is equal, a literal byte is right if the page has it at
 * this place, and a match is right if the page has the same bytes at both places, also where
 * they overlap. The first difference ends it. That takes fewer instructions than decompressing and
 * comparing.
 *
 * Any bytes may come: every length and distance is checked against what there is. What a strict
 * decoder refuses is not equal: the end rules of the format are held too. user/fuzz_lz4.c holds it
 * against liblz4.
 *
 * The page is looked at twice where it repeats itself. One that changes meanwhile may be taken for
 * what it has never been as a whole, as it may be when it is compressed; whoever writes it so has
 * no content to expect.
 *
 * After the public description of the LZ4 block format.
 */
#include "core.h"

#define ZM_TOKEN_FULL	15	/* half a token: more length follows */
#define ZM_MATCH_MIN	4
/* Behind literals that are not the last ones: a match of 2 bytes, a token and the last literals. */
#define ZM_IN_BEHIND	8
#define ZM_AT_BEHIND	12	/* no match begins nearer to the page's end, and */
#define ZM_LAST_RUN	5	/* none ends nearer */

/* Up to here a run of 8 literals and a match of 18 bytes need no look at either end. */
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

/* The first bytes of a word, as it is loaded. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ZM_FIRST(n)	(~0ull >> (64 - 8 * (n)))
#else
#define ZM_FIRST(n)	(~0ull << (64 - 8 * (n)))
#endif

/* By half a token: the bytes of so many literals, and of a match, which is 4 longer. */
static const u64 zm_first[16] = {
	0, ZM_FIRST(1), ZM_FIRST(2), ZM_FIRST(3), ZM_FIRST(4), ZM_FIRST(5), ZM_FIRST(6), ZM_FIRST(7), ~0ull,
};

static const u64 zm_first_of_match[16] = { ZM_FIRST(4), ZM_FIRST(5), ZM_FIRST(6), ZM_FIRST(7), ~0ull };

/* How far back a match lies: two bytes, the low one first. */
static inline size_t zm_distance(const u8 *in)
{
	u16 back;

	memcpy(&back, in, sizeof(back));
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
	back = __builtin_bswap16(back);
#endif
	return back;
}

/* The bytes of @which; 8 can be read of both. */
static __always_inline bool zm_few_equal(const u8 *a, const u8 *b, u64 which)
{
	return !((zm_load(a) ^ zm_load(b)) & which);
}

/* Whether 8 bytes here and 8 bytes there are equal, with one branch for both. */
static __always_inline bool zm_words_equal(const u8 *a, const u8 *b, size_t other)
{
	return !((zm_load(a) ^ zm_load(b)) | (zm_load(a + other) ^ zm_load(b + other)));
}

/* At least 8 bytes. The last words may have bytes in common with those before. */
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

/* How far both have been gone through; nowhere where they differ. */
struct zm_place {
	const u8 *in;
	size_t at;
};

static const struct zm_place zm_nowhere;

/* The rest of a length that filled its half of the token. False where the block ends within. */
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

/* A match, whose half of the token is @length. */
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

/* One sequence, with a look at both ends at every step. At the end of both: equal. */
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

/* At most 8 literals at @in. */
static __always_inline bool zm_short_run(const u8 *in, const u8 *page, size_t at, size_t run)
{
	/* Not as an array: kernels that check bounds would check this one, which no half token leaves. */
	const u64 *first = zm_first;

	return zm_few_equal(in, page + at, first[run]);
}

/* More than 8 literals. @in is behind the token, and goes behind the length. False near either end, too. */
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

/* A match of more than 8 bytes. @in is behind the distance, and goes behind the length. */
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

/* Tokens of at most 8 literals and a match of at most 8 bytes, as most are. */
#define ZM_SHORT(run)	[16 * (run) ... 16 * (run) + 8 - ZM_MATCH_MIN] = true
static const bool zm_short[256] = {
	ZM_SHORT(0), ZM_SHORT(1), ZM_SHORT(2), ZM_SHORT(3), ZM_SHORT(4), ZM_SHORT(5), ZM_SHORT(6), ZM_SHORT(7),
	ZM_SHORT(8),
};

/* Sequences up to one that is not usual or not equal, or is near the ends: zm_sequence() looks at that. */
static __always_inline struct zm_place zm_usual_sequences(const u8 *in, const u8 *in_near, const u8 *page, size_t at)
{
	while (in < in_near && at < ZM_AT_NEAR) {
		size_t token = *in, run = token >> 4, length = token & ZM_TOKEN_FULL, to, from;
		const u64 *first_of_match = zm_first_of_match;
		const u8 *next;

		/* Or the compiler keeps it twice, and adds to it twice. */
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
