// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compares zm_lz4_equal() with liblz4: the input makes a page and a block, each with some bytes
 * changed. The function must give the same result as decompressing the block and comparing, and
 * access nothing outside.
 *
 * The only exception is a distance of zero, which liblz4 accepts and the format forbids.
 */
#include <lz4.h>

#include "fake.h"

struct input {
	const u8 *at;
	size_t left;
};

static u8 next(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->at++;
}

/* Literals, repetitions of earlier bytes, and long repetitions, as the input says. */
static void make_page(struct input *input, u8 *page)
{
	u32 at = 0, back, len;
	u8 what;

	while (at < PAGE_SIZE) {
		what = next(input);
		len = what & 15 ? what & 15 : 4u * next(input);
		back = 1 + next(input) % 64 * (what >> 6);
		if (what & 16 || back > at)
			while (len-- && at < PAGE_SIZE)
				page[at++] = next(input);
		else
			while (len-- && at < PAGE_SIZE) {
				page[at] = page[at - back];
				at++;
			}
		if (!input->left)
			while (at < PAGE_SIZE)
				page[at++] = 0;
	}
}

static void change(struct input *input, u8 *bytes, u32 len, u32 times)
{
	while (len && times--) {
		u32 at = next(input) | next(input) << 8;

		bytes[at % len] ^= next(input);
	}
}

/* Parses the block only to check its distances. */
static bool has_zero_distance(const u8 *in, u32 len)
{
	const u8 *end = in + len;

	while (in < end) {
		u32 token = *in++, run = token >> 4;

		if (run == 15)
			while (in < end && (run += *in, *in++ == 255))
				;
		if (run + 2 > (size_t)(end - in))
			return false;
		in += run + 2;
		if (!in[-1] && !in[-2])
			return true;
		if ((token & 15) == 15)
			while (in < end && *in++ == 255)
				;
	}
	return false;
}

/* Copies both to buffers of their exact size, so that ASan notices an access beyond the end. */
static void check(const u8 *block, u32 len, const u8 *page)
{
	u8 *in = malloc(len ? len : 1), *want = malloc(PAGE_SIZE), *out = calloc(1, PAGE_SIZE);
	bool equal, decompresses;

	memcpy(in, block, len);
	memcpy(want, page, PAGE_SIZE);
	decompresses = LZ4_decompress_safe((char *)in, (char *)out, len, PAGE_SIZE) == (int)PAGE_SIZE;
	if (decompresses && !has_zero_distance(in, len))
		CHECK(zm_lz4_equal(in, len, out));
	equal = zm_lz4_equal(in, len, want);
	if (!has_zero_distance(in, len))
		CHECK(equal == (decompresses && !memcmp(out, want, PAGE_SIZE)));
	else
		CHECK(!equal || memcmp(out, want, PAGE_SIZE) || decompresses);
	free(in);
	free(want);
	free(out);
}

int LLVMFuzzerTestOneInput(const u8 *bytes, size_t len)
{
	struct input input = { bytes, len };
	u8 page[PAGE_SIZE], block[2 * PAGE_SIZE], how = next(&input);
	int stored;

	if (how & 1 && len <= sizeof(block)) {
		memset(page, 0, PAGE_SIZE);
		check(input.at, input.left, page);
		return 0;
	}
	make_page(&input, page);
	stored = LZ4_compress_fast((char *)page, (char *)block, PAGE_SIZE, sizeof(block), 1 + (how >> 6) * 8);
	check(block, stored, page);
	change(&input, page, PAGE_SIZE, how >> 1 & 1);
	change(&input, block, stored, how >> 2 & 3);
	check(block, how & 16 ? next(&input) % (stored + 1) : (u32)stored, page);
	return 0;
}
