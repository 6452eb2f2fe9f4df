// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Keeps long-lived sessions in their own pool, and reports how much memory is in huge pages.
 *
 *	cc sessions.c $(pkg-config --cflags --libs hugepool)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hugepool.h>

struct session {
	struct session *next;
	char user[100];
};

static void fail(const char *what, int result)
{
	fprintf(stderr, "sessions: %s: %s\n", what, hugepool_message(result));
	exit(1);
}

static struct session *add(hugepool *pool, struct session *next, int number)
{
	void *block;
	struct session *session;
	int result = hugepool_allocate(pool, sizeof(*session), 0, &block);

	if (result != HUGEPOOL_OK)
		fail("a session", result);
	session = block;
	session->next = next;
	snprintf(session->user, sizeof(session->user), "user %d", number);
	return session;
}

int main(void)
{
	hugepool_options options = HUGEPOOL_LONG_LIVED;
	hugepool_coverage coverage;
	hugepool_stats stats;
	hugepool *pool;
	struct session *sessions = NULL;
	int result = hugepool_create(&options, &pool);

	if (result != HUGEPOOL_OK)
		fail("the pool", result);
	for (int number = 0; number < 100000; number++)
		sessions = add(pool, sessions, number);
	result = hugepool_statistics(pool, &stats);
	if (result == HUGEPOOL_OK)
		result = hugepool_pool_coverage(pool, &coverage);
	if (result != HUGEPOOL_OK)
		fail("the statistics", result);
	printf("the last is %s; %llu sessions in %llu KiB, %llu KiB of it in huge pages\n",
	       sessions->user, (unsigned long long)stats.live_blocks,
	       (unsigned long long)(coverage.resident >> 10), (unsigned long long)(coverage.huge >> 10));
	if (stats.small)
		printf("small pages: %s\n", stats.huge_errno ? strerror(stats.huge_errno) : "switched off");
	hugepool_destroy(pool);
	return 0;
}
