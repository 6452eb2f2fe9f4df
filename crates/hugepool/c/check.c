// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Calls each function of hugepool.h and hugepool_coverage.h, correctly and incorrectly. Ends by
 * assert() if a result differs from what the headers say. With an argument it only creates a pool
 * and prints the result.
 */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hugepool.h"

#define BLOCKS 1000

static int count_mapping(void *context, const char *name, uint64_t start, uint64_t end,
			 const hugepool_coverage *coverage)
{
	size_t *count = context;

	assert(name[0] && start < end && coverage->mapped == end - start);
	return ++*count == 3;
}

static void check_pool(int checks)
{
	hugepool_options options = HUGEPOOL_LONG_LIVED;
	hugepool_stats stats;
	hugepool_coverage coverage;
	hugepool *pool = NULL;
	void *blocks[BLOCKS], *block;
	size_t usable, i;

	options.checks = checks;
	assert(hugepool_create(&options, &pool) == HUGEPOOL_OK);
	for (i = 0; i < BLOCKS; i++) {
		assert(hugepool_allocate(pool, i * 40 + 1, 64, &blocks[i]) == HUGEPOOL_OK);
		assert((uintptr_t)blocks[i] % 64 == 0);
		memset(blocks[i], (int)i, i * 40 + 1);
	}
	for (i = 0; i < BLOCKS; i++) {
		unsigned char *bytes = blocks[i];

		assert(bytes[0] == (unsigned char)i && bytes[i * 40] == (unsigned char)i);
		assert(hugepool_usable_size(pool, bytes, &usable) == HUGEPOOL_OK && usable > i * 40);
	}
	assert(hugepool_statistics(pool, &stats) == HUGEPOOL_OK);
	assert(stats.live_blocks == BLOCKS && stats.live > BLOCKS * BLOCKS / 2 * 40);
	assert(stats.mapped == stats.huge + stats.small + stats.unchecked);
	assert(hugepool_pool_coverage(pool, &coverage) == HUGEPOOL_OK);
	assert(coverage.resident >= stats.live / 2 && coverage.huge <= coverage.resident);
	assert(hugepool_collapse(pool) <= stats.mapped);
	for (i = 0; i < BLOCKS; i++) {
		if (i % 2)
			assert(hugepool_release(pool, blocks[i]) == HUGEPOOL_OK);
		else
			assert(hugepool_release_sized(pool, blocks[i], i * 40 + 1, 64) == HUGEPOOL_OK);
	}
	hugepool_trim(pool);
	assert(hugepool_statistics(pool, &stats) == HUGEPOOL_OK);
	assert(stats.live_blocks == 0 && stats.mapped == 0);

	block = &usable;
	assert(hugepool_allocate(pool, 0, 0, &block) == HUGEPOOL_ZERO_SIZE);
	assert(hugepool_allocate(pool, 8, 3, &block) == HUGEPOOL_ALIGNMENT);
	assert(hugepool_allocate(pool, 8, (size_t)1 << 40, &block) == HUGEPOOL_ALIGNMENT);
	assert(hugepool_allocate(pool, SIZE_MAX, 0, &block) == HUGEPOOL_TOO_LARGE);
	assert(hugepool_allocate(NULL, 8, 0, &block) == HUGEPOOL_INVALID);
	assert(hugepool_allocate(pool, 8, 0, NULL) == HUGEPOOL_INVALID);
	assert(block == &usable);
	assert(hugepool_release(pool, &usable) == HUGEPOOL_FOREIGN);
	assert(hugepool_release(pool, NULL) == HUGEPOOL_OK);
	if (checks) {
		void *other;

		assert(hugepool_allocate(pool, 8, 0, &block) == HUGEPOOL_OK);
		assert(hugepool_allocate(pool, 8, 0, &other) == HUGEPOOL_OK);
		assert(hugepool_release(pool, block) == HUGEPOOL_OK);
		assert(hugepool_release(pool, block) == HUGEPOOL_DOUBLE_RELEASE);
		assert(hugepool_release(pool, (char *)other + 1) == HUGEPOOL_WRONG_BLOCK);
		assert(hugepool_release_sized(pool, other, 900, 0) == HUGEPOOL_WRONG_BLOCK);
	}
	hugepool_destroy(pool);
	hugepool_destroy(NULL);
}

static void check_options(void)
{
	hugepool_options options = HUGEPOOL_SHORT_LIVED;
	hugepool *pool = NULL;
	void *block;

	options.size--;
	assert(hugepool_create(&options, &pool) == HUGEPOOL_INVALID && !pool);
	options.size++;
	options.thp = 3;
	assert(hugepool_create(&options, &pool) == HUGEPOOL_INVALID && !pool);
	options.thp = 0;
	options.limit = 2 << 20;
	assert(hugepool_create(&options, &pool) == HUGEPOOL_OK);
	assert(hugepool_allocate(pool, 64 << 20, 0, &block) == HUGEPOOL_LIMIT);
	hugepool_destroy(pool);
	assert(hugepool_create(NULL, NULL) == HUGEPOOL_INVALID);
}

