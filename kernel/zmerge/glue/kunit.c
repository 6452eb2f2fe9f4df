// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the glue: every codec restores what it compressed and recognises it as equal, and values
 * written to sysfs files are parsed as meant or refused.
 */
#include <kunit/test.h>
#include <linux/cpu.h>
#include <linux/module.h>

#include "streams.h"

#define ZM_PAGES	64

/* Fills a page with test data, from one repeated word (@number 0) to incompressible. */
static void zm_test_page(u8 *page, u32 number)
{
	u32 dice = number * 2654435761u + 1, at;

	for (at = 0; at < PAGE_SIZE; at++) {
		dice = dice * 1664525 + 1013904223;
		page[at] = (dice >> 24) % (1 + number * 4) == 0 ? dice >> 16 : at / 64;
	}
}

struct zm_test_codec {
	const struct zm_codec *codec;
	void *writer, *reader;
	u8 *page, *stored, *back;
};

static void *zm_test_memory(struct kunit *test, size_t size)
{
	void *memory = kunit_kzalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, memory);
	return memory;
}

static void zm_test_codec_init(struct kunit *test, struct zm_test_codec *at, const struct zm_codec *codec)
{
	at->codec = codec;
	at->page = zm_test_memory(test, PAGE_SIZE);
	at->back = zm_test_memory(test, PAGE_SIZE);
	at->stored = zm_test_memory(test, 2 * PAGE_SIZE);
	at->writer = zm_test_memory(test, codec->writer_size(codec->level));
	if (codec->writer_init)
		KUNIT_ASSERT_EQ(test, codec->writer_init(at->writer, codec->level), 0);
	if (codec->reader_size)
		at->reader = zm_test_memory(test, codec->reader_size());
	if (codec->reader_init)
		KUNIT_ASSERT_EQ(test, codec->reader_init(at->reader), 0);
}

static void zm_test_round_trip(struct kunit *test, struct zm_test_codec *at)
{
	const struct zm_codec *codec = at->codec;
	int len = codec->compress(at->writer, codec->level, at->page, at->stored, 2 * PAGE_SIZE);

	KUNIT_ASSERT_GT(test, len, 0);
	KUNIT_EXPECT_EQ(test, codec->decompress(at->reader, at->stored, len, at->back), 0);
	KUNIT_EXPECT_TRUE(test, zm_equal(at->page, at->back, PAGE_SIZE));
	if (!codec->equal)
		return;
	KUNIT_EXPECT_TRUE(test, codec->equal(at->stored, len, at->page));
	at->page[len % PAGE_SIZE] ^= 1;
	KUNIT_EXPECT_FALSE(test, codec->equal(at->stored, len, at->page));
	KUNIT_EXPECT_FALSE(test, codec->equal(at->stored, len - 1, at->back));
}

static void zm_test_codecs(struct kunit *test)
{
	struct zm_test_codec at = { 0 };
	size_t codec;
	u32 page;

	KUNIT_EXPECT_NOT_NULL(test, zm_codec_at(0));
	for (codec = 0; zm_codec_at(codec); codec++) {
		zm_test_codec_init(test, &at, zm_codec_at(codec));
		for (page = 0; page < ZM_PAGES; page++) {
			zm_test_page(at.page, page);
			zm_test_round_trip(test, &at);
		}
	}
}

/* Truncated or changed data gives an error or a wrong page, but never more than one page. */
static void zm_test_damaged(struct kunit *test)
{
	struct zm_test_codec at = { 0 };
	size_t codec;
	int len, cut;

	for (codec = 0; zm_codec_at(codec); codec++) {
		zm_test_codec_init(test, &at, zm_codec_at(codec));
		zm_test_page(at.page, 3);
		len = at.codec->compress(at.writer, at.codec->level, at.page, at.stored, 2 * PAGE_SIZE);
		KUNIT_ASSERT_GT(test, len, 0);
		for (cut = 1; cut < len; cut += 1 + len / 50)
			KUNIT_EXPECT_NE(test, at.codec->decompress(at.reader, at.stored, len - cut, at.back), 0);
	}
}

