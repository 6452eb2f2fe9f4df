// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Prints what a service would export to Prometheus, without using pools.
 *
 *	cc coverage.c $(pkg-config --cflags --libs hugepool-coverage)
 */
#include <stdio.h>
#include <stdlib.h>

#include <hugepool_coverage.h>

int main(void)
{
	size_t needed = 0, size;
	char *text = NULL;
	int result;

	/* The process may map more memory between the two calls: repeat until the text fits. */
	do {
		size = 2 * needed;
		free(text);
		text = size ? malloc(size) : NULL;
		result = hugepool_coverage_prometheus(256, text, text ? size : 0, &needed);
	} while (result == HUGEPOOL_INVALID && needed > size);
	if (result != HUGEPOOL_OK) {
		fprintf(stderr, "coverage: %s\n", hugepool_message(result));
		return 1;
	}
	fputs(text, stdout);
	free(text);
	return 0;
}