static void check_fork(void)
{
	hugepool_options options = HUGEPOOL_LONG_LIVED;
	hugepool *pool;
	void *block;
	int status;
	pid_t child;

	options.fork = 1;
	assert(hugepool_create(&options, &pool) == HUGEPOOL_OK);
	assert(hugepool_allocate(pool, 8, 0, &block) == HUGEPOOL_OK);
	child = fork();
	if (child == 0)
		_exit(hugepool_allocate(pool, 8, 0, &block) == HUGEPOOL_FORKED ? 0 : 1);
	assert(waitpid(child, &status, 0) == child && status == 0);
	hugepool_destroy(pool);
}

static void check_table(void)
{
	hugepool_table *table;
	hugepool_coverage coverage;
	void *block, *other;

	assert(hugepool_table_create(0, 1, 0, &table) == HUGEPOOL_ZERO_SIZE);
	assert(hugepool_table_create(1 << 20, 2, 7, &table) == HUGEPOOL_INVALID);
	assert(hugepool_table_create(1 << 20, 2, 0, &table) == HUGEPOOL_OK);
	assert(hugepool_table_acquire(table, &block) == HUGEPOOL_OK);
	assert(hugepool_table_acquire(table, &other) == HUGEPOOL_OK);
	assert(hugepool_table_acquire(table, &other) == HUGEPOOL_FULL);
	memset(block, 1, 1 << 20);
	assert(hugepool_table_coverage(table, &coverage) == HUGEPOOL_OK);
	assert(coverage.resident >= 1 << 20);
	assert(hugepool_table_release(table, (char *)block + 1) == HUGEPOOL_WRONG_BLOCK);
	assert(hugepool_table_release(table, &table) == HUGEPOOL_FOREIGN);
	assert(hugepool_table_release(table, block) == HUGEPOOL_OK);
	assert(hugepool_table_release(table, block) == HUGEPOOL_DOUBLE_RELEASE);
	hugepool_table_destroy(table);
	hugepool_table_destroy(NULL);
}

static void check_coverage(void)
{
	hugepool_coverage coverage;
	size_t count = 0, needed;
	char *text;

	assert(hugepool_coverage_process(64, &coverage) == HUGEPOOL_OK);
	assert(coverage.mapped >= coverage.resident && coverage.resident > 0);
	assert(hugepool_coverage_process(0, NULL) == HUGEPOOL_INVALID);
	assert(hugepool_coverage_mappings(0, count_mapping, &count) == HUGEPOOL_OK && count == 3);
	assert(hugepool_coverage_mappings(0, NULL, NULL) == HUGEPOOL_INVALID);
	assert(hugepool_coverage_prometheus(0, NULL, 0, &needed) == HUGEPOOL_INVALID);
	text = malloc(2 * needed);
	assert(hugepool_coverage_prometheus(0, text, 2 * needed, &needed) == HUGEPOOL_OK);
	assert(strlen(text) + 1 == needed && strstr(text, "hugepool_process_huge_bytes{mapping=\"[stack]\"}"));
	free(text);
	assert(strcmp(hugepool_message(HUGEPOOL_OK), "success") == 0);
}

static void *use(void *argument)
{
	void *blocks[100];

	for (int round = 0; round < 1000; round++) {
		for (int i = 0; i < 100; i++) {
			assert(hugepool_allocate(argument, 16 + i * 8, 0, &blocks[i]) == HUGEPOOL_OK);
			memset(blocks[i], round, 16);
		}
		for (int i = 0; i < 100; i++)
			assert(hugepool_release(argument, blocks[i]) == HUGEPOOL_OK);
	}
	return NULL;
}

static void check_threads(void)
{
	pthread_t threads[4];
	hugepool_options options = HUGEPOOL_SHORT_LIVED;
	hugepool_stats stats;
	hugepool *pool;

	options.checks = 0;
	assert(hugepool_create(&options, &pool) == HUGEPOOL_OK);
	for (int i = 0; i < 4; i++)
		assert(pthread_create(&threads[i], NULL, use, pool) == 0);
	for (int i = 0; i < 4; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	assert(hugepool_statistics(pool, &stats) == HUGEPOOL_OK);
	assert(stats.allocations == 400000 && stats.live_blocks == 0 && stats.wrong_releases == 0);
	hugepool_destroy(pool);
}

int main(int count, char **arguments)
{
	(void)arguments;
	if (count > 1) {
		hugepool *pool;

		puts(hugepool_message(hugepool_create(NULL, &pool)));
		return 0;
	}
	check_pool(0);
	check_pool(1);
	check_options();
	check_fork();
	check_table();
	check_coverage();
	check_threads();
	printf("sizes %zu %zu %zu\n", sizeof(hugepool_options), sizeof(hugepool_stats),
	       sizeof(hugepool_coverage));
	return 0;
}