static void zm_test_names(struct kunit *test)
{
	size_t codec;

	for (codec = 0; zm_codec_at(codec); codec++)
		KUNIT_EXPECT_PTR_EQ(test, zm_codec_find(zm_codec_at(codec)->name), zm_codec_at(codec));
	KUNIT_EXPECT_PTR_EQ(test, zm_codec_find("lz4\n"), zm_codec_find("lz4"));
	KUNIT_EXPECT_NULL(test, zm_codec_find(""));
	KUNIT_EXPECT_NULL(test, zm_codec_find("lz"));
	KUNIT_EXPECT_NULL(test, zm_codec_find("lz4 "));
}

static void zm_test_sizes(struct kunit *test)
{
	static const char *const bad[] = {
		"", "\n", "-1", " 1", "x", "1x", "1G1", "1\n\n", "0x", "+1", "1 G", "1GG", "K",
		"16E", "17592186044416M", "18446744073709551616", "99999999999999999999999999999999999",
	};
	u64 bytes = 1;
	size_t at;

	KUNIT_EXPECT_EQ(test, zm_parse_size("0", &bytes), 0);
	KUNIT_EXPECT_EQ(test, bytes, 0);
	KUNIT_EXPECT_EQ(test, zm_parse_size("512M\n", &bytes), 0);
	KUNIT_EXPECT_EQ(test, bytes, 512ull << 20);
	KUNIT_EXPECT_EQ(test, zm_parse_size("4096", &bytes), 0);
	KUNIT_EXPECT_EQ(test, bytes, 4096);
	KUNIT_EXPECT_EQ(test, zm_parse_size("15e", &bytes), 0);
	KUNIT_EXPECT_EQ(test, bytes, 15ull << 60);
	KUNIT_EXPECT_EQ(test, zm_parse_size("0x1E\n", &bytes), 0);
	KUNIT_EXPECT_EQ(test, bytes, 0x1e);
	KUNIT_EXPECT_EQ(test, zm_parse_size("0x10K", &bytes), 0);
	KUNIT_EXPECT_EQ(test, bytes, 16 << 10);
	KUNIT_EXPECT_EQ(test, zm_parse_size("18446744073709551615", &bytes), 0);
	KUNIT_EXPECT_EQ(test, bytes, U64_MAX);
	for (at = 0; at < ARRAY_SIZE(bad); at++)
		KUNIT_EXPECT_EQ_MSG(test, zm_parse_size(bad[at], &bytes), -EINVAL, "%s", bad[at]);
}

static void zm_test_ids(struct kunit *test)
{
	static const char *const bad[] = { "", "-1", "x", "1 1", "1048576", "99999999999" };
	size_t at;
	int id = 1;

	KUNIT_EXPECT_EQ(test, zm_parse_id("0", &id), 0);
	KUNIT_EXPECT_EQ(test, id, 0);
	KUNIT_EXPECT_EQ(test, zm_parse_id("1048575\n", &id), 0);
	KUNIT_EXPECT_EQ(test, id, 1048575);
	for (at = 0; at < ARRAY_SIZE(bad); at++)
		KUNIT_EXPECT_EQ_MSG(test, zm_parse_id(bad[at], &id), -EINVAL, "%s", bad[at]);
}

static int zm_test_params_of(const char *text, const struct zm_codec **codec, int *level, bool *has_level)
{
	char copy[64];

	strscpy(copy, text, sizeof(copy));
	*codec = zm_codec_default();
	*has_level = false;
	return zm_parse_params(copy, codec, level, has_level);
}

static void zm_test_params(struct kunit *test)
{
	static const char *const bad[] = { "level", "level=", "level=x", "algo=", "algo=none", "other=1", "=" };
	const struct zm_codec *codec;
	bool has_level;
	int level;
	size_t at;

	KUNIT_EXPECT_EQ(test, zm_test_params_of("algo=lz4 level=7\n", &codec, &level, &has_level), 0);
	KUNIT_EXPECT_STREQ(test, codec->name, "lz4");
	KUNIT_EXPECT_TRUE(test, has_level);
	KUNIT_EXPECT_EQ(test, level, 7);
	KUNIT_EXPECT_EQ(test, zm_test_params_of("  \n", &codec, &level, &has_level), 0);
	KUNIT_EXPECT_FALSE(test, has_level);
	KUNIT_EXPECT_PTR_EQ(test, codec, zm_codec_default());
	for (at = 0; at < ARRAY_SIZE(bad); at++)
		KUNIT_EXPECT_EQ_MSG(test, zm_test_params_of(bad[at], &codec, &level, &has_level), -EINVAL,
				    "%s", bad[at]);
}

/* The buffers of each CPU are allocated only if the codec and zsmalloc need them. */
static void zm_test_streams(struct kunit *test)
{
	struct zm_streams streams = { 0 };
	struct zm_reader *reader;
	size_t codec;

	for (codec = 0; zm_codec_at(codec); codec++) {
		KUNIT_ASSERT_EQ(test, zm_streams_init(&streams, zm_codec_at(codec), zm_codec_at(codec)->level), 0);
		reader = zm_reader_get(&streams);
		KUNIT_EXPECT_EQ(test, !reader->page, !!zm_codec_at(codec)->equal);
		KUNIT_EXPECT_EQ(test, !reader->copy, !!ZM_HAS_ZS_MAP_OBJECT);
		KUNIT_EXPECT_EQ(test, streams.readers_lock, reader->page || reader->copy || reader->work);
		zm_reader_put(&streams, reader);
		zm_streams_destroy(&streams);
	}
}

/* A CPU that comes online gets its own stream, and one that goes offline frees its memory. */
static void zm_test_hotplug(struct kunit *test)
{
	struct zm_streams streams = { 0 };
	struct zm_stream *last;
	unsigned int cpu = cpumask_last(cpu_online_mask);

	if (!cpu || remove_cpu(cpu))
		kunit_skip(test, "no processor that can be taken offline");
	KUNIT_ASSERT_EQ(test, zm_streams_init(&streams, zm_codec_default(), zm_codec_default()->level), 0);
	last = per_cpu_ptr(streams.cpus, cpu);
	KUNIT_EXPECT_FALSE(test, last->writer.ready);
	KUNIT_EXPECT_EQ(test, add_cpu(cpu), 0);
	KUNIT_EXPECT_TRUE(test, last->writer.ready && last->writer.bytes && last->writer.work);
	KUNIT_EXPECT_TRUE(test, last->reader.ready);
	KUNIT_EXPECT_EQ(test, remove_cpu(cpu), 0);
	KUNIT_EXPECT_TRUE(test, !last->writer.ready && !last->writer.bytes && !last->writer.work);
	KUNIT_EXPECT_FALSE(test, last->reader.ready);
	KUNIT_EXPECT_EQ(test, add_cpu(cpu), 0);
	zm_streams_destroy(&streams);
}

static struct kunit_case zm_tests[] = {
	KUNIT_CASE(zm_test_streams),
	KUNIT_CASE(zm_test_hotplug),
	KUNIT_CASE(zm_test_codecs),
	KUNIT_CASE(zm_test_damaged),
	KUNIT_CASE(zm_test_names),
	KUNIT_CASE(zm_test_sizes),
	KUNIT_CASE(zm_test_ids),
	KUNIT_CASE(zm_test_params),
	{ }
};

static struct kunit_suite zm_suite = { .name = "zmerge", .test_cases = zm_tests };

kunit_test_suite(zm_suite);
